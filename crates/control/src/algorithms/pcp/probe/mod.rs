//! A probe: a train of packets at base + test rate, and whether the path carried it (section 3.1, Figure 1).
//!
//! The train consists of the next `k` packets, evenly spaced at the sum of both rates. A line is fitted to their delays
//! over their sending times. `pcp` accepts the probe with the probability that the true slope is at most the slope that
//! counts as flat (`pcp_paper` has a rule of its own). So the noisier the delays, the more chance decides.
//!
//! A train proves only the rate at which it was sent. If its packets left later than permitted (nothing to send, a late
//! timer), the grant is the rate sent minus the base rate. If that is not positive, the probe is inconclusive.
//!
//! The rest deviates from the paper, and `pcp_paper` does without it:
//! - A train that lost more than one packet is rejected (`MISSING_RECEIPTS`; the paper: any). If a single loss was not
//!   chance, the other packets waited in a full queue, and that rejects the train.
//! - A packet delayed by a host shows nothing about a queue. If the other delays fit a line much better without it, it
//!   is ignored (`OUTLIER`), and the train's wait is the median of its packets' waits. In the simulator this changes
//!   nothing (Figure 4 at 0.60, three seeds: 300 ms with it, 297 without).
//! - One more packet may follow right behind the last one, as the second of a *pair*. The bottleneck spreads the two by
//!   the transmission time of one packet, unless a packet of another flow comes between them. This shows the capacity
//!   of the path (Keshav's packet pair, the paper's reference 35), and not the available rate, which the train shows.
//! - On a fast path a host cannot space single packets. There a *bunch* of packets that leave together takes the place
//!   of each packet of a train and of a pair: the delay of a bunch is that of its first packet to arrive.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};

use super::MAX_RTT;
use super::config::{MIN_RECEIPT_TIMEOUT, RECEIPT_TIMEOUT};
use super::queue::WaitCount;
use crate::Arrival;
use crate::parts::line::Line;

/// A train was sent as planned if its rate was at least this share of the planned rate.
const SENT_AS_PLANNED: f64 = 0.9;

/// The growth of delay over a train that clocks cannot resolve. It counts as flat.
pub(crate) const RESOLUTION: Duration = Duration::from_nanos(100);

/// The maximum number of packets in a train.
pub(super) const MAX_PACKETS: usize = 64;

/// The state of the current probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The next train starts at this time.
    Waiting(Time),
    /// Its packets are being sent.
    Sending,
    /// All packets were sent. Those without a receipt at this time count as lost.
    Listening(Time),
}

impl Phase {
    /// The last packet was sent, after `unanswered` trains in a row without any receipt.
    pub(crate) fn listening(now: Time, rtt: Duration, unanswered: u32) -> Self {
        let timeout = rtt.scale(RECEIPT_TIMEOUT).max(MIN_RECEIPT_TIMEOUT) * (1 << unanswered.min(10));
        Self::Listening(now + timeout.min(MAX_RTT))
    }

    /// Whether there is a train.
    pub(crate) fn is_probing(self) -> bool {
        !matches!(self, Self::Waiting(_))
    }

    /// Its name as the state of a controller.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waiting(_) => "probe_waiting",
            Self::Sending => "probe_sending",
            Self::Listening(_) => "probe_listening",
        }
    }

    /// When time ends it; [`Time::MAX`] if only an event does.
    pub(crate) fn deadline(self) -> Time {
        match self {
            Self::Waiting(until) | Self::Listening(until) => until,
            Self::Sending => Time::MAX,
        }
    }
}

/// The result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// The path carries this much more.
    Accepted(Rate),
    /// It does not carry the test rate.
    Rejected,
    /// The train was not sent fast enough for a conclusion.
    Inconclusive,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Probe {
    outlier: f64,
    base: Rate,
    pub(crate) test: Rate,
    packets: usize,
    /// The number of packets that leave together in place of each of these, if it is not one.
    bunch: usize,
    /// When the train started.
    pub(crate) started: Time,
    first: u64,
    sent: usize,
    first_sent_at: Time,
    last_sent_at: Time,
    /// When the last packet left, of the bunch that `last_sent_at` begins.
    left_at: Time,
    /// Bytes sent before the last packet: what was sent from `first_sent_at` to `last_sent_at`.
    bytes: Bytes,
    last_bytes: Bytes,
    /// Sending time and delay of each packet that is known to have arrived.
    receipts: Vec<Option<(Time, i64)>>,
    received: usize,
    lost: usize,
    /// The host stalled while some of its packets were in transit. A late packet then proves nothing.
    pub(super) host_stalled: bool,
    pair: Option<Pair>,
}

