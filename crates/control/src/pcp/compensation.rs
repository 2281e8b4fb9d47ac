//! Rate compensation: find the queue, send that much less until it is gone (section 3.2).
//!
//! ```text
//! gap:    (out - in) / out            of the spacing of baseline packets on leaving and arriving
//! delay:  (max-delay - min-delay) / max-delay          one-way, over the last round trip
//! ```
//!
//! Either asks for a cut; what was cut already in the last round trip counts against it, after every acknowledgement.
//! The lowest and highest tenth of the delays are dropped.
//!
//! *Gap.* One gap is mostly noise, so all of a round trip's are taken together: a line through the delays of the
//! baseline packets over the times they left has the slope `s = (out - in) / in`, and the cut is `s / (1 + s)`.
//!
//! *Delay.* Clocks differ by an unknown offset. It vanishes from the numerator `q`; for the denominator, `min-delay` is
//! taken to be half the least round trip, `q / (min_rtt / 2 + q)`. This errs on the safe side: to drain `q` within one
//! (loaded) round trip takes a cut of `q / (min_rtt + q)`, and ours is never less, however lopsided the path is.
//!
//! *Clocks that step or drift* would look like a queue. A queue also lengthens the round trip, which one clock
//! measures: `q` is never taken to be more than the round trip has grown.
//!
//! *Sizes.* A small packet takes less time on a link than a large one. Only packets of about the largest size seen are
//! compared.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Time};

use super::Config;
use super::fit::Line;
use super::tit_for_tat::TitForTat;
use crate::Arrival;

/// Delays kept for one round trip; in between, packets are not looked at.
const SAMPLES: usize = 128;

/// Baseline packets below which a round trip says nothing of gaps.
const LEAST_FOR_GAP: usize = 5;

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Time,
    left: Time,
    delay: i64,
    rtt: Duration,
    baseline: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Compensation {
    samples: VecDeque<Sample>,
    sorted: Vec<i64>,
    largest: Bytes,
    least: Least,
    cuts: Ledger,
    debts: Ledger,
    tit_for_tat: TitForTat,
}

impl Compensation {
    pub(super) fn new() -> Self {
        Self {
            samples: VecDeque::with_capacity(SAMPLES + 1),
            sorted: Vec::with_capacity(SAMPLES + 1),
            largest: Bytes::ZERO,
            least: Least::default(),
            cuts: Ledger::new(),
            debts: Ledger::new(),
            tit_for_tat: TitForTat::default(),
        }
    }

    /// A packet arrived: `rtt` is the round trip it measured, `smoothed` the usual one; `baseline` says that it was not
    /// part of a probe. True if it was kept.
    pub(super) fn on_arrival(
        &mut self,
        now: Time,
        arrival: &Arrival,
        rtt: Duration,
        smoothed: Duration,
        baseline: bool,
    ) -> bool {
        if arrival.bytes > self.largest + self.largest / 4 {
            self.largest = arrival.bytes;
            self.samples.clear();
            self.least = Least::default();
        } else if arrival.bytes < self.largest - self.largest / 4 {
            return false;
        }
        let recent = self.samples.back().is_some_and(|last| now.since(last.at) < smoothed / SAMPLES as u64);
        if recent {
            return false;
        }
        while self.samples.len() == SAMPLES || self.samples.front().is_some_and(|s| now.since(s.at) > smoothed) {
            self.samples.pop_front();
        }
        let (left, delay) = (arrival.sent_at, arrival.one_way_delay());
        self.samples.push_back(Sample { at: now, left, delay, rtt, baseline });
        true
    }

    /// The share to cut from the base rate now, beyond what was cut in the last round trip. `tolerated` is a queue that is let be.
    pub(super) fn cut(
        &mut self,
        config: &Config,
        now: Time,
        rtt: Duration,
        min_rtt: Duration,
        tolerated: Duration,
    ) -> f64 {
        let memory = rtt.scale(config.settle);
        self.cuts.forget(now, memory);
        self.debts.forget(now, memory);
        let Some((low, high)) = self.trimmed(config.outliers) else { return 0.0 };
        let least = self.least.update(now, low, config.min_delay_expiry);
        let grown = self.samples.iter().map(|s| s.rtt).max().unwrap_or(rtt).saturating_sub(min_rtt);
        let queue = Duration::from_nanos(high.saturating_sub(least).max(0) as u64).min(grown);
        let ease = if config.tit_for_tat {
            self.tit_for_tat.ease(config, now, rtt, queue, self.cuts.sum + self.debts.sum)
        } else {
            1.0
        };
        let queue = queue.saturating_sub(tolerated).as_secs_f64();
        let delay = if config.delay { queue / (min_rtt.as_secs_f64() * config.forward_share + queue) } else { 0.0 };
        let delay = if delay.is_nan() { 0.0 } else { delay / ease };
        let gap = if config.gap && queue > 0.0 { self.gap(low, high) / ease } else { 0.0 };
        // The gap is over-commitment, which stays cut; of the drain a share stays and the rest is lent.
        let base = gap.max(delay * config.permanent).min(config.most_cut);
        let debt = (delay * (1.0 - config.permanent)).min(config.most_cut - base);
        self.debts.raise(now, debt);
        self.cuts.raise(now, base)
    }

