//! The datagrams of a session.
//!
//! ```text
//! Hello       0x31, suite, pattern, service, name (16), id (8), cookie (16), length (2), Noise message 1, zeros up to
//!             1200 bytes
//! Answer      0x32, id of the Hello (8), id (8), length (2), Noise message 2;  then a Sealed may follow
//! Finish      0x33, id of the Answer (8), length (2), Noise message 3;         then a Sealed may follow
//! Retry       0x34, id of the Hello (8), cookie (16)
//! Refused     0x35, id of the Hello (8), reason (1)
//! Sealed      0x36, id of its receiver (8), packet number (4), sealed bytes, tag (16)
//! Reset       0x37, id that is not known (8), token (16)
//! ```
//!
//! Numbers are big-endian. An id is its owner's name for the session. The first byte distinguishes these datagrams from
//! packets in clear (0x1.) and from messages of Congestion Managers (0x2.).

use std::ops::Range;

use crate::purpose::{Name, Purpose, Service};
use crate::seal::{Suite, TAG};

/// The size of a `Hello`, at least: no answer to one is larger.
pub const MIN_HELLO_BYTES: usize = 1200;

/// Bytes before the sealed ones.
pub(crate) const SEALED_HEADER: usize = 13;

/// Bytes that sealing adds to a packet.
pub const MAX_OVERHEAD: usize = SEALED_HEADER + TAG;

/// The size of a `Reset`.
pub(crate) const RESET_BYTES: usize = 25;

/// The maximum length of a Noise message here.
pub(crate) const MAX_NOISE: usize = 1024;

/// Bytes of a cookie, and of the token of a reset.
pub(crate) const TOKEN: usize = 16;

/// A cookie, or the token of a reset.
pub(crate) type Token = [u8; TOKEN];

const HELLO: u8 = 0x31;
const ANSWER: u8 = 0x32;
pub(crate) const FINISH: u8 = 0x33;
const RETRY: u8 = 0x34;
const REFUSED: u8 = 0x35;
pub(crate) const SEALED: u8 = 0x36;
const RESET: u8 = 0x37;

/// The handshake's pattern in Noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Pattern {
    /// The initiator knows the responder's key.
    Ik = 1,
    /// It does not.
    Xx = 2,
}

/// Why a `Hello` has no answer. Anybody may have written it, so it explains a failure and does not cause one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Denial {
    /// The host does not have the key that was expected.
    OtherKey = 1,
    /// It is another service.
    OtherService = 2,
    /// It does not have the name that was asked for.
    OtherName = 3,
}

impl Denial {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::OtherKey, Self::OtherService, Self::OtherName].into_iter().find(|denial| *denial as u8 == byte)
    }
}

/// A datagram, with the places of its variable parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Datagram {
    Hello { suite: Suite, pattern: Pattern, purpose: Purpose, id: u64, cookie: Token, noise: Range<usize> },
    Answer { to: u64, id: u64, noise: Range<usize> },
    Finish { to: u64, noise: Range<usize> },
    Retry { to: u64, cookie: Token },
    Refused { to: u64, why: Denial },
    Sealed { to: u64, number: u32 },
    Reset { of: u64, token: Token },
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(*taken)
    }

    fn id(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn noise(&mut self) -> Option<Range<usize>> {
        let len = usize::from(u16::from_be_bytes(self.take()?));
        let range = self.at..self.at + len;
        self.at = range.end;
        (len <= MAX_NOISE && range.end <= self.bytes.len()).then_some(range)
    }
}

impl Datagram {
    /// Reads the datagram at the start of `bytes`.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader { bytes, at: 0 };
        match reader.take::<1>()?[0] {
            HELLO if bytes.len() >= MIN_HELLO_BYTES => {
                let [suite, pattern, service] = reader.take()?;
                let purpose = Purpose { service: Service(service), name: Name(reader.take()?) };
                let suite = Suite::from_byte(suite)?;
                let pattern = [Pattern::Ik, Pattern::Xx].into_iter().find(|known| *known as u8 == pattern)?;
                let (id, cookie) = (reader.id()?, reader.take()?);
                Some(Self::Hello { suite, pattern, purpose, id, cookie, noise: reader.noise()? })
            }
            ANSWER => Some(Self::Answer { to: reader.id()?, id: reader.id()?, noise: reader.noise()? }),
            FINISH => Some(Self::Finish { to: reader.id()?, noise: reader.noise()? }),
            RETRY => Some(Self::Retry { to: reader.id()?, cookie: reader.take()? }),
            REFUSED => Some(Self::Refused { to: reader.id()?, why: Denial::from_byte(reader.take::<1>()?[0])? }),
            SEALED if bytes.len() >= MAX_OVERHEAD => {
                Some(Self::Sealed { to: reader.id()?, number: u32::from_be_bytes(reader.take()?) })
            }
            RESET if bytes.len() == RESET_BYTES => Some(Self::Reset { of: reader.id()?, token: reader.take()? }),
            _ => None,
        }
    }
}

