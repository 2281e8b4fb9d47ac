//! What a flow knows about its path, and the queue that it keeps there.
//!
//! Two packets that leave together arrive one packet time of the bottleneck apart: they show its capacity `C`, if a few
//! that leave with them use up what a shaper lets pass at once (`pace`). Where a path varies by `V` seconds they do not,
//! because a radio link carries many packets at once, and then nothing for a while. There the most that was delivered in
//! one of eight round trips shows it. Both count, by the trust in pairs:
//!
//! ```text
//! V      = the variation beyond the queue of 50 PCP flows, at most 0.67 R
//! trust  = T0 / (T0 + V), with the queue T0 = (1 + 7 ln(pairs R / W)) packets that a flow keeps where V is zero
//! C      = pairs^trust * (1.25 delivered)^(1 - trust)
//! target = (1 + 7 ln(C R / W)) / C + 1.3 V + min(10 R / W, 3 V) + the hosts' own wait
//! ```
//!
//! for the window `W` (in packets) and the minimum round-trip time `R`. So there is no threshold between paths that vary
//! and others. The logarithm makes windows equal: all flows see the same queue, which is the target of one window only.
//! Where the capacity is what the flow itself delivered, it shows no share, and the third term takes its place.

/// The queue that a flow keeps: so many packets, and so many more for each e-fold of its window below the path's
/// bandwidth-delay product. All flows see the same queue, so their windows become equal, and a newcomer reads its share
/// from that queue (`start`). Smaller steps cost time at high load, larger ones delay.
const TARGET: f64 = 1.0;
const TARGET_STEP: f64 = 7.0;

/// The number of flows whose queue does not count as variation of the path.
const MAX_FLOWS: f64 = 50.0;

/// A queue of so many times the length that 50 PCP flows keep is not theirs.
const LONG: f64 = 3.0;

/// The queue that a flow keeps besides, as a multiple of the path's own variation, so that something waits when the
/// path carries more: with 1.3 a flow has 0.95 of CUBIC's or BBR's goodput over LTE, 5G, Wi-Fi and Starlink.
const VARIATION_TARGET: f64 = 1.3;

/// The maximum variation, as a share of the minimum round-trip time: one round trip more is never kept.
const MAX_VARIATION: f64 = 0.67;

/// Where the path varies, the capacity is not known well enough to show a flow's share. There each flow keeps so many
/// packets of its own, for at most a multiple of the variation.
const OWN_PACKETS: f64 = 10.0;
const MAX_OWN: f64 = 3.0;

/// A packet waited if its delay is longer than the minimum by so many packet times.
const BUSY_WAIT: f64 = 0.15;

/// The delivery rate of a busy link, times this, is its capacity where the path varies: what it carries may grow by so
/// much in a round trip.
pub(super) const HEADROOM: f64 = 1.25;

/// The number of pairs, and of round trips, of which the best counts.
const BEST_OF: usize = 8;

/// The number of pairs from which those of earlier transfers do not count.
const ENOUGH_PAIRS: usize = 4;

/// The maximum rate, in packets per second, so that no time between packets is zero.
const MAX_RATE: f64 = 1e9;

/// The last measurements of a kind.
#[derive(Debug, Clone, Copy, Default)]
struct Best {
    values: [f64; BEST_OF],
    seen: usize,
}

impl Best {
    fn add(&mut self, value: f64) {
        self.values[self.seen % BEST_OF] = value.clamp(0.0, MAX_RATE);
        self.seen += 1;
    }

    fn best(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    /// The second best, so that one wrong value changes nothing; the best if there is no other.
    fn second_best(&self) -> f64 {
        let (mut best, mut second) = (0.0_f64, 0.0_f64);
        for value in self.values {
            second = second.max(value.min(best));
            best = best.max(value);
        }
        if self.seen > 1 { second } else { best }
    }
}

/// The capacity of a path, in packets per second.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Capacity {
    /// That of earlier transfers; zero if unknown.
    past: f64,
    pairs: Best,
    delivered: Best,
}

impl Capacity {
    pub(super) fn new(past: f64) -> Self {
        Self { past: past.clamp(0.0, MAX_RATE), ..Self::default() }
    }

