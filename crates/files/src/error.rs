//! The errors of file transfer, one line each: what is wrong, where, and what to write or do instead.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rampmeter_net::{ContactError, HistoryError, NotLent, Unopened};
use rampmeter_units::{Bytes, RegistryError};
use thiserror::Error;

use super::protocol::Refusal;

/// What arrived of the files before their transfer ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// Bytes of the files.
    pub got: u64,
    /// The files' size, if known.
    pub size: Option<u64>,
    /// Whether the next transfer can resume from them.
    pub resumable: bool,
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Bytes::new(self.got))?;
        if let Some(size) = self.size {
            write!(f, " of {}", Bytes::new(size))?;
        }
        write!(f, ": repeat the transfer{}", if self.resumable { " to resume" } else { "" })
    }
}

/// Why a file was not served or downloaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetError {
    /// The other host cannot be contacted, or the address cannot be listened on.
    #[error(transparent)]
    Contact(#[from] ContactError),
    /// An option with an invalid value.
    #[error("{0}")]
    BadOption(String),
    /// The history file cannot be used.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The path is not a directory that can be served.
    #[error("{0}: {1}; give a readable directory")]
    BadDirectory(PathBuf, io::Error),
    /// The peer stopped responding.
    #[error("{0} stopped responding after {1}")]
    PeerTimeout(SocketAddr, Received),
    /// The peer aborted the transfer.
    #[error("{0} aborted the transfer after {1}")]
    Aborted(SocketAddr, Received),
    /// The server refused the request.
    #[error("{address} refuses `{name}`: {reason}")]
    Refused {
        /// The server.
        address: SocketAddr,
        /// The refused name: the file's, or the controller's if that was refused.
        name: String,
        /// The reason.
        reason: Refusal,
    },
    /// The peer uses another protocol.
    #[error("{0} uses another protocol: both ends should run the same version")]
    BadAnswer(SocketAddr),
    /// The hash of the file is wrong.
    #[error("`{name}` arrived damaged (its hash is wrong) and {}: download it again", if *deleted { "was deleted" } else { "cannot be used" })]
    Corrupt {
        /// The requested name.
        name: String,
        /// Whether the received file was deleted.
        deleted: bool,
    },
    /// The file is not the expected one.
    #[error("`{name}` has the BLAKE3 hash {blake3}, not the expected one, and {}: check the hash, and the file at the server", if *deleted { "was deleted" } else { "should not be used" })]
    OtherContent {
        /// The requested name.
        name: String,
        /// The file's hash.
        blake3: String,
        /// Whether the received file was deleted.
        deleted: bool,
    },
    /// The disk is full.
    #[error("no space left for {0}: make room, and repeat the transfer to resume")]
    DiskFull(PathBuf),
    /// A file is larger than this client accepts.
    #[error("`{name}` has {}, more than {}: allow a larger size", Bytes::new(*.size), Bytes::new(*.max))]
    TooLarge {
        /// The requested name.
        name: String,
        /// The file's size.
        size: u64,
        /// The largest one that is accepted.
        max: u64,
    },
    /// Another download writes the same part file.
    #[error("{0} is being written by another download: wait for it, or give another path")]
    PartInUse(PathBuf),
    /// The output, or its part file, is something that a download neither follows nor writes to.
    #[error("{0} {1}: give another path (`-` is standard output), or delete it")]
    NotOwnFile(PathBuf, &'static str),
    /// The output cannot be written.
    #[error("{0}: {1}; {advice}", advice = path_advice(.1))]
    File(PathBuf, io::Error),
    /// The download was stopped by a signal.
    #[error("stopped after {0}")]
    Interrupted(Received),
    /// The server stopped, or was restarted.
    #[error("{0} was stopped or restarted after {1}")]
    Restarted(SocketAddr, Received),
}

impl From<Unopened> for Refusal {
    fn from(unopened: Unopened) -> Self {
        match unopened {
            Unopened::BadName => Self::BadName,
            Unopened::NoSuchFile => Self::NoSuchFile,
            Unopened::NotAFile => Self::NotAFile,
            Unopened::Unreadable => Self::Unreadable,
        }
    }
}

impl From<NotLent> for Refusal {
    fn from(not_lent: NotLent) -> Self {
        match not_lent {
            NotLent::NoSuchController => Self::NoSuchController,
            NotLent::NotAllowed => Self::ControllerNotAllowed,
        }
    }
}

/// What to do about an output that cannot be written for this reason.
fn path_advice(reason: &io::Error) -> &'static str {
    match reason.kind() {
        io::ErrorKind::NotFound => "make its directory first, or give another path",
        io::ErrorKind::IsADirectory => "delete this directory, or give another path",
        io::ErrorKind::NotADirectory => "delete the file that is in the place of its directory, or give another path",
        _ => "give a writable path",
    }
}

impl From<RegistryError> for NetError {
    fn from(error: RegistryError) -> Self {
        Self::Contact(error.into())
    }
}

impl From<io::Error> for NetError {
    fn from(error: io::Error) -> Self {
        Self::Contact(error.into())
    }
}

impl NetError {
    /// Whether the error is in the request itself: an invalid address, option or controller, or a directory that
    /// cannot be served.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Contact(error) => error.is_usage(),
            Self::BadOption(_) | Self::BadDirectory(..) => true,
            Self::Refused { reason, .. } => {
                matches!(reason, Refusal::NoSuchController | Refusal::ControllerNotAllowed)
            }
            _ => false,
        }
    }

    /// Whether the same command may succeed later: the server does not answer, stops, or is busy, or the file was changed
    /// meanwhile or arrived damaged.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Contact(error) => error.is_temporary(),
            Self::PeerTimeout(..) | Self::Aborted(..) | Self::Restarted(..) | Self::Corrupt { .. } => true,
            Self::Refused { reason, .. } => *reason == Refusal::Changed,
            _ => false,
        }
    }

    /// The error of an operation on the file at `path`.
    pub(crate) fn file(path: &Path, reason: io::Error) -> Self {
        let path = path.to_owned();
        match reason.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path),
            _ => Self::File(path, reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_one_line_with_advice() {
        let address: SocketAddr = "127.0.0.1:7267".parse().unwrap();
        let system = |code| io::Error::from_raw_os_error(code);
        for (error, words) in [
            (NetError::file(Path::new("x.part"), system(libc::ENOSPC)), ["x.part", "make room"]),
            (NetError::file(Path::new("x.part"), system(libc::EACCES)), ["x.part", "a writable path"]),
            (NetError::file(Path::new("none/x"), system(libc::ENOENT)), ["none/x", "make its directory"]),
            (NetError::file(Path::new("d"), system(libc::EISDIR)), ["d: ", "delete this directory"]),
            (NetError::file(Path::new("f/x"), system(libc::ENOTDIR)), ["f/x", "delete the file"]),
            (
                NetError::PeerTimeout(address, Received { got: 1500, size: Some(3000), resumable: true }),
                ["1.5 kB of 3 kB", "resume"],
            ),
            (
                NetError::Refused { address, name: "a".into(), reason: Refusal::NoSuchFile },
                ["no such file", "below the directory"],
            ),
            (NetError::NotOwnFile("x.part".into(), "is a symbolic link"), ["x.part is a symbolic link", "delete it"]),
        ] {
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)) && !text.contains('\n'), "{text}");
        }
    }
}
