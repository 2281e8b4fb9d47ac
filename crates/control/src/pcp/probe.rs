//! A probe: a train of packets at base + test rate, and whether the path carried it (section 3.1, Figure 1).
//!
//! The train is simply the next `k` packets, evenly spaced at the sum of both rates. A line is fitted to their delays
//! over the times they left, and the test is accepted with the probability that the true slope is no more than what
//! passes as flat.
//!
//! What a train proves is what it offered. If its packets left later than they might have (nothing to send, a late
//! timer), the grant is the offered rate less the base rate; if that is not positive, nothing is proved either way.
//!
//! A train that lost more than one packet is rejected (`MISSING_RECEIPTS`): a full queue drops, and the delays through it
//! are flat. One alone may be chance. If it was not, the others waited behind a full queue, and that rejects them.
//!
//! One packet that a host was late for says nothing of a queue: if the others lie on a line much better without it, it is
//! left out (`OUTLIER`), and what the train waited is its median. In the simulator that changes nothing (Figure 4 at 0.60,
//! three seeds: 300 ms with it, 297 without).
//!
//! Right behind the last packet may follow one more, the second of a *pair*. The bottleneck spreads the two by the time it
//! takes for one of them, unless another's packet comes between: what the path can carry when nobody else is there.
//! (The idea is Keshav's packet pair, the paper's reference 35. It says nothing of what is free, which the train does.)

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};

use super::queue::WaitCount;
use crate::Arrival;
use crate::line::Line;

/// Below this share of the intended rate a train counts as not sent as intended.
const SENT_AS_PLANNED: f64 = 0.9;

/// Packets of a train at most.
pub(super) const MAX_PACKETS: usize = 64;

/// What came of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// The path carries this much more.
    Accepted(Rate),
    /// It does not carry the test rate.
    Rejected,
    /// The train was not sent fast enough to tell.
    Inconclusive,
}

#[derive(Debug, Clone)]
pub(super) struct Probe {
    outlier: f64,
    base: Rate,
    test: Rate,
    packets: usize,
    started: Time,
    first: u64,
    sent: usize,
    first_sent_at: Time,
    last_sent_at: Time,
    /// Bytes that left before the last packet: what the train carried in the time it took.
    bytes: Bytes,
    last_bytes: Bytes,
    /// When each packet left and how long it took, if it is known to have arrived.
    receipts: Vec<Option<(Time, i64)>>,
    received: usize,
    lost: usize,
    /// The host stood still while some of its packets were in transit.
    host_stalled: bool,
    pair: Option<Pair>,
}

/// The last packet of a train and the one right behind it.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    /// The second, once it left.
    second: Option<u64>,
    arrivals: [Option<Arrival>; 2],
    bytes: Bytes,
}

/// The rate at which two packets sent together arrived, and how much that says, in \[0, 1\]: on a path without others and
/// with prompt hosts the first is not late and the second by what the link took for it. `CapProbe` (Kapoor, Chen, Lao, Gerla
/// and Sanadidi, SIGCOMM 2004) compares pairs by the sum of both delays. *Deviation*: here they are compared with their
/// own train's least delay, so that every pair says something; a packet of others between the two goes unnoticed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PairRate {
    pub(super) rate: Rate,
    pub(super) weight: f64,
}

impl Probe {
    /// Room for trains of up to `most` packets.
    pub(super) fn new(max_packets: usize, outlier: f64) -> Self {
        Self {
            outlier,
            base: Rate::ZERO,
            test: Rate::ZERO,
            packets: 0,
            started: Time::ZERO,
            first: 0,
            sent: 0,
            first_sent_at: Time::ZERO,
            last_sent_at: Time::ZERO,
            bytes: Bytes::ZERO,
            last_bytes: Bytes::ZERO,
            receipts: vec![None; max_packets],
            received: 0,
            lost: 0,
            host_stalled: false,
            pair: None,
        }
    }