    /// Packets have another size: `scale` of the new ones carry what one of the old ones did.
    pub(super) fn rescale(&mut self, scale: f64) {
        self.past *= scale;
        for best in [&mut self.pairs, &mut self.delivered] {
            best.values.iter_mut().for_each(|value| *value *= scale);
        }
    }

    /// The second packet of a pair arrived `seconds` after the first.
    pub(super) fn on_pair(&mut self, seconds: f64) {
        self.pairs.add(1.0 / seconds.max(1.0 / MAX_RATE));
    }

    /// A round trip ended in which so many packets per second arrived. Where the application limited them, a lower rate
    /// than before shows nothing.
    pub(super) fn on_round(&mut self, rate: f64, app_limited: bool) {
        if !app_limited || rate > self.delivered.best() {
            self.delivered.add(rate);
        }
    }

    /// The highest rate of the last round trips, in packets per second.
    pub(super) fn max_delivered(&self) -> f64 {
        self.delivered.best()
    }

    /// The higher rate of the last two round trips, in packets per second; infinite if unknown. One that lost many packets
    /// at once is no measure.
    pub(super) fn delivered(&self) -> f64 {
        let Best { values, seen } = self.delivered;
        let last = (0..seen.min(2)).map(|age| values[(seen - 1 - age) % BEST_OF]);
        last.reduce(f64::max).unwrap_or(f64::INFINITY)
    }

    /// The capacity by pairs. `None` if unknown.
    pub(super) fn by_pairs(&self) -> Option<f64> {
        let past = if self.pairs.seen < ENOUGH_PAIRS { self.past } else { 0.0 };
        Some(self.pairs.second_best().max(past)).filter(|best| *best > 0.0)
    }
}

/// A path, at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    /// The capacity, in packets per second.
    pub(super) capacity: f64,
    /// The same by pairs alone; at least that.
    pub(super) by_pairs: f64,
    /// How much pairs show, in (0, 1].
    pub(super) trust: f64,
    /// The variation of the path itself, in seconds.
    pub(super) variation: f64,
    /// The minimum round-trip time, in seconds.
    pub(super) min_rtt: f64,
    /// Waits of this length, in seconds, are those of the hosts: packets leave in bunches, and programs are woken late.
    pub(super) own_wait: f64,
}

/// The queue of a flow whose window is the path's bandwidth-delay product divided by `flows`, in packets.
fn packets(flows: f64) -> f64 {
    TARGET + TARGET_STEP * libm::log(flows.max(1.0))
}

impl Estimate {
    /// A path with these measurements, for a flow with this window. `None` while no capacity is known.
    pub(super) fn new(capacity: &Capacity, variation: f64, min_rtt: f64, window: f64, own_wait: f64) -> Option<Self> {
        let delivered = capacity.delivered.best() * HEADROOM;
        let by_pairs = capacity.by_pairs().or((delivered > 0.0).then_some(delivered))?;
        let variation = (variation - packets(MAX_FLOWS) / by_pairs).clamp(0.0, MAX_VARIATION * min_rtt);
        let target = packets(by_pairs * min_rtt / window) / by_pairs;
        let trust = target / (target + variation);
        let delivered = delivered.min(by_pairs);
        let blend = || libm::exp(trust * libm::log(by_pairs) + (1.0 - trust) * libm::log(delivered));
        let capacity = if delivered > 0.0 && trust < 1.0 { blend() } else { by_pairs };
        Some(Self { capacity, by_pairs, trust, variation, min_rtt, own_wait })
    }

    /// The bandwidth-delay product, in packets.
    pub(super) fn bdp(&self) -> f64 {
        (self.capacity * self.min_rtt).max(1.0)
    }

    /// The queue that a flow with this window keeps, in seconds.
    pub(super) fn target(&self, window: f64) -> f64 {
        self.shared_target(window) + (OWN_PACKETS * self.min_rtt / window).min(MAX_OWN * self.variation)
    }

    /// The target without the flow's own packets: what other flows with this window keep, too.
    pub(super) fn shared_target(&self, window: f64) -> f64 {
        packets(self.bdp() / window) / self.capacity + VARIATION_TARGET * self.variation + self.own_wait
    }

