//! SEARCH (draft-chung-ccwg-search-09): slow start ends when the path delivers clearly less than was sent.
//!
//! ```text
//! window:         3.5 times the first round-trip time, in 10 bins                          WINDOW_SIZE, W
//! at each bin:    sent       bytes sent in the window that ended a round trip ago
//!                 delivered  bytes delivered in the window that ends now
//! slow start ends if   (sent - delivered) / sent >= 0.26                                    THRESH
//! with a window of     the bytes delivered in the last first round-trip time
//! ```
//!
//! A round trip ago is by the current round-trip time. What was sent in the first of the two windows then arrives in the
//! second one, however much delays vary, as long as they do not grow from one window to the next. At the capacity of the
//! path packets leave at twice the rate at which they arrive, and the queue delays each one more than the one before.
//! The bytes delivered in a round trip without a queue are then a bandwidth-delay product.
//!
//! If acknowledgements skip more than a window, as after an idle time, measuring starts again. While the round trip has
//! 15 bins or more, five times the first one, nothing is compared.
//!
//! *Limits*: the difference is `2^-3.5 (2^q - 1) / (1 - 2^-3.5)` of what was sent if the round-trip time has grown by `q`
//! of itself in a window of doubling rates. It is 0.26 at `q = 1.9`; with packets that acknowledgements release the queue
//! has 4.5 to 4.9 bandwidth-delay products then (computed for 100 to 8000 packets). A shorter buffer overflows before.
//! Counting from the minimum round-trip time instead ends slow start at 1.3 to 2.2, but also when the delays of the path
//! grow by a third of a round trip, because packets leave in bursts.
//!
//! *Deviations*: the draft lowers the window to its target gradually, here it is lowered at once, which drains the queue as
//! fast as acknowledgements arrive. Between two bins the window a round trip ago is interpolated backwards; the draft
//! interpolates forwards, from the older bin by the share of the younger one.

use rampmeter_units::{Bytes, Duration, Time};

use crate::parts::events::AckEvent;

/// `WINDOW_SIZE_FACTOR`: a window in round trips.
const WINDOW: f64 = 3.5;

/// `W`: the bins of a window.
const BINS: usize = 10;

/// `EXTRA_BINS`: a round trip of more bins is not compared.
const EXTRA_BINS: usize = 15;

/// `THRESH`.
const THRESHOLD: f64 = 0.26;

/// Totals at the ends of the last bins.
#[derive(Debug, Clone)]
struct Bins<const N: usize>([Bytes; N]);

impl<const N: usize> Bins<N> {
    /// All bins end with `total`.
    fn of(total: Bytes) -> Self {
        Self([total; N])
    }

    fn total(&self, bin: usize) -> Bytes {
        self.0[bin % N]
    }

    fn set(&mut self, bin: usize, total: Bytes) {
        self.0[bin % N] = total;
    }

    /// The bytes of the `bins` bins that end with `bin`.
    fn sum(&self, bin: usize, bins: usize) -> Bytes {
        self.0[bin % N].saturating_sub(self.0[(bin - bins) % N])
    }
}

/// The state of the first slow start.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    /// Zero before the first acknowledgement.
    bin_duration: Duration,
    /// The number of complete bins.
    bin: usize,
    /// When the current one ends.
    ends_at: Time,
    /// Bytes sent and delivered so far.
    sent: Bytes,
    delivered: Bytes,
    sent_bins: Bins<{ BINS + EXTRA_BINS + 1 }>,
    delivered_bins: Bins<{ BINS + 1 }>,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            bin_duration: Duration::ZERO,
            bin: 0,
            ends_at: Time::ZERO,
            sent: Bytes::ZERO,
            delivered: Bytes::ZERO,
            sent_bins: Bins::of(Bytes::ZERO),
            delivered_bins: Bins::of(Bytes::ZERO),
        }
    }
}

impl Search {
    pub(crate) fn on_sent(&mut self, bytes: Bytes) {
        self.sent += bytes;
    }

    /// Bytes that were sent did not leave.
    pub(crate) fn on_unsent(&mut self, bytes: Bytes) {
        self.sent = self.sent.saturating_sub(bytes);
    }

    /// The window with which slow start ends, if it does. Called for every acknowledgement.
    pub(crate) fn measure(&mut self, event: &AckEvent<'_>) -> Option<Bytes> {
        let (now, rtt) = (event.now, event.ack.rtt.unwrap_or(event.ack.smoothed_rtt));
        self.delivered += event.ack.delivered;
        if self.bin_duration == Duration::ZERO {
            self.start(now, rtt);
            return None;
        }
        if now <= self.ends_at {
            return None;
        }
        let passed = (now.since(self.ends_at).as_nanos() / self.bin_duration.as_nanos()) as usize + 1;
        if passed > BINS {
            self.restart(now);
            return None;
        }
        self.end_bins(passed);
        self.has_overshot(rtt).then(|| {
            let round_trip = BINS as f64 / WINDOW; // 2.86 bins
            let bins = round_trip.ceil();
            self.delivered_bins.sum(self.bin, bins as usize).scale(round_trip / bins)
        })
    }

    /// The first round-trip time is `rtt`.
    fn start(&mut self, now: Time, rtt: Duration) {
        self.bin_duration = rtt.scale(WINDOW / BINS as f64);
        self.restart(now);
    }

