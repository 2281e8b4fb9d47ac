//! A probe: `k` packets at base + test rate, accepted if their delays do not grow (section 3.1, Figure 1).
//!
//! A line is fitted to the packets' one-way delays over their sending times. Its true slope is sampled from the
//! distribution that the fit gives, and the probe is accepted if the sampled slope is not positive. So flat and
//! decreasing delays are accepted, steadily growing ones are rejected, and the noisier the delays, the more chance
//! decides.
//!
//! A probe with a lost packet is rejected. A probe whose packets left late tested a lower rate: it grants what it sent
//! beyond the base rate. If it sent no more than the base rate, it is inconclusive.

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};

use crate::Arrival;
use crate::line::Line;

/// Growth of delay over a probe that clocks cannot resolve. It counts as flat.
const RESOLUTION: Duration = Duration::from_nanos(100);

/// A probe was sent as planned if its rate was at least this share of the planned one.
const SENT_AS_PLANNED: f64 = 0.9;

/// The result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// The path can carry this much more.
    Accepted(Rate),
    /// The path cannot carry the test rate.
    Rejected,
    /// The packets left too late for a conclusion.
    Inconclusive,
}

#[derive(Debug, Clone)]
pub(super) struct Probe {
    k: usize,
    base: Rate,
    test: Rate,
    started: Time,
    /// The number of its first packet; the others follow.
    first: u64,
    sent: usize,
    first_sent_at: Time,
    last_sent_at: Time,
    /// Bytes sent before the last packet: what was sent from `first_sent_at` to `last_sent_at`.
    bytes: Bytes,
    last_bytes: Bytes,
    /// The sending time and the delay of each packet. `None` until it is known to have arrived.
    delays: Vec<Option<(Time, i64)>>,
    lost: bool,
}

impl Probe {
    pub(super) fn new(k: usize) -> Self {
        Self {
            k,
            base: Rate::ZERO,
            test: Rate::ZERO,
            started: Time::ZERO,
            first: 0,
            sent: 0,
            first_sent_at: Time::ZERO,
            last_sent_at: Time::ZERO,
            bytes: Bytes::ZERO,
            last_bytes: Bytes::ZERO,
            delays: vec![None; k],
            lost: false,
        }
    }

    /// Starts a new probe for `test` on top of `base`.
    pub(super) fn start(&mut self, now: Time, base: Rate, test: Rate) {
        *self = Self { base, test, started: now, ..Self::new(self.k) };
    }

    pub(super) fn started(&self) -> Time {
        self.started
    }

    pub(super) fn test(&self) -> Rate {
        self.test
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
        self.sent += 1;
        self.bytes += self.last_bytes;
        (self.last_sent_at, self.last_bytes) = (now, bytes);
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent >= self.k
    }

    /// Whether packet `number` is one of the probe's.
    pub(super) fn contains(&self, number: u64) -> bool {
        number.wrapping_sub(self.first) < self.sent as u64
    }

    /// A packet arrived. Packets that are not the probe's are ignored.
    pub(super) fn on_arrival(&mut self, arrival: &Arrival) {
        if self.contains(arrival.number) {
            if let Some(delay) = self.delays.get_mut(arrival.number.wrapping_sub(self.first) as usize) {
                delay.get_or_insert((arrival.sent_at, arrival.one_way_delay()));
            }
        }
    }

    /// One of its packets was lost.
    pub(super) fn on_loss(&mut self) {
        self.lost = true;
    }

    /// Whether any of its packets is known to have arrived.
    pub(super) fn is_answered(&self) -> bool {
        self.delays.iter().any(Option::is_some)
    }

    /// Whether the result is final.
    pub(super) fn is_complete(&self) -> bool {
        self.lost || self.delays.iter().all(Option::is_some)
    }

    /// Accepts or rejects the probe.
    pub(super) fn judge(&self, random: &mut Stream) -> ProbeResult {
        if self.lost || !self.is_complete() {
            return ProbeResult::Rejected;
        }
        let span = self.last_sent_at.since(self.first_sent_at);
        let flat = RESOLUTION.as_nanos() as f64 / span.as_nanos() as f64;
        match self.line() {
            Some(line) if line.sample_slope(random) <= flat => self.granted(span),
            _ => ProbeResult::Rejected,
        }
    }

