//! The sender's half of the protocol, for one receiver: handshake, sequence numbers, times of probes.
//!
//! ```text
//!            SYN, again after 1, 2 s             SYN-ACK
//! SynDue ───────────────────────────► SynSent ───────────► HasCm   ── data has headers, a probe twice a round trip
//!    ▲                                   │ no answer, or ICMP         │
//!    │                                   ▼                            │ RST, or half a minute without a response
//!    ├──── a minute later, with data ── NoCm   ── no headers          │
//!    └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Data does not wait for the handshake: it is sent without a header, in slow start, and its outcome remains unknown.

use rampmeter_units::{Duration, Time};
use rampmeter_wire::{CM_HEADER_BYTES, CmHeader, CmKind, UDP_BYTES};

use super::probes::{Name, Probes};
use super::reordering::Reordering;

const MAX_ATTEMPTS: u32 = 3;

/// The timeout of the first attempt; it doubles.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// How long a receiver without a Congestion Manager gets no further `Syn`.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Time without a response after which the handshake is repeated: a `Reset` may have been lost.
const LONG_TIMEOUT: Duration = Duration::from_secs(30);

/// The minimum interval of probes.
const MIN_GAP: Duration = Duration::from_micros(10);

/// A `Reset` may refer to this many numbers before the last one sent.
const RECENT: u32 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The `Syn` has to be sent.
    SynDue,
    /// The `Syn` has been sent `attempts` times.
    SynSent { attempts: u32, sent_at: Time },
    /// The receiver has a Congestion Manager.
    HasCm,
    /// The receiver has no Congestion Manager.
    NoCm { since: Time },
}

/// What a prober has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Send(CmHeader),
    Probe,
    /// The answer to a probe sent at this time is overdue.
    FeedbackOverdue(Time),
    /// No response has arrived for so long that the receiver may have lost its state.
    Restart,
}

#[derive(Debug)]
pub(crate) struct Prober {
    pub(crate) state: State,
    /// The source of first sequence numbers, unknown to others.
    secret: u64,
    /// The sequence number of the `Syn`.
    pub(crate) first: u32,
    /// The sequence number of the last data packet.
    sequence: u32,
    pub(crate) probes: Probes,
    pub(crate) reordering: Reordering,
    /// The time of the last probe.
    probed_at: Time,
    last_response_at: Time,
    /// Probes sent since the last response.
    unanswered: u32,
    /// Overdue feedback has been reported since the last response.
    overdue_reported: bool,
    /// The last response came after overdue feedback had been reported.
    was_late: bool,
    /// Packets without a header that count as in flight: bytes by flow, and since when.
    pub(crate) without_header: Vec<(Name, u64)>,
    without_header_since: Time,
    /// The last round trip measured to this receiver.
    pub(crate) rtt: Option<Duration>,
    /// Numbers of probes and of responses.
    pub(crate) counts: (u64, u64),
    /// The minimum time after which feedback is overdue.
    pub(crate) min_timeout: Duration,
}

impl Prober {
    pub(crate) fn new(secret: u64) -> Self {
        let first = (secret >> 32) as u32;
        Self {
            state: State::SynDue,
            secret,
            first,
            sequence: first,
            probes: Probes::new(first),
            reordering: Reordering::default(),
            probed_at: Time::ZERO,
            last_response_at: Time::ZERO,
            unanswered: 0,
            overdue_reported: false,
            was_late: false,
            without_header: Vec::new(),
            without_header_since: Time::ZERO,
            rtt: None,
            counts: (0, 0),
            min_timeout: Duration::ZERO,
        }
    }

