//! The sender's half of the protocol, for one receiver: handshake, sequence numbers, times of probes.
//!
//! ```text
//!            SYN, again after 1, 2 s             SYN-ACK
//! SynDue ───────────────────────────► SynSent ───────────► HasCm   ── data has headers, a probe twice a round trip
//!    ▲                                   │ no answer, or ICMP         │
//!    │                                   ▼                            │ RST, or half a minute without a response
//!    ├──── later, with data ── NoCm   ── no headers                   │
//!    └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A host that reports that it has no Congestion Manager is asked again after a minute. Lost `Syn`s prove less: the
//! next handshake starts after eight seconds, then after twice as long each time, up to a minute.
//!
//! A round trip may grow to many intervals of probes. After 64 probes without a response the interval grows with the time
//! since the first of them, so that the response finds its probe among those that are stored.
//!
//! Data does not wait for the handshake: it is sent without a header, in slow start, and its outcome remains unknown.

use std::collections::BTreeMap;
use std::hash::Hasher;

use rampmeter_units::{Duration, Time};
use rampmeter_wire::{CM_HEADER_BYTES, CmHeader, CmKind, UDP_BYTES};

use super::RECENT;
use super::own_socket::OwnHeader;
use super::probes::{Name, Probes};
use super::reordering::Reordering;
use crate::RttEstimator;

const MAX_ATTEMPTS: u32 = 3;

/// Until a round trip is measured.
const ASSUMED_RTT: Duration = Duration::from_secs(1);

/// The timeout of the first attempt; it doubles.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// How long a receiver without a Congestion Manager gets no further `Syn`.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// The same after the first handshake without an answer; it doubles, up to `RETRY_AFTER`.
const FIRST_RETRY_AFTER: Duration = Duration::from_secs(8);

/// Time without a response after which the handshake is repeated: a `Reset` may have been lost.
const LONG_TIMEOUT: Duration = Duration::from_secs(30);

/// The minimum interval of probes.
const MIN_GAP: Duration = Duration::from_micros(10);

/// While many probes are unanswered, their interval is at least this part of the time since the oldest: the round trip
/// is that long, and its responses must find their probes.
const PART_OF_UNANSWERED: u64 = 8;

/// The maximum of this interval, so that feedback returns soon after an outage.
const MAX_GAP: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The `Syn` has to be sent.
    SynDue,
    /// The `Syn` has been sent `attempts` times.
    SynSent { attempts: u32, sent_at: Time },
    /// The receiver has a Congestion Manager.
    HasCm,
    /// The receiver has no Congestion Manager.
    NoCm { until: Time },
}

/// What a prober has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Send(CmHeader),
    Probe,
    /// The answer to a probe sent at this time is overdue.
    FeedbackOverdue(Time),
    /// Packets without a header, the first of them sent at this time, no longer count as in flight.
    UnknownOutcome(Time),
    /// No response has arrived for so long that the receiver may have lost its state; or names need another secret.
    Restart,
}

#[derive(Debug)]
pub(crate) struct Prober {
    pub(crate) state: State,
    /// The source of secrets, which is never sent.
    key: u64,
    /// The number of handshakes before this one.
    handshakes: u64,
    /// The secret of this handshake, known to the receiver only.
    secret: u64,
    /// The sequence number of the last data packet.
    sequence: u32,
    pub(crate) probes: Probes,
    pub(crate) reordering: Reordering,
    /// The interval of probes, in eighths of a round trip.
    pub(super) probe_interval: u32,
    /// The time of the last probe.
    probed_at: Time,
    last_response_at: Time,
    /// The time of the last `SynAck`.
    verified_at: Time,
    /// The receiver's Congestion Manager knows the secret: it accepts packets that programs send from sockets of their
    /// own.
    knows_secret: bool,
    /// The wait after the next handshake without an answer.
    retry_after: Duration,
    /// Probes sent since the last response.
    unanswered: u32,
    /// Overdue feedback has been reported since the last response.
    overdue_reported: bool,
    /// The last response came after overdue feedback had been reported.
    was_late: bool,
    /// Packets without a header that count as in flight: bytes by flow, and since when.
    pub(crate) without_header: BTreeMap<Name, u64>,
    without_header_since: Time,
    /// The last round trip measured to this receiver.
    pub(crate) rtt: Option<Duration>,
    /// Their mean. Programs can report others, which must not decide when probes are sent.
    mean_rtt: RttEstimator,
    /// Numbers of probes and of responses.
    pub(crate) counts: (u64, u64),
    /// The minimum time after which feedback is overdue.
    pub(crate) min_timeout: Duration,
}