    fn restart(&mut self, now: Time) {
        (self.bin, self.ends_at) = (0, now + self.bin_duration);
        (self.sent_bins, self.delivered_bins) = (Bins::of(self.sent), Bins::of(self.delivered));
    }

    /// `update_bins`: bins in which nothing arrived have the totals of the last one.
    fn end_bins(&mut self, passed: usize) {
        for _ in 1..passed {
            let (sent, delivered) = (self.sent_bins.total(self.bin), self.delivered_bins.total(self.bin));
            self.bin += 1;
            self.sent_bins.set(self.bin, sent);
            self.delivered_bins.set(self.bin, delivered);
        }
        self.bin += 1;
        self.sent_bins.set(self.bin, self.sent);
        self.delivered_bins.set(self.bin, self.delivered);
        self.ends_at += self.bin_duration * passed as u64;
    }

    /// Whether the path delivered less in the last window than was sent in that of a round trip before.
    fn has_overshot(&self, rtt: Duration) -> bool {
        let age = rtt.as_secs_f64() / self.bin_duration.as_secs_f64();
        let (bins, part) = (age as usize, age.fract());
        if bins >= EXTRA_BINS || self.bin <= BINS + bins {
            return false;
        }
        let at = self.bin - bins;
        let sent =
            self.sent_bins.sum(at, BINS).as_f64() * (1.0 - part) + self.sent_bins.sum(at - 1, BINS).as_f64() * part;
        let delivered = self.delivered_bins.sum(self.bin, BINS).as_f64();
        sent - delivered >= THRESHOLD * sent && sent > 0.0
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Rate;

    use super::*;
    use crate::newreno::{self, NewReno};
    use crate::rules::SlowStart;
    use crate::testing::link::Link;
    use crate::testing::{PACKET, ack};
    use crate::{Ack, Controller};

    const RTT: Duration = Duration::from_millis(100);

    fn measure(search: &mut Search, at: Duration, delivered: Bytes, rtt: Duration) -> Option<Bytes> {
        let ack = Ack { delivered, rtt: Some(rtt), ..ack(1) };
        let (now, window_bytes) = (Time::ZERO + at, Bytes::ZERO);
        search.measure(&AckEvent { now, ack: &ack, window: 0.0, delivered: 0.0, window_bytes, packet: PACKET })
    }

    /// Slow start on a path without a limit: the rate doubles every round trip, whose time is `rtt` of the time.
    fn ends(rtt: impl Fn(Duration) -> Duration) -> bool {
        let sent_by = |at: Duration| PACKET.scale(10.0 * (at.as_secs_f64() / RTT.as_secs_f64()).exp2());
        let (mut search, mut sent, mut arrived) = (Search::default(), sent_by(Duration::ZERO), sent_by(Duration::ZERO));
        (50..700).any(|n| {
            let at = Duration::from_millis(2) * n;
            search.on_sent(sent_by(at) - sent);
            sent = sent_by(at);
            let arrives = arrived.max(sent_by(at.saturating_sub(rtt(at))));
            let delivered = arrives - arrived;
            arrived = arrives;
            measure(&mut search, at, delivered, rtt(at)).is_some()
        })
    }

    #[test]
    fn delays_that_vary_do_not_end_slow_start() {
        for late in [RTT / 3, RTT, RTT * 3 / 2] {
            assert!(!ends(|at| if at.as_nanos() / (RTT * 3).as_nanos() % 2 == 1 { RTT + late } else { RTT }), "{late}");
        }
    }

    #[test]
    fn delays_that_grow_end_slow_start_at_the_threshold() {
        // In a window of 3.5 round trips they grow by 1.5 or by 2.3 of them: 0.18 and 0.39 of what was sent.
        let grows = |rate: f64| ends(move |at| RTT + at.saturating_sub(RTT * 6).scale(rate));
        assert!(!grows(1.5 / 3.5) && grows(2.3 / 3.5));
    }

    #[test]
    fn a_flow_loses_nothing_with_a_buffer_of_five_products() {
        // The window is that of a queue of 4.5 to 4.9 products, and one more. Then it is a product.
        let config = newreno::Config { slow_start: SlowStart::Search, ..newreno::Config::default() };
        let mut flow = Link::<NewReno>::new(&config, Rate::from_bps(48_000_000), RTT, 5.0);
        let (mut longest, mut window) = (Bytes::ZERO, Bytes::ZERO);
        flow.run_until(Time::ZERO + Duration::from_secs(4), |flow| {
            window = flow.sender.window();
            longest = longest.max(window);
            window < longest
        });
        let product = flow.rate.bytes_in(RTT).as_f64();
        assert!((5.3..=6.0).contains(&(longest.as_f64() / product)), "{longest}");
        assert!((0.98..=1.02).contains(&(window.as_f64() / product)), "{window}");
        flow.run(Duration::from_secs(5));
        assert_eq!(flow.lost, Bytes::ZERO);
        let share = flow.utilization(Duration::from_secs(5));
        assert!(share > 0.99, "{share}");
    }

    #[test]
    fn slow_start_does_not_end_while_nothing_is_sent() {
        let mut search = Search::default();
        assert!((0..40).all(|n| measure(&mut search, RTT * n / 3, Bytes::ZERO, RTT).is_none()));
        assert!(search.bin > BINS * 3);
    }
}