    /// Restarts with another first number, and returns the old accounting.
    pub(crate) fn restart(&mut self) -> Probes {
        // Any bijection suffices: only the high half of the secret is sent, and only to the receiver.
        let new = Self::new(self.secret.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31));
        let (rtt, counts, min_timeout) = (self.rtt, self.counts, self.min_timeout);
        let old = std::mem::replace(self, Self { rtt, counts, min_timeout, ..new });
        old.probes
    }

    /// A data packet with `payload` bytes leaves. Returns the sequence number for its header, if it has one, and its
    /// size.
    pub(crate) fn send(&mut self, now: Time, name: Name, payload: u64) -> (Option<u32>, u64) {
        if let State::NoCm { since } = self.state {
            if now.since(since) >= RETRY_AFTER {
                self.state = State::SynDue;
            }
        }
        if self.state == State::HasCm {
            if !self.probes.has_unprobed() && !self.probes.is_waiting() {
                // After idle time the intervals of probes restart, and no response is overdue.
                (self.probed_at, self.last_response_at) = (now, now);
            }
            let whole = payload + (UDP_BYTES + CM_HEADER_BYTES) as u64;
            self.probes.send(name, payload, whole);
            self.sequence = self.sequence.wrapping_add(1);
            return (Some(self.sequence), whole);
        }
        let whole = payload + UDP_BYTES as u64;
        if self.without_header.is_empty() {
            self.without_header_since = now;
        }
        match self.without_header.iter_mut().find(|(known, _)| *known == name) {
            Some((_, bytes)) => *bytes += whole,
            None => self.without_header.push((name, whole)),
        }
        (None, whole)
    }

    /// Handles a `SynAck`. Returns whether it completes the handshake.
    pub(crate) fn on_syn_ack(&mut self, now: Time, sequence: u32) -> bool {
        let State::SynSent { attempts, sent_at } = self.state else { return false };
        if sequence != self.first {
            return false;
        }
        self.state = State::HasCm;
        self.last_response_at = now;
        // After a retransmission it is unknown which attempt was answered (Karn's rule).
        self.rtt = (attempts == 1).then(|| now.since(sent_at)).or(self.rtt);
        true
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

    /// The time of the next action, for a path with this smoothed round trip and retransmission timeout.
    pub(crate) fn deadline(&self, smoothed: Duration, timeout: Duration) -> Time {
        let unnumbered = if self.without_header.is_empty() || self.state == State::HasCm {
            Time::MAX
        } else {
            self.without_header_since + timeout.max(FIRST_WAIT)
        };
        let next = match self.state {
            State::SynDue => Time::ZERO,
            State::SynSent { attempts, sent_at } => sent_at + FIRST_WAIT * (1 << (attempts - 1)),
            State::NoCm { .. } => Time::MAX,
            State::HasCm => self.next_probe(smoothed, timeout).min(self.next_overdue(smoothed, timeout)),
        };
        next.min(unnumbered)
    }

    fn next_probe(&self, smoothed: Duration, timeout: Duration) -> Time {
        if self.probes.has_unprobed() {
            self.probed_at + (smoothed / 2).max(self.min_timeout / 50).max(MIN_GAP) // section 4.2.1
        } else if self.probes.is_waiting() {
            // No new data, but probes without response: repeat with exponential backoff.
            self.probed_at + timeout.max(self.min_timeout / 2).max(MIN_GAP) * (1 << self.unanswered.min(6))
        } else {
            Time::MAX
        }
    }

    /// "Within a round-trip time" (section 4.4), plus an allowance for its deviation, from a quarter to a half of a
    /// round trip.
    fn next_overdue(&self, smoothed: Duration, timeout: Duration) -> Time {
        let since = self.probes.unanswered_since().filter(|_| !self.overdue_reported);
        let timeout_with_deviation = smoothed + timeout.saturating_sub(smoothed).max(smoothed / 4).min(smoothed / 2);
        // Not shortly after a response, which may answer another probe: that would not be an absence of feedback, and
        // it is reported only once. But a response after overdue feedback was late; it does not count if a later probe
        // is overdue.
        let earliest = if self.was_late { Time::ZERO } else { self.last_response_at + smoothed / 2 };
        since.map_or(Time::MAX, |since| (since + timeout_with_deviation.max(self.min_timeout)).max(earliest))
    }

    /// The action that is due at `now`.
    pub(crate) fn due(&mut self, now: Time, smoothed: Duration, timeout: Duration) -> Option<Due> {
        if self.deadline(smoothed, timeout) > now {
            return None;
        }
        match self.state {
            State::SynDue => {
                self.state = State::SynSent { attempts: 1, sent_at: now };
                return Some(Due::Send(CmHeader::control(CmKind::Syn, self.first)));
            }
            State::SynSent { attempts, sent_at } if sent_at + FIRST_WAIT * (1 << (attempts - 1)) <= now => {
                if attempts < MAX_ATTEMPTS {
                    self.state = State::SynSent { attempts: attempts + 1, sent_at: now };
                    return Some(Due::Send(CmHeader::control(CmKind::Syn, self.first)));
                }
                self.state = State::NoCm { since: now };
                return self.due(now, smoothed, timeout);
            }
            State::HasCm => {}
            State::SynSent { .. } | State::NoCm { .. } => {
                let since = self.without_header_since;
                self.without_header_since = now;
                return Some(Due::FeedbackOverdue(since));
            }
        }
        if now.since(self.last_response_at) >= LONG_TIMEOUT {
            return Some(Due::Restart);
        }
        if self.next_overdue(smoothed, timeout) <= now {
            self.overdue_reported = true;
            return self.probes.unanswered_since().map(Due::FeedbackOverdue);
        }
        Some(Due::Probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::FlowId;

    const RTT: Duration = Duration::from_millis(100);
    const RTO: Duration = Duration::from_millis(300);
    const NAME: Name = Name { wire: 1, flow: FlowId(0) };

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn prober_with_cm() -> Prober {
        let mut prober = Prober::new(7 << 32);
        assert_eq!(prober.due(at(0), RTT, RTO), Some(Due::Send(CmHeader::control(CmKind::Syn, 7))));
        assert!(!prober.on_syn_ack(at(100), 8) && prober.on_syn_ack(at(100), 7));
        assert_eq!(prober.rtt, Some(RTT));
        prober
    }

    #[test]
    fn a_receiver_that_ignores_three_syns_has_no_cm() {
        let mut prober = Prober::new(7 << 32);
        let mut sent = Vec::new();
        for ms in 0..20_000 {
            while let Some(due) = prober.due(at(ms), RTT, RTO) {
                assert!(matches!(due, Due::Send(_)));
                sent.push(ms);
            }
        }
        assert_eq!(sent, [0, 1000, 3000]);
        assert_eq!(prober.state, State::NoCm { since: at(7000) });
        assert_eq!(prober.send(at(30_000), NAME, 1000), (None, 1028));
        assert_eq!(
            prober.due(at(31_000), RTT, RTO),
            Some(Due::FeedbackOverdue(at(30_000))),
            "its outcome remains unknown"
        );
        prober.send(at(68_000), NAME, 1000);
        assert!(matches!(prober.due(at(68_000), RTT, RTO), Some(Due::Send(_))), "it may have one by now");
    }

    #[test]
    fn data_is_numbered_and_probed_twice_a_round_trip() {
        let mut prober = prober_with_cm();
        let mut probes = 0;
        for ms in 100..1100 {
            if ms % 10 == 0 {
                let number = prober.send(at(ms), NAME, 1000).0.unwrap();
                assert_eq!(u64::from(number), 8 + (ms - 100) / 10);
            }
            while let Some(due) = prober.due(at(ms), RTT, RTO) {
                match due {
                    Due::Probe => {
                        prober.probes.probe(at(ms));
                        prober.on_probe_sent(at(ms));
                        prober.on_response(at(ms));
                        probes += 1;
                    }
                    Due::FeedbackOverdue(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!((19..=20).contains(&probes), "{probes}");
    }

    #[test]
    fn unanswered_probes_are_reported_then_rarer_then_a_restart() {
        let mut prober = prober_with_cm();
        prober.send(at(100), NAME, 1000);
        let mut seen = Vec::new();
        for ms in 100..1_000_000 {
            while let Some(due) = prober.due(at(ms), RTT, RTO) {
                seen.push((ms, due));
                match due {
                    Due::Probe => {
                        prober.probes.probe(at(ms));
                        prober.on_probe_sent(at(ms));
                    }
                    Due::Restart => {
                        let probes = seen.iter().filter(|(_, due)| *due == Due::Probe).count();
                        return assert!(probes > 5 && probes < 12 && ms > 30_000, "{seen:?}");
                    }
                    Due::FeedbackOverdue(since) => assert_eq!((since, ms), (at(150), 300)),
                    Due::Send(_) => panic!("{seen:?}"),
                }
            }
        }
        panic!("{seen:?}");
    }

    #[test]
    fn a_reset_must_refer_to_a_sent_packet() {
        let mut prober = prober_with_cm();
        let number = prober.send(at(100), NAME, 1000).0.unwrap();
        assert!(prober.is_ours(number) && !prober.is_ours(number.wrapping_add(5000)));
    }
}
