//! The messages between client and server, and their encoding.
//!
//! A connection carries any number of requests. The client need not wait for an answer before the next request; the
//! server answers them in their order.
//!
//! ```text
//! client   "RMF4"  controller length (1)  controller                  once, then requests:
//!          1  name  offset (8)  [hash of the bytes before it (32)]    get a file from the offset on
//!          0                                                          heartbeat
//!
//! server   1  controller length (1)  controller                       once, then answers:
//!          2  size (8)  time  offset (8)      the file's bytes from the offset on follow
//!          3  length (4)  bytes               a piece of the file
//!          4  hash (32)                       the end; the hash of the whole file
//!          5                                  the file cannot be read any more: forget the request
//!          6  reason (1)                      refused; nothing more follows for this request
//!          0                                  the server is busy with the request, or the client waits for its turn
//! ```
//!
//! Numbers are big-endian. A name is its length (2) and its bytes, a time seconds (8) and nanoseconds (4) since 1970.
//! Refusals are numbers and names of controllers have only letters and digits, so that no text from the network reaches
//! a terminal unescaped.

use rampmeter_net::MAX_NAME;
use thiserror::Error;

/// A file's BLAKE3 hash.
pub(crate) type Hash = [u8; 32];

/// The maximum length of a controller's name in bytes.
const MAX_CONTROLLER: usize = 64;

/// The maximum length of a piece of a file.
pub(crate) const MAX_PIECE: usize = 1 << 20;

/// The maximum length of a message without the bytes of a file.
pub(crate) const MAX_MESSAGE: usize = 1 + 2 + MAX_NAME + 8 + size_of::<Hash>();

const MAGIC: &[u8; 4] = b"RMF4";

const HEARTBEAT: u8 = 0;
const GET: u8 = 1;

const BUSY: u8 = 0;
const WELCOME: u8 = 1;
const START: u8 = 2;
const BYTES: u8 = 3;
const END: u8 = 4;
const ABORT: u8 = 5;
const REFUSED: u8 = 6;

/// The bytes are not a message of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidMessage;

/// A file's time of modification, since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Modified {
    pub(crate) seconds: i64,
    /// Less than 10^9.
    pub(crate) nanos: u32,
}

/// The beginning of a client's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The controller that should send the files; `None` leaves the choice to the server. Only its name is sent, no
    /// settings.
    pub(crate) controller: Option<String>,
}

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Heartbeat,
    Get { name: String, offset: u64, prefix: Hash },
}

/// A server's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Busy,
    Welcome {
        controller: String,
    },
    Start {
        size: u64,
        modified: Modified,
        offset: u64,
    },
    /// This many bytes follow.
    Bytes(u32),
    End(Hash),
    Abort,
    Refused(Refusal),
}

/// Why a server refuses a request: a number on the wire, a sentence with advice here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u8)]
pub enum Refusal {
    /// The request is invalid, or of another version of the protocol.
    #[error("it does not understand the request: run the same version on both ends")]
    BadRequest = 1,
    /// The name leads out of the directory, or is not a valid name.
    #[error("the name leads out of its directory: write a path below it, without links out of it")]
    BadName = 2,
    /// The file does not exist.
    #[error("it has no such file: check the name, which is a path below the directory that it serves")]
    NoSuchFile = 3,
    /// The file is not a regular file.
    #[error("that is a directory or a device: write the name of a file; rsync through a tunnel copies directories")]
    NotAFile = 4,
    /// The server cannot read the file.
    #[error("it cannot read that file: check the file's permissions on the server")]
    Unreadable = 5,
    /// The file changed while it was sent.
    #[error("the file changed while it was sent: run the same command again")]
    Changed = 6,
    /// The server has no controller of that name.
    #[error("it has no controller of that name: `rampmeter controllers` there lists them")]
    NoSuchController = 7,
    /// Clients may not choose this controller.
    #[error("it lends clients only controllers that are safe on the Internet: write another, such as cubic")]
    ControllerNotAllowed = 8,
}

impl Refusal {
    const ALL: [Self; 8] = [
        Self::BadRequest,
        Self::BadName,
        Self::NoSuchFile,
        Self::NotAFile,
        Self::Unreadable,
        Self::Changed,
        Self::NoSuchController,
        Self::ControllerNotAllowed,
    ];
}

/// `name`, if it consists of letters, digits, `-` and `_`, which are safe to print.
fn safe_name(name: &[u8]) -> Option<String> {
    let is_safe = name.iter().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(b));
    is_safe.then(|| name.iter().map(|&b| char::from(b)).collect())
}

/// Refuses an invalid name of a controller, with the reason.
pub(crate) fn check_controller(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > MAX_CONTROLLER {
        return Err("it is empty or longer than 64 letters");
    }
    safe_name(name.as_bytes()).map(|_| ()).ok_or("it has characters other than letters, digits, `-` and `_`")
}

