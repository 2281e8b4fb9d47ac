//! What an egress answers: of the packet that has just arrived and the 31 numbered before it, which have arrived, and with
//! which codes. So up to 31 answers in a row can be lost without anything being lost by it.

use rampmeter_units::Ecn;
use rampmeter_wire::UDP_BYTES;

/// Packets that an answer speaks of.
const SPAN: u32 = 32;

/// An egress's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Feedback {
    /// The highest number that has arrived.
    newest: u32,
    /// Bit `n`: `newest - n` has arrived.
    arrived: u32,
    /// Bits `2n` and `2n + 1`: the code it arrived with.
    codes: u64,
}

impl Feedback {
    /// Its size as a packet: IP and UDP, `newest`, `arrived` and `codes`.
    pub const BYTES: u64 = UDP_BYTES as u64 + 16;

    /// The highest number that has arrived.
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// The code that packet `newest - back` arrived with; none if it has not, or if it is too long ago.
    pub fn code(&self, back: u64) -> Option<Ecn> {
        let known = back < u64::from(SPAN) && self.arrived >> back & 1 == 1;
        known.then(|| Ecn::from_bits((self.codes >> (2 * back)) as u8 & 0b11))
    }

    /// Packet `number` arrives with `code`.
    pub(crate) fn note(&mut self, number: u32, code: Ecn) {
        let ahead = number.wrapping_sub(self.newest);
        if self.arrived == 0 {
            self.newest = number;
        } else if ahead < 1 << 31 {
            self.newest = number;
            self.arrived = self.arrived.checked_shl(ahead).unwrap_or(0);
            self.codes = self.codes.checked_shl(ahead.saturating_mul(2)).unwrap_or(0);
        }
        let back = self.newest.wrapping_sub(number);
        if back < SPAN {
            self.arrived |= 1 << back;
            self.codes &= !(0b11 << (2 * back));
            self.codes |= u64::from(code.bits()) << (2 * back);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_speaks_of_the_last_32_numbers() {
        let mut feedback = Feedback::default();
        for number in u32::MAX - 20..=u32::MAX {
            feedback.note(number, Ecn::Ect0);
        }
        feedback.note(2, Ecn::Ce); // 0 and 1 are missing
        feedback.note(1, Ecn::NotEct); // late
        assert_eq!(feedback.newest(), 2);
        assert_eq!(
            [0, 1, 2, 3].map(|back| feedback.code(back)),
            [Some(Ecn::Ce), Some(Ecn::NotEct), None, Some(Ecn::Ect0)]
        );
        assert_eq!((feedback.code(23), feedback.code(24)), (Some(Ecn::Ect0), None));
        feedback.note(34, Ecn::Ect1);
        assert_eq!((feedback.code(0), feedback.code(32), feedback.code(33)), (Some(Ecn::Ect1), None, None));
        feedback.note(1000, Ecn::Ect1);
        assert_eq!((0..64).filter(|&back| feedback.code(back).is_some()).count(), 1);
    }
}
