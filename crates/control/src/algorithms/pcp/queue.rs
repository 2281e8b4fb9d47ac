//! The queue at the bottleneck, estimated from the delays of the last round trip.
//!
//! ```text
//! level    the lowest of the one-way delays above the minimum delay: the queue that stood all the time, as a time
//! standing the lowest level of the last round trips: the part of the queue that does not drain
//! slope    of the line through the delays, less its standard error: 0.1 is a queue that grows by 100 ms per second, an
//!          overload of 10%
//! waits    the number of packets that found the link busy with other flows' packets
//! noise    the minimum spread, from the lowest tenth to the highest, of a round trip's delays: jitter without a queue
//! ```
//!
//! *The minimum delay* expires after a while, in case the route has become longer (section 3.2). A flow that starts
//! while a queue stands would take the delay of that queue for the minimum. So its minimum round-trip time is compared
//! with the one of earlier transfers, and the excess counts as a queue that has stood all the time. Without this rule
//! new flows displace all others: Figure 4 at a load of 0.90 (two seeds) loses 1.3% of its packets without it, and
//! 0.005% with it.
//!
//! *Jitter*, of a wireless link or of a host that stalls, delays many packets of a round trip, but seldom all of them,
//! and a line through its delays is seldom significant. With the median as the level and without the error, every round
//! trip of jitter was a reason for a cut: 20 ms of jitter that keeps the order left a flow 0.07 of the link, and 0.72
//! with these rules.
//!
//! *Clocks that step or drift* would look like a queue. A queue also lengthens the round trip, which a single clock
//! measures: the level is at most the growth of the lowest round-trip times, as it is that of the lowest delays, and at
//! most the largest growth of a round-trip time, without which there is no slope either. The largest growth alone is no
//! bound while the flow's own packets queue: with a receiver's clock that is fast by 100 parts per million a flow used
//! 0.69 of its link.

use rampmeter_units::{Bytes, Duration, Time};

use super::Config;
use super::config::{OUTLIERS, STANDING_ROUNDS};
use crate::Arrival;
use crate::parts::delays::Delays;

/// The minimum number of delays for an estimate of the noise.
const MIN_FOR_NOISE: usize = 8;

/// The minimum delay expires this many times later in competitive mode.
const COMPETITIVE_EXPIRY: u64 = 12;

/// The minimum number of delays for a line through them.
const MIN_FOR_SLOPE: usize = 4;

/// The queue in the last round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct View {
    /// The minimum wait of a packet, apart from outliers.
    pub(super) level: Duration,
    /// The growth of that wait, in seconds per second.
    pub(super) slope: f64,
    /// The lowest level of the last round trips.
    pub(super) standing: Duration,
    /// The jitter without a queue.
    pub(super) noise: Duration,
    /// The known size of the buffer, if packets were lost recently: the maximum wait seen.
    pub(super) buffer: Option<Duration>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    /// The delays and the round-trip samples.
    delays: Delays<Duration>,
    min_delay: Minimum,
    /// The minimum of the lowest round-trip times, apart from outliers.
    min_low_rtt: Minimum,
    spread: Minimum,
    standing: Minimum,
    /// The size of a full packet, and its minimum round-trip time in earlier transfers.
    past: Option<(Bytes, Duration)>,
    min_rtt: Minimum,
    /// Negated waits, so that the minimum is the maximum wait.
    max_wait: Minimum,
    lost_at: Option<Time>,
    started_at: Option<Time>,
}

impl Queue {
    /// A path whose minimum round-trip time for full packets was `past` in earlier transfers.
    pub(super) fn new(past: Option<(Bytes, Duration)>) -> Self {
        Self { delays: Delays::new(), past, ..Self::default() }
    }

    /// A packet arrived; its round-trip sample was `rtt`, and `smoothed` is the smoothed round-trip time. Returns
    /// whether it was kept.
    pub(super) fn on_arrival(&mut self, now: Time, arrival: &Arrival, rtt: Duration, smoothed: Duration) -> bool {
        let added = self.delays.add(now, arrival, smoothed, rtt);
        if added == Some(true) {
            (self.min_delay, self.min_low_rtt) = (Minimum::default(), Minimum::default());
            (self.spread, self.min_rtt) = (Minimum::default(), Minimum::default());
        }
        added.is_some()
    }

