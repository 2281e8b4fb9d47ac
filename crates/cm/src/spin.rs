//! How long to look before sleeping. Waking a sleeper takes several microseconds, an answer often comes in less; but who
//! spins takes a core from others. So the spell grows when it would have caught what came, and shrinks when nothing did.

use rampmeter_units::Duration;

/// What is tried first after long silence.
const SHORTEST: Duration = Duration::from_micros(2);

/// A spell of spinning that learns how long it should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spin {
    spell: Duration,
    longest: Duration,
}

impl Spin {
    /// Never longer than `longest`; zero spins never.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { spell: SHORTEST.min(longest), longest }
    }

    /// How long to spin now.
    pub(crate) fn spell(self) -> Duration {
        self.spell
    }

    /// After `quiet` something came.
    pub(crate) fn learn(&mut self, quiet: Duration) {
        if quiet <= self.spell {
            return; // caught: long enough
        }
        self.spell =
            if quiet <= self.longest * 2 { (self.spell * 2).max(SHORTEST).min(self.longest) } else { self.spell / 2 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_while_it_would_help_and_shrinks_in_silence() {
        let longest = Duration::from_micros(50);
        let mut spin = Spin::new(longest);
        (0..10).for_each(|_| spin.learn(Duration::from_micros(60)));
        assert_eq!(spin.spell(), longest);
        (0..20).for_each(|_| spin.learn(Duration::from_millis(10)));
        assert!(spin.spell() < SHORTEST);
        let mut never = Spin::new(Duration::ZERO);
        never.learn(Duration::from_nanos(1));
        assert_eq!(never.spell(), Duration::ZERO);
    }
}
