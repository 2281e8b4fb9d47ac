//! What one-way delays show: the queue, how often packets waited, and how much the path itself varies.
//!
//! ```text
//! wait       = one-way delay - its minimum
//! busy       = the share of the last packets that waited: of half a round trip, or of four times the variation
//! level      = the shortest wait of the later half of these packets
//! variation  = the lower quartile, over 16 round trips, of the spread of a round trip's waits around their trend
//! ```
//!
//! A queue of other flows rises and falls over a round trip, which is the trend, and is empty or steady in one of four
//! round trips. What a radio link does with packets, it does in all of them: the spread is 4 to 14 ms over LTE, 5G,
//! Wi-Fi and Starlink, and below 1 ms elsewhere.

use std::collections::VecDeque;

use rampmeter_units::{Duration, Time};

use crate::parts::line::Line;

/// The last packets are kept in so many groups of equal time, so that a high rate costs no more than a low one.
const GROUPS: f64 = 16.0;

/// The minimum number of packets that show anything.
const MIN_PACKETS: f64 = 3.0;

/// The number of packets that is enough.
const PACKETS: f64 = 8.0;

/// The number of spreads, and the number of delays in one: of more packets, every second one counts.
const SPREADS: usize = 16;
const DELAYS: usize = 256;

/// The minimum delay expires after one to two periods of this length, or of 20 round trips.
const PERIOD: Duration = Duration::from_secs(10);

/// The most by which a receiver's clock is faster: NTP makes it faster by no more.
const MAX_DRIFT: f64 = 500e-6;

/// The minimum number of delays in a spread.
const MIN_DELAYS: usize = 6;

/// Packets that left within a short time.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    /// When its first packet left, in seconds.
    sent_at: f64,
    packets: f64,
    waited: f64,
    /// The sum of the windows when its packets left.
    windows: f64,
    /// The shortest wait, in seconds.
    least: f64,
}

/// What the last half round trip shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// The share of packets that waited; below 1 unless all did.
    pub(super) busy: f64,
    /// The mean window when they left, in packets.
    pub(super) window: f64,
    /// The shortest wait of the later ones, in seconds.
    pub(super) level: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Delays {
    /// The minimum delay of this period and of the one before it, in nanoseconds.
    minimum: [i64; 2],
    period_ends: Time,
    corrected_at: Time,
    /// The wait of the last packet that arrived, in seconds, and by how much it made the minimum shorter.
    wait: f64,
    pub(super) fell: f64,
    recent: VecDeque<Group>,
    /// When packets of this round trip left, and their waits, in seconds.
    round: Vec<(f64, f64)>,
    /// One of so many packets is in `round`.
    stride: usize,
    skipped: usize,
    spreads: VecDeque<f64>,
    /// The variation, in seconds.
    pub(super) variation: f64,
    /// The last wait that shows the queue, in seconds: packets of a train also wait for those before them.
    pub(super) last_wait: f64,
}

impl Delays {
    /// A path whose variation was `variation` seconds in earlier transfers.
    pub(super) fn new(now: Time, variation: f64) -> Self {
        Self {
            minimum: [i64::MAX; 2],
            period_ends: now + PERIOD,
            corrected_at: now,
            wait: 0.0,
            fell: 0.0,
            recent: VecDeque::with_capacity(4 * GROUPS as usize),
            round: Vec::with_capacity(DELAYS),
            stride: 1,
            skipped: 0,
            spreads: VecDeque::with_capacity(SPREADS + 1),
            variation,
            last_wait: 0.0,
        }
    }

    /// Whether a minimum delay is known.
    pub(super) fn is_known(&self) -> bool {
        self.minimum() < i64::MAX
    }

    fn minimum(&self) -> i64 {
        self.minimum[0].min(self.minimum[1])
    }

    /// Takes a delay, of which `queue` seconds are known to be a queue if it is the first. Returns its wait in seconds.
    pub(super) fn wait_of(&mut self, delay: i64, queue: f64) -> f64 {
        let queue = if self.is_known() { 0.0 } else { queue };
        let known = Some(self.minimum()).filter(|_| self.is_known());
        self.minimum[0] = self.minimum[0].min(delay.saturating_sub((queue * 1e9) as i64));
        self.fell = known.map_or(0.0, |known| known.saturating_sub(self.minimum()) as f64 / 1e9);
        self.wait = delay.saturating_sub(self.minimum()) as f64 / 1e9;
        self.wait
    }

    /// The path is longer by so many seconds than its minimum delay.
    pub(super) fn shift(&mut self, by: f64) {
        self.minimum = [self.minimum().saturating_add((by * 1e9) as i64), i64::MAX];
        self.forget();
    }

