//! What is handed out in one control interval, packet by packet (section 3.5.2 and the third block of Appendix A).
//!
//! All amounts are rates, in bytes a second: a change of the window by `p` bytes changes its flow's rate by `p / rtt`, and
//! the sum over all packets is what the interval has to give (equations 5 and 8).

use rampmeter_units::{Bytes, Duration};

/// What is left to hand out, and in what portions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Feedback {
    /// What flows may still rise by, together.
    rise_left: f64,
    /// What flows are still to fall by, together.
    fall_left: f64,
    /// `xi_p`, per second squared.
    rise: f64,
    /// `xi_n`, per second squared.
    fall: f64,
}

impl Feedback {
    /// An interval in which flows rise by `rise` and fall by `fall`, in bytes a second. It is expected to see packets
    /// with `rtt_by_window` = `sum rtt s / cwnd` seconds and `bytes` = `sum s`.
    pub(super) fn new(rise: f64, fall: f64, rtt_by_window: f64, bytes: f64) -> Self {
        if !(rtt_by_window > 0.0 && bytes > 0.0) {
            return Self::default(); // nobody asks
        }
        Self {
            rise_left: rise,
            fall_left: fall,
            rise: rise / rtt_by_window, // (6)
            fall: fall / bytes,         // (9)
        }
    }

    /// By how much the window of a packet's flow is to change, in thousandths of a byte, where `wish` is asked for: never
    /// more than that.
    pub(super) fn change(&mut self, size: Bytes, window: Bytes, rtt: Duration, wish: i64) -> i64 {
        let rtt = rtt.as_secs_f64();
        if rtt == 0.0 {
            return wish.min(0);
        }
        let (size, wished) = (size.as_f64(), wish as f64 / 1000.0 / rtt);
        let mut rise = (self.rise * rtt * size / window.as_f64().max(size)).min(self.rise_left); // (4), over rtt
        let mut fall = (self.fall * size).min(self.fall_left); // (7), over rtt
        let offered = rise - fall;
        if wished < offered {
            // It rises by less or falls by more than it might for this link. As far as there is something to take, the
            // difference counts as taken from it; the rest of its rise is left to others.
            fall = (fall + offered - wished).min(self.fall_left);
            rise = (wished + fall).clamp(0.0, rise);
        }
        self.rise_left = (self.rise_left - rise).max(0.0);
        self.fall_left = (self.fall_left - fall).max(0.0);
        wish.min((offered * rtt * 1000.0).round() as i64) // (3)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Whatever flows say of themselves and wish. Changes are rounded to half a thousandth of a byte.
        #[test]
        fn no_more_rises_and_falls_are_handed_out_than_there_are(
            (rise, fall) in (0.0..1e9, 0.0..1e9),
            (rtt_by_window, bytes) in (1e-6..10.0, 1.0..1e8),
            packets in proptest::collection::vec((1..9000_u64, 1..1_000_000_u64, 100..2_000_000_u64, 0..i64::MAX), 1..200),
        ) {
            let mut feedback = Feedback::new(rise, fall, rtt_by_window, bytes);
            let (mut rises, mut falls) = (0.0, 0.0);
            for (size, window, rtt_us, wish) in packets {
                let rtt = Duration::from_micros(rtt_us);
                let change = feedback.change(Bytes::new(size), Bytes::new(window), rtt, wish);
                prop_assert!(change <= wish);
                let rate = (change.abs() as f64 - 0.5) / 1000.0 / rtt.as_secs_f64();
                if change > 0 { rises += rate } else if change < 0 { falls += rate }
            }
            prop_assert!(rises <= rise * (1.0 + 1e-9), "{rises} of {rise}");
            prop_assert!(falls <= fall * (1.0 + 1e-9), "{falls} of {fall}");
        }
    }
}
