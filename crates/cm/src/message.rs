//! The messages between client and daemon, and their encoding as records. Decoding checks everything: invalid numbers,
//! unknown kinds and invalid addresses give `None`.
//!
//! ```text
//! word 0      kind (low 32 bits), flow (high 32 bits)
//! words 1-7   the fields of the kind; the rest is zero
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use rampmeter_manager::LossMode;
use rampmeter_manager::{OwnHeader, ServiceCurve, Share, Thresholds};
use rampmeter_units::{Bytes, Duration, Rate};

use crate::client::Id;
use crate::error::Error;
use crate::ring::Record;

/// Feedback on a flow's packets (`cm_update`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Feedback {
    /// Bytes that arrived since the last report.
    pub received: Bytes,
    /// Bytes that were lost since the last report.
    pub lost: Bytes,
    /// How the loss was detected; `None` if nothing was lost or marked.
    pub mode: Option<LossMode>,
    /// A measured round-trip time.
    pub rtt: Option<Duration>,
}

/// The state of a flow's path (`cm_query`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathState {
    /// The flow's share of the total rate of the path's flows.
    pub rate: Rate,
    /// The smoothed round-trip time, or the assumed one before the first measurement.
    pub srtt: Duration,
}

/// The macroflow that a flow is put into (`cm_set_macroflow`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Macroflow {
    /// A new one, for flows that the network treats differently from others to the same destination.
    New,
    /// The one that the flows to the destination share by themselves.
    Default,
    /// That of this flow.
    Of(Id),
}

/// The destination of the packets that a program sends from a socket of its own, and the contents of their headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnSocket {
    /// The receiver's daemon.
    pub(crate) peer: SocketAddr,
    pub(crate) header: OwnHeader,
}

/// The valid weights: outside of this range the share of a flow could become zero.
const VALID_WEIGHTS: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

pub(crate) fn is_valid(share: &Share) -> bool {
    let is_weight = |weight: f64| VALID_WEIGHTS.contains(&weight);
    let is_curve = |c: ServiceCurve| c.m1 <= MAX_RATE && c.m2 <= MAX_RATE && c.d <= MAX_RTT;
    is_weight(share.weight)
        && share.class.is_none_or(|(_, weight)| is_weight(weight))
        && share.curve.is_none_or(is_curve)
}

/// The maximum rate of a guarantee.
const MAX_RATE: Rate = Rate::from_bps(1_000_000_000_000_000);

pub(crate) fn are_valid(thresholds: &Thresholds) -> bool {
    thresholds.down > 0.0 && thresholds.down <= 1.0 && thresholds.up >= 1.0
}

/// A message from a client to the daemon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Command {
    Open {
        to: SocketAddr,
        share: Share,
    },
    Close,
    Request,
    Notify {
        sent: Bytes,
        /// The tag in the packet's header; none without a header.
        tag: Option<u32>,
    },
    Update(Feedback),
    /// `length` bytes are in the data area.
    Send {
        length: u32,
    },
    Query {
        token: u64,
    },
    Share(Share),
    Watch(Thresholds),
    /// The process starts (`on`) or stops receiving the datagrams for this port.
    Listen {
        token: u64,
        port: u16,
        on: bool,
    },
    /// The weight that the process requests for flows from `peer` to this port.
    Hint {
        token: u64,
        peer: IpAddr,
        port: u16,
        weight: u32,
    },
    SetMacroflow {
        token: u64,
        to: Macroflow,
    },
    /// The process sends from a socket of its own, and requests reports of the receiver's daemon.
    Header {
        token: u64,
    },
}

/// A message from the daemon to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    Opened {
        mtu: u32,
        state: PathState,
    },
    Grant {
        bytes: u32,
    },
    State {
        token: u64,
        state: PathState,
    },
    Change(PathState),
    /// A datagram of `cm_send` has left the daemon's queue.
    Dequeued {
        bytes: u32,
    },
    /// The flow has ended, or could not be opened.
    Ended(Error),
    /// The contents of the flow's next headers; none while the receiver accepts no headers.
    Header(Option<OwnSocket>),
    /// The result of a `Listen`, `Hint`, `SetMacroflow` or `Header`.
    Done {
        token: u64,
        result: Result<(), Error>,
    },
}