/// The last packet of a train and the one right behind it.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    /// The number of the second packet, once it was sent; of its bunch, that of the first.
    second: Option<u64>,
    /// The number of packets sent in its place.
    sent: usize,
    arrivals: [Option<Arrival>; 2],
    bytes: Bytes,
}

/// The rate at which the two packets of a pair arrived, and its weight in \[0, 1\]. Without other traffic and host
/// jitter, the first packet does not wait, and the second waits for the transmission time of one packet. `CapProbe`
/// (Kapoor, Chen, Lao, Gerla and Sanadidi, SIGCOMM 2004) compares pairs by the sum of both delays. *Deviation*: here
/// the delays are compared with the minimum delay of the pair's own train, so that every pair counts; a packet of
/// another flow between the two is not detected.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PairRate {
    pub(super) rate: Rate,
    pub(super) weight: f64,
}

impl Probe {
    /// A probe for trains of up to `max_packets` packets. One of them is ignored if the other delays lie `outlier`
    /// times closer to a line without it; 0: none is.
    pub(crate) fn new(max_packets: usize, outlier: f64) -> Self {
        Self { outlier, receipts: vec![None; max_packets], bunch: 1, ..Self::default() }
    }

    /// Starts a new train of `packets` at `now`.
    pub(crate) fn start(&mut self, now: Time, base: Rate, test: Rate, packets: usize) {
        self.receipts.fill(None);
        (self.base, self.test, self.packets, self.started) = (base, test, packets.min(self.receipts.len()), now);
        (self.sent, self.received, self.lost) = (0, 0, 0);
        (self.bytes, self.last_bytes) = (Bytes::ZERO, Bytes::ZERO);
        (self.host_stalled, self.pair, self.bunch) = (false, None, 1);
    }

    /// In place of each packet, `packets` leave together.
    pub(super) fn set_bunch(&mut self, packets: usize) {
        self.bunch = packets.max(1);
    }

    /// The new train ends with a pair.
    pub(super) fn add_pair(&mut self) {
        self.pair = Some(Pair::default());
    }

    /// The rate at which its packets are sent.
    pub(crate) fn rate(&self) -> Rate {
        self.base + self.test
    }

    /// Packet `number` was sent as part of the train.
    pub(crate) fn on_sent(&mut self, now: Time, number: u64, bytes: Bytes) {
        if self.train_is_sent() {
            if let Some(pair) = &mut self.pair {
                pair.second.get_or_insert(number);
                pair.sent += 1;
                pair.bytes += bytes;
            }
            return;
        }
        if self.sent == 0 {
            (self.first, self.first_sent_at) = (number, now);
        }
        if self.sent % self.bunch == 0 {
            self.last_sent_at = now;
            self.bytes += std::mem::take(&mut self.last_bytes);
        }
        self.left_at = now;
        self.sent += 1;
        self.last_bytes += bytes;
    }

    /// The application has no more data: ends the train here if enough packets were sent for a result. Returns whether
    /// it did.
    pub(super) fn end_early(&mut self) -> bool {
        let sent = self.sent / self.bunch;
        let enough = sent >= 3;
        if enough {
            self.packets = sent;
            self.pair = self.pair.filter(|pair| pair.second.is_some());
        }
        enough
    }