impl Prober {
    /// A prober whose secrets cannot be predicted without `key`.
    pub(crate) fn new(key: u64) -> Self {
        Self::with_handshake(key, 0)
    }

    fn with_handshake(key: u64, handshakes: u64) -> Self {
        let secret = secret(key, handshakes);
        let first = (secret >> 32) as u32;
        Self {
            state: State::SynDue,
            key,
            handshakes,
            secret,
            sequence: first,
            probes: Probes::new(first),
            reordering: Reordering::default(),
            probe_interval: super::PROBE_INTERVAL,
            probed_at: Time::ZERO,
            last_response_at: Time::ZERO,
            verified_at: Time::ZERO,
            knows_secret: false,
            retry_after: FIRST_RETRY_AFTER,
            unanswered: 0,
            overdue_reported: false,
            was_late: false,
            without_header: BTreeMap::new(),
            without_header_since: Time::ZERO,
            rtt: None,
            mean_rtt: RttEstimator::default(),
            counts: (0, 0),
            min_timeout: Duration::ZERO,
        }
    }

    /// Restarts with another secret, and returns the old accounting. The receiver of the old secret may have been
    /// another program than the receiver's Congestion Manager.
    pub(crate) fn restart(&mut self) -> Probes {
        let mut new = Self::with_handshake(self.key, self.handshakes + 1);
        (new.rtt, new.mean_rtt, new.counts) = (self.rtt, self.mean_rtt, self.counts);
        (new.min_timeout, new.probe_interval) = (self.min_timeout, self.probe_interval);
        (new.without_header, new.without_header_since) =
            (std::mem::take(&mut self.without_header), self.without_header_since);
        new.probes.own_names = std::mem::take(&mut self.probes.own_names);
        std::mem::replace(self, new).probes
    }

    /// A data packet with `payload` bytes leaves. Returns the sequence number for its header, if it has one, and its
    /// size.
    pub(crate) fn send(&mut self, now: Time, name: Name, payload: u64) -> (Option<u32>, u64) {
        let has_header = self.state == State::HasCm;
        let whole = self.count(now, name, payload, has_header);
        self.sequence = self.sequence.wrapping_add(u32::from(has_header));
        (has_header.then_some(self.sequence), whole)
    }

    /// Counts a packet with `payload` bytes that leaves, or has left, with a header that the receiver knows or without
    /// one. Returns its size.
    pub(crate) fn count(&mut self, now: Time, name: Name, payload: u64, has_header: bool) -> u64 {
        if matches!(self.state, State::NoCm { until } if until <= now) {
            let retry_after = self.retry_after;
            self.restart();
            self.retry_after = retry_after;
        }
        if has_header {
            if !self.probes.has_unprobed() && !self.probes.is_waiting() {
                // After idle time the intervals of probes restart, and no response is overdue.
                (self.probed_at, self.last_response_at) = (now, now);
            }
            let whole = payload + (UDP_BYTES + CM_HEADER_BYTES) as u64;
            self.probes.send(name, payload, whole);
            return whole;
        }
        let whole = payload + UDP_BYTES as u64;
        if self.without_header.is_empty() {
            self.without_header_since = now;
        }
        *self.without_header.entry(name).or_default() += whole;
        whole
    }

