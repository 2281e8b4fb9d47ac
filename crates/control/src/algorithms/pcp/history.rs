//! The history of a destination, and what a flow derives from it (section 3.4).
//!
//! ```text
//! first test rate      = base rate / 3 * trust
//! trust                = trust / 2 if the first probe is rejected, trust * 2 up to 1 if it is accepted
//! base rate, deviation = running means of the best base rate and of its distance from the mean
//! capacity             = running mean of the arrival rates of packet pairs; a pair weighs less the longer its first
//!                        packet waited
//! host jitter          = running mean of the host jitter
//! min-rtt              = minimum round-trip time of a full packet; a running mean if it grew, because routes change,
//!                        but not for transfers in competitive mode, which never see an empty queue
//! ```
//!
//! *Deviation*: the paper remembers "the previous base rate", which shows how crowded the path was at that time; the
//! mean of the best rates shows what it can carry. A short transfer may end before any probe was rejected. If its rate
//! is below the remembered one, it shows nothing about the path and does not count.

use rampmeter_units::{Duration, Rate};

use super::Config;
use super::config::{FIRST_SHARE, HISTORY_GAIN, MIN_TRUST};
use super::probe::PairRate;
use crate::{History, Path};

/// The number of transfers over which a growth of the minimum round-trip time is averaged: the cause may be a queue
/// that stood all the time, not a longer route.
const RTT_AVERAGING: u64 = 8;

/// The number of pairs kept.
const PAIRS: usize = 16;

/// The minimum weight of a good pair. Other pairs mostly show how long other flows or hosts delayed their first packet.
const MIN_WEIGHT: f64 = 0.05;

/// The weight of the remembered capacity, in pairs, against pairs that show more, and against pairs that show less. The
/// second is larger, because packets of other flows between the two make the path seem slower.
const PAST_WEIGHT_UP: f64 = 1.0;
const PAST_WEIGHT_DOWN: f64 = 9.0;

#[derive(Debug, Clone, Default)]
pub(super) struct PathHistory {
    /// The history that earlier transfers left.
    pub(super) past: Option<History>,
    /// The highest base rate reached.
    best_rate: Rate,
    pairs: Pairs,
    /// The capacity from packet pairs; zero if unknown. Computed with every pair, because it is needed with every
    /// acknowledgement.
    pair_capacity: Rate,
    /// Whether the first probe was accepted.
    first_accepted: Option<bool>,
    /// A probe was rejected: the path's limit was reached.
    was_rejected: bool,
    min_rtt: Option<Duration>,
    was_competitive: bool,
    competitive_rate: Rate,
    /// The host jitter in this transfer.
    pub(super) host_jitter: Duration,
}

impl PathHistory {
    /// Starts a flow on `path`, and returns its first test rate.
    pub(super) fn start(&mut self, config: &Config, path: &Path) -> Rate {
        let known = path.history.unwrap_or_else(|| History::new(Rate::ZERO, path.rtt));
        let rigged = config.rigged.map(|rate| History { base_rate: rate, capacity: rate, trust: 1.0, ..known });
        let past = rigged.or(path.history).filter(|past| past.base_rate > Rate::ZERO);
        *self = Self { past, pair_capacity: past.map_or(Rate::ZERO, |past| past.capacity), ..Self::default() };
        match past {
            Some(past) => past.base_rate.scale(FIRST_SHARE * trust(past.trust)),
            None => Rate::of(path.packet * 2, path.rtt), // section 3.3: a packet in half of the round trip
        }
    }

    /// The flow's rate in competitive mode. None outside it.
    pub(super) fn on_competitive(&mut self, rate: Option<Rate>) {
        self.was_competitive |= rate.is_some();
        self.competitive_rate = rate.unwrap_or(Rate::ZERO);
    }

    /// A probe was accepted or rejected; `base` is the base rate after it.
    pub(super) fn on_probe_result(&mut self, accepted: bool, base: Rate) {
        self.first_accepted.get_or_insert(accepted);
        self.was_rejected |= !accepted;
        // A flow's first rate is not proven by a probe: after a rejection it counts only up to the capacity from packet
        // pairs.
        self.best_rate = self.best_rate.max(if accepted { base } else { base.min(self.pair_capacity) });
    }

