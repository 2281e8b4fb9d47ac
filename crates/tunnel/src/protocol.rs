//! The messages of a tunnel.
//!
//! ```text
//! message   kind (1 byte), length of the rest (2), the rest; numbers in network byte order, texts after their length (1)
//!
//! client ──► server   Control   on the first stream: the version, the wanted controller
//!                     Listen    on the same stream: listen at an address of the server
//!                     Connect   first on a stream: connect to a host; bytes may follow at once
//! server ──► client   Welcome   on the control stream: the server's answer to Control
//!                     Listening on the control stream: the answer to Listen, with the port
//!                     Forwarded first on a stream: a program has connected to this listener
//! answer              one byte before the bytes of a stream: 0, or why there is no connection
//! ```

use std::fmt;
use std::str::FromStr;

/// The version of this protocol.
pub(crate) const VERSION: u8 = 1;

/// The bytes before the rest of a message.
pub(crate) const HEAD: usize = 3;

/// The maximum length of the rest.
pub(crate) const MAX_BODY: usize = 600;

const CONTROL: u8 = 1;
const LISTEN: u8 = 2;
const CONNECT: u8 = 3;
const WELCOME: u8 = 4;
const LISTENING: u8 = 5;
const FORWARDED: u8 = 6;

/// Why something was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// No `--allow` pattern of the server has this destination.
    NotAllowed = 1,
    /// The name has no address.
    UnknownHost = 2,
    /// The destination refuses connections.
    ConnectionRefused = 3,
    /// There is no route to the destination.
    Unreachable = 4,
    /// The destination does not answer.
    TimedOut = 5,
    /// The client has as many connections as are allowed.
    TooMany = 6,
    /// No `--allow-listen` pattern of the server has this address.
    ListenNotAllowed = 7,
    /// The server cannot listen on this address.
    CannotListen = 8,
    /// The server has no such controller.
    NoSuchController = 9,
    /// The server does not lend this controller.
    ControllerNotAllowed = 10,
    /// The other end has another version of the protocol.
    OtherVersion = 11,
    /// The other end sent something else than expected.
    BadMessage = 12,
    /// The server is about to end.
    Stopping = 13,
}

impl Refusal {
    const ALL: [Self; 13] = [
        Self::NotAllowed,
        Self::UnknownHost,
        Self::ConnectionRefused,
        Self::Unreachable,
        Self::TimedOut,
        Self::TooMany,
        Self::ListenNotAllowed,
        Self::CannotListen,
        Self::NoSuchController,
        Self::ControllerNotAllowed,
        Self::OtherVersion,
        Self::BadMessage,
        Self::Stopping,
    ];

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u8 == code)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAllowed => "the server allows no connections to it: its operator can add it with --allow",
            Self::UnknownHost => "the server knows no address of it: check its spelling",
            Self::ConnectionRefused => "it refuses connections: check the port",
            Self::Unreachable => "the server has no route to it",
            Self::TimedOut => "it does not answer",
            Self::TooMany => "there are as many connections as the server allows to a client: close some",
            Self::ListenNotAllowed => "the server allows no listening there: its operator can add --allow-listen",
            Self::CannotListen => {
                "the server cannot listen there: the port is in use, or not allowed; the client asks again"
            }
            Self::NoSuchController => "the server has no such controller: `rampmeter controllers` lists them there",
            Self::ControllerNotAllowed => "the server does not lend this controller: write another, such as cubic",
            Self::OtherVersion => "the other end has another version of the tunnel: run the same version at both",
            Self::BadMessage => "the other end does not speak the tunnel's protocol: check the address",
            Self::Stopping => "the server is about to end, and accepts nothing new: try again in a minute",
        })
    }
}

/// A host and a port: where to connect or to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Target {
    type Err = &'static str;

    /// Reads HOST:PORT. An IPv6 address is in brackets, and anything else may be.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (host, port) = text.rsplit_once(':').unwrap_or_default();
        let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = inside.unwrap_or(host);
        let is_valid = is_host(host) && (inside.is_some() || !host.contains(':'));
        match port.parse() {
            Ok(port) if port > 0 && is_valid => Ok(Self { host: host.to_owned(), port }),
            _ => Err("write HOST:PORT, for example db.example.org:5432 or [fd00::1]:22"),
        }
    }
}

/// Whether a text is a name or an address that is safe to print and to look up.
pub(crate) fn is_host(text: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:%".contains(&byte);
    !text.is_empty() && text.len() <= 255 && text.bytes().all(is_safe)
}

/// The weight of a stream, in hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight(u16);