impl Command {
    pub(crate) fn encode(self, flow: u32) -> Record {
        let (kind, rest) = match self {
            Self::Open { to, share } => {
                let ([place, high, low], [weight, class, class_weight]) = (address_words(to), share_words(&share));
                (1, [place, high, low, weight, class, class_weight, 0])
            }
            Self::Close => (2, [0; 7]),
            Self::Request => (3, [0; 7]),
            Self::Notify { sent, tag } => (4, [sent.as_u64(), tag.map_or(0, |tag| u64::from(tag) + 1), 0, 0, 0, 0, 0]),
            Self::Update(f) => {
                let rtt = f.rtt.map_or(0, |rtt| rtt.as_nanos().max(1));
                let mode = MODES.iter().position(|mode| *mode == f.mode).unwrap_or_default();
                (5, [f.received.as_u64(), f.lost.as_u64(), mode as u64, rtt, 0, 0, 0])
            }
            Self::Send { length } => (6, [length.into(), 0, 0, 0, 0, 0, 0]),
            Self::Query { token } => (7, [token, 0, 0, 0, 0, 0, 0]),
            Self::Share(share) => {
                let [m1, d, m2] = share.curve.map_or([0; 3], |c| [c.m1.as_bps() + 1, c.d.as_nanos(), c.m2.as_bps()]);
                let [weight, class, class_weight] = share_words(&share);
                (8, [weight, class, class_weight, m1, d, m2, 0])
            }
            Self::Watch(t) => (9, [t.down.to_bits(), t.up.to_bits(), 0, 0, 0, 0, 0]),
            Self::Listen { token, port, on } => (10, [token, port.into(), on.into(), 0, 0, 0, 0]),
            Self::Hint { token, peer, port, weight } => {
                let [place, high, low] = address_words((peer, port).into());
                (11, [place, high, low, weight.into(), token, 0, 0])
            }
            Self::SetMacroflow { token, to } => {
                let to = match to {
                    Macroflow::New => 0,
                    Macroflow::Default => DEFAULT_MACROFLOW,
                    Macroflow::Of(flow) => flow.to_c() as u64,
                };
                (12, [token, to, 0, 0, 0, 0, 0])
            }
            Self::Header { token } => (13, [token, 0, 0, 0, 0, 0, 0]),
        };
        record(kind, flow, rest)
    }

    pub(crate) fn decode(record: &Record) -> Option<(u32, Self)> {
        let [_, a, b, c, d, ..] = *record;
        // The limit prevents overflows in sums of several values.
        let bytes = |word: u64| (word < 1 << 48).then(|| Bytes::new(word));
        let command = match record[0] as u32 {
            1 => {
                let share = share(record[4], record[5], record[6])?;
                Self::Open { to: address(a, b, c)?, share }
            }
            2 => Self::Close,
            3 => Self::Request,
            4 => {
                let tag = b.checked_sub(1).map(u32::try_from).transpose().ok()?;
                Self::Notify { sent: bytes(a)?, tag }
            }
            5 => {
                let rtt = (d > 0).then(|| Duration::from_nanos(d));
                if rtt.is_some_and(|rtt| rtt > MAX_RTT) {
                    return None;
                }
                let mode = *MODES.get(usize::try_from(c).ok()?)?;
                Self::Update(Feedback { received: bytes(a)?, lost: bytes(b)?, mode, rtt })
            }
            6 => Self::Send { length: a.try_into().ok()? },
            7 => Self::Query { token: a },
            8 => {
                let share = Share { curve: curve(d, record[5], record[6]), ..share(a, b, c)? };
                Self::Share(Some(share).filter(is_valid)?)
            }
            9 => {
                let thresholds = Thresholds { down: f64::from_bits(a), up: f64::from_bits(b) };
                Self::Watch(Some(thresholds).filter(are_valid)?)
            }
            10 if c <= 1 => Self::Listen { token: a, port: b.try_into().ok()?, on: c == 1 },
            11 => {
                let of = address(a, b, c)?;
                Self::Hint { token: record[5], peer: of.ip(), port: of.port(), weight: d.try_into().ok()? }
            }
            12 => {
                let to = match b {
                    0 => Macroflow::New,
                    DEFAULT_MACROFLOW => Macroflow::Default,
                    flow => Macroflow::Of(Id::from_c(flow.try_into().ok()?)?),
                };
                Self::SetMacroflow { token: a, to }
            }
            13 => Self::Header { token: a },
            _ => return None,
        };
        Some(((record[0] >> 32) as u32, command))
    }
}