    /// A packet pair arrived.
    pub(super) fn on_pair(&mut self, pair: PairRate) {
        self.pairs.add(pair);
        self.pair_capacity = self.pairs.capacity_given(self.past.map_or(Rate::ZERO, |past| past.capacity));
    }

    /// A minimum round-trip time of full packets was measured.
    pub(super) fn on_min_rtt(&mut self, rtt: Duration) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min_rtt| min_rtt.min(rtt)));
    }

    /// The minimum round-trip time of full packets in earlier transfers.
    pub(super) fn past_rtt(&self) -> Option<Duration> {
        self.past.map(|past| past.min_rtt)
    }

    /// The highest rate that the path is known to have carried, in this or in earlier transfers.
    pub(super) fn best_rate(&self) -> Option<Rate> {
        let past = self.past.map_or(Rate::ZERO, |past| past.base_rate);
        Some(self.best_rate.max(self.pair_capacity).max(past)).filter(|best| *best > Rate::ZERO)
    }

    /// The path's capacity, if packet pairs have shown it.
    pub(super) fn capacity(&self) -> Option<Rate> {
        Some(self.pair_capacity.max(self.best_rate)).filter(|_| self.pair_capacity > Rate::ZERO)
    }

    /// The rate beside competing traffic. At least one other flow has as much.
    fn competitive_rate(&self) -> Rate {
        self.capacity().map_or(self.competitive_rate, |capacity| self.competitive_rate.min(capacity.scale(0.5)))
    }

    /// Adds this transfer to the history; called once, at its end. A transfer that ended `in_slow_start` does not show
    /// whether there is competing traffic.
    pub(super) fn remember(&self, history: &mut Option<History>, in_slow_start: bool) {
        let Some(min_rtt) = self.min_rtt else { return };
        let competing_traffic = f64::from(self.competitive_rate > Rate::ZERO);
        let Some(past) = history else {
            if self.best_rate > Rate::ZERO {
                *history = Some(History {
                    capacity: self.pairs.remembered_given(Rate::ZERO),
                    competing_traffic: if in_slow_start { 1.0 } else { competing_traffic },
                    competitive_rate: self.competitive_rate(),
                    host_jitter: self.host_jitter,
                    ..History::new(self.best_rate, min_rtt)
                });
            }
            return;
        };
        past.competing_traffic = if in_slow_start { past.competing_traffic } else { competing_traffic };
        past.competitive_rate = self.competitive_rate();
        past.host_jitter = (past.host_jitter + self.host_jitter) / 2;
        let growth = if self.was_competitive { Duration::ZERO } else { min_rtt.saturating_sub(past.min_rtt) };
        past.min_rtt = min_rtt.min(past.min_rtt + growth / RTT_AVERAGING);
        if let (Some(accurate), Some(_)) = (self.first_accepted, self.past) {
            past.trust = trust(past.trust * if accurate { 2.0 } else { 0.5 });
        }
        // A transfer without a rejection and with a lower rate than earlier ones ended too early to show the path's
        // rate.
        if self.best_rate >= past.base_rate || (self.was_rejected && self.best_rate > Rate::ZERO) {
            let average = |mean: Rate, value: f64| {
                let mean = mean.as_bps_f64();
                Rate::from_bps_f64(mean + HISTORY_GAIN * (value - mean))
            };
            let distance = self.best_rate.as_bps().abs_diff(past.base_rate.as_bps());
            past.deviation = average(past.deviation, distance as f64);
            past.base_rate = average(past.base_rate, self.best_rate.as_bps_f64());
        }
        past.capacity = self.pairs.remembered_given(past.capacity);
    }
}

/// The last packet pairs.
#[derive(Debug, Clone, Copy, Default)]
struct Pairs {
    pairs: [PairRate; PAIRS],
    seen: usize,
}

impl Pairs {
    fn add(&mut self, pair: PairRate) {
        self.pairs[self.seen % PAIRS] = pair;
        self.seen += 1;
    }

