//! The messages between client and server, and their encoding.
//!
//! ```text
//! client   "RMF2"  name length (2)  name  controller length (1)  controller
//!                  offset (8)  hash of the first `offset` bytes (32)
//!          then heartbeat bytes at intervals, which keep the connection alive and measure the round trip
//! server   0                                                     still checking those bytes; at intervals
//!          1  size (8)  offset (8)  name length (1)  controller  the bytes from `offset` on follow, then
//!             2  hash of the whole file (32)                     all of it was sent
//!          3  reason (1)                                         instead of 1 or of 2: refused
//! ```
//!
//! Numbers are big-endian. Each side ends its stream after its last message. A refusal is encoded as a number, so that
//! no text from the network reaches a terminal. The controller in a request is the one that should send the file; an
//! empty name leaves the choice to the server. Only its name is sent, no settings.

use thiserror::Error;

/// A file's BLAKE3 hash.
pub(crate) type Hash = [u8; 32];

const MAGIC: &[u8; 4] = b"RMF2";
const HASH: usize = size_of::<Hash>();

/// The maximum length of a file's name in bytes.
pub(crate) const MAX_NAME: usize = 1024;

/// The maximum length of a controller's name in bytes.
pub(crate) const MAX_CONTROLLER: usize = 64;

/// The maximum length of a request in bytes.
pub(crate) const MAX_REQUEST: usize = 4 + 2 + MAX_NAME + 1 + MAX_CONTROLLER + 8 + HASH;

const CHECKING: u8 = 0;
const START: u8 = 1;
const WHOLE: u8 = 2;
const REFUSED: u8 = 3;

pub(crate) const HEARTBEAT: u8 = 0;

/// Why a server refuses a request.
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
    #[error("it has no such file: write a path below its directory")]
    NoSuchFile = 3,
    /// The file is not a regular file.
    #[error("that is not a regular file: directories and devices are not served")]
    NotAFile = 4,
    /// The server cannot read the file.
    #[error("it cannot read that file: check the file's permissions on the server")]
    Unreadable = 5,
    /// The file changed while it was sent.
    #[error("the file changed while it was sent: download it again")]
    Changed = 6,
    /// The server has its maximum number of clients.
    #[error("it has its maximum number of clients: try again later")]
    Busy = 7,
    /// The server has no controller of that name.
    #[error("it has no controller of that name: `rampmeter controllers` there lists them")]
    NoSuchController = 8,
    /// The controller does not react to congestion, so clients may not choose it.
    #[error("it allows only controllers that react to congestion: write another")]
    ControllerNotAllowed = 9,
}

impl Refusal {
    const ALL: [Self; 9] = [
        Self::BadRequest,
        Self::BadName,
        Self::NoSuchFile,
        Self::NotAFile,
        Self::Unreadable,
        Self::Changed,
        Self::Busy,
        Self::NoSuchController,
        Self::ControllerNotAllowed,
    ];

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u8 == code)
    }
}

/// The bytes are not a message of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidMessage;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) name: String,
    /// The controller that should send the file; `None` leaves the choice to the server.
    pub(crate) controller: Option<String>,
    /// The number of bytes that the client already has.
    pub(crate) offset: u64,
    /// Their hash; meaningless if there are none.
    pub(crate) prefix: Hash,
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend((self.name.len() as u16).to_be_bytes());
        out.extend(self.name.as_bytes());
        let controller = self.controller.as_deref().unwrap_or_default().as_bytes();
        out.push(controller.len() as u8);
        out.extend(controller);
        out.extend(self.offset.to_be_bytes());
        out.extend(self.prefix);
        out
    }

    /// Parses the request at the start of `bytes`; `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Self>, InvalidMessage> {
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
            return Err(InvalidMessage);
        }
        let mut reader = Reader(&bytes[seen..]);
        let Some(len) = reader.take::<2>().map(u16::from_be_bytes) else { return Ok(None) };
        if usize::from(len) > MAX_NAME {
            return Err(InvalidMessage);
        }
        let (Some(name), Some([len])) = (reader.slice(usize::from(len)), reader.take()) else { return Ok(None) };
        if usize::from(len) > MAX_CONTROLLER {
            return Err(InvalidMessage);
        }
        let (Some(controller), Some(offset), Some(prefix)) =
            (reader.slice(usize::from(len)), reader.take(), reader.take::<HASH>())
        else {
            return Ok(None);
        };
        let name = std::str::from_utf8(name).map_err(|_| InvalidMessage)?.to_owned();
        let controller = if controller.is_empty() { None } else { Some(safe_name(controller).ok_or(InvalidMessage)?) };
        Ok(Some(Self { name, controller, offset: u64::from_be_bytes(offset), prefix }))
    }
}

/// A server's message, apart from the file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Checking,
    Start { size: u64, offset: u64, controller: String },
    Whole(Hash),
    Refused(Refusal),
}