    /// The header of a `Syn`: the secret.
    fn syn(&self) -> CmHeader {
        CmHeader { flow: self.secret as u32, ..CmHeader::control(CmKind::Syn, self.first()) }
    }

    /// The number before that of the first data packet.
    pub(crate) fn first(&self) -> u32 {
        (self.secret >> 32) as u32
    }

    /// The contents of the headers of the program's flow with this name.
    pub(crate) fn own_header(&self, name: u32) -> Option<OwnHeader> {
        let is_known = self.state == State::HasCm && self.knows_secret;
        is_known.then(|| OwnHeader::new(&self.syn(), name))
    }

    /// Handles a `SynAck`. Returns whether it completes the handshake.
    pub(crate) fn on_syn_ack(&mut self, now: Time, answer: &CmHeader) -> bool {
        let State::SynSent { attempts, sent_at } = self.state else { return false };
        let syn = self.syn();
        // A receiver of an earlier version does not repeat the second half.
        if answer.sequence != syn.sequence || (answer.flow != 0 && answer.flow != syn.flow) {
            return false;
        }
        self.state = State::HasCm;
        self.knows_secret = answer.flow == syn.flow;
        (self.last_response_at, self.verified_at) = (now, now);
        // After a retransmission it is unknown which attempt was answered (Karn's rule).
        if attempts == 1 {
            self.on_rtt(now.since(sent_at));
        }
        true
    }

