//! A probe: `k` evenly spaced packets at base + test rate, and whether the path carried them (section 3.1, Figure 1).
//!
//! A line is fitted to their delays over their sending times. A probe that lost a packet is rejected.
//!
//! A probe proves only the rate at which it was sent. If its packets left later than permitted (nothing to send, a late
//! timer), the grant is the rate sent minus the base rate. If that is not positive, the probe is inconclusive.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};

use super::MAX_RTT;
use crate::Arrival;
use crate::parts::line::Line;

/// A probe was sent as planned if its rate was at least this share of the planned rate.
const SENT_AS_PLANNED: f64 = 0.9;

/// The growth of delay over a probe that clocks cannot resolve. It counts as flat.
const RESOLUTION: Duration = Duration::from_nanos(100);

/// The timeout for a probe's receipts, in round trips after its last packet. It doubles with every probe without any
/// receipt.
const RECEIPT_TIMEOUT: f64 = 2.0;

/// The minimum of this timeout: the handshake's round-trip time is much shorter than a full packet's on a slow link
/// (section 3.3).
const MIN_RECEIPT_TIMEOUT: Duration = Duration::from_millis(200);

/// The state of the current probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The next probe starts at this time.
    Waiting(Time),
    /// Its packets are being sent.
    Sending,
    /// All packets were sent. Those without a receipt at this time count as lost.
    Listening(Time),
}

impl Phase {
    /// The last packet was sent, after `unanswered` probes in a row without any receipt.
    pub(super) fn listening(now: Time, rtt: Duration, unanswered: u32) -> Self {
        let timeout = rtt.scale(RECEIPT_TIMEOUT).max(MIN_RECEIPT_TIMEOUT) * (1 << unanswered.min(10));
        Self::Listening(now + timeout.min(MAX_RTT))
    }

    /// Whether there is a probe.
    pub(super) fn is_probing(self) -> bool {
        !matches!(self, Self::Waiting(_))
    }

    /// Its name as the state of a controller.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Waiting(_) => "probe_waiting",
            Self::Sending => "probe_sending",
            Self::Listening(_) => "probe_listening",
        }
    }

    /// When time ends it; [`Time::MAX`] if only an event does.
    pub(super) fn deadline(self) -> Time {
        match self {
            Self::Waiting(until) | Self::Listening(until) => until,
            Self::Sending => Time::MAX,
        }
    }
}

/// The result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// The path carries this much more.
    Accepted(Rate),
    /// It does not carry the test rate.
    Rejected,
    /// The probe was not sent fast enough for a conclusion.
    Inconclusive,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Probe {
    base: Rate,
    pub(super) test: Rate,
    /// When the probe started.
    pub(super) started: Time,
    first: u64,
    sent: usize,
    first_sent_at: Time,
    last_sent_at: Time,
    /// Bytes sent before the last packet: what was sent from `first_sent_at` to `last_sent_at`.
    bytes: Bytes,
    last_bytes: Bytes,
    /// Sending time and delay of each packet that is known to have arrived.
    receipts: Vec<Option<(Time, i64)>>,
    received: usize,
    is_lost: bool,
}

impl Probe {
    /// A probe for `packets` packets.
    pub(super) fn new(packets: usize) -> Self {
        Self { receipts: vec![None; packets], ..Self::default() }
    }

    /// Starts a new probe at `now`.
    pub(super) fn start(&mut self, now: Time, base: Rate, test: Rate) {
        *self = Self { base, test, started: now, ..Self::new(self.receipts.len()) };
    }

    /// The rate at which its packets are sent.
    pub(super) fn rate(&self) -> Rate {
        self.base + self.test
    }

    /// Packet `number` was sent as part of the probe.
    pub(super) fn on_sent(&mut self, now: Time, number: u64, bytes: Bytes) {
        if self.sent == 0 {
            (self.first, self.first_sent_at) = (number, now);
        }
        self.bytes += self.last_bytes;
        self.sent += 1;
        (self.last_sent_at, self.last_bytes) = (now, bytes);
    }

    /// Whether all its packets were sent.
    pub(super) fn is_sent(&self) -> bool {
        self.sent >= self.receipts.len()
    }

    /// Whether packet `number` belongs to it.
    pub(super) fn contains(&self, number: u64) -> bool {
        number.wrapping_sub(self.first) < self.sent as u64
    }

    /// Whether any receipt arrived.
    pub(super) fn has_receipts(&self) -> bool {
        self.received > 0
    }

    /// A packet arrived, maybe one of these.
    pub(super) fn on_arrival(&mut self, arrival: &Arrival) {
        if !self.contains(arrival.number) {
            return;
        }
        let receipt = self.receipts.get_mut(arrival.number.wrapping_sub(self.first) as usize);
        if let Some(receipt) = receipt.filter(|receipt| receipt.is_none()) {
            *receipt = Some((arrival.sent_at, arrival.one_way_delay()));
            self.received += 1;
        }
    }

