//! How long packets wait in a queue: from a packet's arrival at the link to the time at which it leaves the queue.
//!
//! Most disciplines send packets in the order of their arrival, and drop them when they arrive or when they are the first
//! in the queue. So the times of arrival of the packets that wait are enough: whatever leaves, leaves at their front.
//! Disciplines with another order say themselves how long a packet has waited ([`crate::Router::last_wait`]), and so does a
//! link that foresees departures.

use std::collections::VecDeque;

use rampmeter_units::{Duration, Time};

use crate::link::delays::{DelaySummary, Delays};

/// The waits of the packets of one queue.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// The start of the measurement.
    since: Time,
    /// When the packets that wait arrived; `None` for those that arrived before the measurement.
    arrivals: VecDeque<Option<Time>>,
    delays: Delays,
}

impl Waits {
    /// Measures a queue from `now` on, in which `waiting` packets are.
    pub(crate) fn new(now: Time, waiting: u64) -> Self {
        Self { since: now, arrivals: (0..waiting).map(|_| None).collect(), delays: Delays::default() }
    }

    /// A packet arrives at the queue.
    pub(crate) fn on_arrival(&mut self, now: Time) {
        self.arrivals.push_back(Some(now));
    }

    /// The packet that arrived last was refused.
    pub(crate) fn on_refusal(&mut self) {
        self.arrivals.pop_back();
    }

    /// Now `waiting` packets are in the queue. If `is_sent`, the last one that left it is transmitted, after `own` as its
    /// discipline says, if it does.
    pub(crate) fn on_change(&mut self, now: Time, waiting: u64, is_sent: bool, own: Option<Duration>) {
        let mut last = None;
        while self.arrivals.len() as u64 > waiting {
            last = self.arrivals.pop_front().flatten();
        }
        let wait = own.or_else(|| Some(now.since(last?)));
        if let (true, Some(wait)) = (is_sent, wait) {
            self.delays.add(wait);
        }
    }

    /// A packet of a link that foresees departures leaves `at` this time, and counts unless it arrived before the
    /// measurement.
    pub(crate) fn on_departure(&mut self, at: Time, wait: Duration) {
        if at.since(self.since) >= wait {
            self.delays.add(wait);
        }
    }

    /// The waits of the packets that were sent.
    pub(crate) fn summary(&self) -> DelaySummary {
        self.delays.summary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::tests::ms;

    #[test]
    fn packets_wait_from_their_arrival_until_they_are_sent() {
        let mut waits = Waits::new(ms(0), 1);
        waits.on_arrival(ms(10));
        waits.on_arrival(ms(20));
        waits.on_change(ms(30), 2, true, None); // one that arrived before the measurement
        waits.on_change(ms(40), 1, true, None);
        waits.on_change(ms(50), 0, true, None);
        let summary = waits.summary();
        assert_eq!((summary.packets, summary.mean_s), (2, 0.030));
    }

    #[test]
    fn packets_that_are_dropped_do_not_count() {
        let mut waits = Waits::new(ms(0), 0);
        waits.on_arrival(ms(0));
        waits.on_arrival(ms(1));
        waits.on_arrival(ms(2));
        waits.on_refusal();
        waits.on_change(ms(2), 2, false, None);
        waits.on_change(ms(9), 0, true, None); // the first one is dropped from the queue, the second one sent
        assert_eq!((waits.summary().packets, waits.summary().mean_s), (1, 0.008));
    }

    #[test]
    fn disciplines_with_another_order_say_how_long_a_packet_waited() {
        let mut waits = Waits::new(ms(0), 0);
        waits.on_arrival(ms(0));
        waits.on_arrival(ms(5));
        waits.on_change(ms(6), 1, true, Some(Duration::from_millis(1)));
        assert_eq!(waits.summary().mean_s, 0.001);
    }
}