    /// A round trip was measured.
    pub(crate) fn on_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(rtt);
        self.mean_rtt.sample(rtt);
    }

    /// A flow is opened after a time without flows. The last round trip counts again, as in a macroflow that starts, and
    /// no response has been overdue.
    pub(crate) fn resume(&mut self, now: Time) {
        if let Some(rtt) = self.rtt {
            self.on_rtt(rtt);
        }
        self.last_response_at = self.last_response_at.max(now);
    }

    /// The smoothed round trip, and the retransmission timeout (RFC 6298).
    pub(crate) fn round_trip(&self) -> (Duration, Duration) {
        let smoothed = if self.rtt.is_some() { self.mean_rtt.smoothed() } else { ASSUMED_RTT };
        (smoothed, self.mean_rtt.timeout(ASSUMED_RTT * 3, Duration::ZERO))
    }

    /// Whether the exchange may restart: once a second at most, whatever the receiver sends.
    pub(crate) fn may_restart(&self, now: Time) -> bool {
        now.since(self.verified_at) >= FIRST_WAIT
    }

    /// The receiver's system reports that it has no Congestion Manager.
    pub(crate) fn on_unreachable(&mut self, now: Time) {
        if matches!(self.state, State::SynSent { .. }) {
            self.state = State::NoCm { until: now + RETRY_AFTER };
        }
    }

    /// Whether a `Reset` with this sequence number answers a packet of this host.
    pub(crate) fn is_ours(&self, sequence: u32) -> bool {
        self.state == State::HasCm && (self.sequence.wrapping_sub(sequence) < RECENT || self.probes.is_recent(sequence))
    }

    pub(crate) fn on_response(&mut self, now: Time) {
        self.was_late = self.overdue_reported;
        (self.last_response_at, self.unanswered, self.overdue_reported) = (now, 0, false);
        self.counts.1 += 1;
    }

    pub(crate) fn on_probe_sent(&mut self, now: Time) {
        self.probed_at = now;
        self.unanswered += 1;
        self.counts.0 += 1;
    }

    /// The time of the next action.
    pub(crate) fn deadline(&self) -> Time {
        if self.probes.own_names.are_used_up() {
            return Time::ZERO;
        }
        let unnumbered = self.next_unnumbered();
        let next = match self.state {
            State::SynDue => Time::ZERO,
            State::SynSent { attempts, sent_at } => sent_at + FIRST_WAIT * (1 << (attempts - 1)),
            State::NoCm { .. } => Time::MAX,
            State::HasCm => self.next_probe().min(self.next_overdue()),
        };
        next.min(unnumbered)
    }

    /// When the packets without a header no longer count as in flight.
    fn next_unnumbered(&self) -> Time {
        let (_, timeout) = self.round_trip();
        if self.without_header.is_empty() { Time::MAX } else { self.without_header_since + timeout.max(FIRST_WAIT) }
    }

    fn next_probe(&self) -> Time {
        let (smoothed, timeout) = self.round_trip();
        if self.probes.has_unprobed() {
            let many_since = self.probes.many_unanswered_since();
            let min_gap = many_since.map_or(MIN_GAP, |since| self.probed_at.since(since) / PART_OF_UNANSWERED);
            let interval = smoothed * u64::from(self.probe_interval) / 8; // section 4.2.1
            let gap = interval.max(self.min_timeout / 50).max(min_gap.clamp(MIN_GAP, MAX_GAP));
            self.probed_at + gap
        } else if self.probes.is_waiting() {
            // No new data, but probes without response: repeat with exponential backoff.
            self.probed_at + timeout.max(self.min_timeout / 2).max(MIN_GAP) * (1 << self.unanswered.min(6))
        } else {
            Time::MAX
        }
    }

    /// "Within a round-trip time" (section 4.4), plus an allowance for its deviation, from a quarter to a half of a
    /// round trip.
    fn next_overdue(&self) -> Time {
        let (smoothed, timeout) = self.round_trip();
        let since = self.probes.unanswered_since().filter(|_| !self.overdue_reported);
        let timeout_with_deviation = smoothed + timeout.saturating_sub(smoothed).max(smoothed / 4).min(smoothed / 2);
        // Not shortly after a response, which may answer another probe: that would not be an absence of feedback, and
        // it is reported only once. But a response after overdue feedback was late; it does not count if a later probe
        // is overdue.
        let earliest = if self.was_late { Time::ZERO } else { self.last_response_at + smoothed / 2 };
        since.map_or(Time::MAX, |since| (since + timeout_with_deviation.max(self.min_timeout)).max(earliest))
    }

    /// The action that is due at `now`.
    pub(crate) fn due(&mut self, now: Time) -> Option<Due> {
        if self.deadline() > now {
            return None;
        }
        if self.probes.own_names.are_used_up() {
            return Some(Due::Restart);
        }
        match self.state {
            State::SynDue => {
                self.state = State::SynSent { attempts: 1, sent_at: now };
                return Some(Due::Send(self.syn()));
            }
            State::SynSent { attempts, sent_at } if sent_at + FIRST_WAIT * (1 << (attempts - 1)) <= now => {
                if attempts < MAX_ATTEMPTS {
                    self.state = State::SynSent { attempts: attempts + 1, sent_at: now };
                    return Some(Due::Send(self.syn()));
                }
                self.state = State::NoCm { until: now + self.retry_after };
                self.retry_after = (self.retry_after * 2).min(RETRY_AFTER);
                return self.due(now);
            }
            State::HasCm if self.next_unnumbered() > now => {}
            State::HasCm | State::SynSent { .. } | State::NoCm { .. } => {
                let since = self.without_header_since;
                self.without_header_since = now;
                return Some(Due::UnknownOutcome(since));
            }
        }
        if now.since(self.last_response_at) >= LONG_TIMEOUT {
            return Some(Due::Restart);
        }
        if self.next_overdue() <= now {
            self.overdue_reported = true;
            return self.probes.unanswered_since().map(Due::FeedbackOverdue);
        }
        Some(Due::Probe)
    }
}

/// The secret of a handshake. Its second half is not zero, which a receiver answers that does not know the secret.
#[allow(deprecated, reason = "other hashers of the standard library may change from one version to the next")]
fn secret(key: u64, handshakes: u64) -> u64 {
    let mut hasher = std::hash::SipHasher::new_with_keys(key, 0);
    hasher.write_u64(handshakes);
    let secret = hasher.finish();
    if secret as u32 == 0 { secret | 1 } else { secret }
}

#[cfg(test)]
mod tests;