    /// Whether all its packets were sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.train_is_sent() && !self.wants_second()
    }

    /// Whether the next packet is to be sent right behind the last one.
    pub(super) fn wants_second(&self) -> bool {
        self.train_is_sent() && self.pair.is_some_and(|pair| pair.sent < self.bunch)
    }

    /// When that packet may leave. A bunch leaves after the one before, not in the same buffer: the kernel gives packets
    /// that arrive in one buffer one timestamp.
    pub(super) fn second_at(&self) -> Time {
        if self.bunch == 1 { Time::ZERO } else { self.left_at + Duration::from_nanos(1) }
    }

    fn train_is_sent(&self) -> bool {
        self.sent >= self.packets * self.bunch
    }

    /// Whether packet `number` belongs to it.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.index(number).is_some() || self.is_second(number)
    }

    /// The index of packet `number` in the train.
    fn index(&self, number: u64) -> Option<usize> {
        let index = number.wrapping_sub(self.first);
        (index < self.sent as u64).then_some(index as usize / self.bunch)
    }

    fn is_second(&self, number: u64) -> bool {
        let place = |pair: Pair| pair.second.map(|second| number.wrapping_sub(second) < pair.sent as u64);
        self.pair.and_then(place).unwrap_or(false)
    }

    /// Whether any receipt arrived.
    pub(crate) fn has_receipts(&self) -> bool {
        self.received > 0
    }

    /// One of its packets arrived.
    pub(crate) fn on_arrival(&mut self, arrival: &Arrival) {
        let (index, second) = (self.index(arrival.number), self.is_second(arrival.number));
        if let Some(pair) = &mut self.pair {
            if second {
                pair.arrivals[1].get_or_insert(*arrival);
            } else if index.is_some_and(|index| index + 1 == self.packets) {
                pair.arrivals[0].get_or_insert(*arrival);
            }
        }
        if let Some(receipt) = index.and_then(|index| self.receipts.get_mut(index)) {
            if receipt.is_none() {
                *receipt = Some((arrival.sent_at, arrival.one_way_delay()));
                self.received += 1;
            }
        }
    }

    /// The rate at which the path forwarded the pair.
    pub(super) fn pair_rate(&self) -> Option<PairRate> {
        let pair = self.pair.filter(|_| !self.host_stalled)?;
        let [Some(first), Some(second)] = pair.arrivals else { return None };
        let spread = second.received_at.since(first.received_at);
        let min_delay = self.delays().min()?;
        let wait = |arrival: Arrival| arrival.one_way_delay().saturating_sub(min_delay).max(0) as f64;
        let weight = (spread.as_nanos() as f64 / (wait(first) + wait(second)).max(1.0)).min(1.0);
        (spread > Duration::ZERO).then(|| PairRate { rate: Rate::of(pair.bytes, spread), weight })
    }

    /// The median delay of the train's packets that arrived, so that a single packet delayed by a host does not matter.
    pub(super) fn median_delay(&self) -> i64 {
        let mut delays = [0; MAX_PACKETS];
        delays.iter_mut().zip(self.delays()).for_each(|(index, delay)| *index = delay);
        let delays = &mut delays[..self.received.min(MAX_PACKETS)];
        delays.sort_unstable();
        delays.get(delays.len() / 2).copied().unwrap_or(0)
    }

    /// How many of its packets waited, as `is_wait` decides by the delay.
    pub(super) fn count_waits(&self, is_wait: impl Fn(i64) -> bool) -> WaitCount {
        WaitCount { waited: self.delays().filter(|delay| is_wait(*delay)).count(), all: self.received }
    }

    fn delays(&self) -> impl Iterator<Item = i64> {
        self.receipts.iter().flatten().map(|(_, delay)| *delay)
    }

    /// The time from the first to the last packet of the train.
    pub(super) fn span(&self) -> Duration {
        self.last_sent_at.since(self.first_sent_at)
    }

    /// Packet `number`, which belongs to the train, was lost.
    pub(crate) fn on_loss(&mut self, number: u64) {
        if self.is_second(number) {
            self.pair = None;
        } else {
            self.lost += 1;
        }
    }

    /// Whether the result is final, if up to `missing` packets may be missing.
    pub(crate) fn is_complete(&self, missing: usize) -> bool {
        let paired = self.pair.is_none_or(|pair| pair.arrivals[1].is_some());
        self.lost > missing || (self.is_sent() && self.received + self.lost >= self.packets && paired)
    }

    /// The result from the receipts so far. `flat` is the growth of delay over the train that counts as flat.
    pub(crate) fn judge(&self, flat: Duration, missing: usize, random: &mut Random) -> ProbeResult {
        self.judge_by(flat, missing, |line, slope| line.sample_slope(random) <= slope)
    }

    /// The same with another rule: `accepts` decides whether the line through the delays has at most this slope.
    pub(crate) fn judge_by(
        &self,
        flat: Duration,
        missing: usize,
        accepts: impl FnOnce(&Line, f64) -> bool,
    ) -> ProbeResult {
        if self.lost > missing || self.received + missing < self.packets {
            return ProbeResult::Rejected;
        }
        let span = self.span();
        let flat = flat.as_nanos() as f64 / (span.as_nanos() as f64).max(1.0);
        match self.line() {
            Some(line) if accepts(&line, flat) => self.granted(span),
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
        let without = |ignored| {
            let others = points.clone().enumerate().filter(move |(index, _)| *index != ignored);
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
mod tests;
