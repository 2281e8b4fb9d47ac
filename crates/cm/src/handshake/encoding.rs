//! The bytes of the handshake: 16 in each direction, with the request of a client or the answer of the daemon.

use crate::error::Error;

/// The size of a request and of an answer.
pub(crate) const BYTES: usize = 16;

const MAGIC: &[u8; 8] = b"rampcm\0\0";

/// Increases with every change of the shared memory's layout or of a record.
const VERSION: u32 = 5;

/// The request of a client that connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientRequest {
    /// Open flows.
    Connect,
    /// Read the status.
    Status,
}

impl ClientRequest {
    pub(crate) fn encode(self) -> [u8; BYTES] {
        encode(self as u32)
    }

    pub(crate) fn decode(bytes: &[u8; BYTES]) -> Result<Self, Error> {
        match decode(bytes)? {
            0 => Ok(Self::Connect),
            1 => Ok(Self::Status),
            _ => Err(Error::Version),
        }
    }
}

/// The daemon's answer: accepted, or the reason for a refusal.
pub(crate) fn encode_answer(answer: Result<(), Error>) -> [u8; BYTES] {
    encode(answer.map_or_else(|error| error.code().unsigned_abs(), |()| 0))
}

pub(crate) fn decode_answer(bytes: &[u8; BYTES]) -> Result<(), Error> {
    match decode(bytes)? {
        0 => Ok(()),
        code => Err(i32::try_from(code).ok().and_then(|code| Error::from_code(-code)).unwrap_or(Error::Version)),
    }
}

fn encode(number: u32) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The number, if the sender uses this protocol and version.
fn decode(bytes: &[u8; BYTES]) -> Result<u32, Error> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if &bytes[..8] != MAGIC || word(8) != VERSION {
        return Err(Error::Version);
    }
    Ok(word(12))
}

#[cfg(test)]
mod tests {
    use rampmeter_testing::check_fuzz_seed;

    use super::*;

    /// Seeds for the fuzz target `cm_handshake`: both requests, which are answers too, and an answer with an error.
    #[test]
    fn the_fuzz_corpus_has_requests_and_answers() {
        for (name, request) in [("connect", ClientRequest::Connect), ("status", ClientRequest::Status)] {
            check_fuzz_seed("cm_handshake", name, &request.encode());
            assert_eq!(ClientRequest::decode(&request.encode()), Ok(request));
        }
        check_fuzz_seed("cm_handshake", "refused", &encode_answer(Err(Error::Denied)));
        for answer in Error::ALL.map(Err).into_iter().chain([Ok(())]) {
            assert_eq!(decode_answer(&encode_answer(answer)), answer);
        }
    }

    #[test]
    fn unknown_numbers_are_those_of_another_version() {
        for number in [2, 19, i32::MAX as u32, 1 << 31, u32::MAX] {
            assert_eq!(ClientRequest::decode(&encode(number)), Err(Error::Version));
        }
        for number in [1000, i32::MAX as u32, 1 << 31, u32::MAX] {
            assert_eq!(decode_answer(&encode(number)), Err(Error::Version));
        }
    }
}