    /// A fresh train of `packets` from `now` on, closed by a pair.
    pub(super) fn start(&mut self, now: Time, base: Rate, test: Rate, packets: usize) {
        self.receipts.fill(None);
        (self.base, self.test, self.packets, self.started) = (base, test, packets.min(self.receipts.len()), now);
        (self.sent, self.received, self.lost) = (0, 0, 0);
        (self.bytes, self.last_bytes) = (Bytes::ZERO, Bytes::ZERO);
        self.host_stalled = false;
        self.pair = Some(Pair::default());
    }

    /// When the train began.
    pub(super) fn started(&self) -> Time {
        self.started
    }

    /// The rate it asks for.
    pub(super) fn test(&self) -> Rate {
        self.test
    }

    /// The rate its packets leave at.
    pub(super) fn rate(&self) -> Rate {
        self.base + self.test
    }

    /// Packet `number` left as part of the train.
    pub(super) fn on_sent(&mut self, now: Time, number: u64, bytes: Bytes) {
        if self.train_is_sent() {
            self.pair = self.pair.map(|pair| Pair { second: Some(number), bytes, ..pair });
            return;
        }
        if self.sent == 0 {
            (self.first, self.first_sent_at) = (number, now);
        }
        self.sent += 1;
        self.last_sent_at = now;
        self.bytes += self.last_bytes;
        self.last_bytes = bytes;
    }

    /// The application has no more: the train ends here if what left can be judged.
    pub(super) fn end_early(&mut self) -> bool {
        let enough = self.sent >= 3;
        if enough {
            self.packets = self.sent;
            self.pair = self.pair.filter(|pair| pair.second.is_some());
        }
        enough
    }

    /// Whether all its packets have left.
    pub(super) fn is_sent(&self) -> bool {
        self.train_is_sent() && !self.wants_second()
    }

    /// Whether the next packet is to leave right behind the last.
    pub(super) fn wants_second(&self) -> bool {
        self.train_is_sent() && self.pair.is_some_and(|pair| pair.second.is_none())
    }

    fn train_is_sent(&self) -> bool {
        self.sent >= self.packets
    }

    /// Whether packet `number` belongs to it.
    pub(super) fn contains(&self, number: u64) -> bool {
        self.index(number).is_some() || self.is_second(number)
    }

    /// Where in the train packet `number` left.
    fn index(&self, number: u64) -> Option<usize> {
        let index = number.wrapping_sub(self.first);
        (index < self.sent as u64).then_some(index as usize)
    }

    fn is_second(&self, number: u64) -> bool {
        self.pair.is_some_and(|pair| pair.second == Some(number))
    }

    /// Whether anything came back at all.
    pub(super) fn has_receipts(&self) -> bool {
        self.received > 0
    }

    /// One of its packets arrived.
    pub(super) fn on_arrival(&mut self, arrival: &Arrival) {
        let (index, second) = (self.index(arrival.number), self.is_second(arrival.number));
        if let Some(pair) = &mut self.pair {
            if second {
                pair.arrivals[1] = Some(*arrival);
            } else if index.is_some_and(|index| index + 1 == self.packets) {
                pair.arrivals[0] = Some(*arrival);
            }
        }
        if let Some(receipt) = index.and_then(|index| self.receipts.get_mut(index)) {
            if receipt.is_none() {
                *receipt = Some((arrival.sent_at, arrival.one_way_delay()));
                self.received += 1;
            }
        }
    }

    /// The host stood still while one of its packets was in transit: if it was late, that proves nothing.
    pub(super) fn on_host_stall(&mut self) {
        self.host_stalled = true;
    }

    /// Whether a stall of the host may be why its packets were late.
    pub(super) fn host_stalled(&self) -> bool {
        self.host_stalled
    }

    /// The rate at which the path let the pair through.
    pub(super) fn pair_rate(&self) -> Option<PairRate> {
        let pair = self.pair.filter(|_| !self.host_stalled)?;
        let [Some(first), Some(second)] = pair.arrivals else { return None };
        let spread = second.received_at.since(first.received_at);
        let min_delay = self.delays().min()?;
        let lateness = |arrival: Arrival| arrival.one_way_delay().saturating_sub(min_delay).max(0) as f64;
        let weight = (spread.as_nanos() as f64 / (lateness(first) + lateness(second)).max(1.0)).min(1.0);
        (spread > Duration::ZERO).then(|| PairRate { rate: Rate::of(pair.bytes, spread), weight })
    }

