//! The messages between client and server.
//!
//! The client opens a stream for each file, and sends a request. The server answers with `file`, the bytes of the file
//! from the offset on and `end`, or with `refused` in place of one of these two. Each message is JSON after its length
//! in two bytes, big-endian:
//!
//! ```text
//! client   {"name":"a/b","offset":7,"blake3":"HASH OF THE BYTES BEFORE","controller":"pcp"}
//! server   {"file":{"size":9,"modified":TIME,"offset":7,"controller":"pcp"}}
//!          two bytes
//!          {"end":{"blake3":"HASH OF THE WHOLE FILE"}}
//! server   {"refused":"no_such_file"}
//! ```
//!
//! Refusals are a few words and names of controllers have only letters and digits, so that no text from the network
//! reaches a terminal unescaped.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The maximum length of a message.
pub(crate) const MAX_MESSAGE: usize = 4096;

/// The maximum length of a controller's name in bytes.
const MAX_CONTROLLER: usize = 64;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The file's name. It may be invalid.
    pub(crate) name: String,
    /// The first byte that the client does not have.
    pub(crate) offset: u64,
    /// The hash of the bytes before it.
    pub(crate) blake3: String,
    /// The controller that should send the file, unless it is the server's choice.
    pub(crate) controller: Option<String>,
}

/// A server's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Answer {
    /// The file's bytes from `offset` on follow.
    File { size: u64, modified: Option<SystemTime>, offset: u64, controller: String },
    /// They were all; the hash is that of the whole file.
    End { blake3: String },
    /// There is no file, or what was sent of it is useless.
    Refused(Refusal),
}

/// Why a server refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The request is invalid, or of another version of the protocol.
    #[error("it does not understand the request: run the same version on both ends")]
    BadRequest,
    /// The name leads out of the directory, or is not a valid name.
    #[error("the name leads out of its directory: write a path below it, without links out of it")]
    BadName,
    /// The file does not exist.
    #[error("it has no such file: check the name, which is a path below the directory that it serves")]
    NoSuchFile,
    /// The file is not a regular file.
    #[error("that is a directory or a device: write the name of a file; rsync through a tunnel copies directories")]
    NotAFile,
    /// The server cannot read the file.
    #[error("it cannot read that file: check the file's permissions on the server")]
    Unreadable,
    /// The file changed while it was sent.
    #[error("the file changed while it was sent: run the same command again")]
    Changed,
    /// The server has no controller of that name.
    #[error("it has no controller of that name: `rampmeter controllers` there lists them")]
    NoSuchController,
    /// Clients may not choose this controller.
    #[error("it lends clients only controllers that are safe on the Internet: write another, such as cubic")]
    ControllerNotAllowed,
}

impl Refusal {
    /// Whether the controller was refused, and not the file.
    pub(crate) fn is_of_controller(self) -> bool {
        matches!(self, Self::NoSuchController | Self::ControllerNotAllowed)
    }
}

/// Refuses an invalid name of a controller, with the reason. A valid one is safe to print.
pub(crate) fn check_controller(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > MAX_CONTROLLER {
        return Err("it is empty or longer than 64 letters");
    }
    let is_safe = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if is_safe { Ok(()) } else { Err("it has characters other than letters, digits, `-` and `_`") }
}

/// A message after its length.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec(message).unwrap_or_default();
    [&(text.len() as u16).to_be_bytes()[..], &text].concat()
}

impl Request {
    /// Reads the text of a message.
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        let is_safe = |name: &String| check_controller(name).is_ok();
        serde_json::from_slice(text).ok().filter(|request: &Self| request.controller.as_ref().is_none_or(is_safe))
    }
}

impl Answer {
    /// Reads the text of a message.
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok().filter(|answer| match answer {
            Self::File { size, offset, controller, .. } => offset <= size && check_controller(controller).is_ok(),
            Self::End { .. } | Self::Refused(_) => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use rampmeter_testing::check_fuzz_seed;

    use super::*;

    fn file(size: u64, offset: u64, controller: &str) -> Answer {
        let modified = Some(UNIX_EPOCH + Duration::new(1_700_000_000, 5));
        Answer::File { size, modified, offset, controller: controller.into() }
    }

    /// They are the seeds of the fuzz target `files`, too.
    #[test]
    fn each_message_is_read_as_it_was_written() {
        let hash = "ab".repeat(32);
        let request = Request { name: "ä/\"b".into(), offset: 7, blake3: hash.clone(), controller: None };
        let chosen = Request { controller: Some("pcp".into()), ..request.clone() };
        for (name, request) in [("request", request), ("request_with_controller", chosen)] {
            let bytes = encode(&request);
            check_fuzz_seed("files", name, &bytes[2..]);
            assert_eq!(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])), bytes.len() - 2);
            assert_eq!(Request::decode(&bytes[2..]), Some(request));
        }
        let (end, refused) = (Answer::End { blake3: hash }, Answer::Refused(Refusal::NoSuchFile));
        for (name, answer) in [("file", file(u64::MAX, 7, "pcp")), ("end", end), ("refused", refused)] {
            let bytes = encode(&answer);
            check_fuzz_seed("files", name, &bytes[2..]);
            assert_eq!(Answer::decode(&bytes[2..]), Some(answer));
            assert_eq!(Answer::decode(&bytes[2..bytes.len() - 1]), None);
        }
        assert_eq!(Answer::decode(&encode(&file(7, 8, "pcp"))[2..]), None, "from beyond its end");
    }

    #[test]
    fn a_controllers_name_is_short_and_safe_to_print() {
        for name in ["", "a b", "a\nb", "ä", "\x1b[31m", &"x".repeat(65)] {
            assert!(check_controller(name).is_err(), "{name:?}");
            assert_eq!(Answer::decode(&encode(&file(3, 0, name))[2..]), None);
        }
        for name in ["pcp", "fair-share", "my_own2", &"x".repeat(64)] {
            assert!(check_controller(name).is_ok(), "{name:?}");
        }
    }
}
