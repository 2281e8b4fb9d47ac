//! Which packet numbers have arrived: a window below the highest, as a ring of bits (RFC 6479).

/// Numbers that the window covers. At 10 Gb/s in packets of 1250 bytes it is 8 ms; packets that arrive later than that
/// out of order are lost.
pub(crate) const WINDOW: u64 = 8192;

const WORDS: usize = (WINDOW / 64) as usize;

/// The packet numbers that have arrived.
#[derive(Debug, Clone)]
pub(crate) struct ReplayWindow {
    /// One more than the highest number; zero before the first.
    next: u64,
    /// Bit `n % WINDOW` is number n's.
    bits: Box<[u64; WORDS]>,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { next: 0, bits: Box::new([0; WORDS]) }
    }
}

impl ReplayWindow {
    /// One more than the highest number that has arrived.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether `number` is new: it has not arrived, and it is not below the window.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        number >= self.next || (number + WINDOW >= self.next && self.bits[word(number)] & bit(number) == 0)
    }

    /// Notes that `number`, which is new, has arrived.
    pub(crate) fn insert(&mut self, number: u64) {
        if number >= self.next {
            if number - self.next >= WINDOW {
                self.bits.fill(0);
            } else {
                (self.next..number).for_each(|skipped| self.bits[word(skipped)] &= !bit(skipped));
            }
            self.next = number + 1;
        }
        self.bits[word(number)] |= bit(number);
    }
}

fn word(number: u64) -> usize {
    (number / 64) as usize % WORDS
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_window_agrees_with_a_set_of_numbers(
            steps in prop::collection::vec((0u64..3 * WINDOW, 0u64..2 * WINDOW), 1..200),
        ) {
            let (mut window, mut set, mut highest) = (ReplayWindow::default(), BTreeSet::new(), 0u64);
            for (forward, back) in steps {
                let number = (highest + forward % 100 * forward / 50).saturating_sub(back);
                let below = highest >= number + WINDOW && !set.is_empty();
                prop_assert_eq!(window.is_new(number), !set.contains(&number) && !below, "{}", number);
                if window.is_new(number) {
                    window.insert(number);
                    set.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }
}