    /// A packet was lost.
    pub(super) fn on_loss(&mut self, now: Time) {
        self.lost_at = Some(now);
    }

    /// The minimum round-trip time of packets of about `size`.
    pub(super) fn min_rtt(&self, size: Bytes) -> Option<Duration> {
        let min_delay = self.min_rtt.get().filter(|_| self.delays.largest + self.delays.largest / 4 > size)?;
        Some(Duration::from_nanos(min_delay.max(0) as u64))
    }

    /// The growth of the minimum round-trip time since earlier transfers: a queue that has stood all the time.
    fn permanent_queue(&self) -> i64 {
        let growth = self.past.and_then(|(packet, past)| Some(self.min_rtt(packet)?.saturating_sub(past)));
        growth.map_or(0, |growth| growth.as_nanos() as i64)
    }

    /// The queue in the last round trip, which took `rtt`; `min_rtt` is the path's minimum. In competitive mode the
    /// queue never empties, so the minimum delay expires later.
    pub(super) fn view(
        &mut self,
        config: &Config,
        now: Time,
        rtt: Duration,
        min_rtt: Duration,
        competitive: bool,
    ) -> Option<View> {
        let expiry = config.min_delay_expiry * if competitive { COMPETITIVE_EXPIRY } else { 1 };
        if now.since(*self.started_at.get_or_insert(now)) > expiry {
            self.past = None; // the route may have changed
        }
        let lowest = quantile(self.delays.unsorted(), OUTLIERS)?;
        let highest = quantile(self.delays.unsorted(), 1.0 - OUTLIERS)?;
        let low_rtt = quantile(self.delays.unsorted_by(|sample| sample.more.as_nanos() as i64), OUTLIERS)?;
        let shortest = self.delays.samples.iter().map(|s| s.more).min()?.as_nanos() as i64;
        self.min_rtt.update(now, shortest, expiry);
        let min_delay = self.min_delay.update(now, lowest, expiry).wrapping_sub(self.permanent_queue());
        let min_low_rtt = self.min_low_rtt.update(now, low_rtt, expiry) - self.permanent_queue();
        let rtt_growth = self.delays.samples.iter().map(|s| s.more).max()?.saturating_sub(min_rtt);
        let level = excess(lowest, min_delay).min(excess(low_rtt, min_low_rtt)).min(rtt_growth);
        let slope = if rtt_growth > Duration::ZERO { self.slope(min_delay) } else { 0.0 };
        if self.delays.samples.len() >= MIN_FOR_NOISE {
            self.spread.update(now, highest.saturating_sub(lowest), config.min_delay_expiry);
        }
        let noise = Duration::from_nanos(self.spread.get().unwrap_or(0).max(0) as u64);
        let max_wait = self.delays.samples.back().map_or(Duration::ZERO, |last| self.wait(last.delay)).min(rtt_growth);
        self.max_wait.update(now, -(max_wait.as_nanos() as i64), config.min_delay_expiry);
        let recently = self.lost_at.is_some_and(|at| now.since(at) <= config.min_delay_expiry);
        let buffer = recently.then(|| Duration::from_nanos(self.max_wait.get().unwrap_or(0).unsigned_abs()));
        let standing = self.standing.update(now, level.as_nanos() as i64, rtt * STANDING_ROUNDS);
        let standing = Duration::from_nanos(standing.unsigned_abs());
        Some(View { level, slope, standing, noise, buffer })
    }

    /// The wait of a packet with this delay.
    pub(super) fn wait(&self, delay: i64) -> Duration {
        self.min_delay
            .get()
            .map_or(Duration::ZERO, |min_delay| excess(delay, min_delay.wrapping_sub(self.permanent_queue())))
    }

    /// The number of packets that waited longer than `wait`, and of all.
    pub(super) fn count_waits(&self, wait: Duration) -> WaitCount {
        let waited = self.delays.samples.iter().filter(|s| self.wait(s.delay) > wait).count();
        WaitCount { waited, all: self.delays.samples.len() }
    }

