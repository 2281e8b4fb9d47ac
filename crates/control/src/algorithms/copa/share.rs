//! Whether this flow has the link to itself.
//!
//! ```text
//! capacity   max of 10 s of a packet's size / (its arrival - the arrival before)      a pair of packets in the queue
//! share      (bytes that arrived in 5 round trips / the time) / capacity
//! alone      share >= 0.9
//! ```
//!
//! The times are the receiver's. Beside another flow the share is at most a half, also where its packets are between those
//! of each pair, so that the capacity is too low: packets leave at twice the flow's rate, so pairs arrive at that rate.

use std::cmp::Reverse;

use rampmeter_units::{Bytes, Duration, Rate, Time};

use super::delays::{MIN_RTT_WINDOW, Minimum};
use crate::Ack;

/// The number of round trips over which the share is measured (section 2.2 expects an empty queue in as many).
const ROUND_TRIPS: u64 = 5;

/// The minimum share of a flow that has the link to itself.
const ALONE: f64 = 0.9;

#[derive(Debug, Clone)]
pub(super) struct Share {
    capacity: Minimum<Reverse<Rate>>,
    /// When the last packet arrived, on the receiver's clock.
    last: Option<Time>,
    /// The time since the packet before, and the bytes that arrived then. Packets that the receiver reads together have
    /// one time.
    gap: Duration,
    together: Bytes,
    /// The first packet of this measurement arrived then, and `bytes` after it.
    since: Time,
    bytes: Bytes,
    is_alone: bool,
}

impl Share {
    pub(super) fn new(now: Time) -> Self {
        Self {
            capacity: Minimum::new(now, Reverse(Rate::ZERO)),
            last: None,
            gap: Duration::ZERO,
            together: Bytes::ZERO,
            since: Time::ZERO,
            bytes: Bytes::ZERO,
            is_alone: false,
        }
    }

    /// Whether the flow had the link to itself when it was measured last.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    pub(super) fn add(&mut self, now: Time, ack: &Ack<'_>) {
        for arrival in ack.arrivals {
            let at = arrival.received_at;
            let Some(last) = self.last else {
                (self.last, self.since) = (Some(at), at);
                continue;
            };
            if at > last {
                self.measure(last, ack.smoothed_rtt);
                (self.last, self.gap, self.together) = (Some(at), at.since(last), Bytes::ZERO);
            }
            if self.gap > Duration::ZERO {
                self.together += arrival.bytes;
                self.bytes += arrival.bytes;
                self.capacity.add(now, Reverse(Rate::of(self.together, self.gap)), MIN_RTT_WINDOW);
            }
        }
    }

    /// Ends a measurement with the packets that arrived at `at`, if it has lasted long enough.
    fn measure(&mut self, at: Time, smoothed_rtt: Duration) {
        let span = at.since(self.since);
        if span > Duration::ZERO && span >= smoothed_rtt * ROUND_TRIPS {
            let Reverse(capacity) = self.capacity.get().unwrap_or_default();
            self.is_alone = Rate::of(self.bytes, span) >= capacity.scale(ALONE);
            (self.since, self.bytes) = (at, Bytes::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arrival;
    use crate::testing::{PACKET, arrived};

    const RTT: Duration = Duration::from_millis(10);

    fn us(n: u64) -> Time {
        Time::ZERO + Duration::from_micros(n)
    }

    /// Whether a flow is alone whose packets arrive at these times, in microseconds.
    fn is_alone(times: impl IntoIterator<Item = u64>) -> bool {
        let mut share = Share::new(Time::ZERO);
        for at in times {
            let arrivals = [Arrival { bytes: PACKET, received_at: us(at), ..Arrival::default() }];
            share.add(us(at), &arrived(&arrivals, RTT));
        }
        share.is_alone()
    }

    #[test]
    fn a_flow_whose_packets_arrive_one_after_the_other_is_alone() {
        assert!(is_alone((0..53).map(|n| 1000 * n)));
        assert!(!is_alone((0..50).map(|n| 1000 * n)), "not yet five round trips");
        assert!(is_alone((0..80).filter(|n| n % 20 != 19).map(|n| 1000 * n)), "19 of 20");
    }

    #[test]
    fn a_flow_is_not_alone_if_others_use_the_gaps() {
        assert!(!is_alone((0..200).filter(|n| n % 4 < 3).map(|n| 1000 * n)), "3 of 4");
        assert!(!is_alone((0..100).map(|n| 2000 * n + 1000 * (n % 2))), "in pairs of packets");
        // Nor where its packets are never next to each other, as they leave in the first half of each round trip.
        assert!(!is_alone((0..200).filter(|n| n % 10 < 5).map(|n| 1000 * n)));
    }

    #[test]
    fn a_flow_becomes_alone_when_the_others_end() {
        let beside = (0..60).map(|n| 3000 * n + 2000 * (n % 2));
        assert!(is_alone(beside.chain((0..102).map(|n| 200_000 + 1000 * n))));
    }

    #[test]
    fn packets_that_are_read_together_count_as_one() {
        assert!(is_alone((0..120).map(|n| n / 4 * 4000)));
        assert!(!is_alone((0..120).map(|n| (n / 4 + n / 8) * 4000)), "2 of 3");
    }
}