impl Answer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Checking => out.push(CHECKING),
            Self::Start { size, offset, controller } => {
                out.push(START);
                out.extend(size.to_be_bytes());
                out.extend(offset.to_be_bytes());
                let name = &controller.as_bytes()[..controller.len().min(usize::from(u8::MAX))];
                out.push(name.len() as u8);
                out.extend(name);
            }
            Self::Whole(hash) => {
                out.push(WHOLE);
                out.extend(hash);
            }
            Self::Refused(refusal) => out.extend([REFUSED, *refusal as u8]),
        }
        out
    }

    /// Parses the answer at the start of `bytes`, and returns its length; `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, InvalidMessage> {
        let mut reader = Reader(bytes);
        let answer = match reader.take() {
            None => None,
            Some([CHECKING]) => Some(Self::Checking),
            Some([START]) => reader.start()?,
            Some([WHOLE]) => reader.take().map(Self::Whole),
            Some([REFUSED]) => match reader.take() {
                None => None,
                Some([code]) => Some(Self::Refused(Refusal::from_code(code).ok_or(InvalidMessage)?)),
            },
            Some(_) => return Err(InvalidMessage),
        };
        Ok(answer.map(|answer| (answer, bytes.len() - reader.0.len())))
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn start(&mut self) -> Result<Option<Answer>, InvalidMessage> {
        let (Some(size), Some(offset), Some([len])) = (self.take(), self.take(), self.take()) else { return Ok(None) };
        let (size, offset) = (u64::from_be_bytes(size), u64::from_be_bytes(offset));
        let Some(name) = self.slice(usize::from(len)) else { return Ok(None) };
        let controller = safe_name(name).filter(|_| offset <= size).ok_or(InvalidMessage)?;
        Ok(Some(Answer::Start { size, offset, controller }))
    }
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

/// Refuses a name that is not a path below a directory, with the reason.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.len() > MAX_NAME {
        return Err("it is longer than 1024 bytes");
    }
    if name.bytes().any(|b| b.is_ascii_control()) {
        return Err("it has control characters");
    }
    if name.starts_with('/') {
        return Err("it starts with `/`: write a path below the served directory");
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("it has an empty part, `.` or `..`: write a path below the served directory");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_answer() -> impl Strategy<Value = Answer> {
        prop_oneof![
            Just(Answer::Checking),
            (any::<u64>(), any::<u64>(), "[a-z0-9-]{0,20}").prop_map(|(a, b, controller)| Answer::Start {
                size: a.max(b),
                offset: a.min(b),
                controller
            }),
            any::<Hash>().prop_map(Answer::Whole),
            prop::sample::select(&Refusal::ALL[..]).prop_map(Answer::Refused),
        ]
    }

    proptest! {
        #[test]
        fn a_request_is_parsed_once_it_is_complete(
            name in "[a-zéß/.]{0,40}",
            controller in prop::option::of("[a-z0-9-]{1,64}"),
            offset: u64,
            prefix: Hash,
            extra: Vec<u8>,
        ) {
            let request = Request { name, controller, offset, prefix };
            let mut bytes = request.encode();
            prop_assert!(bytes.len() <= MAX_REQUEST);
            for len in 0..bytes.len() {
                prop_assert_eq!(Request::parse(&bytes[..len]), Ok(None));
            }
            bytes.extend(extra);
            prop_assert_eq!(Request::parse(&bytes), Ok(Some(request)));
        }

        #[test]
        fn an_answer_is_parsed_once_it_is_complete(answer in any_answer(), extra: Vec<u8>) {
            let mut bytes = answer.encode();
            let whole = bytes.len();
            for len in 0..whole {
                prop_assert_eq!(Answer::parse(&bytes[..len]), Ok(None));
            }
            bytes.extend(extra);
            prop_assert_eq!(Answer::parse(&bytes), Ok(Some((answer, whole))));
        }

        #[test]
        fn no_bytes_make_a_parser_panic_or_wait_forever(
            bytes in prop::collection::vec(any::<u8>(), 0..2000),
            valid: bool,
        ) {
            let mut bytes = bytes;
            if valid && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(MAGIC);
            }
            if let Ok(None) = Request::parse(&bytes) {
                prop_assert!(bytes.len() < MAX_REQUEST, "a request of full length is complete");
            }
            let _ = Answer::parse(&bytes);
        }

        #[test]
        fn a_damaged_request_never_makes_the_parser_panic(name in "[a-z/]{0,40}", at: prop::sample::Index, with: u8) {
            let mut bytes = Request { name, controller: Some("pcp".into()), offset: 7, prefix: [1; HASH] }.encode();
            let at = at.index(bytes.len());
            bytes[at] = with;
            let _ = Request::parse(&bytes);
        }

        #[test]
        fn an_accepted_name_stays_below_the_directory(name in "[a-z./]{0,12}") {
            if check_name(&name).is_ok() {
                let path = std::path::Path::new(&name);
                prop_assert!(path.components().all(|c| matches!(c, std::path::Component::Normal(_))));
            }
        }
    }

    #[test]
    fn a_controllers_name_is_short_and_safe_to_print() {
        for name in ["", "a b", "a\nb", "ä", "\x1b[31m", &"x".repeat(65)] {
            assert!(check_controller(name).is_err(), "{name:?}");
            let request = Request { name: "f".into(), controller: Some(name.into()), offset: 0, prefix: [0; HASH] };
            let read = Request::parse(&request.encode());
            assert!(name.is_empty() || read == Err(InvalidMessage), "{name:?}: {read:?}");
        }
        for name in ["pcp", "fair-share", "my_own2", &"x".repeat(64)] {
            assert!(check_controller(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn paths_out_of_the_directory_are_refused() {
        for name in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\0b", "a\nb", &"x".repeat(1025)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["a", "a/b.txt", "..a", "a..", "ein Name"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }
}