    fn slope(&self, min_delay: i64) -> f64 {
        if self.delays.samples.len() < MIN_FOR_SLOPE {
            return 0.0;
        }
        let line = self.delays.line(min_delay, |_| true);
        line.map_or(
            0.0,
            |line| if line.slope > 0.0 { (line.slope - line.error).max(0.0) } else { line.slope.max(-1.0) },
        )
    }
}

fn quantile(values: &mut [i64], share: f64) -> Option<i64> {
    let below = (values.len().checked_sub(1)? as f64 * share) as usize;
    Some(*values.select_nth_unstable(below).1)
}

fn excess(delay: i64, min_delay: i64) -> Duration {
    Duration::from_nanos(delay.saturating_sub(min_delay).max(0) as u64)
}

/// The number of packets that waited, and the number of all packets examined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WaitCount {
    pub(super) waited: usize,
    pub(super) all: usize,
}

impl WaitCount {
    /// The sum of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self { waited: self.waited + other.waited, all: self.all + other.all }
    }

    /// The share of packets that waited, 0 without any.
    pub(super) fn share(self) -> f64 {
        self.waited as f64 / self.all.max(1) as f64
    }
}

/// The minimum of a recent time: of the current half of it and the half before.
#[derive(Debug, Clone, Default)]
pub(super) struct Minimum {
    since: Time,
    current: Option<i64>,
    previous: Option<i64>,
}

impl Minimum {
    fn get(&self) -> Option<i64> {
        self.current.into_iter().chain(self.previous).min()
    }