    /// Median delay of the packets of the train that arrived: one that a host was late for says nothing of a queue.
    pub(super) fn median_delay(&self) -> i64 {
        let mut delays = [0; MAX_PACKETS];
        delays.iter_mut().zip(self.delays()).for_each(|(index, delay)| *index = delay);
        let delays = &mut delays[..self.received.min(MAX_PACKETS)];
        delays.sort_unstable();
        delays.get(delays.len() / 2).copied().unwrap_or(0)
    }

    /// How many of them met others' packets, by `has`.
    pub(super) fn count_waits(&self, has: impl Fn(i64) -> bool) -> WaitCount {
        WaitCount { waited: self.delays().filter(|delay| has(*delay)).count(), all: self.received }
    }

    fn delays(&self) -> impl Iterator<Item = i64> {
        self.receipts.iter().flatten().map(|(_, delay)| *delay)
    }

    /// From the first to the last packet of the train.
    pub(super) fn span(&self) -> Duration {
        self.last_sent_at.since(self.first_sent_at)
    }

    /// Packet `number`, which it holds, was lost.
    pub(super) fn on_loss(&mut self, number: u64) {
        if self.is_second(number) {
            self.pair = None;
        } else {
            self.lost += 1;
        }
    }

    /// Whether there is nothing left to wait for, if `missing` packets may be.
    pub(super) fn is_complete(&self, missing: usize) -> bool {
        let paired = self.pair.is_none_or(|pair| pair.arrivals[1].is_some());
        self.lost > missing || (self.is_sent() && self.received + self.lost >= self.packets && paired)
    }

    /// The verdict on what has come back. `flat` is the growth of delay over the train that passes as none.
    pub(super) fn judge(&self, flat: Duration, missing: usize, random: &mut Stream) -> ProbeResult {
        if self.lost > missing || self.received + missing < self.packets {
            return ProbeResult::Rejected;
        }
        let span = self.span();
        let flat = flat.as_nanos() as f64 / (span.as_nanos() as f64).max(1.0);
        match self.line() {
            Some(line) if line.draw(random) <= flat => self.granted(span),
            _ if self.host_stalled => ProbeResult::Inconclusive,
            _ => ProbeResult::Rejected,
        }
    }

    /// The line through its delays.
    fn line(&self) -> Option<Line> {
        let &(origin, min_delay) = self.receipts.iter().flatten().next()?;
        let points = self.receipts.iter().flatten().map(|(sent_at, delay)| {
            let x = sent_at.as_nanos().wrapping_sub(origin.as_nanos()) as i64;
            (x as f64, delay.wrapping_sub(min_delay) as f64)
        });
        let line = Line::fit(points.clone())?;
        if self.outlier == 0.0 || self.received < 5 {
            return Some(line);
        }
        let without = |odd| {
            let others = points.clone().enumerate().filter(move |(index, _)| *index != odd);
            Line::fit(others.map(|(_, point)| point))
        };
        let best = (0..self.received).filter_map(without).min_by(|a, b| a.error.total_cmp(&b.error));
        best.filter(|best| best.error * self.outlier < line.error).or(Some(line))
    }

