//! The answer of an egress: which of the newest packet and the 31 numbered before it have arrived, and with which
//! codes. So no information is lost if up to 31 answers in a row are lost.

use rampmeter_units::Ecn;
use rampmeter_wire::UDP_BYTES;

/// The number of packets that an answer covers.
const SPAN: u32 = 32;

/// The answer of an egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EgressFeedback {
    /// The highest number that has arrived.
    newest: u32,
    /// Bit `n`: `newest - n` has arrived.
    arrived: u32,
    /// Bits `2n` and `2n + 1`: the code of that packet.
    codes: u64,
}

impl EgressFeedback {
    /// The size of its packet: IP and UDP, `newest`, `arrived` and `codes`.
    pub const BYTES: u64 = UDP_BYTES as u64 + 16;

    /// The highest number that has arrived.
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// The code with which packet `newest - back` arrived; none if it has not arrived or is too old.
    pub fn code(&self, back: u64) -> Option<Ecn> {
        let known = back < u64::from(SPAN) && self.arrived >> back & 1 == 1;
        known.then(|| Ecn::from_bits((self.codes >> (2 * back)) as u8 & 0b11))
    }

    /// Packet `number` arrived with `code`.
    pub(crate) fn on_packet(&mut self, number: u32, code: Ecn) {
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
    fn an_answer_covers_the_last_32_numbers() {
        let mut feedback = EgressFeedback::default();
        for number in u32::MAX - 20..=u32::MAX {
            feedback.on_packet(number, Ecn::Ect0);
        }
        feedback.on_packet(2, Ecn::Ce); // 0 and 1 are missing
        feedback.on_packet(1, Ecn::NotEct); // late
        assert_eq!(feedback.newest(), 2);
        assert_eq!(
            [0, 1, 2, 3].map(|back| feedback.code(back)),
            [Some(Ecn::Ce), Some(Ecn::NotEct), None, Some(Ecn::Ect0)]
        );
        assert_eq!((feedback.code(23), feedback.code(24)), (Some(Ecn::Ect0), None));
        feedback.on_packet(34, Ecn::Ect1);
        assert_eq!((feedback.code(0), feedback.code(32), feedback.code(33)), (Some(Ecn::Ect1), None, None));
        feedback.on_packet(1000, Ecn::Ect1);
        assert_eq!((0..64).filter(|&back| feedback.code(back).is_some()).count(), 1);
    }
}