    /// Share of the base rate that is left unused now.
    pub(super) fn debt(&self) -> f64 {
        self.debts.sum
    }

    /// The lowest and the highest delay of the last round trip once outliers are dropped.
    fn trimmed(&mut self, outliers: f64) -> Option<(i64, i64)> {
        self.sorted.clear();
        self.sorted.extend(self.samples.iter().map(|s| s.delay));
        let last = self.sorted.len().checked_sub(1)?;
        let dropped = (self.sorted.len() as f64 * outliers) as usize;
        let low = *self.sorted.select_nth_unstable(dropped).1;
        let high = *self.sorted.select_nth_unstable(last - dropped).1;
        Some((low, high))
    }

    fn gap(&self, low: i64, high: i64) -> f64 {
        let kept = self.samples.iter().filter(|s| s.baseline && (low..=high).contains(&s.delay));
        if kept.clone().count() < LEAST_FOR_GAP {
            return 0.0;
        }
        let origin = self.samples[0].left.as_nanos();
        let points =
            kept.map(|s| (s.left.as_nanos().wrapping_sub(origin) as i64 as f64, s.delay.wrapping_sub(low) as f64));
        match Line::fit(points) {
            Some(line) if line.slope > 0.0 => line.slope / (1.0 + line.slope), // (out - in) / out
            _ => 0.0,
        }
    }
}

/// The least delay of the last while: of this half of it and the half before.
#[derive(Debug, Clone, Default)]
struct Least {
    since: Time,
    this: Option<i64>,
    before: Option<i64>,
}

impl Least {
    fn update(&mut self, now: Time, delay: i64, expiry: Duration) -> i64 {
        if now.since(self.since) > expiry / 2 {
            (self.since, self.before, self.this) = (now, self.this, None);
        }
        let this = self.this.map_or(delay, |this| this.min(delay));
        self.this = Some(this);
        self.before.map_or(this, |before| before.min(this))
    }
}

/// What was cut in the last round trip.
#[derive(Debug, Clone)]
struct Ledger {
    made: VecDeque<(Time, f64)>,
    sum: f64,
}

impl Ledger {
    fn new() -> Self {
        Self { made: VecDeque::with_capacity(SAMPLES), sum: 0.0 }
    }

    fn forget(&mut self, now: Time, memory: Duration) {
        let before = self.made.len();
        while self.made.front().is_some_and(|(at, _)| now.since(*at) > memory) {
            self.made.pop_front();
        }
        if self.made.len() < before {
            self.sum = self.made.iter().map(|(_, share)| share).sum();
        }
    }