    /// The capacity, given the one that earlier transfers found. Bad pairs count only if there are no good ones and no
    /// earlier capacity.
    fn capacity_given(&self, past: Rate) -> Rate {
        let (rate, weight) = self.upper_quartile(MIN_WEIGHT);
        let gain = match past {
            Rate::ZERO if weight == 0.0 => return self.upper_quartile(0.0).0,
            Rate::ZERO => 1.0,
            past if rate > past => weight / (weight + PAST_WEIGHT_UP),
            _ => weight.min(1.0) / (weight.min(1.0) + PAST_WEIGHT_DOWN),
        };
        past.scale(1.0 - gain) + rate.scale(gain)
    }

    /// The same for the history: bad pairs never count.
    fn remembered_given(&self, past: Rate) -> Rate {
        if self.upper_quartile(MIN_WEIGHT).1 == 0.0 { past } else { self.capacity_given(past) }
    }

    /// The weighted upper quartile of the pairs with at least this weight, and the sum of their weights. It is the
    /// upper quartile because packets of other flows more often make the path seem slower.
    fn upper_quartile(&self, min_weight: f64) -> (Rate, f64) {
        let mut pairs = self.pairs;
        let pairs = &mut pairs[..self.seen.min(PAIRS)];
        pairs.sort_unstable_by_key(|pair| pair.rate);
        let good = || pairs.iter().filter(|pair| pair.weight >= min_weight);
        let weight: f64 = good().map(|pair| pair.weight).sum();
        let mut below = 0.0;
        let quartile = good().find(|pair| {
            below += pair.weight;
            below > weight * 0.75
        });
        (quartile.map_or(Rate::ZERO, |pair| pair.rate), weight)
    }
}

