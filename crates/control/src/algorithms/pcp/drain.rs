//! Queue drains: flows send less for a moment, and compare the queue before and after.
//!
//! *A queue that never empties.* A flow that joins flows with a target queue takes the delay of that queue for the
//! path's own and adds a queue of its own, and the others' minimum delay expires (`min_delay_expiry`). Without drains
//! ten long flows push the queue to the end of the buffer and lose 26% of their packets. So a flow that has not seen an
//! empty queue for `drain_after` sends at `DRAIN_SHARE` of its rate for `DRAIN_ROUNDS` round trips and does not probe,
//! as BBR does to measure the round-trip time. No message synchronizes the flows: all of them see the queue empty, and
//! all wait for the same time from there. A flow that sees the queue fall joins the drain; else 50 flows drain in
//! groups, and no group empties the queue. A drain that leaves most of the queue shows that other flows do not reduce
//! their rates (`competitive`).
//!
//! *Beside competing traffic.* Flows in competitive mode drain at the same moments of the clock: every `drain_after`.
//! If that is shorter than ten round trips, the period is the first of 2, 4, 8, ... times `drain_after` that is not.
//! PCP flows that took each other for TCP then shorten the queue to less than a third, and detect it. (50 flows that
//! each counted from the last empty queue competed for ever.) The moments are common to the flows of one run, and to
//! hosts whose clocks agree within half a round trip. Flows whose clocks differ leave the mode by their losses
//! (`competitive`).
//!
//! While a flow drains beside TCP, TCP takes its bandwidth, and the flow must not mistake its own effect for a drain by
//! other flows. So such a drain lasts as long as all flows together need to empty the queue, but no longer than the
//! flow alone needs for `OWN_SHARE` of it:
//!
//! ```text
//! emptying = wait / (1 - DRAIN_SHARE * SPACING)        packets are spaced for SPACING times the window in a round trip
//! length   = min(emptying + (rtt - wait) / 2, emptying * OWN_SHARE / share)    share: the flow's, of the capacity
//! ```
//!
//! With drains of 1.5 round trips 3 and 30 MB beside one CUBIC take up to 1.7 times CUBIC's time (`access_paths.toml`'s
//! DSL, four seeds). With the first bound they take 1.4 times; with both 1.2 without history, and 1.4 with it.
//!
//! *A queue above the ceiling.* If even the minimum wait of a round trip is above the flow's ceiling, the flow reduces
//! its sending rate for one round trip, by half at most, so that the queue falls to the target, and waits one round
//! trip for the effect. Its base rate does not change, because a burst of requests caused the queue and not the sum of
//! rates, which the slope of delays controls (`compensation`). Figure 4 loses 0.03% at most with it and 0.09% without.

use rampmeter_units::{Duration, Time};

use super::Config;
use super::competitive::SPACING;
use super::config::{DRAIN_ROUNDS, DRAIN_SHARE, MAX_CUT};

/// The minimum length of a drain: flows with longer round trips might not see a shorter one. Drains by the clock do not
/// need this minimum.
const MIN_DRAIN: Duration = Duration::from_millis(50);

/// The minimum time between two drains, in round trips: each takes about one.
const MIN_ROUNDS: u64 = 10;

/// The maximum share of the queue that a drain in competitive mode removes, if only this flow drains.
const OWN_SHARE: f64 = 0.6;

/// A queue that falls to this share of its maximum is being drained by other flows: the flow joins them.
const QUEUE_FALL: f64 = 0.4;

/// A drain that leaves more than this share of the queue has failed.
const MAX_QUEUE_LEFT: f64 = 0.6;

/// The minimum queue whose fall counts, in multiples of the wait that counts as empty. Shorter queues fall by chance.
const MIN_QUEUE: f64 = 8.0;