pub(crate) fn hello(
    suite: Suite,
    pattern: Pattern,
    purpose: Purpose,
    id: u64,
    cookie: &Token,
    noise: &[u8],
) -> Vec<u8> {
    let mut out = vec![HELLO, suite as u8, pattern as u8, purpose.service.0];
    out.extend(purpose.name.0);
    out.extend(id.to_be_bytes());
    out.extend(cookie);
    push_noise(noise, &mut out);
    out.resize(out.len().max(MIN_HELLO_BYTES), 0);
    out
}

pub(crate) fn answer(to: u64, id: u64, noise: &[u8]) -> Vec<u8> {
    let mut out = vec![ANSWER];
    out.extend(to.to_be_bytes());
    out.extend(id.to_be_bytes());
    push_noise(noise, &mut out);
    out
}

pub(crate) fn finish(to: u64, noise: &[u8]) -> Vec<u8> {
    let mut out = vec![FINISH];
    out.extend(to.to_be_bytes());
    push_noise(noise, &mut out);
    out
}

fn push_noise(noise: &[u8], out: &mut Vec<u8>) {
    out.extend((noise.len() as u16).to_be_bytes());
    out.extend(noise);
}

pub(crate) fn retry(to: u64, cookie: &Token) -> Vec<u8> {
    [&[RETRY][..], &to.to_be_bytes(), cookie].concat()
}

pub(crate) fn refused(to: u64, why: Denial) -> Vec<u8> {
    [&[REFUSED][..], &to.to_be_bytes(), &[why as u8]].concat()
}

pub(crate) fn reset(of: u64, token: &Token) -> Vec<u8> {
    [&[RESET][..], &of.to_be_bytes(), token].concat()
}

/// The header of a sealed packet.
pub(crate) fn sealed_header(to: u64, number: u64) -> [u8; SEALED_HEADER] {
    let mut header = [0; SEALED_HEADER];
    header[0] = SEALED;
    header[1..9].copy_from_slice(&to.to_be_bytes());
    header[9..].copy_from_slice(&(number as u32).to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_datagram_reads_as_it_was_written(id: u64, to: u64, token: Token, noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let (suite, pattern) = (Suite::ChaCha20Poly1305, Pattern::Xx);
            let purpose = Purpose { service: Service(3), name: Name::new("a:1") };
            let written = hello(suite, pattern, purpose, id, &token, &noise);
            prop_assert_eq!(written.len(), MIN_HELLO_BYTES);
            let read = Datagram::parse(&written);
            prop_assert_eq!(read, Some(Datagram::Hello { suite, pattern, purpose, id, cookie: token, noise: 46..46 + noise.len() }));
            let read = Datagram::parse(&answer(to, id, &noise));
            prop_assert_eq!(read, Some(Datagram::Answer { to, id, noise: 19..19 + noise.len() }));
            let read = Datagram::parse(&finish(to, &noise));
            prop_assert_eq!(read, Some(Datagram::Finish { to, noise: 11..11 + noise.len() }));
            prop_assert_eq!(Datagram::parse(&retry(to, &token)), Some(Datagram::Retry { to, cookie: token }));
            for why in [Denial::OtherKey, Denial::OtherService, Denial::OtherName] {
                prop_assert_eq!(Datagram::parse(&refused(to, why)), Some(Datagram::Refused { to, why }));
            }
            prop_assert_eq!(Datagram::parse(&reset(to, &token)), Some(Datagram::Reset { of: to, token }));
            let sealed = [&sealed_header(to, id)[..], &[0; TAG]].concat();
            prop_assert_eq!(Datagram::parse(&sealed), Some(Datagram::Sealed { to, number: id as u32 }));
        }

        #[test]
        fn no_bytes_make_the_parser_panic(first in 0x30u8..0x38, mut bytes in prop::collection::vec(any::<u8>(), 1..1400)) {
            bytes[0] = first;
            if let Some(Datagram::Hello { noise, .. } | Datagram::Answer { noise, .. } | Datagram::Finish { noise, .. }) = Datagram::parse(&bytes) {
                prop_assert!(bytes.get(noise).is_some());
            }
        }
    }

    #[test]
    fn a_short_hello_is_ignored() {
        let written = hello(
            Suite::Aes256Gcm,
            Pattern::Ik,
            Purpose { service: Service(1), name: Name::new("") },
            1,
            &[0; TOKEN],
            &[],
        );
        assert_eq!(Datagram::parse(&written[..MIN_HELLO_BYTES - 1]), None);
    }
}