    /// Packets have another size: windows become `scale` times as many of them, and each takes `longer` seconds more.
    pub(super) fn rescale(&mut self, scale: f64, longer: f64) {
        let longer = (longer * 1e9) as i64;
        for minimum in self.minimum.iter_mut().filter(|minimum| **minimum < i64::MAX) {
            *minimum = minimum.saturating_add(longer);
        }
        self.recent.iter_mut().for_each(|group| group.windows *= scale);
    }

    /// The minimum delay expires after one to two periods, because a route may become longer than drains show. Returns by
    /// how many seconds it is longer.
    pub(super) fn expire(&mut self, now: Time, rtt: Duration) -> f64 {
        if now < self.period_ends || self.minimum[0] == i64::MAX {
            return 0.0;
        }
        let old_minimum = self.minimum();
        self.period_ends = now + PERIOD.max(rtt * 20);
        self.minimum = [i64::MAX, self.minimum[0]];
        self.minimum().saturating_sub(old_minimum) as f64 / 1e9
    }

    /// The round trip that the last packet began took `excess` seconds more than the shortest one. If this host's clock
    /// says so, and the packet seems to have waited longer, the receiver's clock is faster.
    pub(super) fn correct_drift(&mut self, now: Time, excess: f64) {
        let most = MAX_DRIFT * now.since(self.corrected_at).as_secs_f64();
        let drift = (self.wait - excess).clamp(0.0, most);
        self.corrected_at = now;
        self.minimum = self.minimum.map(|minimum| minimum.saturating_add((drift * 1e9) as i64));
    }

    /// A packet left at `sent_at`, with this window, and waited so long; `is_busy` if longer than by chance. Groups have
    /// `span / 16` seconds.
    pub(super) fn on_packet(&mut self, sent_at: f64, wait: f64, window: f64, is_busy: bool, span: f64) {
        if self.recent.back().is_none_or(|last| sent_at - last.sent_at > span / GROUPS) {
            self.recent.push_back(Group { sent_at, least: f64::INFINITY, ..Group::default() });
        }
        if let Some(last) = self.recent.back_mut() {
            last.packets += 1.0;
            last.waited += f64::from(u8::from(is_busy));
            last.windows += window;
            last.least = last.least.min(wait);
        }
    }

    /// Packets that left before now show nothing.
    pub(super) fn forget(&mut self) {
        self.recent.clear();
    }

    /// What the packets of the last `span` seconds show, or those of up to `longest` seconds if they are few.
    pub(super) fn view(&mut self, span: f64, longest: f64) -> Option<View> {
        let last = *self.recent.back()?;
        let mut packets: f64 = self.recent.iter().map(|group| group.packets).sum();
        while let [Some(first), Some(second)] = [self.recent.front(), self.recent.get(1)] {
            let (age, rest) = (last.sent_at - second.sent_at, packets - first.packets);
            if !(rest >= MIN_PACKETS && (age > span && rest >= PACKETS || age > longest)) {
                break;
            }
            packets = rest;
            self.recent.pop_front();
        }
        let first = self.recent.front()?;
        let sum = |of: fn(&Group) -> f64| self.recent.iter().map(of).sum::<f64>();
        let window = sum(|group| group.windows) / packets;
        if packets < (window / 2.0).clamp(MIN_PACKETS, PACKETS) {
            return None;
        }
        let waited = sum(|group| group.waited);
        let middle = f64::midpoint(last.sent_at, first.sent_at);
        let later = self.recent.iter().filter(|group| group.sent_at >= middle);
        Some(View {
            // One packet that did not wait, and one that did, count besides: few packets prove little.
            busy: if waited == packets { 1.0 } else { (waited + 1.0) / (packets + 2.0) },
            window,
            level: later.map(|group| group.least).fold(f64::INFINITY, f64::min),
        })
    }

    /// A packet of this round trip left at `sent_at` and waited so long.
    pub(super) fn add_to_round(&mut self, sent_at: f64, wait: f64) {
        self.skipped += 1;
        if self.skipped < self.stride {
            return;
        }
        self.skipped = 0;
        if self.round.len() == DELAYS {
            let mut index = 0;
            self.round.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.stride *= 2;
        }
        self.round.push((sent_at, wait));
    }

    /// A round trip ended.
    pub(super) fn end_round(&mut self) {
        if self.round.len() < MIN_DELAYS {
            return; // the next one adds to it
        }
        if let Some(spread) = spread(&self.round) {
            self.spreads.push_back(spread);
            if self.spreads.len() > SPREADS {
                self.spreads.pop_front();
            }
            let mut sorted = [0.0; SPREADS];
            let sorted = &mut sorted[..self.spreads.len()];
            sorted.iter_mut().zip(&self.spreads).for_each(|(to, from)| *to = *from);
            sorted.sort_unstable_by(f64::total_cmp);
            self.variation = sorted[(sorted.len() - 1) / 4];
        }
        self.begin_round();
    }