#[derive(Debug, Clone, Default)]
pub(super) struct Drain {
    /// The start of the last drain.
    started_at: Time,
    /// The last drain in competitive mode: the time until which round trips show its effect, and the minimum wait
    /// before it.
    last_by_clock: Option<(Time, Duration)>,
    /// The last drain outside competitive mode: the time until which round trips show its effect, the minimum wait
    /// before it, and the minimum wait since.
    last_cooperative: Option<(Time, Duration, Duration)>,
    /// The time at which the queue was last seen empty, or drained.
    empty_at: Time,
    /// The maximum of the round trips' minimum waits since then.
    max_wait: Duration,
    /// The end of the current drain.
    pub(super) until: Option<Time>,
    /// Until when the flow sends less for a queue above the ceiling, and by which share.
    above_ceiling: Option<(Time, f64)>,
    /// The time at which the effect of that is visible.
    next_limit_at: Time,
}

impl Drain {
    /// A path with an unknown queue.
    pub(super) fn new(now: Time) -> Self {
        Self { empty_at: now, ..Self::default() }
    }

    /// The minimum wait of the last round trip was `min_wait`; waits up to `max_empty_wait` count as an empty queue.
    /// Returns the end of a drain that starts now.
    pub(super) fn begin_if_due(
        &mut self,
        config: &Config,
        now: Time,
        rtt: Duration,
        min_wait: Duration,
        max_empty_wait: Duration,
    ) -> Option<Time> {
        let after = config.drain_after?.max(rtt * MIN_ROUNDS);
        if let Some((_, _, shortest)) = &mut self.last_cooperative {
            *shortest = min_wait.min(*shortest);
        }
        self.max_wait = self.max_wait.max(min_wait);
        if min_wait <= max_empty_wait {
            self.restart(now, min_wait);
        }
        let since = now.since(self.empty_at);
        let fell = self.max_wait >= max_empty_wait.scale(MIN_QUEUE) && min_wait <= self.max_wait.scale(QUEUE_FALL);
        let others_drain = since > after / 2 && fell;
        if since <= after && !others_drain {
            return None;
        }
        let length = rtt.scale(DRAIN_ROUNDS).max(MIN_DRAIN);
        self.last_cooperative = Some((now + length + rtt, min_wait, min_wait));
        self.start(now, length, min_wait)
    }

    /// The same for a flow in competitive mode that has `share` of the capacity.
    pub(super) fn begin_by_clock(
        &mut self,
        config: &Config,
        now: Time,
        rtt: Duration,
        min_wait: Duration,
        share: f64,
    ) -> Option<Time> {
        let mut period = config.drain_after?;
        while period < rtt * MIN_ROUNDS {
            period = period * 2;
        }
        let since = Duration::from_nanos(now.as_nanos() % period.as_nanos());
        let is_due = since < rtt && now.since(self.started_at) > rtt;
        if !is_due {
            return None;
        }
        let emptying = min_wait.scale(1.0 / (1.0 - DRAIN_SHARE * SPACING));
        let all = emptying + rtt.saturating_sub(min_wait) / 2;
        let alone = emptying.scale(OWN_SHARE / share);
        self.last_by_clock = Some((now + rtt * 2, min_wait));
        self.start(now, all.min(alone), min_wait)
    }

    fn start(&mut self, now: Time, length: Duration, min_wait: Duration) -> Option<Time> {
        self.started_at = now;
        self.restart(now, min_wait);
        self.until = Some(now + length);
        self.until
    }

    /// The minimum wait of the last round trip was `min_wait`, for a flow with this target and ceiling.
    pub(super) fn limit_to_ceiling(
        &mut self,
        now: Time,
        rtt: Duration,
        min_wait: Duration,
        target: Duration,
        ceiling: Duration,
    ) {
        if min_wait > ceiling && now >= self.next_limit_at {
            let less = min_wait.saturating_sub(target).as_secs_f64() / rtt.as_secs_f64();
            self.above_ceiling = Some((now + rtt, less.min(MAX_CUT)));
            self.next_limit_at = now + rtt * 2;
        }
    }

