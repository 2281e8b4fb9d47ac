//! How long to look before sleeping. Waking a sleeper takes tens of microseconds, an answer often comes in one; but who
//! spins takes a core from others. So a spell of spinning grows while things come often, and is given up for a while when
//! it has caught nothing some times in a row.
//!
//! Two sides that both sleep wake each other late, so that neither seems to gain from a spell that the other does not
//! keep too. Hence the growth at intervals much longer than the longest spell.

use rampmeter_units::Duration;

/// What is tried first after long silence.
const SHORTEST: Duration = Duration::from_micros(2);
/// What comes more seldom than this is not worth trying for.
const OFTEN: Duration = Duration::from_micros(250);
/// Longest spells in vain before they are given up.
const TRIES: u32 = 8;
/// How many times something comes before they are tried again.
const REST: u32 = 64;

/// With the other side on a core of its own an answer takes no longer than this.
const ALONE: Duration = Duration::from_micros(1);

/// Between two looks, after spinning for so long. On a busy machine the other side may be waiting for this very core.
pub(crate) fn look_away(spun: Duration) {
    if spun < ALONE { std::hint::spin_loop() } else { std::thread::yield_now() }
}

/// A spell of spinning that learns how long it should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spin {
    spell: Duration,
    longest: Duration,
    in_vain: u32,
    rest: u32,
}

impl Spin {
    /// Never longer than `longest`; zero spins never.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { spell: SHORTEST.min(longest), longest, in_vain: 0, rest: 0 }
    }

    /// How long to spin now.
    pub(crate) fn spell(self) -> Duration {
        self.spell
    }

    /// After waiting for `wait` something came.
    pub(crate) fn learn(&mut self, wait: Duration) {
        if wait <= self.spell {
            self.in_vain = 0;
        } else if self.rest > 0 {
            self.rest -= 1;
        } else if wait > OFTEN {
            self.spell = self.spell / 2;
        } else if self.spell < self.longest {
            self.spell = (self.spell * 2).max(SHORTEST).min(self.longest);
        } else {
            self.in_vain += 1;
            if self.in_vain >= TRIES {
                *self = Self { spell: Duration::ZERO, in_vain: 0, rest: REST, ..*self };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_micros(50);

    fn after(spin: &mut Spin, times: u32, micros: u64) -> Duration {
        (0..times).for_each(|_| spin.learn(Duration::from_micros(micros)));
        spin.spell()
    }

    #[test]
    fn it_grows_while_things_come_often_and_shrinks_in_silence() {
        let mut spin = Spin::new(LONGEST);
        assert_eq!(after(&mut spin, 5, 90), LONGEST);
        assert_eq!(after(&mut spin, 1000, 1), LONGEST, "it catches them");
        assert!(after(&mut spin, 20, 10_000) < SHORTEST);
    }

    #[test]
    fn what_it_never_catches_it_gives_up_and_tries_again_now_and_then() {
        let mut spin = Spin::new(LONGEST);
        let spells: Vec<_> = (0..1000).map(|_| after(&mut spin, 1, 100)).collect();
        let spun: Duration = spells.iter().fold(Duration::ZERO, |sum, spell| sum + *spell);
        assert!(spun < Duration::from_micros(1000 * 100) / 10, "{spun}");
        assert!(spells[500..].contains(&LONGEST));
    }

    #[test]
    fn it_can_be_told_never_to_spin() {
        assert_eq!(after(&mut Spin::new(Duration::ZERO), 9, 1), Duration::ZERO);
    }
}