    /// One of its packets was lost.
    pub(super) fn on_loss(&mut self) {
        self.is_lost = true;
    }

    /// Whether the result is final.
    pub(super) fn is_complete(&self) -> bool {
        self.is_lost || self.received == self.receipts.len()
    }

    /// The result from the receipts so far.
    pub(super) fn judge(&self, random: &mut Random) -> ProbeResult {
        let span = self.last_sent_at.since(self.first_sent_at);
        let flat = RESOLUTION.as_nanos() as f64 / (span.as_nanos() as f64).max(1.0);
        let all_arrived = !self.is_lost && self.received == self.receipts.len();
        match self.line().filter(|_| all_arrived) {
            Some(line) if line.is_consistent_with(flat, random) => self.granted(span),
            _ => ProbeResult::Rejected,
        }
    }

    /// The line through its delays.
    fn line(&self) -> Option<Line> {
        let &(origin, first_delay) = self.receipts.iter().flatten().next()?;
        Line::fit(self.receipts.iter().flatten().map(|(sent_at, delay)| {
            let x = sent_at.as_nanos().wrapping_sub(origin.as_nanos()) as i64;
            (x as f64, delay.wrapping_sub(first_delay) as f64)
        }))
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
    const TEST: Rate = Rate::from_bps(4_000_000); // together one packet per millisecond

    /// A probe of one packet every `stretch` milliseconds with these one-way delays in microseconds.
    fn probe(stretch: u64, delays: &[i64]) -> Probe {
        let mut probe = Probe::new(delays.len());
        probe.start(Time::ZERO, BASE, TEST);
        for (i, delay) in delays.iter().enumerate() {
            let sent_at = Time::ZERO + Duration::from_millis(1000 + stretch * i as u64);
            probe.on_sent(sent_at, i as u64, PACKET);
            let arrival = arrival(i as u64, sent_at, *delay);
            (0..2).for_each(|_| probe.on_arrival(&arrival)); // a repeated receipt counts once
        }
        probe
    }

    fn arrival(number: u64, sent_at: Time, delay: i64) -> Arrival {
        let received_at = Time::from_nanos(sent_at.as_nanos().wrapping_add_signed(delay * 1000));
        Arrival { number, bytes: PACKET, sent_at, received_at, ecn: Ecn::NotEct }
    }

    fn judge(probe: &Probe) -> ProbeResult {
        probe.judge(&mut Random::from_seed(1))
    }

    fn accepted(probe: &Probe) -> usize {
        let mut random = Random::from_seed(1);
        (0..1000).filter(|_| matches!(probe.judge(&mut random), ProbeResult::Accepted(_))).count()
    }

    #[test]
    fn flat_or_falling_delays_are_accepted_and_growing_ones_are_not() {
        assert_eq!(accepted(&probe(1, &[50; 5])), 1000);
        assert_eq!(accepted(&probe(1, &[500, 400, 300, 200, 100])), 1000);
        assert_eq!(accepted(&probe(1, &[100, 200, 300, 400, 500])), 0);
        assert_eq!(accepted(&probe(1, &[50, 51, 52, 53, 54])), 0, "the clock resolves it");
    }

    #[test]
    fn the_noisier_the_delays_the_more_chance_decides() {
        let clear = accepted(&probe(1, &[100, 110, 135, 145, 160]));
        let noisy = accepted(&probe(1, &[100, 300, 20, 330, 160]));
        assert!(clear < 60 && (500..900).contains(&noisy), "{clear} {noisy}");
    }

    #[test]
    fn an_unknown_clock_offset_changes_nothing() {
        let offset = -40_000_000_000; // the receiver's clock is 11 hours behind, which gives times before zero
        assert_eq!(accepted(&probe(1, &[offset; 5])), 1000);
        assert_eq!(accepted(&probe(1, &[1, 2, 3, 4, 5].map(|i| offset + 100 * i))), 0);
    }

    #[test]
    fn a_lost_or_missing_packet_rejects_the_probe() {
        let mut lost = probe(1, &[50; 5]);
        assert!(lost.is_complete());
        lost.on_loss();
        assert_eq!((lost.is_complete(), judge(&lost)), (true, ProbeResult::Rejected));
        let mut missing = probe(1, &[50; 5]);
        (missing.receipts[2], missing.received) = (None, 4);
        assert_eq!((missing.is_complete(), judge(&missing)), (false, ProbeResult::Rejected));
    }

    #[test]
    fn a_probe_grants_no_more_than_it_sent() {
        assert_eq!(judge(&probe(1, &[50; 5])), ProbeResult::Accepted(TEST));
        assert_eq!(judge(&probe(2, &[50; 5])), ProbeResult::Inconclusive);
        let mut late = probe(1, &[50; 5]);
        late.last_sent_at = Time::ZERO + Duration::from_millis(1006); // 4 packets in 6 ms: 5.3 Mb/s
        assert_eq!(judge(&late), ProbeResult::Accepted(Rate::from_bps(1_333_333)));
    }
}