    /// The packets so far do not count.
    pub(super) fn begin_round(&mut self) {
        self.round.clear();
        (self.stride, self.skipped) = (1, 0);
    }
}

/// The greatest minus the least distance of points from their line, at least zero.
fn spread(points: &[(f64, f64)]) -> Option<f64> {
    let slope = Line::fit(points.iter().copied())?.slope;
    let (x, _) = *points.first()?;
    let rests = points.iter().map(|(xi, yi)| yi - slope * (xi - x));
    let (least, most) =
        rests.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), rest| (least.min(rest), most.max(rest)));
    Some(most - least).filter(|spread| spread.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays() -> Delays {
        Delays::new(Time::ZERO, 0.0)
    }

    #[test]
    fn waits_are_measured_from_the_minimum_delay() {
        let mut delays = delays();
        assert_eq!([5_000_000, 7_000_000, 4_000_000].map(|delay| delays.wait_of(delay, 0.0)), [0.0, 0.002, 0.0]);
        delays.shift(0.003);
        assert_eq!(delays.wait_of(9_000_000, 0.0), 0.002);
    }

    #[test]
    fn a_queue_in_the_first_delay_is_not_part_of_the_path() {
        assert_eq!(delays().wait_of(5_000_000, 0.002), 0.002);
    }

    #[test]
    fn the_minimum_delay_expires_after_two_periods_at_the_latest() {
        let mut delays = delays();
        delays.wait_of(1_000_000, 0.0);
        for seconds in [10, 20] {
            let wait = delays.wait_of(3_000_000, 0.0);
            assert_eq!(wait, 0.002, "{seconds} s");
            let longer = delays.expire(Time::ZERO + Duration::from_secs(seconds), Duration::from_millis(20));
            assert_eq!(longer, if seconds == 20 { 0.002 } else { 0.0 });
        }
        assert_eq!(delays.wait_of(3_000_000, 0.0), 0.0);
    }

    #[test]
    fn a_receivers_clock_that_is_faster_shows_no_queue() {
        let mut delays = delays();
        let second = |number| Time::ZERO + Duration::from_secs(number);
        for (number, delay, wait) in [(1, 5_000_000, 0.0), (2, 5_200_000, 0.0002), (3, 5_400_000, 0.0002)] {
            assert_eq!(delays.wait_of(delay, 0.0), wait, "{number} s");
            delays.correct_drift(second(number), 0.0);
        }
        assert_eq!(delays.wait_of(25_400_000, 0.0), 0.02);
        delays.correct_drift(second(4), 0.02);
        assert_eq!(delays.wait_of(25_400_000, 0.0), 0.02, "the round trip is longer, too");
        delays.correct_drift(second(5), 0.0);
        assert!((delays.wait_of(25_400_000, 0.0) - 0.0195).abs() < 1e-9, "no clock is so wrong");
    }

    #[test]
    fn a_view_has_the_last_half_round_trip() {
        let mut delays = delays();
        for i in 0..100 {
            let at = f64::from(i) / 1000.0;
            delays.on_packet(at, if i < 90 { 0.004 } else { 0.001 }, 20.0 + f64::from(i), i % 2 == 0, 0.01);
        }
        let view = delays.view(0.01, 0.02).unwrap();
        assert!((view.busy - 0.5).abs() < 0.1 && view.window > 110.0 && view.level == 0.001, "{view:?}");
    }

    #[test]
    fn too_few_packets_show_nothing() {
        let mut delays = delays();
        for i in 0..2 {
            delays.on_packet(f64::from(i), 0.0, 1.0, false, 0.01);
            assert!(delays.view(0.01, 0.02).is_none());
        }
        delays.on_packet(2.0, 0.0, 1.0, false, 0.01);
        assert!(delays.view(0.01, 0.02).is_some(), "three packets are enough where the window is small");
    }

    #[test]
    fn a_queue_that_grows_is_no_variation_but_jitter_is() {
        for (jitter, low, high) in [(0.0, 0.0, 1e-9), (0.004, 0.0039, 0.0043)] {
            let mut delays = delays();
            for round in 0..20 {
                for i in 0..50 {
                    let at = f64::from(round) + f64::from(i) / 50.0;
                    delays.add_to_round(at, 0.01 * at + jitter * f64::from(i % 2));
                }
                delays.end_round();
            }
            assert!((low..=high).contains(&delays.variation), "{}", delays.variation);
        }
    }

    #[test]
    fn many_packets_take_no_more_memory_than_few() {
        let mut delays = delays();
        for i in 0..100_000 {
            let at = f64::from(i) * 1e-6;
            delays.on_packet(at, 0.0, 1e4, false, 0.05);
            delays.add_to_round(at, 0.0);
        }
        delays.view(0.05, 0.1);
        assert!(delays.recent.len() <= 40 && delays.round.len() <= DELAYS);
    }
}