/// Reads the fields of a message; `None` where the bytes end.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn name(&mut self) -> Result<Option<String>, InvalidMessage> {
        let Some(len) = self.take().map(u16::from_be_bytes).map(usize::from) else { return Ok(None) };
        if len > MAX_NAME {
            return Err(InvalidMessage);
        }
        let Some(name) = self.slice(len) else { return Ok(None) };
        std::str::from_utf8(name).map(|name| Some(name.to_owned())).map_err(|_| InvalidMessage)
    }

    fn modified(&mut self) -> Result<Option<Modified>, InvalidMessage> {
        let (Some(seconds), Some(nanos)) = (self.take().map(i64::from_be_bytes), self.take().map(u32::from_be_bytes))
        else {
            return Ok(None);
        };
        if nanos < 1_000_000_000 { Ok(Some(Modified { seconds, nanos })) } else { Err(InvalidMessage) }
    }

    /// A controller's name of up to `max` bytes.
    fn controller(&mut self, max: usize) -> Result<Option<String>, InvalidMessage> {
        let Some([len]) = self.take() else { return Ok(None) };
        if usize::from(len) > max {
            return Err(InvalidMessage);
        }
        let Some(name) = self.slice(usize::from(len)) else { return Ok(None) };
        safe_name(name).map(Some).ok_or(InvalidMessage)
    }
}

/// Reads fields one after the other, and returns `Ok(None)` from the function where one is incomplete.
macro_rules! complete {
    ($field:expr) => {
        match $field {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl Greeting {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let controller = self.controller.as_deref().unwrap_or_default().as_bytes();
        out.push(controller.len() as u8);
        out.extend(controller);
        out
    }

    /// Parses the greeting at the start of `bytes`, and returns its length; `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, InvalidMessage> {
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
            return Err(InvalidMessage);
        }
        let mut reader = Reader(&bytes[seen..]);
        let controller = complete!(reader.controller(MAX_CONTROLLER)?);
        let controller = Some(controller).filter(|name| !name.is_empty());
        Ok(Some((Self { controller }, bytes.len() - reader.0.len())))
    }
}

impl Request {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Heartbeat => out.push(HEARTBEAT),
            Self::Get { name, offset, prefix } => {
                out.push(GET);
                out.extend((name.len() as u16).to_be_bytes());
                out.extend(name.as_bytes());
                out.extend(offset.to_be_bytes());
                if *offset > 0 {
                    out.extend(prefix);
                }
            }
        }
    }

    /// Parses the request at the start of `bytes`, and returns its length; `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, InvalidMessage> {
        let mut reader = Reader(bytes);
        let [kind] = complete!(reader.take());
        let request = match kind {
            HEARTBEAT => Self::Heartbeat,
            GET => {
                let (name, offset) = (complete!(reader.name()?), complete!(reader.number()));
                let prefix = if offset > 0 { complete!(reader.take()) } else { Hash::default() };
                Self::Get { name, offset, prefix }
            }
            _ => return Err(InvalidMessage),
        };
        Ok(Some((request, bytes.len() - reader.0.len())))
    }
}

impl Answer {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Busy => out.push(BUSY),
            Self::Welcome { controller } => {
                out.push(WELCOME);
                let name = &controller.as_bytes()[..controller.len().min(usize::from(u8::MAX))];
                out.push(name.len() as u8);
                out.extend(name);
            }
            Self::Start { size, modified, offset } => {
                out.push(START);
                out.extend(size.to_be_bytes());
                out.extend(modified.seconds.to_be_bytes());
                out.extend(modified.nanos.to_be_bytes());
                out.extend(offset.to_be_bytes());
            }
            Self::Bytes(len) => {
                out.push(BYTES);
                out.extend(len.to_be_bytes());
            }
            Self::End(hash) => {
                out.push(END);
                out.extend(hash);
            }
            Self::Abort => out.push(ABORT),
            Self::Refused(refusal) => out.extend([REFUSED, *refusal as u8]),
        }
    }

    /// Parses the answer at the start of `bytes`, and returns its length; `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, InvalidMessage> {
        let mut reader = Reader(bytes);
        let [kind] = complete!(reader.take());
        let answer = match kind {
            BUSY => Self::Busy,
            WELCOME => Self::Welcome { controller: complete!(reader.controller(255)?) },
            START => {
                let (size, modified) = (complete!(reader.number()), complete!(reader.modified()?));
                let offset = complete!(reader.number());
                if offset > size {
                    return Err(InvalidMessage);
                }
                Self::Start { size, modified, offset }
            }
            BYTES => match complete!(reader.take().map(u32::from_be_bytes)) {
                len if len == 0 || len as usize > MAX_PIECE => return Err(InvalidMessage),
                len => Self::Bytes(len),
            },
            END => Self::End(complete!(reader.take())),
            ABORT => Self::Abort,
            REFUSED => {
                let [code] = complete!(reader.take());
                let refusal = Refusal::ALL.into_iter().find(|refusal| *refusal as u8 == code);
                Self::Refused(refusal.ok_or(InvalidMessage)?)
            }
            _ => return Err(InvalidMessage),
        };
        Ok(Some((answer, bytes.len() - reader.0.len())))
    }
}

#[cfg(test)]
mod tests;