impl Default for Weight {
    fn default() -> Self {
        Self(100)
    }
}

impl Weight {
    /// A weight from 0.01 to 100.
    pub fn new(weight: f64) -> Option<Self> {
        (0.01..=100.0).contains(&weight).then(|| Self((weight * 100.0).round() as u16))
    }

    /// As a number.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

/// The bytes are not a message of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Invalid;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    Control {
        version: u8,
        controller: String,
    },
    Listen {
        forward: u16,
        weight: Weight,
        at: Target,
    },
    Connect {
        weight: Weight,
        to: Target,
    },
    /// `None` if the server agrees.
    Welcome(Option<Refusal>),
    Listening {
        forward: u16,
        port: Result<u16, Refusal>,
    },
    Forwarded {
        forward: u16,
    },
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEAD];
        match self {
            Self::Control { version, controller } => {
                out.extend([CONTROL, *version]);
                push_text(&mut out, controller);
            }
            Self::Listen { forward, weight, at } => {
                out.push(LISTEN);
                out.extend(forward.to_be_bytes());
                push_target(&mut out, *weight, at);
            }
            Self::Connect { weight, to } => {
                out.push(CONNECT);
                push_target(&mut out, *weight, to);
            }
            Self::Welcome(refusal) => out.extend([WELCOME, refusal.map_or(0, |refusal| refusal as u8)]),
            Self::Listening { forward, port } => {
                out.push(LISTENING);
                out.extend(forward.to_be_bytes());
                out.push(port.err().map_or(0, |refusal| refusal as u8));
                out.extend(port.unwrap_or(0).to_be_bytes());
            }
            Self::Forwarded { forward } => {
                out.push(FORWARDED);
                out.extend(forward.to_be_bytes());
            }
        }
        // The kind stands before the length.
        out[0] = out.remove(HEAD);
        let len = (out.len() - HEAD) as u16;
        out[1..HEAD].copy_from_slice(&len.to_be_bytes());
        out
    }

    /// The kind of a message, and the length of its rest.
    pub(crate) fn head(head: [u8; HEAD]) -> Result<(u8, usize), Invalid> {
        let [kind, high, low] = head;
        let len = usize::from(u16::from_be_bytes([high, low]));
        if (CONTROL..=FORWARDED).contains(&kind) && len <= MAX_BODY { Ok((kind, len)) } else { Err(Invalid) }
    }

    /// Decodes the rest of a message of this kind.
    pub(crate) fn decode(kind: u8, body: &[u8]) -> Result<Self, Invalid> {
        let mut reader = Reader(body);
        let message = match kind {
            CONTROL => {
                let [version] = reader.take()?;
                let controller = reader.text()?;
                let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
                if controller.len() > 64 || !controller.bytes().all(is_name) {
                    return Err(Invalid);
                }
                Self::Control { version, controller }
            }
            LISTEN => {
                let forward = u16::from_be_bytes(reader.take()?);
                let (weight, at) = reader.target()?;
                Self::Listen { forward, weight, at }
            }
            CONNECT => {
                let (weight, to) = reader.target()?;
                Self::Connect { weight, to }
            }
            WELCOME => Self::Welcome(reader.refusal()?),
            LISTENING => {
                let forward = u16::from_be_bytes(reader.take()?);
                let (refusal, port) = (reader.refusal()?, u16::from_be_bytes(reader.take()?));
                if refusal.is_some() && port != 0 {
                    return Err(Invalid);
                }
                Self::Listening { forward, port: refusal.map_or(Ok(port), Err) }
            }
            FORWARDED => Self::Forwarded { forward: u16::from_be_bytes(reader.take()?) },
            _ => return Err(Invalid),
        };
        if reader.0.is_empty() { Ok(message) } else { Err(Invalid) }
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    let text = &text.as_bytes()[..text.len().min(usize::from(u8::MAX))];
    out.push(text.len() as u8);
    out.extend(text);
}

