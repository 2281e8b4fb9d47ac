//! The sending half of the protocol, for one receiver: handshake, sequence numbers, when to probe.
//!
//! ```text
//!            SYN, again after 1, 2 s             SYN-ACK
//! Asking ───────────────────────────► (waits) ───────────► Present ── data has headers, a probe twice a round trip
//!    ▲                                   │ no answer, or ICMP         │
//!    │                                   ▼                            │ RST, or half a minute of silence
//!    ├──── a minute later, with data ── Absent ── data goes bare      │
//!    └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Data does not wait for the handshake: it goes without a header, in slow start, and nobody will tell what became of it.

use rampmeter_units::{Duration, Time};
use rampmeter_wire::{CmHeader, CmKind};

use super::probes::{Name, Probes};
use super::reordering::Reordering;

/// Attempts at a handshake.
const MAX_ATTEMPTS: u32 = 3;

/// Time for the first attempt; it doubles.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// How long a receiver without a Congestion Manager is left alone.
const ABSENCE: Duration = Duration::from_secs(60);

/// Silence after which the handshake begins anew: a `Reset` may not have got through.
const LONG_SILENCE: Duration = Duration::from_secs(30);

/// The least time between two probes, where a path takes none.
const MIN_GAP: Duration = Duration::from_micros(10);

/// Numbers behind the last one sent that a `Reset` may name.
const RECENT: u32 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The `Syn` is to be sent.
    Asking,
    /// It was sent, for the n-th time.
    Waiting { attempts: u32, sent_at: Time },
    /// The receiver has a Congestion Manager.
    Present,
    /// It has none.
    Absent { since: Time },
}

/// What a prober wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Send this.
    Send(CmHeader),
    /// It's time for a probe.
    Probe,
    /// What was asked at that time should have been answered by now.
    Silence(Time),
    /// The receiver has been silent for so long that it may not know us any more.
    Begin,
}

#[derive(Debug)]
pub(crate) struct Prober {
    pub(crate) state: State,
    /// First numbers come from it; nobody knows it but us.
    secret: u64,
    /// The sequence number of the `Syn`.
    pub(crate) first: u32,
    /// The last data packet's.
    sequence: u32,
    pub(crate) probes: Probes,
    pub(crate) reordering: Reordering,
    /// When a probe was last sent.
    probed_at: Time,
    /// When the receiver last spoke.
    heard_at: Time,
    /// Probes since then.
    unanswered: u32,
    /// Silence has been told since the last response.
    silent: bool,
    /// The last response ended a silence.
    resumed: bool,
    /// What went without a header and counts as outstanding: whole bytes by flow, and since when.
    pub(crate) bare: Vec<(Name, u64)>,
    bare_since: Time,
    /// What an open receiver's round trip was last measured to be.
    pub(crate) rtt: Option<Duration>,
    /// Probes sent, and responses to them.
    pub(crate) tally: (u64, u64),
    /// Silence means nothing before.
    pub(crate) min_patience: Duration,
}

impl Prober {
    pub(crate) fn new(secret: u64) -> Self {
        let first = (secret >> 32) as u32;
        Self {
            state: State::Asking,
            secret,
            first,
            sequence: first,
            probes: Probes::new(first),
            reordering: Reordering::default(),
            probed_at: Time::ZERO,
            heard_at: Time::ZERO,
            unanswered: 0,
            silent: false,
            resumed: false,
            bare: Vec::new(),
            bare_since: Time::ZERO,
            rtt: None,
            tally: (0, 0),
            min_patience: Duration::ZERO,
        }
    }

