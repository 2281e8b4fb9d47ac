//! The messages between client and server, and their encoding.
//!
//! A connection carries any number of requests. The client need not wait for an answer before the next request; the
//! server answers them in their order.
//!
//! ```text
//! client   "RMF3"  controller length (1)  controller                          once, then requests:
//!          1  name  offset (8)  [hash of the bytes before the offset (32)]    get a file from the offset on
//!          2  name                                                            list a directory and all below it
//!          3  name  flags (1)  size (8)  time                                 put a file; its bytes follow
//!          4  name  size (8)                                                  hash a file, if it has this size
//!          5  name                                                            delete a file
//!          6  name  time                                                      set a file's time
//!          7                                                                  write all changes to the disk
//!          0                                                                  heartbeat
//!
//! server   1  controller length (1)  controller  rights (1)                   once, then answers:
//!          2  size (8)  time  offset (8)     the file's bytes from the offset on follow
//!          3  name  size (8)  time           one file of a list
//!          4  files (8)  skipped (8)         end of the list
//!          5  offset (8)  hash (32)          the server has these bytes of the file to put
//!          6  hash (32)                      the file's hash
//!          7                                 done
//!          8  reason (1)                     refused; nothing more follows for this request
//!          0                                 the server is busy with the request, or the client waits for its turn
//!
//! bytes    64  length (4)  bytes             a piece of a file
//!          65  hash (32)                     the end; the hash of the whole file
//!          66                                the file cannot be read any more: forget the request
//!          67  offset (8)                    before the bytes of a put that waits: where they begin
//! ```
//!
//! Numbers are big-endian. A name is its length (2) and its bytes, a time seconds (8) and nanoseconds (4) since 1970. A
//! put sends its bytes at once, or waits for answer 5 to resume; if it is refused in the meantime, it still ends its
//! bytes with 65 or 66. Refusals are numbers and names of controllers have only letters and digits, so that no text
//! from the network reaches a terminal unescaped.

mod answer;
mod name;
mod reader;
mod refusal;
mod request;

pub(crate) use answer::{Answer, Rights};
pub(crate) use name::{MAX_NAME, check_controller, check_directory_name, check_name};
pub use refusal::Refusal;
pub(crate) use request::{Greeting, PutFlags, Request};

use reader::Reader;

/// A file's BLAKE3 hash.
pub(crate) type Hash = [u8; 32];

/// The maximum length of a piece of a file.
pub(crate) const MAX_PIECE: usize = 1 << 20;

/// The maximum length of a message without the bytes of a file.
pub(crate) const MAX_MESSAGE: usize = 1 + 2 + MAX_NAME + 8 + size_of::<Hash>() + 12;

/// The bytes are not a message of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidMessage;

/// A file's time of modification, since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Modified {
    pub(crate) seconds: i64,
    /// Less than 10^9.
    pub(crate) nanos: u32,
}

impl Modified {
    fn encode(self, out: &mut Vec<u8>) {
        out.extend(self.seconds.to_be_bytes());
        out.extend(self.nanos.to_be_bytes());
    }
}

/// The messages that carry a file's bytes, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// This many bytes follow.
    Bytes(u32),
    End(Hash),
    Abort,
    From(u64),
}

const BYTES: u8 = 64;
const END: u8 = 65;
const ABORT: u8 = 66;
const FROM: u8 = 67;

impl Piece {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(len) => {
                out.push(BYTES);
                out.extend(len.to_be_bytes());
            }
            Self::End(hash) => {
                out.push(END);
                out.extend(hash);
            }
            Self::Abort => out.push(ABORT),
            Self::From(offset) => {
                out.push(FROM);
                out.extend(offset.to_be_bytes());
            }
        }
    }

    /// Reads what follows `kind`; the outer `None` if that is no piece, the inner one if it is incomplete.
    fn parse(kind: u8, reader: &mut Reader<'_>) -> Option<Result<Option<Self>, InvalidMessage>> {
        let piece = match kind {
            BYTES => match reader.take().map(u32::from_be_bytes) {
                Some(len) if len == 0 || len as usize > MAX_PIECE => return Some(Err(InvalidMessage)),
                len => len.map(Self::Bytes),
            },
            END => reader.take().map(Self::End),
            ABORT => Some(Self::Abort),
            FROM => reader.take().map(|offset| Self::From(u64::from_be_bytes(offset))),
            _ => return None,
        };
        Some(Ok(piece))
    }
}

#[cfg(test)]
mod tests;