    /// The queue was emptied or has changed: time and maximum count from now.
    pub(super) fn restart(&mut self, now: Time, min_wait: Duration) {
        (self.empty_at, self.max_wait) = (now, min_wait);
    }

    /// The minimum wait before the last drain in competitive mode, if a round trip that ends now shows its effect.
    pub(super) fn wait_before_drain(&self, now: Time) -> Option<Duration> {
        self.last_by_clock.filter(|(until, _)| now <= *until).map(|(_, wait)| wait)
    }

    /// Whether a drain outside competitive mode has just ended and left most of the queue. Reported once per drain.
    pub(super) fn take_failed_drain(&mut self, now: Time) -> bool {
        let ended = self.last_cooperative.take_if(|(until, _, _)| now >= *until);
        ended.is_some_and(|(_, before, shortest)| shortest > before.scale(MAX_QUEUE_LEFT))
    }

    /// Whether a queue that never emptied is being drained.
    pub(super) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// The share of the base rate to send.
    pub(super) fn share(&self) -> f64 {
        if self.is_on() { DRAIN_SHARE } else { 1.0 - self.above_ceiling.map_or(0.0, |(_, less)| less) }
    }

    /// Ends what is over by `now`.
    pub(super) fn poll(&mut self, now: Time) {
        self.until = self.until.filter(|until| now < *until);
        self.above_ceiling = self.above_ceiling.filter(|(until, _)| now < *until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn a_standing_queue_is_drained_and_an_empty_one_is_not() {
        let config = Config { drain_after: Some(Duration::from_secs(2)), ..Config::default() };
        let (wait, max_empty_wait) = (Duration::from_millis(3), Duration::from_millis(1));
        let mut drain = Drain::new(Time::ZERO);
        assert_eq!(drain.begin_if_due(&config, ms(1900), RTT, Duration::ZERO, max_empty_wait), None);
        assert_eq!(drain.begin_if_due(&config, ms(3900), RTT, wait, max_empty_wait), None);
        assert_eq!(drain.begin_if_due(&config, ms(3901), RTT, wait, max_empty_wait), Some(ms(4051)));
        drain.poll(ms(4050));
        assert!(drain.is_on());
        drain.poll(ms(4051));
        assert!(!drain.is_on());
        assert_eq!(drain.begin_if_due(&config, ms(5901), RTT, wait, max_empty_wait), None);
        let mut drain = Drain::new(Time::ZERO);
        assert_eq!(drain.begin_if_due(&config, ms(3000), RTT * 3, wait, max_empty_wait), None, "ten round trips");
        assert_eq!(drain.begin_if_due(&config, ms(3001), RTT * 3, wait, max_empty_wait), Some(ms(3001) + RTT * 9 / 2));
    }

    #[test]
    fn a_flow_that_sees_others_drain_the_queue_joins_them() {
        let config = Config { drain_after: Some(Duration::from_secs(2)), ..Config::default() };
        let max_empty_wait = Duration::from_millis(1);
        let mut drain = Drain::new(Time::ZERO);
        let mut begin =
            |at, wait| drain.begin_if_due(&config, ms(at), RTT, Duration::from_millis(wait), max_empty_wait);
        assert_eq!(begin(500, 20), None);
        assert_eq!(begin(900, 8), None, "too soon");
        assert_eq!(begin(1000, 8), None);
        assert_eq!(begin(1100, 9), None);
        assert_eq!(begin(1200, 8), Some(ms(1350)));
    }

    #[test]
    fn a_drain_that_leaves_over_three_fifths_has_failed() {
        let config = Config { drain_after: Some(Duration::from_secs(2)), ..Config::default() };
        let max_empty_wait = Duration::from_millis(1);
        let fails = |min_wait| {
            let mut drain = Drain::new(Time::ZERO);
            let mut begin = |at, wait| {
                drain.begin_if_due(&config, ms(at), RTT, Duration::from_millis(wait), max_empty_wait);
                drain.take_failed_drain(ms(at))
            };
            assert!(!begin(2001, 50) && !begin(2150, min_wait) && !begin(2250, 50), "its effect is not over");
            let failed = begin(2251, 50);
            assert!(!begin(2252, 50), "reported once");
            failed
        };
        assert!(fails(31) && !fails(30));
    }

    #[test]
    fn flows_in_competitive_mode_drain_at_the_same_times() {
        let config = Config { drain_after: Some(Duration::from_secs(2)), ..Config::default() };
        let starts = |mut drain: Drain, rtt: u64| {
            let rtt = Duration::from_millis(rtt);
            let mut begin = |at: u64| drain.begin_by_clock(&config, ms(at), rtt, Duration::from_millis(20), 0.1);
            (900..9000).step_by(10).filter(|at| begin(*at).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(starts(Drain::new(ms(0)), 100), [2000, 4000, 6000, 8000]);
        assert_eq!(starts(Drain::new(ms(777)), 20), [2000, 4000, 6000, 8000], "wherever they started");
        assert_eq!(starts(Drain::new(ms(0)), 200), [2000, 4000, 6000, 8000]);
        assert_eq!(starts(Drain::new(ms(0)), 300), [4000, 8000], "not more often than every ten round trips");
    }

    #[test]
    fn a_drain_by_the_clock_starts_within_a_round_trip() {
        let config = Config { drain_after: Some(Duration::from_secs(2)), ..Config::default() };
        let starts =
            |at| Drain::new(ms(0)).begin_by_clock(&config, ms(at), RTT, Duration::from_millis(20), 0.1).is_some();
        assert!(starts(2000) && starts(2099) && !starts(2100) && !starts(1999));
    }

    #[test]
    fn no_drain_by_the_clock_starts_within_a_round_trip_of_another() {
        let config = Config { drain_after: Some(Duration::from_secs(2)), ..Config::default() };
        for (started_at, starts) in [(1899, true), (1900, false), (1950, false)] {
            let mut drain = Drain { started_at: ms(started_at), ..Drain::new(ms(0)) };
            let until = drain.begin_by_clock(&config, ms(2000), RTT, Duration::from_millis(20), 0.1);
            assert_eq!(until.is_some(), starts, "{started_at}");
        }
    }

    #[test]
    fn a_drain_beside_tcp_removes_three_fifths_or_less() {
        let config = Config { drain_after: Some(Duration::from_secs(2)), ..Config::default() };
        let lasts = |share| {
            let mut drain = Drain::new(Time::ZERO);
            let until = drain.begin_by_clock(&config, ms(2000), RTT, Duration::from_millis(60), share).unwrap();
            assert_eq!(drain.wait_before_drain(ms(2200)), Some(Duration::from_millis(60)));
            assert_eq!(drain.wait_before_drain(ms(2201)), None, "later round trips do not show it");
            until.since(ms(2000)).as_nanos() / 1_000_000
        };
        assert_eq!(lasts(0.1), 88, "all flows: 60 ms at 0.88 of the capacity, and half of the path's 40 ms");
        assert_eq!(lasts(0.8), 51, "0.6 of 60 ms at 0.88 of its share");
    }

    #[test]
    fn a_queue_above_the_ceiling_is_drained_every_second_round_trip() {
        let millis = Duration::from_millis;
        let mut drain = Drain::new(Time::ZERO);
        let mut share = |at, wait| {
            drain.poll(ms(at));
            drain.limit_to_ceiling(ms(at), RTT, millis(wait), millis(10), millis(30));
            drain.share()
        };
        assert_eq!([share(0, 30), share(10, 40)], [1.0, 0.7], "30 of 100 ms are too much");
        assert_eq!([share(60, 90), share(110, 90), share(210, 90)], [0.7, 1.0, 0.5], "by half at most");
    }
}