    /// Begins anew with another first number; gives up the books.
    pub(crate) fn begin_anew(&mut self) -> Probes {
        // Any bijection does: its high half is all that is shown of the secret, and only to the receiver.
        let fresh = Self::new(self.secret.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31));
        let (rtt, tally, min_patience) = (self.rtt, self.tally, self.min_patience);
        let old = std::mem::replace(self, Self { rtt, tally, min_patience, ..fresh });
        old.probes
    }

    /// A data packet with `payload` bytes leaves; with its header, it is of `headed` bytes, without one of `bare`. The
    /// header, if it is to have one.
    pub(crate) fn send(&mut self, now: Time, name: Name, payload: u64, bare: u64, headed: u64) -> Option<u32> {
        if let State::Absent { since } = self.state {
            if now.since(since) >= ABSENCE {
                self.state = State::Asking;
            }
        }
        if self.state == State::Present {
            if !self.probes.has_news() && !self.probes.is_waiting() {
                // After a pause the clock of probes begins anew, and nobody was silent who was not asked.
                (self.probed_at, self.heard_at) = (now, now);
            }
            self.probes.send(name, payload, headed);
            self.sequence = self.sequence.wrapping_add(1);
            return Some(self.sequence);
        }
        if self.bare.is_empty() {
            self.bare_since = now;
        }
        match self.bare.iter_mut().find(|(known, _)| *known == name) {
            Some((_, bytes)) => *bytes += bare,
            None => self.bare.push((name, bare)),
        }
        None
    }

    /// The receiver says that it is there. False if it does not, or had said so before.
    pub(crate) fn on_syn_ack(&mut self, now: Time, sequence: u32) -> bool {
        let State::Waiting { attempts, sent_at } = self.state else { return false };
        if sequence != self.first {
            return false;
        }
        self.state = State::Present;
        self.heard_at = now;
        // Of a second attempt nobody can tell which one was answered (Karn's rule).
        self.rtt = (attempts == 1).then(|| now.since(sent_at)).or(self.rtt);
        true
    }

    /// Whether a `Reset` that names `sequence` answers something that we have sent.
    pub(crate) fn is_ours(&self, sequence: u32) -> bool {
        self.state == State::Present
            && (self.sequence.wrapping_sub(sequence) < RECENT || self.probes.is_recent(sequence))
    }

    /// A response has come.
    pub(crate) fn heard(&mut self, now: Time) {
        self.resumed = self.silent;
        (self.heard_at, self.unanswered, self.silent) = (now, 0, false);
        self.tally.1 += 1;
    }

    /// A probe leaves.
    pub(crate) fn probed(&mut self, now: Time) {
        self.probed_at = now;
        self.unanswered += 1;
        self.tally.0 += 1;
    }

    /// When something is due, where the path has this smoothed round trip and retransmission timeout.
    pub(crate) fn deadline(&self, smoothed: Duration, timeout: Duration) -> Time {
        let bare = if self.bare.is_empty() || self.state == State::Present {
            Time::MAX
        } else {
            self.bare_since + timeout.max(FIRST_WAIT)
        };
        let next = match self.state {
            State::Asking => Time::ZERO,
            State::Waiting { attempts, sent_at } => sent_at + FIRST_WAIT * (1 << (attempts - 1)),
            State::Absent { .. } => Time::MAX,
            State::Present => self.next_probe(smoothed, timeout).min(self.next_silence(smoothed, timeout)),
        };
        next.min(bare)
    }

    fn next_probe(&self, smoothed: Duration, timeout: Duration) -> Time {
        if self.probes.has_news() {
            self.probed_at + (smoothed / 2).max(self.min_patience / 50).max(MIN_GAP) // section 4.2.1
        } else if self.probes.is_waiting() {
            // Nothing more is sent, and yet something is unanswered: asked again, ever more seldom.
            self.probed_at + timeout.max(self.min_patience / 2).max(MIN_GAP) * (1 << self.unanswered.min(6))
        } else {
            Time::MAX
        }
    }

    /// "Within a round-trip time" (section 4.4) and what its deviation makes of it, from a quarter to a half of one.
    fn next_silence(&self, smoothed: Duration, timeout: Duration) -> Time {
        let since = self.probes.unanswered_since().filter(|_| !self.silent);
        let patience = smoothed + timeout.saturating_sub(smoothed).max(smoothed / 4).min(smoothed / 2);
        // Not right after a word of the receiver, which may answer another probe: nobody would call that silence, and it is
        // told but once. Word that ended a silence is late word: if a later probe is overdue it tells of the past.
        let heard = if self.resumed { Time::ZERO } else { self.heard_at + smoothed / 2 };
        since.map_or(Time::MAX, |since| (since + patience.max(self.min_patience)).max(heard))
    }

    /// What is due at `now`.
    pub(crate) fn due(&mut self, now: Time, smoothed: Duration, timeout: Duration) -> Option<Due> {
        if self.deadline(smoothed, timeout) > now {
            return None;
        }
        match self.state {
            State::Asking => {
                self.state = State::Waiting { attempts: 1, sent_at: now };
                return Some(Due::Send(CmHeader::control(CmKind::Syn, self.first)));
            }
            State::Waiting { attempts, sent_at } if sent_at + FIRST_WAIT * (1 << (attempts - 1)) <= now => {
                if attempts < MAX_ATTEMPTS {
                    self.state = State::Waiting { attempts: attempts + 1, sent_at: now };
                    return Some(Due::Send(CmHeader::control(CmKind::Syn, self.first)));
                }
                self.state = State::Absent { since: now };
                return self.due(now, smoothed, timeout);
            }
            State::Present => {}
            State::Waiting { .. } | State::Absent { .. } => {
                let since = self.bare_since;
                self.bare_since = now;
                return Some(Due::Silence(since));
            }
        }
        if now.since(self.heard_at) >= LONG_SILENCE {
            return Some(Due::Begin);
        }
        if self.next_silence(smoothed, timeout) <= now {
            self.silent = true;
            return self.probes.unanswered_since().map(Due::Silence);
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

    fn present() -> Prober {
        let mut prober = Prober::new(7 << 32);
        assert_eq!(prober.due(at(0), RTT, RTO), Some(Due::Send(CmHeader::control(CmKind::Syn, 7))));
        assert!(!prober.on_syn_ack(at(100), 8) && prober.on_syn_ack(at(100), 7));
        assert_eq!(prober.rtt, Some(RTT));
        prober
    }

    #[test]
    fn who_does_not_answer_three_times_has_no_congestion_manager() {
        let mut prober = Prober::new(7 << 32);
        let mut asked = Vec::new();
        for ms in 0..20_000 {
            while let Some(due) = prober.due(at(ms), RTT, RTO) {
                assert!(matches!(due, Due::Send(_)));
                asked.push(ms);
            }
        }
        assert_eq!(asked, [0, 1000, 3000]);
        assert_eq!(prober.state, State::Absent { since: at(7000) });
        assert_eq!(prober.send(at(30_000), NAME, 1000, 1028, 1040), None);
        assert_eq!(prober.due(at(31_000), RTT, RTO), Some(Due::Silence(at(30_000))), "and nobody will tell of it");
        prober.send(at(68_000), NAME, 1000, 1028, 1040);
        assert!(matches!(prober.due(at(68_000), RTT, RTO), Some(Due::Send(_))), "it may have got one since");
    }

    #[test]
    fn data_is_numbered_and_probed_twice_a_round_trip() {
        let mut prober = present();
        let mut probes = 0;
        for ms in 100..1100 {
            if ms % 10 == 0 {
                let number = prober.send(at(ms), NAME, 1000, 1028, 1040).unwrap();
                assert_eq!(u64::from(number), 8 + (ms - 100) / 10);
            }
            while let Some(due) = prober.due(at(ms), RTT, RTO) {
                match due {
                    Due::Probe => {
                        prober.probes.probe(at(ms));
                        prober.probed(at(ms));
                        prober.heard(at(ms));
                        probes += 1;
                    }
                    Due::Silence(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!((19..=20).contains(&probes), "{probes}");
    }

    #[test]
    fn unanswered_probes_are_silence_then_seldom_then_a_new_beginning() {
        let mut prober = present();
        prober.send(at(100), NAME, 1000, 1028, 1040);
        let mut seen = Vec::new();
        for ms in 100..1_000_000 {
            while let Some(due) = prober.due(at(ms), RTT, RTO) {
                seen.push((ms, due));
                match due {
                    Due::Probe => {
                        prober.probes.probe(at(ms));
                        prober.probed(at(ms));
                    }
                    Due::Begin => {
                        let probes = seen.iter().filter(|(_, due)| *due == Due::Probe).count();
                        return assert!(probes > 5 && probes < 12 && ms > 30_000, "{seen:?}");
                    }
                    Due::Silence(since) => assert_eq!((since, ms), (at(150), 300)),
                    Due::Send(_) => panic!("{seen:?}"),
                }
            }
        }
        panic!("{seen:?}");
    }

    #[test]
    fn a_reset_must_name_what_was_sent() {
        let mut prober = present();
        let number = prober.send(at(100), NAME, 1000, 1028, 1040).unwrap();
        assert!(prober.is_ours(number) && !prober.is_ours(number.wrapping_add(5000)));
    }
}
