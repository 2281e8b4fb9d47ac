//! Rate compensation: send less as long as there is a queue, and as it builds (section 3.2).
//!
//! ```text
//! delay:  (max-delay - min-delay) / max-delay      one-way, over the last round trip
//! gap:    (out - in) / out                         of the spacing of packets on arriving and leaving
//! ```
//!
//! Together they are the *pressure* on a flow: the share of its rate that should go. What was cut already in the last
//! round trip counts against it, after every acknowledgement. Where it is negative, there is room for more: then it
//! bounds what a probe asks for.
//!
//! *Delay.* Clocks differ by an unknown offset. It vanishes from the numerator `q`; for the denominator, `min-delay` is
//! taken to be half the least round trip, `q / (min_rtt / 2 + q)`. `q` is the queue beyond what the flow tolerates
//! (`tolerance`). A share of it is cut (`permanent`; the paper: 1). Every flow sees the queue and cuts for it, each round
//! trip until it is gone, and a round trip passes before anyone sees the effect: with a gain of 1 the link is left idle
//! after each cut. XCP's analysis of the same loop gives 0.226 of the queue and 0.4 of the rate mismatch a round trip.
//!
//! *Gap.* One gap is mostly noise, so all of a round trip's are taken together: the line through the delays has the
//! slope `s = (out - in) / in`, and the cut is `s / (1 + s)`. Of a small slope, which may still be noise, a share is cut
//! (`gap_gain`), of one that says the link is overrun (`overrun`) all.

use std::collections::VecDeque;

use rampmeter_units::{Duration, Time};

use super::Config;
use super::queue::View;
use super::tit_for_tat::TitForTat;

/// Cuts remembered one by one; more in one round trip are added to the last.
const LEDGER: usize = 128;

#[derive(Debug, Clone)]
pub(super) struct Compensation {
    cuts: Ledger,
    tit_for_tat: TitForTat,
}

impl Compensation {
    pub(super) fn new() -> Self {
        Self { cuts: Ledger::new(), tit_for_tat: TitForTat::default() }
    }

    /// The share of its rate that a flow should give up in this round trip, for a queue of which it lets `tolerated` be.
    /// Negative where there is room.
    pub(super) fn pressure(config: &Config, view: &View, tolerated: Duration, min_rtt: Duration) -> f64 {
        let excess = view.level.as_secs_f64() - tolerated.as_secs_f64();
        let largest = min_rtt.as_secs_f64() * config.forward_share + excess.max(0.0);
        let delay = if config.delay { excess / largest } else { 0.0 };
        let gap = match config.gap {
            true if view.slope > config.overrun => view.slope / (1.0 + view.slope),
            true => config.gap_gain * view.slope / (1.0 + view.slope.max(0.0)),
            false => 0.0,
        };
        let pressure = config.permanent * delay + gap;
        if pressure.is_nan() { 0.0 } else { pressure }
    }

    /// This share was cut for another reason.
    pub(super) fn made(&mut self, now: Time, share: f64) {
        let required = self.cuts.sum + share;
        self.cuts.raise(now, required);
    }

    /// The share to cut from the base rate now, beyond what was cut in the last round trip.
    pub(super) fn cut(&mut self, config: &Config, now: Time, rtt: Duration, level: Duration, pressure: f64) -> f64 {
        self.cuts.forget(now, rtt.scale(config.settle));
        let made = self.cuts.sum;
        let ease = if config.tit_for_tat { self.tit_for_tat.ease(config, now, rtt, level, made) } else { 1.0 };
        self.cuts.raise(now, (pressure / ease).min(config.most_cut))
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
        Self { made: VecDeque::with_capacity(LEDGER), sum: 0.0 }
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
        if self.made.len() == LEDGER {
            self.made[LEDGER - 1].1 += share;
        } else {
            self.made.push_back((now, share));
        }
        self.sum += share;
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn view(level: f64, slope: f64) -> View {
        View { level: Duration::from_secs_f64(level / 1e3), slope, ..View::default() }
    }

    fn paper() -> Config {
        Config { tit_for_tat: false, ..Config::paper() }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} for {expected}");
    }

    #[test]
    fn the_cut_is_the_queue_s_share_of_the_largest_delay() {
        near(Compensation::pressure(&paper(), &view(2.5, 0.0), Duration::ZERO, RTT), 2.5 / 12.5);
    }

    #[test]
    fn gaps_that_grow_cut_by_the_over_commitment() {
        // The link takes 1.25 ms for what leaves every millisecond: (1.25 - 1) / 1.25.
        near(Compensation::pressure(&paper(), &view(0.0, 0.25), Duration::ZERO, RTT), 0.2);
    }

    #[test]
    fn a_tolerated_queue_is_let_be_and_a_shorter_one_is_room() {
        let config = Config { permanent: 0.2, ..paper() };
        let tolerated = Duration::from_millis(2);
        near(Compensation::pressure(&config, &view(2.0, 0.0), tolerated, RTT), 0.0);
        near(Compensation::pressure(&config, &view(1.0, 0.0), tolerated, RTT), -0.02);
        near(Compensation::pressure(&config, &view(2.0, -0.1), tolerated, RTT), -0.1);
    }

    #[test]
    fn small_slopes_are_answered_in_part_and_large_ones_in_full() {
        let config = Config { gap_gain: 0.5, overrun: 0.2, ..paper() };
        near(Compensation::pressure(&config, &view(0.0, 0.1), Duration::ZERO, RTT), 0.05 / 1.1);
        near(Compensation::pressure(&config, &view(0.0, 1.0), Duration::ZERO, RTT), 0.5);
    }

    #[test]
    fn a_queue_cuts_once_a_round_trip_however_many_acknowledgements_show_it() {
        let mut compensation = Compensation::new();
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        let cuts: Vec<f64> =
            (0..45).map(|n| compensation.cut(&paper(), ms(n), RTT, Duration::from_millis(5), 0.25)).collect();
        assert_eq!(cuts.iter().filter(|cut| **cut > 0.0).count(), 3);
        near(cuts.iter().sum(), 0.75);
    }

    #[test]
    fn no_round_trip_cuts_more_than_half() {
        let mut compensation = Compensation::new();
        let cuts = (0..20).map(|n| {
            let now = Time::ZERO + Duration::from_millis(n);
            compensation.cut(&paper(), now, RTT, Duration::from_secs(1), 0.9 + n as f64)
        });
        near(cuts.sum(), 0.5);
    }
}