    /// Makes up the difference between what was cut and what is required; returns it.
    fn raise(&mut self, now: Time, required: f64) -> f64 {
        let share = required - self.sum;
        if share <= 0.0 {
            return 0.0;
        }
        if self.made.len() == SAMPLES {
            self.made[SAMPLES - 1].1 += share;
        } else {
            self.made.push_back((now, share));
        }
        self.sum += share;
        share
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Ecn;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    const PACKET: Bytes = Bytes::new(1000);

    fn literal() -> Config {
        Config { permanent: 1.0, gap: false, tit_for_tat: false, ..Config::default() }
    }

    fn ms(n: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(n / 1e3)
    }

    /// Packets leave one a millisecond, `delay(i)` in milliseconds; the cuts at the end of each.
    fn run(config: &Config, packets: u32, delay: impl Fn(u32) -> f64) -> (Compensation, Vec<f64>) {
        let mut compensation = Compensation::new();
        let cuts = (0..packets).map(|i| {
            let left = ms(f64::from(i));
            let received_at = ms(f64::from(i) + delay(i));
            let arrival = Arrival { number: u64::from(i), bytes: PACKET, sent_at: left, received_at, ecn: Ecn::NotEct };
            let now = received_at + RTT / 2;
            compensation.on_arrival(now, &arrival, now.since(left), RTT, true);
            compensation.cut(config, now, RTT, RTT, Duration::ZERO)
        });
        let cuts = cuts.collect();
        (compensation, cuts)
    }

    fn total(cuts: &[f64]) -> f64 {
        cuts.iter().sum()
    }

    #[test]
    fn the_cut_is_the_queue_s_share_of_the_largest_delay() {
        let (_, cuts) = run(&literal(), 39, |i| if i < 20 { 10.0 } else { 12.5 });
        assert!((total(&cuts) - 2.5 / 12.5).abs() < 1e-6, "{}", total(&cuts));
    }

    #[test]
    fn a_queue_cuts_once_a_round_trip_however_many_acknowledgements_show_it() {
        let (_, cuts) = run(&literal(), 60, |i| if i < 20 { 10.0 } else { 12.5 });
        assert_eq!(cuts.iter().filter(|cut| **cut > 0.0).count(), 2);
    }

    #[test]
    fn no_round_trip_cuts_more_than_half() {
        let (_, cuts) = run(&literal(), 60, |i| if i < 20 { 10.0 } else { 500.0 });
        assert!(total(&cuts[20..40]) <= 0.5 + 1e-9);
    }

    #[test]
    fn one_outlier_in_ten_changes_nothing() {
        let (_, cuts) = run(&literal(), 60, |i| if i % 12 == 11 { 10.5 } else { 10.0 });
        assert_eq!(total(&cuts), 0.0);
    }

    #[test]
    fn gaps_that_grow_cut_by_the_over_commitment() {
        let config = Config { delay: false, gap: true, ..literal() };
        // The link takes 1.25 ms for what leaves every millisecond: (1.25 - 1) / 1.25.
        let (_, cuts) = run(&config, 18, |i| 10.0 + 0.25 * f64::from(i));
        assert!((total(&cuts) - 0.2).abs() < 1e-6, "{}", total(&cuts));
    }

    #[test]
    fn a_debt_is_paid_after_a_round_trip_and_only_its_share_stays() {
        let config = Config { permanent: 0.25, ..literal() };
        let delay = |i| if (20..38).contains(&i) { 12.5 } else { 10.0 };
        let (mut compensation, cuts) = run(&config, 38, delay);
        assert!((total(&cuts) - 0.05).abs() < 1e-6);
        assert!((compensation.debt() - 0.15).abs() < 1e-6);
        compensation.samples.clear();
        compensation.cut(&config, ms(1000.0), RTT, RTT, Duration::ZERO);
        assert_eq!(compensation.debt(), 0.0);
    }

    #[test]
    fn a_longer_route_stops_cutting_when_the_least_delay_expires() {
        let config = Config { min_delay_expiry: Duration::from_millis(500), ..literal() };
        let (_, cuts) = run(&config, 2000, |i| if i < 100 { 10.0 } else { 15.0 });
        assert!(total(&cuts[100..600]) > 0.0);
        assert_eq!(total(&cuts[800..]), 0.0);
    }

    #[test]
    fn a_clock_that_steps_is_no_queue() {
        let mut compensation = Compensation::new();
        for i in 0..60 {
            let (left, now) = (ms(f64::from(i)), ms(f64::from(i) + 20.0));
            let received_at = if i < 30 { left } else { left + Duration::from_secs(7) };
            let arrival = Arrival { number: 0, bytes: PACKET, sent_at: left, received_at, ecn: Ecn::NotEct };
            compensation.on_arrival(now, &arrival, RTT, RTT, true);
            assert_eq!(compensation.cut(&literal(), now, RTT, RTT, Duration::ZERO), 0.0);
        }
    }

    #[test]
    fn packets_of_different_sizes_are_not_compared() {
        let mut compensation = Compensation::new();
        for i in 0..60_u64 {
            let (left, small) = (ms(i as f64), i % 2 == 0);
            let (bytes, delay) = if small { (Bytes::new(200), 10) } else { (PACKET, 18) };
            let received_at = left + Duration::from_millis(delay);
            let arrival = Arrival { number: i, bytes, sent_at: left, received_at, ecn: Ecn::NotEct };
            compensation.on_arrival(received_at, &arrival, Duration::from_millis(2 * delay), RTT, true);
            assert_eq!(compensation.cut(&literal(), received_at, RTT, RTT, Duration::ZERO), 0.0);
        }
    }
}
