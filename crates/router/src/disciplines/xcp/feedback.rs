//! The feedback of one control interval, packet by packet (section 3.5.2; Appendix A, third block). All amounts are
//! rates, in bytes a second: a change of the window by `p` bytes changes its flow's rate by `p / rtt`, and the sum over
//! all packets is the aggregate feedback of the interval (equations 5 and 8).

use rampmeter_units::{Bytes, Duration};

/// The feedback not yet distributed, and its amount per packet.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct FeedbackPool {
    /// The positive feedback left, a rate.
    remaining_rise: f64,
    /// The negative feedback left, a rate.
    remaining_fall: f64,
    /// `xi_p`, per second squared.
    rise: f64,
    /// `xi_n`, per second squared.
    fall: f64,
}

impl FeedbackPool {
    /// An interval with an aggregate positive feedback of `rise` and negative feedback of `fall`, in bytes a second,
    /// and expected packets of `rtt_by_window` = `sum rtt s / cwnd` seconds and `bytes` = `sum s`.
    pub(super) fn new(rise: f64, fall: f64, rtt_by_window: f64, bytes: f64) -> Self {
        if !(rtt_by_window > 0.0 && bytes > 0.0) {
            return Self::default(); // no packets with a request
        }
        Self {
            remaining_rise: rise,
            remaining_fall: fall,
            rise: rise / rtt_by_window, // (6)
            fall: fall / bytes,         // (9)
        }
    }

    /// The change of the window, in thousandths of a byte, for a packet that requests `request`, which is the maximum.
    pub(super) fn change(&mut self, size: Bytes, window: Bytes, rtt: Duration, request: i64) -> i64 {
        let rtt = rtt.as_secs_f64();
        if rtt == 0.0 {
            return request.min(0);
        }
        let (size, requested) = (size.as_f64(), request as f64 / 1000.0 / rtt);
        let mut rise = (self.rise * rtt * size / window.as_f64().max(size)).min(self.remaining_rise); // (4), over rtt
        let mut fall = (self.fall * size).min(self.remaining_fall); // (7), over rtt
        let offered = rise - fall;
        if requested < offered {
            // The flow rises by less, or falls by more, than this link allows. As far as negative feedback is left, the
            // difference is taken from it; the rest of the unused rise stays available to other flows.
            fall = (fall + offered - requested).min(self.remaining_fall);
            rise = (requested + fall).clamp(0.0, rise);
        }
        self.remaining_rise = (self.remaining_rise - rise).max(0.0);
        self.remaining_fall = (self.remaining_fall - fall).max(0.0);
        request.min((offered * rtt * 1000.0).round() as i64) // (3)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_unused_rise_is_balanced_by_negative_feedback_that_is_left() {
        // (4) and (7) offer 1000 * 100 / 1000 - 0.2 * 100 = 80 bytes, of which the packet requests 30. The other 50
        // count as negative feedback if so much is left; otherwise less of the rise is used.
        for (fall_left, rise_left, fall_left_after) in [(500.0, 900.0, 430.0), (30.0, 940.0, 0.0)] {
            let mut pool = FeedbackPool { remaining_rise: 1000.0, remaining_fall: fall_left, rise: 1000.0, fall: 0.2 };
            assert_eq!(pool.change(Bytes::new(100), Bytes::new(1000), Duration::from_secs(1), 30_000), 30_000);
            assert_eq!((pool.remaining_rise, pool.remaining_fall), (rise_left, fall_left_after));
        }
    }

    proptest! {
        // For any claims and requests of flows. Changes are rounded to half a thousandth of a byte.
        #[test]
        fn the_feedback_distributed_is_at_most_the_aggregate(
            (rise, fall) in (0.0..1e9, 0.0..1e9),
            (rtt_by_window, bytes) in (1e-6..10.0, 1.0..1e8),
            packets in proptest::collection::vec((1..9000_u64, 1..1_000_000_u64, 100..2_000_000_u64, 0..i64::MAX), 1..200),
        ) {
            let mut feedback = FeedbackPool::new(rise, fall, rtt_by_window, bytes);
            let (mut rises, mut falls) = (0.0, 0.0);
            for (size, window, rtt_us, request) in packets {
                let rtt = Duration::from_micros(rtt_us);
                let change = feedback.change(Bytes::new(size), Bytes::new(window), rtt, request);
                prop_assert!(change <= request);
                let rate = (change.abs() as f64 - 0.5) / 1000.0 / rtt.as_secs_f64();
                if change > 0 { rises += rate } else if change < 0 { falls += rate }
            }
            prop_assert!(rises <= rise * (1.0 + 1e-9), "{rises} of {rise}");
            prop_assert!(falls <= fall * (1.0 + 1e-9), "{falls} of {fall}");
        }
    }
}