impl Notice {
    pub(crate) fn encode(self, flow: u32) -> Record {
        let with_state = |word, state: PathState| [word, state.rate.as_bps(), state.srtt.as_nanos(), 0, 0, 0, 0];
        let (kind, rest) = match self {
            Self::Opened { mtu, state } => (1, with_state(mtu.into(), state)),
            Self::Grant { bytes } => (2, [bytes.into(), 0, 0, 0, 0, 0, 0]),
            Self::State { token, state } => (3, with_state(token, state)),
            Self::Change(state) => (4, [state.rate.as_bps(), state.srtt.as_nanos(), 0, 0, 0, 0, 0]),
            Self::Dequeued { bytes } => (5, [bytes.into(), 0, 0, 0, 0, 0, 0]),
            Self::Ended(error) => (6, [error.code().unsigned_abs().into(), 0, 0, 0, 0, 0, 0]),
            Self::Done { token, result } => {
                let code = result.err().map_or(0, |error| error.code().unsigned_abs());
                (7, [token, code.into(), 0, 0, 0, 0, 0])
            }
            Self::Header(None) => (8, [0; 7]),
            Self::Header(Some(OwnSocket { peer, header })) => {
                let [place, high, low] = address_words(peer);
                let OwnHeader { flow: name, first, tag } = header;
                (8, [place, high, low, u64::from(name) | u64::from(first) << 32, tag.into(), 0, 0])
            }
        };
        record(kind, flow, rest)
    }

    pub(crate) fn decode(record: &Record) -> Option<(u32, Self)> {
        let [_, a, b, c, ..] = *record;
        let state = |rate, srtt| PathState { rate: Rate::from_bps(rate), srtt: Duration::from_nanos(srtt) };
        let notice = match record[0] as u32 {
            1 => Self::Opened { mtu: a.try_into().ok()?, state: state(b, c) },
            2 => Self::Grant { bytes: a.try_into().ok()? },
            3 => Self::State { token: a, state: state(b, c) },
            4 => Self::Change(state(a, b)),
            5 => Self::Dequeued { bytes: a.try_into().ok()? },
            6 => Self::Ended(Error::from_code(-i32::try_from(a).ok()?)?),
            7 if b == 0 => Self::Done { token: a, result: Ok(()) },
            7 => Self::Done { token: a, result: Err(Error::from_code(-i32::try_from(b).ok()?)?) },
            8 if a == 0 => Self::Header(None),
            8 => {
                let [flow, first] = [record[4] as u32, (record[4] >> 32) as u32];
                let header = OwnHeader { flow, first, tag: record[5].try_into().ok()? };
                Self::Header(Some(OwnSocket { peer: address(a, b, c)?, header }))
            }
            _ => return None,
        };
        Some(((record[0] >> 32) as u32, notice))
    }
}

/// The maximum valid round-trip time.
pub(crate) const MAX_RTT: Duration = Duration::from_secs(600);

fn record(kind: u32, flow: u32, rest: [u64; 7]) -> Record {
    let mut record = [0; 8];
    record[0] = u64::from(flow) << 32 | u64::from(kind);
    record[1..].copy_from_slice(&rest);
    record
}

