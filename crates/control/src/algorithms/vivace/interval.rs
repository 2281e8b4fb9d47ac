//! Monitor intervals: what happened to the packets that were sent at one rate.
//!
//! The slope of the round-trip times over the send times is a least-squares fit (section 4.3, `d(RTT)/dT`):
//!
//! ```text
//! slope = (n sum xy - sum x sum y) / (n sum xx - (sum x)^2)
//! ```

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Time};

/// A slope below it is noise.
const FLAT: f64 = 0.01;

/// The packets that were sent at one rate.
#[derive(Debug, Clone, Default)]
pub(super) struct Interval {
    /// In bits a second.
    pub(super) rate: f64,
    began: Time,
    ends_at: Time,
    first: u64,
    /// The number after its last packet, once it is over.
    end: Option<u64>,
    packets: u64,
    sent: Bytes,
    delivered: Bytes,
    lost: Bytes,
    /// The application sent less than it could have.
    app_limited: bool,
    /// Sums over its packets: their number, and of the time since its start and the round-trip time, in seconds.
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Interval {
    /// `L`.
    pub(super) fn loss(&self) -> f64 {
        self.lost.as_f64() / self.sent.as_f64().max(1.0)
    }

    /// Whether its packets used its rate.
    pub(super) fn is_used(&self) -> bool {
        !self.app_limited
    }

    /// `d(RTT)/dT`, zero if the round-trip time falls or its growth is noise.
    pub(super) fn rtt_gradient(&self) -> f64 {
        let width = self.count * self.xx - self.x * self.x;
        let slope = (self.count * self.xy - self.x * self.y) / width;
        if slope.is_finite() && slope >= FLAT { slope.min(100.0) } else { 0.0 }
    }

    fn has(&self, number: u64) -> bool {
        number >= self.first && self.end.is_none_or(|end| number < end)
    }

    /// Whether all its packets are delivered or lost, or should be.
    fn is_known(&self, now: Time, rtt: Duration) -> bool {
        self.end.is_some() && (self.delivered + self.lost >= self.sent || now > self.ends_at + rtt * 2)
    }
}

/// The monitor intervals whose results are not known, in the order of their packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Intervals {
    intervals: VecDeque<Interval>,
}

impl Intervals {
    /// No result is awaited.
    pub(super) fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The rate of the interval that sends now.
    pub(super) fn current_rate(&self) -> Option<f64> {
        self.intervals.back().filter(|interval| interval.end.is_none()).map(|interval| interval.rate)
    }

    /// Whether no interval sends from `now` on: the last one has lasted a round trip and has `min` packets, or is over.
    pub(super) fn ends(&self, now: Time, min: u64) -> bool {
        self.intervals.back().is_none_or(|last| last.end.is_some() || now >= last.ends_at && last.packets >= min)
    }

    /// An interval of a round trip begins with packet `number`.
    pub(super) fn begin(&mut self, now: Time, number: u64, rate: f64, rtt: Duration) {
        self.intervals.push_back(Interval {
            rate,
            began: now,
            ends_at: now + rtt,
            first: number,
            ..Interval::default()
        });
    }

    /// The last interval ends before packet `number`.
    pub(super) fn close(&mut self, now: Time, number: u64) {
        if let Some(last) = self.intervals.back_mut()
            && last.end.is_none()
        {
            (last.end, last.ends_at) = (Some(number), now);
        }
    }

    /// A packet was sent.
    pub(super) fn on_sent(&mut self, number: u64, bytes: Bytes) {
        if let Some(last) = self.intervals.back_mut()
            && last.has(number)
        {
            last.packets += 1;
            last.sent += bytes;
        }
    }

    pub(super) fn on_app_limited(&mut self) {
        if let Some(last) = self.intervals.back_mut() {
            last.app_limited = true;
        }
    }

    pub(super) fn on_delivered(&mut self, number: u64, bytes: Bytes, sent_at: Time, rtt: Duration) {
        if let Some(interval) = self.intervals.iter_mut().find(|interval| interval.has(number)) {
            interval.delivered += bytes;
            let (x, y) = (sent_at.since(interval.began).as_secs_f64(), rtt.as_secs_f64());
            interval.count += 1.0;
            interval.x += x;
            interval.y += y;
            interval.xx += x * x;
            interval.xy += x * y;
        }
    }