    /// The longest wait in a queue that PCP flows keep, in seconds.
    pub(super) fn longest(&self) -> f64 {
        LONG * packets(MAX_FLOWS) / self.capacity + MAX_OWN * self.variation
    }

    /// The wait from which a packet waited behind others, in seconds.
    pub(super) fn busy_wait(&self) -> f64 {
        BUSY_WAIT / self.capacity + self.own_wait
    }

    /// The window of one of the flows that keep a queue of `wait` seconds, in packets: the inverse of the target where the
    /// path does not vary, and less where it does.
    pub(super) fn share(&self, wait: f64) -> f64 {
        let queue = (wait - self.variation) * self.by_pairs;
        self.by_pairs * self.min_rtt * libm::exp(-((queue - TARGET) / TARGET_STEP).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_RTT: f64 = 0.025;

    /// A path of 4,000 packets a second, as pairs show it.
    fn fixed(window: f64) -> Estimate {
        let mut capacity = Capacity::default();
        capacity.on_pair(1.0 / 4000.0);
        Estimate::new(&capacity, 0.002, MIN_RTT, window, 0.0).unwrap()
    }

    #[test]
    fn on_a_link_of_constant_rate_the_target_is_in_packets() {
        for (window, packets) in [(100.0, 1.0), (50.0, 1.0 + 7.0 * 2f64.ln()), (1.0, 1.0 + 7.0 * 100f64.ln())] {
            assert!((fixed(window).target(window) * 4000.0 - packets).abs() < 1e-9, "window {window}");
        }
    }

    #[test]
    fn the_queue_shows_a_newcomer_its_share() {
        for window in [2.5, 10.0, 50.0, 100.0] {
            let path = fixed(window);
            assert!((path.share(path.target(window)) - window).abs() < 1e-6, "window {window}");
        }
    }

    #[test]
    fn a_path_that_varies_is_judged_by_what_it_delivers() {
        let mut capacity = Capacity::default();
        capacity.on_pair(1e-6); // both packets came in one burst
        capacity.on_round(2000.0, false);
        let path = Estimate::new(&capacity, 0.01, MIN_RTT, 50.0, 0.0).unwrap();
        assert!((2500.0..2600.0).contains(&path.capacity) && path.trust < 0.01, "{path:?}");
        assert!(path.target(50.0) > 0.013, "{}", path.target(50.0));
        assert!(path.target(10.0) > path.target(50.0) + 0.01, "smaller flows keep a longer queue");
    }

    #[test]
    fn variation_changes_the_estimate_without_a_step() {
        let mut capacity = Capacity::default();
        capacity.on_pair(1.0 / 4000.0);
        capacity.on_round(1000.0, false);
        let at = |ms: f64| Estimate::new(&capacity, ms / 1e3, MIN_RTT, 20.0, 0.0).unwrap();
        for tenth in 60..300 {
            let (before, after) = (at(f64::from(tenth) / 10.0), at(f64::from(tenth + 1) / 10.0));
            assert!((after.capacity / before.capacity - 1.0).abs() < 0.05, "{tenth}");
            assert!((after.target(20.0) - before.target(20.0)).abs() < 0.0005, "{tenth}");
        }
    }

    #[test]
    fn an_application_that_limits_the_rate_shows_no_lower_capacity() {
        let mut capacity = Capacity::default();
        capacity.on_round(1000.0, false);
        (0..20).for_each(|_| capacity.on_round(10.0, true));
        assert_eq!(capacity.delivered.best(), 1000.0);
        capacity.on_round(2000.0, true);
        assert_eq!(capacity.delivered.best(), 2000.0);
    }

    #[test]
    fn the_second_best_pair_counts_and_at_first_those_before() {
        let mut capacity = Capacity::new(500.0);
        assert_eq!(capacity.by_pairs(), Some(500.0));
        for seconds in [0.01, 1e-9, 0.005] {
            capacity.on_pair(seconds);
        }
        assert_eq!(capacity.by_pairs(), Some(500.0));
        capacity.on_pair(0.01);
        assert_eq!(capacity.by_pairs(), Some(200.0));
    }
}