    pub(super) fn update(&mut self, now: Time, value: i64, expiry: Duration) -> i64 {
        if now.since(self.since) > expiry / 2 {
            (self.since, self.previous, self.current) = (now, self.current, None);
        }
        let current = self.current.map_or(value, |current| current.min(value));
        self.current = Some(current);
        self.previous.map_or(current, |previous| previous.min(current))
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Ecn;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    const PACKET: Bytes = Bytes::new(1000);

    fn ms(n: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(n / 1e3)
    }

    fn observe(queue: &mut Queue, sent_at: Time, delay: f64, bytes: Bytes) -> Time {
        let received_at = sent_at + Duration::from_secs_f64(delay / 1e3);
        let now = received_at + RTT / 2;
        let arrival = Arrival { number: 0, bytes, sent_at, received_at, ecn: Ecn::NotEct };
        queue.on_arrival(now, &arrival, now.since(sent_at), RTT);
        now
    }

    /// One packet leaves every millisecond, with a delay of `delay(i)` milliseconds. Returns the final view.
    fn run(config: &Config, packets: u32, delay: impl Fn(u32) -> f64) -> (Queue, View) {
        let mut queue = Queue::new(None);
        let mut view = View::default();
        for i in 0..packets {
            let now = observe(&mut queue, ms(f64::from(i)), delay(i), PACKET);
            view = queue.view(config, now, RTT, RTT, false).unwrap();
        }
        (queue, view)
    }

    #[test]
    fn a_minimum_is_kept_for_half_of_its_expiry_or_more() {
        let mut min = Minimum::default();
        let mut update = |at, delay| min.update(ms(at), delay, Duration::from_millis(100));
        assert_eq!([update(0.0, 10), update(50.0, 20), update(100.0, 30)], [10; 3]);
        assert_eq!(update(151.0, 40), 30, "the first ones have expired");
    }

    #[test]
    fn the_level_is_the_delay_above_the_minimum() {
        let (_, view) = run(&Config::default(), 60, |i| if i < 20 { 10.0 } else { 12.5 });
        assert_eq!(view.level, Duration::from_micros(2500));
        assert!(view.slope.abs() < 1e-9);
    }

    #[test]
    fn the_standing_queue_is_the_lowest_level_of_some_round_trips() {
        let (_, view) = run(&Config::default(), 100, |i| if i < 40 { 10.0 } else { 12.0 });
        assert_eq!((view.level, view.standing), (Duration::from_millis(2), Duration::ZERO));
        let (_, view) = run(&Config::default(), 400, |i| if i < 40 { 10.0 } else { 12.0 });
        assert_eq!(view.standing, Duration::from_millis(2));
    }

    #[test]
    fn in_competitive_mode_the_minimum_delay_is_kept_for_longer() {
        let config = Config { min_delay_expiry: Duration::from_millis(100), ..Config::default() };
        let mut queue = Queue::new(None);
        let mut level = |i: u32, competitive| {
            let now = observe(&mut queue, ms(f64::from(i)), if i < 50 { 10.0 } else { 12.0 }, PACKET);
            queue.view(&config, now, RTT, RTT, competitive).unwrap().level
        };
        (0..400).for_each(|i| assert!(level(i, true) <= Duration::from_millis(2)));
        assert_eq!(level(400, true), Duration::from_millis(2));
        (401..800).for_each(|i| assert!(level(i, false) <= Duration::from_millis(2)));
        assert_eq!(level(800, false), Duration::ZERO);
    }

    #[test]
    fn the_slope_is_the_overload() {
        // The link needs 1.25 ms for a packet, and one leaves every millisecond.
        let (_, view) = run(&Config::default(), 18, |i| 10.0 + 0.25 * f64::from(i));
        assert!((view.slope - 0.25).abs() < 1e-6, "{}", view.slope);
    }

    #[test]
    fn jitter_is_neither_a_queue_nor_its_growth() {
        // Three of four packets wait for up to 0.6 ms. Some lines through the last round trip rise, by less than their
        // error.
        let jitter = |i: u32| 10.0 + f64::from(i % 4) * 0.2;
        let runs: Vec<_> = (60..64).map(|packets| run(&Config::default(), packets, jitter)).collect();
        assert!(runs.iter().all(|(_, view)| view.level == Duration::ZERO && view.slope <= 0.0), "{runs:?}");
        assert!(runs.iter().any(|(queue, _)| queue.delays.line(0, |_| true).unwrap().slope > 0.0));
        let (queue, view) = run(&Config::default(), 60, |i| jitter(i) + 0.25 * f64::from(i));
        let line = queue.delays.line(0, |_| true).unwrap();
        assert!(view.slope == line.slope - line.error && (0.2..0.25).contains(&view.slope), "{view:?} {line:?}");
    }

    #[test]
    fn one_outlier_in_ten_changes_nothing() {
        let (_, view) = run(&Config::default(), 60, |i| if i % 12 == 11 { 10.5 } else { 10.0 });
        assert_eq!(view.level, Duration::ZERO);
    }

    #[test]
    fn with_losses_the_buffer_is_the_maximum_wait_seen() {
        let (mut queue, view) = run(&Config::default(), 60, |i| if i == 30 { 14.0 } else { 10.0 });
        assert_eq!(view.buffer, None);
        queue.on_loss(ms(90.0));
        let mut buffer = |at| queue.view(&Config::default(), ms(at), RTT, RTT, false).unwrap().buffer;
        assert_eq!(buffer(90.0), Some(Duration::from_millis(4)));
        assert_eq!(buffer(20_000.0), None);
    }

    #[test]
    fn packets_that_waited_are_counted() {
        let (queue, _) = run(&Config::default(), 60, |i| if i % 4 == 0 { 10.3 } else { 10.0 });
        let count = queue.count_waits(Duration::from_micros(200));
        assert_eq!((count.waited, count.all), (5, 21));
        assert_eq!(queue.count_waits(Duration::from_micros(300)).waited, 0, "none waited longer");
        assert_eq!(WaitCount::default().share(), 0.0);
        assert_eq!(WaitCount { waited: 1, all: 1 }.and(WaitCount { waited: 2, all: 7 }).share(), 0.375);
    }

    #[test]
    fn history_shows_a_queue_that_stood_from_the_start() {
        let mut queue = Queue::new(Some((PACKET, RTT)));
        let mut now = Time::ZERO;
        for i in 0..10 {
            now = observe(&mut queue, ms(f64::from(i)), 14.0, PACKET);
        }
        let view = queue.view(&Config::default(), now, RTT, RTT, false).unwrap();
        assert_eq!(view.level, Duration::from_millis(4));
    }

    #[test]
    fn history_counts_until_the_minimum_expires() {
        let config = Config { min_delay_expiry: Duration::from_millis(100), ..Config::default() };
        let mut queue = Queue::new(Some((PACKET, RTT)));
        let mut level = |millis: u64| {
            let now = observe(&mut queue, Time::ZERO + Duration::from_millis(millis), 14.0, PACKET);
            queue.view(&config, now, RTT, RTT, false).unwrap().level
        };
        assert_eq!([level(0), level(60), level(100)], [Duration::from_millis(4); 3]);
        assert_eq!(level(101), Duration::ZERO);
    }

    #[test]
    fn noise_needs_eight_delays_and_a_slope_four() {
        let jitter = |i: u32| if i % 2 == 0 { 10.0 } else { 10.05 };
        assert_eq!(run(&Config::default(), 7, jitter).1.noise, Duration::ZERO);
        assert_eq!(run(&Config::default(), 8, jitter).1.noise, Duration::from_micros(50));
        let growing = |i: u32| 10.0 + 0.25 * f64::from(i);
        assert_eq!(run(&Config::default(), 3, growing).1.slope, 0.0);
        assert!((run(&Config::default(), 4, growing).1.slope - 0.25).abs() < 1e-6);
    }

    #[test]
    fn a_longer_route_is_no_queue_once_the_minimum_expires() {
        let config = Config { min_delay_expiry: Duration::from_millis(500), ..Config::default() };
        let (_, before) = run(&config, 400, |i| if i < 100 { 10.0 } else { 15.0 });
        let (_, after) = run(&config, 1200, |i| if i < 100 { 10.0 } else { 15.0 });
        assert_eq!((before.level, after.level), (Duration::from_millis(5), Duration::ZERO));
    }

    #[test]
    fn a_clock_that_steps_is_no_queue() {
        let mut queue = Queue::new(None);
        for i in 0..60 {
            let (sent_at, now) = (ms(f64::from(i)), ms(f64::from(i) + 20.0));
            let received_at = if i < 30 { sent_at } else { sent_at + Duration::from_secs(7) };
            let arrival = Arrival { number: 0, bytes: PACKET, sent_at, received_at, ecn: Ecn::NotEct };
            queue.on_arrival(now, &arrival, RTT, RTT);
            let view = queue.view(&Config::default(), now, RTT, RTT, false).unwrap();
            assert_eq!((view.level, view.slope), (Duration::ZERO, 0.0));
        }
    }

    #[test]
    fn a_drifting_clock_is_no_queue_while_packets_wait() {
        let mut queue = Queue::new(None);
        for i in 0u64..5000 {
            let waits = Duration::from_micros(if i % 2 == 0 { 0 } else { 800 });
            let (sent_at, rtt) = (Time::ZERO + Duration::from_millis(i), RTT + waits);
            let received_at = sent_at + rtt / 2 + Duration::from_nanos(200 * i);
            let arrival = Arrival { number: 0, bytes: PACKET, sent_at, received_at, ecn: Ecn::NotEct };
            queue.on_arrival(sent_at + rtt, &arrival, rtt, RTT);
            let view = queue.view(&Config::default(), sent_at + rtt, RTT, RTT, false).unwrap();
            assert_eq!(view.level, Duration::ZERO, "after {i} ms");
        }
    }

    #[test]
    fn packets_of_different_sizes_are_not_compared() {
        let mut queue = Queue::new(None);
        for i in 0..60 {
            let (bytes, delay) = if i % 2 == 0 { (Bytes::new(200), 10.0) } else { (PACKET, 18.0) };
            let now = observe(&mut queue, ms(f64::from(i)), delay, bytes);
            assert_eq!(queue.view(&Config::default(), now, RTT, RTT, false).unwrap().level, Duration::ZERO);
        }
        assert_eq!(queue.min_rtt(Bytes::new(1249)), Some(Duration::from_millis(28)));
        assert_eq!(queue.min_rtt(Bytes::new(1250)), None, "a quarter more than the largest");
    }
}