fn address_words(to: SocketAddr) -> [u64; 3] {
    let (version, scope) = match to {
        SocketAddr::V4(_) => (4, 0),
        SocketAddr::V6(v6) => (6, v6.scope_id()),
    };
    let ip = match to.ip() {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    let place = u64::from(to.port()) | version << 16 | u64::from(scope) << 32;
    [place, (ip >> 64) as u64, ip as u64]
}

fn address(place: u64, high: u64, low: u64) -> Option<SocketAddr> {
    let (port, scope) = (place as u16, (place >> 32) as u32);
    match place >> 16 & 0xffff {
        4 => Some(SocketAddr::new(Ipv4Addr::from(u32::try_from(low).ok()?).into(), port)),
        6 => {
            let ip = Ipv6Addr::from(u128::from(high) << 64 | u128::from(low));
            Some(SocketAddrV6::new(ip, port, 0, scope).into())
        }
        _ => None,
    }
}

fn share_words(share: &Share) -> [u64; 3] {
    let (class, weight) = share.class.map_or((0, 0), |(class, weight)| (u64::from(class) + 1, weight.to_bits()));
    [share.weight.to_bits(), class, weight]
}

fn share(weight: u64, class: u64, class_weight: u64) -> Option<Share> {
    let class = match class.checked_sub(1) {
        Some(class) => Some((u32::try_from(class).ok()?, f64::from_bits(class_weight))),
        None => None,
    };
    Some(Share { weight: f64::from_bits(weight), class, curve: None }).filter(is_valid)
}

/// A guarantee or none; the first word is the rate plus one, or zero.
fn curve(m1: u64, d: u64, m2: u64) -> Option<ServiceCurve> {
    let m1 = m1.checked_sub(1)?;
    Some(ServiceCurve { m1: Rate::from_bps(m1), d: Duration::from_nanos(d), m2: Rate::from_bps(m2) })
}

/// The number of [`Macroflow::Default`], which no id has.
const DEFAULT_MACROFLOW: u64 = u64::MAX;

/// The loss modes by their numbers.
const MODES: [Option<LossMode>; 4] = [None, Some(LossMode::Persistent), Some(LossMode::Transient), Some(LossMode::Ecn)];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_decode_to_what_was_encoded() {
        let share = Share { weight: 2.5, class: Some((7, 0.5)), curve: None };
        let curve = Some(ServiceCurve::linear(MAX_RATE));
        let feedback =
            Feedback { received: Bytes::new(3), lost: Bytes::new(4), mode: Some(LossMode::Ecn), rtt: Some(MAX_RTT) };
        for command in [
            Command::Open { to: "192.0.2.1:80".parse().unwrap(), share },
            Command::Open { to: "[2001:db8::1]:0".parse().unwrap(), share: Share::default() },
            Command::Close,
            Command::Request,
            Command::Notify { sent: Bytes::new(1200), tag: None },
            Command::Notify { sent: Bytes::new(1200), tag: Some(0) },
            Command::Notify { sent: Bytes::ZERO, tag: Some(u32::MAX) },
            Command::Header { token: 7 },
            Command::Update(feedback),
            Command::Update(Feedback::default()),
            Command::Send { length: 77 },
            Command::Query { token: u64::MAX },
            Command::Share(share),
            Command::Share(Share { curve, ..share }),
            Command::Watch(Thresholds::default()),
            Command::Listen { token: 7, port: 5000, on: true },
            Command::Hint { token: 7, peer: "192.0.2.1".parse().unwrap(), port: 5000, weight: u32::MAX },
            Command::Hint { token: u64::MAX, peer: "2001:db8::1".parse().unwrap(), port: 1, weight: 1 },
            Command::SetMacroflow { token: 7, to: Macroflow::New },
            Command::SetMacroflow { token: 7, to: Macroflow::Default },
            Command::SetMacroflow { token: u64::MAX, to: Macroflow::Of(Id::from_c(i32::MAX).unwrap()) },
        ] {
            assert_eq!(Command::decode(&command.encode(0x1234_5678)), Some((0x1234_5678, command)));
        }
        let state = PathState { rate: Rate::from_bps(10), srtt: Duration::from_millis(3) };
        let header = OwnHeader { flow: 1, first: u32::MAX, tag: u32::MAX - 1 };
        let socket = |peer: &str| OwnSocket { peer: peer.parse().unwrap(), header };
        for notice in [
            Notice::Header(None),
            Notice::Header(Some(socket("192.0.2.1:2961"))),
            Notice::Header(Some(socket("[2001:db8::1]:2961"))),
            Notice::Opened { mtu: 1472, state },
            Notice::Grant { bytes: 9 },
            Notice::State { token: 5, state },
            Notice::Change(state),
            Notice::Dequeued { bytes: 1 },
            Notice::Ended(Error::Unanswered),
            Notice::Done { token: 7, result: Ok(()) },
            Notice::Done { token: 7, result: Err(Error::Full) },
        ] {
            assert_eq!(Notice::decode(&notice.encode(3)), Some((3, notice)));
        }
    }

    #[test]
    fn invalid_values_are_not_decoded() {
        for weight in [0.0, -1.0, 1e-7, 1e7, f64::NAN, f64::INFINITY] {
            assert_eq!(Command::decode(&Command::Share(Share { weight, ..Share::default() }).encode(1)), None);
        }
        assert_eq!(Command::decode(&Command::Notify { sent: Bytes::MAX, tag: None }.encode(1)), None);
        let thresholds = Thresholds { down: 1.5, ..Thresholds::default() };
        assert_eq!(Command::decode(&Command::Watch(thresholds).encode(1)), None);
        for flow in [1 << 31, 1 << 32, u64::MAX - 1] {
            assert_eq!(Command::decode(&record(12, 1, [7, flow, 0, 0, 0, 0, 0])), None, "no id is {flow}");
        }
    }

    proptest! {
        #[test]
        fn decoding_any_words_never_panics(kind in 0..15_u64, rest in any::<[u64; 7]>()) {
            let mut record = [0; 8];
            record[0] = kind;
            record[1..].copy_from_slice(&rest);
            let _ = Command::decode(&record);
            let _ = Notice::decode(&record);
        }
    }
}