    /// Feedback that lists no packets is about the oldest ones.
    pub(super) fn on_delivered_bytes(&mut self, bytes: Bytes) {
        if let Some(first) = self.intervals.front_mut() {
            first.delivered += bytes;
        }
    }

    pub(super) fn on_lost(&mut self, number: u64, bytes: Bytes) {
        if let Some(interval) = self.intervals.iter_mut().find(|interval| interval.has(number)) {
            interval.lost += bytes;
        }
    }

    /// The oldest interval, if its result is known.
    pub(super) fn take_result(&mut self, now: Time, rtt: Duration) -> Option<Interval> {
        if self.intervals.front()?.is_known(now, rtt) { self.intervals.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PACKET, RTT, ms};

    /// Two intervals of five packets: 0 to 4 from 0 to 20 ms, and 5 to 9 from there to 40 ms.
    fn two() -> Intervals {
        let mut intervals = Intervals::default();
        for (first, at) in [(0, ms(0)), (5, ms(20))] {
            intervals.close(at, first);
            intervals.begin(at, first, 1e6, RTT);
            (first..first + 5).for_each(|number| intervals.on_sent(number, PACKET));
        }
        intervals.close(ms(40), 10);
        intervals
    }

    fn deliver(intervals: &mut Intervals, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| intervals.on_delivered(number, PACKET, ms(2 * number), RTT));
    }

    #[test]
    fn a_result_is_known_when_all_packets_are_delivered_or_lost() {
        let mut intervals = two();
        deliver(&mut intervals, 0..4);
        assert!(intervals.take_result(ms(30), RTT).is_none());
        deliver(&mut intervals, 5..8);
        intervals.on_lost(4, PACKET);
        let first = intervals.take_result(ms(30), RTT).unwrap();
        assert_eq!((first.packets, first.loss()), (5, 0.2));
        assert!(intervals.take_result(ms(30), RTT).is_none());
        intervals.on_lost(8, PACKET);
        intervals.on_lost(9, PACKET);
        assert_eq!(intervals.take_result(ms(30), RTT).unwrap().loss(), 0.4);
        assert!(intervals.is_empty());
        intervals.begin(ms(40), 10, 1e6, RTT);
        intervals.on_sent(10, PACKET);
        deliver(&mut intervals, 10..11);
        assert!(intervals.take_result(ms(900), RTT).is_none(), "it still sends");
    }

    /// The gradient of round-trip times in milliseconds, of packets sent 10 ms after each other. It does not lose accuracy
    /// with time: these are sent after twelve days.
    fn gradient(rtts: &[f64]) -> f64 {
        const START: u64 = 1_000_000_000;
        let mut intervals = Intervals::default();
        intervals.begin(ms(START), 0, 1e6, RTT);
        for (number, rtt) in (0..).zip(rtts) {
            intervals.on_sent(number, PACKET);
            intervals.on_delivered(number, PACKET, ms(START + 10 * number), Duration::from_secs_f64(rtt / 1e3));
        }
        intervals.close(ms(START + 100), rtts.len() as u64);
        intervals.take_result(ms(START + 100), RTT).unwrap().rtt_gradient()
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_fitted_line() {
        // (4 1390 - 60 88) / (4 1400 - 60^2) = 0.14. Less than 0.01 is noise, and a falling one is no gain.
        for (rtts, expected) in [
            ([20.0, 22.0, 21.0, 25.0].as_slice(), 0.14),
            (&[20.0, 20.0, 20.0, 20.0], 0.0),
            (&[20.0, 20.09, 20.18], 0.0),
            (&[20.0, 20.11, 20.22], 0.011),
            (&[40.0, 30.0, 20.0], 0.0),
            (&[20.0], 0.0),
            (&[0.0, 5000.0], 100.0),
        ] {
            let gradient = gradient(rtts);
            assert!((gradient - expected).abs() < 1e-9, "{rtts:?}: {gradient}");
        }
    }
}