    fn granted(&self, span: Duration) -> ProbeResult {
        let offered = Rate::of(self.bytes, span);
        if offered >= self.rate().scale(SENT_AS_PLANNED) {
            return ProbeResult::Accepted(self.test);
        }
        match offered.saturating_sub(self.base) {
            Rate::ZERO => ProbeResult::Inconclusive,
            more => ProbeResult::Accepted(more),
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Ecn;

    use super::*;

    const PACKET: Bytes = Bytes::new(1000);
    const BASE: Rate = Rate::from_bps(4_000_000);
    const TEST: Rate = Rate::from_bps(4_000_000); // together a packet a millisecond
    const FLAT: Duration = Duration::from_micros(10);

    /// A train of one packet a millisecond, times `stretch`, with these one-way delays in microseconds.
    fn train(stretch: u64, delays: &[i64]) -> Probe {
        let mut probe = Probe::new(delays.len(), 0.0);
        probe.start(Time::ZERO, BASE, TEST, delays.len());
        probe.pair = None;
        for (i, delay) in delays.iter().enumerate() {
            let sent_at = Time::ZERO + Duration::from_millis(1000 + stretch * i as u64);
            probe.on_sent(sent_at, i as u64, PACKET);
            probe.on_arrival(&arrival(i as u64, sent_at, *delay));
        }
        probe
    }

    fn arrival(number: u64, sent_at: Time, delay: i64) -> Arrival {
        let received_at = Time::from_nanos(sent_at.as_nanos().wrapping_add_signed(delay * 1000));
        Arrival { number, bytes: PACKET, sent_at, received_at, ecn: Ecn::NotEct }
    }

    fn accepted(probe: &Probe) -> usize {
        let mut random = Stream::from_seed(1);
        (0..1000).filter(|_| matches!(probe.judge(FLAT, 0, &mut random), ProbeResult::Accepted(_))).count()
    }

    #[test]
    fn flat_or_falling_delays_are_accepted_and_growing_ones_are_not() {
        assert_eq!(accepted(&train(1, &[50; 5])), 1000);
        assert_eq!(accepted(&train(1, &[500, 400, 300, 200, 100])), 1000);
        assert_eq!(accepted(&train(1, &[50, 52, 54, 56, 58])), 1000); // grows by less than FLAT
        assert_eq!(accepted(&train(1, &[100, 200, 300, 400, 500])), 0);
    }

    #[test]
    fn the_noisier_the_fit_the_more_a_verdict_is_a_coin_toss() {
        let clear = accepted(&train(1, &[100, 110, 135, 145, 160]));
        let noisy = accepted(&train(1, &[100, 300, 20, 330, 160]));
        assert!(clear < 60 && (300..500).contains(&noisy), "{clear} {noisy}");
    }

    #[test]
    fn an_unknown_clock_offset_changes_nothing() {
        let offset = -40_000_000_000; // the receiver's clock is 11 hours behind: before the world began
        assert_eq!(accepted(&train(1, &[offset; 5])), 1000);
        assert_eq!(accepted(&train(1, &[1, 2, 3, 4, 5].map(|i| offset + 100 * i))), 0);
    }

    #[test]
    fn a_stall_makes_a_failure_inconclusive_and_no_success() {
        let mut flat = train(1, &[50; 5]);
        flat.on_host_stall();
        assert_eq!(accepted(&flat), 1000);
        let mut growing = train(1, &[100, 200, 300, 400, 500]);
        growing.on_host_stall();
        assert_eq!(growing.judge(FLAT, 0, &mut Stream::from_seed(1)), ProbeResult::Inconclusive);
    }

    #[test]
    fn one_lost_packet_may_be_chance_and_two_are_not() {
        let mut probe = train(1, &[50; 5]);
        probe.receipts[2] = None;
        probe.received = 4;
        probe.on_loss(2);
        assert!(probe.is_complete(0) && probe.is_complete(1));
        let accepted =
            |probe: &Probe, missing| probe.judge(FLAT, missing, &mut Stream::from_seed(1)) != ProbeResult::Rejected;
        assert!(accepted(&probe, 1) && !accepted(&probe, 0));
        probe.on_loss(3);
        assert!(probe.is_complete(1) && !accepted(&probe, 1));
    }

    #[test]
    fn one_late_packet_is_left_out_and_a_growing_queue_is_not() {
        let slope = |outlier, delays: &[i64]| {
            let mut probe = train(1, delays);
            probe.outlier = outlier;
            probe.line().unwrap().slope
        };
        assert!(slope(0.0, &[0, 0, 0, 0, 9000]) > 1.0);
        assert_eq!(slope(4.0, &[0, 0, 0, 0, 9000]), 0.0);
        assert!((slope(4.0, &[0, 500, 1000, 1500, 2000]) - 0.5).abs() < 1e-9);
        assert!((slope(4.0, &[0, 100, 900, 800, 1500]) - slope(0.0, &[0, 100, 900, 800, 1500])).abs() < 1e-9);
    }

    #[test]
    fn a_missing_receipt_rejects_the_train_unless_it_is_forgiven() {
        let mut probe = Probe::new(5, 0.0);
        probe.start(Time::ZERO, BASE, TEST, 5);
        probe.pair = None;
        for i in 0..5 {
            let sent_at = Time::ZERO + Duration::from_millis(i);
            probe.on_sent(sent_at, i, PACKET);
            if i != 2 {
                probe.on_arrival(&arrival(i, sent_at, 50));
                probe.on_arrival(&arrival(i, sent_at, 50)); // twice is once
            }
        }
        assert!(!probe.is_complete(0));
        assert_eq!(probe.judge(FLAT, 0, &mut Stream::from_seed(1)), ProbeResult::Rejected);
        assert_eq!(probe.judge(FLAT, 1, &mut Stream::from_seed(1)), ProbeResult::Accepted(TEST));
    }

    #[test]
    fn a_pair_tells_the_capacity_and_belongs_to_the_train() {
        let mut probe = Probe::new(3, 0.0);
        probe.start(Time::ZERO, BASE, TEST, 3);
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        for i in 0..3 {
            assert!(!probe.wants_second());
            probe.on_sent(ms(i), i, PACKET);
            probe.on_arrival(&arrival(i, ms(i), 50));
        }
        assert!(probe.wants_second() && !probe.is_sent() && !probe.is_complete(0));
        probe.on_sent(ms(2), 3, PACKET);
        assert!(probe.is_sent() && probe.contains(3) && !probe.is_complete(0));
        probe.on_arrival(&arrival(3, ms(2), 250)); // 0.2 ms behind the other: 8000 bits
        assert!(probe.is_complete(0));
        assert_eq!(probe.pair_rate(), Some(PairRate { rate: Rate::from_bps(40_000_000), weight: 1.0 }));
        assert_eq!((probe.median_delay(), probe.count_waits(|_| true).all), (50_000, 3));
        assert_eq!(probe.judge(FLAT, 0, &mut Stream::from_seed(1)), ProbeResult::Accepted(TEST));
    }

    #[test]
    fn a_pair_whose_first_packet_was_held_up_says_little() {
        let mut probe = Probe::new(3, 0.0);
        probe.start(Time::ZERO, BASE, TEST, 3);
        for (number, millis, delay) in [(0, 0, 50), (1, 1, 50), (2, 2, 2240), (3, 2, 2250)] {
            let sent_at = Time::ZERO + Duration::from_millis(millis);
            probe.on_sent(sent_at, number, PACKET);
            probe.on_arrival(&arrival(number, sent_at, delay));
        }
        let pair = probe.pair_rate().unwrap();
        assert_eq!(pair.rate, Rate::from_bps(800_000_000));
        assert!(pair.weight < 0.01, "{pair:?}");
    }

    #[test]
    fn a_train_grants_no_more_than_it_offered() {
        let mut random = Stream::from_seed(1);
        assert_eq!(train(1, &[50; 5]).judge(FLAT, 0, &mut random), ProbeResult::Accepted(TEST));
        assert_eq!(train(2, &[50; 5]).judge(FLAT, 0, &mut random), ProbeResult::Inconclusive);
        let mut probe = train(1, &[50; 5]);
        probe.last_sent_at = Time::ZERO + Duration::from_millis(1006); // 4 packets in 6 ms: 5.3 Mb/s
        assert_eq!(probe.judge(FLAT, 0, &mut random), ProbeResult::Accepted(Rate::from_bps(1_333_333)));
    }
}
