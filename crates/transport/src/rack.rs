//! Loss detection by time, for paths that reorder packets: RACK (RFC 8985 section 6).
//!
//! A packet is lost if a packet that was sent after it has arrived, and itself has not, a reordering window later than
//! that packet's round trip predicts:
//!
//! ```text
//! lost at   sent_at + rtt + window          window = min(steps * min_rtt / 4, smoothed_rtt)
//! ```
//!
//! The window starts with one step. It gets one more for each round trip in which a retransmission was spurious, and
//! returns to one step after 16 recoveries. Until packets are seen to arrive out of order, the scoreboard counts later
//! packets instead (RFC 6675), which needs no window.
//!
//! *Deviation*: the RFC infers what arrived from selective acknowledgements, and spurious retransmissions from
//! duplicate ones (DSACK). Receipts name each transmission, so both are exact here: packets are reordered if receipts
//! do not come in the order of sending, and a loss was spurious if the receipt of a transmission that counted as lost
//! comes after all.

use rampmeter_manager::RttEstimator;
use rampmeter_units::{Duration, Time};

/// The number of recoveries after which the window returns to one step (section 6.2, step 4).
const RECOVERIES: u32 = 16;

/// The most recently sent packet that has arrived.
#[derive(Debug, Clone, Copy)]
struct Latest {
    order: u64,
    rtt: Duration,
}

/// The state of RACK.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rack {
    latest: Option<Latest>,
    /// Packets have arrived out of order.
    has_seen_reordering: bool,
    /// Steps of the window beyond the first one, and the recoveries for which they remain.
    extra_steps: u32,
    recoveries_left: u32,
    /// The window has been widened, and gets no other step until everything before this offset is acknowledged.
    round: Option<u64>,
}

/// What counts as lost now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// Packets sent after this one, by order, are not judged.
    pub(crate) before: u64,
    /// A packet is lost when this time has passed since it was sent.
    pub(crate) after: Duration,
}

impl Rack {
    /// The receipt of a transmission has come, `rtt` after it was sent.
    pub(crate) fn on_receipt(&mut self, order: u64, rtt: Duration) {
        match self.latest {
            Some(latest) if order < latest.order => self.has_seen_reordering = true,
            _ => self.latest = Some(Latest { order, rtt }),
        }
    }

    /// A transmission has arrived, at most `rtt` after it was sent. Its place in the order of arrival is not known.
    pub(crate) fn on_late_proof(&mut self, order: u64, rtt: Duration) {
        if self.latest.is_none_or(|latest| order > latest.order) {
            self.latest = Some(Latest { order, rtt });
        }
    }

    pub(crate) fn has_seen_reordering(&self) -> bool {
        self.has_seen_reordering
    }

    /// A transmission that counted as lost has arrived; `una` and `next` bound what is not acknowledged.
    pub(crate) fn on_spurious_loss(&mut self, una: u64, next: u64) {
        if self.has_seen_reordering && self.round.is_none_or(|round| una >= round) {
            self.round = Some(next);
            self.extra_steps = self.extra_steps.saturating_add(1);
            self.recoveries_left = RECOVERIES;
        }
    }

    /// A recovery has ended.
    pub(crate) fn on_recovered(&mut self) {
        self.recoveries_left = self.recoveries_left.saturating_sub(1);
        if self.recoveries_left == 0 {
            self.extra_steps = 0;
        }
    }

    /// How much later than predicted a packet may arrive.
    pub(crate) fn window(&self, rtt: &RttEstimator) -> Duration {
        let step = rtt.min().min(rtt.smoothed()) / 4;
        (step * u64::from(self.extra_steps.saturating_add(1))).min(rtt.smoothed())
    }

    /// Which packets are lost; none before the first receipt.
    pub(crate) fn deadline(&self, rtt: &RttEstimator) -> Option<Deadline> {
        self.latest.map(|latest| Deadline { before: latest.order, after: latest.rtt + self.window(rtt) })
    }
}

impl Deadline {
    /// When a packet is lost that was sent as number `order` of its connection at `sent_at`; [`Time::MAX`] if that is
    /// not known yet.
    pub(crate) fn of(&self, order: u64, sent_at: Time) -> Time {
        if order < self.before { sent_at + self.after } else { Time::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn measured() -> RttEstimator {
        let mut rtt = RttEstimator::default();
        rtt.sample(RTT);
        rtt
    }

    #[test]
    fn receipts_in_the_order_of_sending_show_no_reordering() {
        let mut rack = Rack::default();
        for order in [0, 1, 4, 5] {
            rack.on_receipt(order, RTT);
        }
        assert!(!rack.has_seen_reordering());
        rack.on_receipt(3, RTT);
        assert!(rack.has_seen_reordering());
        let sent_at = Time::from_nanos(7);
        let deadline = rack.deadline(&measured()).unwrap();
        assert_eq!(deadline.of(4, sent_at), sent_at + RTT + RTT / 4);
        assert_eq!(deadline.of(5, sent_at), Time::MAX, "nothing that was sent later has arrived");
    }

    #[test]
    fn the_window_grows_once_a_round_trip_and_at_most_to_one() {
        let mut rack = Rack::default();
        rack.on_receipt(1, RTT);
        rack.on_receipt(0, RTT);
        for round in 0..6 {
            let window = (RTT / 4 * (round + 1)).min(RTT);
            assert_eq!(rack.window(&measured()), window);
            for spurious in 0..3 {
                rack.on_spurious_loss(round * 100 + spurious, (round + 1) * 100);
            }
        }
    }

    #[test]
    fn the_window_returns_to_one_step_after_16_recoveries() {
        let mut rack = Rack::default();
        rack.on_receipt(1, RTT);
        rack.on_receipt(0, RTT);
        rack.on_spurious_loss(0, 100);
        for _ in 0..RECOVERIES {
            assert_eq!(rack.window(&measured()), RTT / 2);
            rack.on_recovered();
        }
        assert_eq!(rack.window(&measured()), RTT / 4);
    }

    #[test]
    fn a_spurious_timeout_without_reordering_changes_nothing() {
        let mut rack = Rack::default();
        rack.on_receipt(0, RTT);
        rack.on_spurious_loss(0, 100);
        assert_eq!(rack.window(&measured()), RTT / 4);
    }
}