fn push_target(out: &mut Vec<u8>, weight: Weight, target: &Target) {
    out.extend(weight.0.to_be_bytes());
    push_text(out, &target.host);
    out.extend(target.port.to_be_bytes());
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Invalid> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Invalid)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn text(&mut self) -> Result<String, Invalid> {
        let [len] = self.take()?;
        let (text, rest) = self.0.split_at_checked(usize::from(len)).ok_or(Invalid)?;
        self.0 = rest;
        std::str::from_utf8(text).map(str::to_owned).map_err(|_| Invalid)
    }

    fn target(&mut self) -> Result<(Weight, Target), Invalid> {
        let weight = u16::from_be_bytes(self.take()?);
        let host = self.text()?;
        let port = u16::from_be_bytes(self.take()?);
        let is_valid = is_host(&host) && (1..=10_000).contains(&weight);
        if is_valid { Ok((Weight(weight), Target { host, port })) } else { Err(Invalid) }
    }

    fn refusal(&mut self) -> Result<Option<Refusal>, Invalid> {
        match self.take()? {
            [0] => Ok(None),
            [code] => Refusal::from_code(code).map(Some).ok_or(Invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rampmeter_testing::check_fuzz_seed;

    use super::*;

    fn any_message() -> impl Strategy<Value = Message> {
        let target = || ("[a-z0-9.:-]{1,255}", any::<u16>()).prop_map(|(host, port)| Target { host, port });
        let weight = || (1u16..=10_000).prop_map(Weight);
        let refusal = || prop::sample::select(&Refusal::ALL[..]);
        prop_oneof![
            (any::<u8>(), "[a-z0-9-]{0,64}").prop_map(|(version, controller)| Message::Control { version, controller }),
            (any::<u16>(), weight(), target()).prop_map(|(forward, weight, at)| Message::Listen {
                forward,
                weight,
                at
            }),
            (weight(), target()).prop_map(|(weight, to)| Message::Connect { weight, to }),
            prop::option::of(refusal()).prop_map(Message::Welcome),
            (any::<u16>(), prop::result::maybe_ok(any::<u16>(), refusal()))
                .prop_map(|(forward, port)| Message::Listening { forward, port }),
            any::<u16>().prop_map(|forward| Message::Forwarded { forward }),
        ]
    }

    proptest! {
        #[test]
        fn a_message_decodes_as_itself(message in any_message()) {
            let bytes = message.encode();
            let (kind, len) = Message::head(bytes[..HEAD].try_into().unwrap()).unwrap();
            prop_assert_eq!(len, bytes.len() - HEAD);
            prop_assert_eq!(Message::decode(kind, &bytes[HEAD..]), Ok(message));
            for len in 0..bytes.len() - HEAD {
                prop_assert_eq!(Message::decode(kind, &bytes[HEAD..HEAD + len]), Err(Invalid));
            }
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(kind: u8, body: Vec<u8>) {
            let _ = Message::decode(kind, &body);
        }
    }

    #[test]
    fn a_weight_is_from_a_hundredth_to_a_hundred() {
        let decode = |weight: u16| {
            let mut body = weight.to_be_bytes().to_vec();
            body.extend(b"\x01a\x00\x50");
            Message::decode(CONNECT, &body).is_ok()
        };
        assert!(decode(1) && decode(10_000) && !decode(0) && !decode(10_001) && !decode(u16::MAX));
    }

    #[test]
    fn hosts_are_safe_to_print() {
        for host in ["", "a b", "a\n", "\x1b[31m", "ä", "a/b", &"x".repeat(256)] {
            assert!(!is_host(host), "{host:?}");
        }
        for host in ["a", "10.0.0.1", "::1", "fe80::1%eth0", "a-b_c.example"] {
            assert!(is_host(host), "{host:?}");
        }
        assert_eq!(Target { host: "::1".into(), port: 7 }.to_string(), "[::1]:7");
    }

    /// Seeds for the fuzz target `tunnel`: all messages, in their present encoding.
    #[test]
    fn the_fuzz_corpus_has_every_message() {
        let seed = |name: &str, bytes: &[u8]| check_fuzz_seed("tunnel", name, bytes);
        let (to, weight) = (Target { host: "example.org".into(), port: 443 }, Weight(100));
        for (name, message) in [
            ("control", Message::Control { version: VERSION, controller: "pcp".into() }),
            ("listen", Message::Listen { forward: 1, weight, at: Target { host: "::1".into(), port: 0 } }),
            ("connect", Message::Connect { weight, to }),
            ("welcome", Message::Welcome(None)),
            ("refusal", Message::Welcome(Some(Refusal::OtherVersion))),
            ("listening", Message::Listening { forward: 1, port: Ok(80) }),
            ("forwarded", Message::Forwarded { forward: 1 }),
        ] {
            let bytes = message.encode();
            seed(name, &bytes);
            let (kind, len) = Message::head(bytes[..HEAD].try_into().unwrap()).unwrap();
            assert_eq!(Message::decode(kind, &bytes[HEAD..][..len]), Ok(message));
        }
        seed("socks_greeting", b"\x05\x02\x00\x02");
        seed("socks_name", b"\x05\x01\x00\x03\x0bexample.org\x01\xbb");
        seed("socks_ipv4", b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50");
    }
}