    /// The line through the delays over the times the packets left.
    fn line(&self) -> Option<Line> {
        let &(origin, first) = self.delays.iter().flatten().next()?;
        Line::fit(self.delays.iter().flatten().map(|(sent_at, delay)| {
            let x = sent_at.as_nanos().wrapping_sub(origin.as_nanos()) as i64;
            (x as f64, delay.wrapping_sub(first) as f64)
        }))
    }

    fn granted(&self, span: Duration) -> ProbeResult {
        let sent = Rate::of(self.bytes, span);
        match sent.saturating_sub(self.base) {
            _ if sent >= self.rate().scale(SENT_AS_PLANNED) => ProbeResult::Accepted(self.test),
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

    /// A probe of one packet every `millis` milliseconds, with these one-way delays in microseconds.
    fn probe(millis: u64, delays: &[i64]) -> Probe {
        let mut probe = Probe::new(delays.len());
        probe.start(Time::ZERO, BASE, TEST);
        for (number, delay) in (7..).zip(delays) {
            let sent_at = Time::ZERO + Duration::from_millis(1000 + millis * number);
            probe.on_sent(sent_at, number, PACKET);
            let received_at = Time::from_nanos(sent_at.as_nanos().wrapping_add_signed(delay * 1000));
            probe.on_arrival(&Arrival { number, bytes: PACKET, sent_at, received_at, ecn: Ecn::NotEct });
        }
        probe
    }

    fn accepted_of_1000(delays: &[i64]) -> usize {
        let (probe, mut random) = (probe(1, delays), Stream::from_seed(1));
        (0..1000).filter(|_| probe.judge(&mut random) == ProbeResult::Accepted(TEST)).count()
    }

    #[test]
    fn flat_or_decreasing_delays_are_accepted() {
        assert_eq!(accepted_of_1000(&[50; 5]), 1000);
        assert_eq!(accepted_of_1000(&[500, 400, 300, 200, 100]), 1000);
    }

    #[test]
    fn steadily_growing_delays_are_rejected() {
        assert_eq!(accepted_of_1000(&[100, 200, 300, 400, 500]), 0);
        assert_eq!(accepted_of_1000(&[50, 51, 52, 53, 54]), 0);
    }

    #[test]
    fn the_noisier_the_delays_the_more_chance_decides() {
        let clear = accepted_of_1000(&[100, 110, 135, 145, 160]);
        let noisy = accepted_of_1000(&[100, 300, 20, 330, 160]);
        assert!(clear < 60 && (300..500).contains(&noisy), "{clear} {noisy}");
    }

    #[test]
    fn an_offset_between_the_clocks_changes_nothing() {
        let offset = -40_000_000_000; // the receiver's clock is 11 hours behind, which gives times before zero
        assert_eq!(accepted_of_1000(&[offset; 5]), 1000);
        assert_eq!(accepted_of_1000(&[1, 2, 3, 4, 5].map(|i| offset + 100 * i)), 0);
    }

    #[test]
    fn a_lost_or_missing_packet_rejects_the_probe() {
        let mut random = Stream::from_seed(1);
        let mut lossy = probe(1, &[50; 5]);
        lossy.on_loss();
        assert_eq!((lossy.is_complete(), lossy.judge(&mut random)), (true, ProbeResult::Rejected));
        let mut waiting = probe(1, &[50; 5]);
        waiting.delays[2] = None;
        assert_eq!((waiting.is_complete(), waiting.judge(&mut random)), (false, ProbeResult::Rejected));
    }

    #[test]
    fn a_probe_grants_no_more_than_it_sent() {
        let mut random = Stream::from_seed(1);
        assert_eq!(probe(2, &[50; 5]).judge(&mut random), ProbeResult::Inconclusive); // 4 Mb/s: the base rate
        let mut late = probe(1, &[50; 5]);
        late.last_sent_at = late.first_sent_at + Duration::from_millis(6); // 4 packets in 6 ms: 5.333 Mb/s
        assert_eq!(late.judge(&mut random), ProbeResult::Accepted(Rate::from_bps(1_333_333)));
    }
}