fn trust(trust: f64) -> f64 {
    if trust.is_nan() { MIN_TRUST } else { trust.clamp(MIN_TRUST, 1.0) }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Bytes;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn mbps(n: f64) -> Rate {
        Rate::from_bps_f64(n * 1e6)
    }

    fn transfer(history: &mut Option<History>, first_accepted: bool, best_rate: f64) -> Rate {
        let mut path_history = PathHistory::default();
        let path = Path::new(Bytes::new(1250), RTT, *history);
        let first = path_history.start(&Config::default(), &path);
        path_history.on_min_rtt(RTT);
        path_history.on_probe_result(first_accepted, Rate::ZERO);
        path_history.on_probe_result(true, mbps(best_rate));
        path_history.remember(history, false);
        first
    }

    #[test]
    fn without_history_the_first_test_is_a_packet_in_half_an_rtt() {
        assert_eq!(transfer(&mut None, true, 30.0), mbps(1.0));
    }

    #[test]
    fn the_first_test_is_a_third_of_the_remembered_rate() {
        let mut history = None;
        transfer(&mut history, false, 30.0);
        assert_eq!(transfer(&mut history, true, 30.0), mbps(10.0));
    }

    #[test]
    fn a_rigged_history_replaces_the_real_one() {
        let config = Config { rigged: Some(mbps(30.0)), ..Config::default() };
        let first = |past| PathHistory::default().start(&config, &Path::new(Bytes::new(1250), RTT, past));
        let past = Some(History { trust: 0.5, capacity: mbps(6.0), ..History::new(mbps(6.0), RTT) });
        assert_eq!([first(None), first(past)], [mbps(10.0); 2]);
        let mut path_history = PathHistory::default();
        path_history.start(&config, &Path::new(Bytes::new(1250), RTT, past));
        assert_eq!(path_history.capacity(), Some(mbps(30.0)));
    }

    #[test]
    fn a_history_without_a_rate_is_none() {
        let mut path_history = PathHistory::default();
        assert_eq!(path_history.best_rate(), None);
        let path = Path::new(Bytes::new(1250), RTT, Some(History::new(Rate::ZERO, RTT)));
        assert_eq!(path_history.start(&Config::default(), &path), mbps(1.0));
    }

    #[test]
    fn a_transfer_that_carried_nothing_leaves_the_rate() {
        let mut history = Some(History::new(mbps(40.0), RTT));
        let mut path_history = PathHistory::default();
        path_history.start(&Config::default(), &Path::new(Bytes::new(1250), RTT, history));
        path_history.on_min_rtt(RTT);
        path_history.on_probe_result(false, mbps(13.0));
        path_history.remember(&mut history, false);
        let past = history.unwrap();
        assert_eq!((past.base_rate, past.trust), (mbps(40.0), MIN_TRUST));
    }

    #[test]
    fn host_jitter_and_the_competitive_rate_are_remembered() {
        let mut history = None;
        let mut transfer = |jitter, competitive_rate, pair: Option<f64>| {
            let mut path_history = PathHistory::default();
            path_history.start(&Config::default(), &Path::new(Bytes::new(1250), RTT, history));
            path_history.on_min_rtt(RTT);
            path_history.on_probe_result(true, mbps(5.0));
            path_history.host_jitter = Duration::from_micros(jitter);
            path_history.on_competitive(Some(mbps(competitive_rate)));
            if let Some(rate) = pair {
                path_history.on_pair(PairRate { rate: mbps(rate), weight: 1.0 });
            }
            path_history.remember(&mut history, false);
            let past = history.unwrap();
            (past.host_jitter, past.competitive_rate)
        };
        assert_eq!(transfer(100, 5.0, None), (Duration::from_micros(100), mbps(5.0)));
        assert_eq!(transfer(300, 4.0, None), (Duration::from_micros(200), mbps(4.0)), "the mean of both");
        assert_eq!(
            transfer(0, 8.0, Some(10.0)),
            (Duration::from_micros(100), mbps(5.0)),
            "half of the capacity at most"
        );
    }

    #[test]
    fn bad_pairs_count_only_where_nothing_else_is_known() {
        let capacity = |past: f64, good: bool| {
            let mut pairs = Pairs::default();
            if good {
                pairs.add(PairRate { rate: mbps(40.0), weight: 1.0 });
            }
            (0..10).for_each(|_| pairs.add(PairRate { rate: mbps(800.0), weight: 0.04 }));
            pairs.capacity_given(mbps(past))
        };
        assert_eq!(capacity(0.0, false), mbps(800.0));
        assert_eq!(capacity(30.0, false), mbps(30.0));
        assert_eq!(capacity(0.0, true), mbps(40.0));
    }

    #[test]
    fn the_first_test_halves_when_wrong_and_doubles_when_right() {
        let mut history = None;
        transfer(&mut history, true, 30.0);
        let firsts: Vec<Rate> = [false, false, true, true, true, true]
            .into_iter()
            .map(|first_accepted| transfer(&mut history, first_accepted, 30.0))
            .collect();
        assert_eq!(firsts, [10.0, 5.0, 5.0, 10.0, 10.0, 10.0].map(mbps), "halved no further than `MIN_TRUST`");
    }

    #[test]
    fn the_remembered_rate_is_a_running_mean_with_its_deviation() {
        let mut history = None;
        transfer(&mut history, true, 40.0);
        transfer(&mut history, false, 20.0);
        let past = history.unwrap();
        assert_eq!((past.base_rate, past.deviation), (mbps(35.0), mbps(5.0)));
    }

    #[test]
    fn a_slow_transfer_without_a_rejection_leaves_no_rate() {
        let mut history = None;
        transfer(&mut history, true, 40.0);
        transfer(&mut history, true, 20.0);
        assert_eq!(history.unwrap().base_rate, mbps(40.0));
        transfer(&mut history, true, 60.0);
        assert_eq!(history.unwrap().base_rate, mbps(45.0));
    }

    #[test]
    fn the_capacity_follows_pairs_faster_up_than_down() {
        let mut history = None;
        let mut pairs = |rate, weight| {
            let mut path_history = PathHistory::default();
            path_history.start(&Config::default(), &Path::new(Bytes::new(1250), RTT, history));
            path_history.on_min_rtt(RTT);
            path_history.on_probe_result(true, mbps(1.0));
            path_history.on_pair(PairRate { rate: mbps(rate), weight });
            path_history.remember(&mut history, false);
            assert_eq!(path_history.capacity(), Some(history.unwrap().capacity));
            history.unwrap().capacity
        };
        assert_eq!(pairs(40.0, 1.0), mbps(40.0));
        assert_eq!(pairs(30.0, 1.0), mbps(39.0));
        assert_eq!(pairs(41.0, 1.0), mbps(40.0));
        assert_eq!(pairs(44.0, 1.0 / 3.0), mbps(41.0), "a pair that waited has less weight");
        assert_eq!(pairs(800.0, 0.01), mbps(41.0), "and one that waited long has none");
    }

    #[test]
    fn the_upper_quartile_of_many_pairs_counts() {
        let mut pairs = Pairs::default();
        let mut add = |rate, weight| {
            pairs.add(PairRate { rate: mbps(rate), weight });
            pairs.upper_quartile(MIN_WEIGHT)
        };
        assert_eq!(add(39.0, 1.0), (mbps(39.0), 1.0));
        add(20.0, 1.0);
        add(40.0, 1.0);
        assert_eq!(add(71.0, 1.0), (mbps(71.0), 4.0), "three quarters are below it");
        for rate in [40.0, 13.0, 40.0] {
            add(rate, 1.0);
        }
        assert_eq!(add(40.0, 1.0), (mbps(40.0), 8.0));
        assert_eq!(add(800.0, 0.5), (mbps(40.0), 8.5));
    }

    #[test]
    fn ending_in_slow_start_keeps_the_competing_traffic() {
        let ends = |history: &mut Option<History>, competitive_rate: Option<f64>, in_slow_start| {
            let mut path_history = PathHistory::default();
            path_history.start(&Config::default(), &Path::new(Bytes::new(1250), RTT, *history));
            path_history.on_min_rtt(RTT);
            path_history.on_probe_result(true, mbps(10.0));
            path_history.on_competitive(competitive_rate.map(mbps));
            path_history.remember(history, in_slow_start);
            history.unwrap().competing_traffic
        };
        let mut history = None;
        assert_eq!(ends(&mut history, None, true), 1.0, "nothing was known");
        assert_eq!(ends(&mut history, None, false), 0.0);
        assert_eq!(ends(&mut history, None, true), 0.0, "unchanged");
        assert_eq!(ends(&mut history, Some(5.0), false), 1.0);
        assert_eq!(ends(&mut history, None, true), 1.0, "unchanged");
    }

    #[test]
    fn a_shorter_route_counts_at_once_and_a_longer_one_slowly() {
        let mut history = None;
        let mut min_rtt = |ms| {
            let mut path_history = PathHistory::default();
            path_history.start(&Config::default(), &Path::new(Bytes::new(1250), RTT, history));
            path_history.on_min_rtt(Duration::from_millis(ms));
            path_history.on_probe_result(true, mbps(1.0));
            path_history.remember(&mut history, false);
            history.unwrap().min_rtt
        };
        assert_eq!(min_rtt(20), Duration::from_millis(20));
        assert_eq!(min_rtt(28), Duration::from_millis(21));
        assert_eq!(min_rtt(12), Duration::from_millis(12));
        let mut path_history = PathHistory::default();
        path_history.start(&Config::default(), &Path::new(Bytes::new(1250), RTT, history));
        path_history.on_min_rtt(RTT);
        path_history.on_competitive(Some(mbps(5.0)));
        path_history.on_competitive(None);
        path_history.remember(&mut history, false);
        assert_eq!(history.unwrap().min_rtt, Duration::from_millis(12), "competitive mode never sees an empty queue");
    }

    #[test]
    fn a_transfer_without_an_accepted_probe_leaves_no_history() {
        let mut history = None;
        let mut path_history = PathHistory::default();
        path_history.start(&Config::default(), &Path::new(Bytes::new(1250), RTT, history));
        path_history.on_min_rtt(RTT);
        path_history.on_probe_result(false, Rate::ZERO);
        path_history.remember(&mut history, false);
        assert_eq!(history, None);
    }
}
