//! The loss detector of Figure 3: packets are numbered, and one is missing when a packet at least three numbers higher
//! has arrived (section 4.3).

/// A packet is missing when one with a number this much higher has arrived.
const REORDERING_THRESHOLD: u32 = 3;

/// The maximum distance of a number from the last one.
pub(super) const MAX_JUMP: u32 = 1 << 16;

/// Which packets of a sequence have arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LossDetector {
    /// The highest number that has arrived.
    pub(super) highest: u32,
    /// The numbers up to `highest` that have arrived: bit i stands for `highest - i`.
    arrived: u64,
}

impl LossDetector {
    /// All numbers up to `highest` have arrived.
    pub(crate) fn new(highest: u32) -> Self {
        Self { highest, arrived: u64::MAX }
    }

    /// How far a number is from the highest one, in either direction.
    pub(crate) fn distance(&self, number: u32) -> u32 {
        number.wrapping_sub(self.highest).min(self.highest.wrapping_sub(number))
    }

    /// Records a number. Returns whether it reveals a new loss.
    pub(crate) fn detects_loss(&mut self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.highest);
        if ahead == 0 || ahead > MAX_JUMP {
            let behind = self.highest.wrapping_sub(number);
            if behind < 64 {
                self.arrived |= 1 << behind;
            }
            return false;
        }
        // A number that is now three behind and has not arrived is missing.
        let mut missing = false;
        for _ in 0..ahead.min(64) {
            self.arrived <<= 1;
            missing |= self.arrived & (1 << REORDERING_THRESHOLD) == 0;
        }
        self.highest = number;
        self.arrived |= 1;
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of these numbers reveals a loss, after all up to 100 have arrived.
    fn losses(numbers: &[u32]) -> Vec<bool> {
        let mut detector = LossDetector::new(100);
        numbers.iter().map(|number| detector.detects_loss(*number)).collect()
    }

    #[test]
    fn a_packet_is_missing_when_one_three_numbers_higher_arrives() {
        assert_eq!(losses(&[101, 103, 104, 105, 106]), [false, false, false, true, false], "102, once");
        assert_eq!(losses(&[103, 101, 102, 104, 105]), [false; 5], "reordered by two");
        assert_eq!(losses(&[104]), [true]);
        assert_eq!(losses(&[1000]), [true], "hundreds of them");
    }

    #[test]
    fn numbers_far_from_the_last_one_are_ignored() {
        assert_eq!(losses(&[100 + MAX_JUMP]), [true]);
        assert_eq!(losses(&[100 + MAX_JUMP + 1, 101]), [false, false]);
        assert_eq!(losses(&[100 - 64, 100 - 65, 101]), [false; 3], "too old");
    }
}
