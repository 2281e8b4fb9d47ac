//! The queueing delay (RFC 6817 sections 2.4.2 and 4.2): the minimum of the last delays above that of ten minutes.
//!
//! ```text
//! current     minimum of the last 4 delays, which are at most a round trip old         CURRENT_FILTER
//! base        minimum of the minima of the last 10 minutes                             BASE_HISTORY
//! ```
//!
//! The ten minutes also limit what a drift of the receiver's clock does to one-way delays.

use std::collections::VecDeque;

use rampmeter_units::{Duration, Time};

use crate::Ack;

const CURRENT_FILTER: usize = 4;
const BASE_HISTORY: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub(crate) struct Delays {
    /// The last delays in nanoseconds, with the unknown offset of the receiver's clock, and their times.
    current: VecDeque<(Time, i64)>,
    /// The starts of the last minutes in which there was a delay, and their minima.
    base: VecDeque<(Time, i64)>,
    /// The receiver reports the arrival time of each packet.
    lists_packets: bool,
}

impl Delays {
    /// Adds the delays that `ack` reports: one-way delays if `one_way` and the receiver reports them, else a round trip.
    pub(crate) fn observe(&mut self, now: Time, ack: &Ack<'_>, one_way: bool) {
        if one_way && !ack.arrivals.is_empty() {
            if !self.lists_packets {
                *self = Self { lists_packets: true, ..Self::default() };
            }
            for arrival in ack.arrivals {
                self.add(now, arrival.one_way_delay(), ack.smoothed_rtt);
            }
        } else if let (false, Some(rtt)) = (self.lists_packets, ack.rtt) {
            self.add(now, rtt.as_nanos() as i64, ack.smoothed_rtt);
        }
    }

    fn add(&mut self, now: Time, delay: i64, rtt: Duration) {
        while self.current.len() == CURRENT_FILTER || self.current.front().is_some_and(|(at, _)| now.since(*at) > rtt) {
            self.current.pop_front();
        }
        self.current.push_back((now, delay));
        match self.base.back_mut() {
            Some((began, min)) if now.since(*began) < MINUTE => *min = delay.min(*min),
            _ => self.base.push_back((now, delay)),
        }
        while self.base.front().is_some_and(|(began, _)| now.since(*began) >= MINUTE * BASE_HISTORY as u64) {
            self.base.pop_front();
        }
    }

    /// The queueing delay; zero while no delay is known.
    pub(crate) fn queueing(&self) -> Duration {
        let (Some(current), Some(base)) = (min(&self.current), min(&self.base)) else { return Duration::ZERO };
        Duration::from_nanos(current.saturating_sub(base).max(0) as u64)
    }

    /// The base delay of round trips; zero while none is known.
    pub(crate) fn base(&self) -> Duration {
        Duration::from_nanos(min(&self.base).unwrap_or(0).max(0) as u64)
    }
}

fn min(delays: &VecDeque<(Time, i64)>) -> Option<i64> {
    delays.iter().map(|(_, delay)| *delay).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arrival;
    use crate::testing::{PACKET, RTT, ack, arrived};

    const MS: i64 = 1_000_000;

    fn add(delays: &mut Delays, at: Duration, millis: i64) {
        delays.add(Time::ZERO + at, millis * MS, RTT);
    }

    #[test]
    fn the_queueing_delay_is_the_minimum_of_four() {
        let mut delays = Delays::default();
        let queues: Vec<u64> = (0..)
            .zip([50, 90, 80, 95, 99, 98, 97])
            .map(|(i, millis)| {
                add(&mut delays, Duration::from_millis(i), millis);
                delays.queueing().as_nanos() / MS as u64
            })
            .collect();
        assert_eq!(queues, [0, 0, 0, 0, 30, 30, 45]);
        add(&mut delays, Duration::from_secs(1), 60);
        assert_eq!(delays.queueing(), Duration::from_millis(10), "the others are older than a round trip");
        add(&mut delays, Duration::from_secs(1) + RTT, 80);
        assert_eq!(delays.queueing(), Duration::from_millis(10), "the last one is not older");
    }

    #[test]
    fn the_base_delay_is_that_of_the_last_ten_minutes() {
        let mut delays = Delays::default();
        for (minutes, millis, base) in
            [(0, 50, 50), (1, 70, 50), (9, 80, 50), (10, 90, 70), (11, 95, 80), (300, 99, 99)]
        {
            add(&mut delays, MINUTE * minutes, millis);
            assert_eq!(delays.base(), Duration::from_millis(base), "{minutes}");
        }
        for seconds in 20_000..40_000 {
            add(&mut delays, Duration::from_secs(seconds), 60);
        }
        assert!(delays.base.len() <= BASE_HISTORY && delays.current.len() <= CURRENT_FILTER);
    }

    #[test]
    fn only_differences_of_one_way_delays_count() {
        for offset in [-3_600_000, 0, 3_600_000] {
            let mut delays = Delays::default();
            let at = |millis: u64| Time::from_nanos(4_000_000_000_000 + millis * MS as u64);
            delays.observe(at(0), &Ack { rtt: Some(RTT), ..ack(1) }, true); // the handshake
            for (sent, delay) in [(0, 10), (100, 45)] {
                let received_at = Time::from_nanos(at(sent).as_nanos().wrapping_add_signed((delay + offset) * MS));
                let arrivals = [Arrival { bytes: PACKET, sent_at: at(sent), received_at, ..Arrival::default() }];
                delays.observe(at(sent), &arrived(&arrivals, RTT * 50), true);
            }
            delays.observe(at(200), &ack(1), true);
            add(&mut delays, Duration::from_secs(4001), 45 + offset);
            assert_eq!(delays.queueing(), Duration::from_millis(35), "{offset}");
        }
    }
}
