//! The errors of file transfer, one line each: what is wrong, where, and what to write or do instead.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rampmeter_session::PublicKey;
use rampmeter_units::{Bytes, RegistryError};
use thiserror::Error;

use super::protocol::Refusal;
use crate::history::HistoryError;
use crate::keys::KeyError;
use crate::socket::{path_size, smallest_packet};

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
        write!(f, ": run the same command {}", if self.resumable { "to resume" } else { "again" })
    }
}

/// A server has another key than the one expected.
#[derive(Debug, Error)]
#[error(
    "{server} has the key {got}, and not {expected}, which {origin}: if its operator confirms the new key, {remedy}; otherwise somebody else may answer in its place"
)]
pub struct KeyChanged {
    /// HOST:PORT.
    pub server: String,
    /// The key that it has.
    pub got: PublicKey,
    /// The one that was expected.
    pub expected: PublicKey,
    /// Where that one is from.
    pub origin: String,
    /// What to change.
    pub remedy: &'static str,
}

/// Why a file was not served or downloaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetError {
    /// The text is not the address of a file.
    #[error("`{0}`: {1}; write HOST:PORT/NAME or HOST:PORT/NAME?key=KEY, for example 127.0.0.1:7267/data.bin")]
    BadUrl(String, String),
    /// An option with an invalid value.
    #[error("{0}")]
    BadOption(String),
    /// An unknown controller, or invalid settings.
    #[error(transparent)]
    Controller(#[from] RegistryError),
    /// The history file cannot be used.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The path is not a directory that can be served.
    #[error("{0}: {1}; give a readable directory")]
    BadDirectory(PathBuf, io::Error),
    /// The port is in use.
    #[error("{0} is in use: write another port, or 0 for any free one")]
    PortInUse(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}; write an address of this machine and a port that is allowed")]
    CannotListen(SocketAddr, io::Error),
    /// The host's name cannot be resolved.
    #[error("no address is known for `{0}`: check its spelling")]
    UnknownHost(String),
    /// The peer's host refused the packets: no process listens on the port.
    #[error("no process listens on {0}: start `rampmeter serve` there, or check the port")]
    ConnectionRefused(SocketAddr),
    /// The network or this host refused to send to the address.
    #[error("no route to {0}: {1}; check the address and this machine's network")]
    NoRoute(SocketAddr, io::Error),
    /// The peer never answered.
    #[error("no answer from {0}: check the address, and that no firewall blocks UDP")]
    NoAnswer(SocketAddr),
    /// The server has no place for another session of this network or key.
    #[error("{0} has no place for another session: try again later")]
    Busy(SocketAddr),
    /// The path to the server carries packets of this size only, as far as the kernel knows.
    #[error(
        "no answer from {0}: its path carries packets of {known} bytes; raise the MTU of its links and tunnels to {smallest}",
        known = .1.as_u64(),
        smallest = smallest_packet(*.0).as_u64()
    )]
    SmallPath(SocketAddr, Bytes),
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
    #[error("`{name}` has the BLAKE3 hash {blake3}, not the one given with --blake3, and {}: check the hash, and the file at the server", if *deleted { "was deleted" } else { "should not be used" })]
    OtherContent {
        /// The requested name.
        name: String,
        /// The file's hash.
        blake3: String,
        /// Whether the received file was deleted.
        deleted: bool,
    },
    /// The disk is full.
    #[error("no space left for {0}: make room and run the same command to resume")]
    DiskFull(PathBuf),
    /// A file of this machine cannot be read.
    #[error("{0}: {1}; give a regular file that you may read")]
    Unreadable(PathBuf, io::Error),
    /// A file is larger than this client accepts.
    #[error("`{name}` has {}, more than {}: allow more with --max-size", Bytes::new(*.size), Bytes::new(*.max))]
    TooLarge {
        /// The requested name.
        name: String,
        /// The file's size.
        size: u64,
        /// The largest one that is accepted.
        max: u64,
    },
    /// Another download writes the same part file.
    #[error("{0} is being written by another download: wait for it, or give another path with --out")]
    PartInUse(PathBuf),
    /// The output cannot be written.
    #[error("{0}: {1}; give a writable path with --out")]
    File(PathBuf, io::Error),
    /// The download was stopped by a signal.
    #[error("stopped after {0}")]
    Interrupted(Received),
    /// A file of keys cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The server has another key than the one expected.
    #[error(transparent)]
    KeyChanged(Box<KeyChanged>),
    /// This client's key is not on the server's list.
    #[error(
        "{address} serves only keys on its list: ask its operator to add {own}, or give a listed key with --identity"
    )]
    NotAuthorized {
        /// The server.
        address: SocketAddr,
        /// The key of this client.
        own: PublicKey,
    },
    /// The server stopped, or was restarted.
    #[error("{0} was stopped or restarted after {1}")]
    Restarted(SocketAddr, Received),
    /// An unexpected error of the operating system.
    #[error("network error of the operating system: {0}")]
    System(#[from] io::Error),
}

impl NetError {
    /// The server at `address` has not answered. The kernel may know that the path is too small for a handshake.
    pub(crate) fn no_answer(address: SocketAddr) -> Self {
        let known = path_size(address).filter(|&known| known < smallest_packet(address));
        known.map_or(Self::NoAnswer(address), |known| Self::SmallPath(address, known))
    }

    /// Whether the error is in the request itself: an invalid address, option, controller or directory.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::BadUrl { .. } | Self::BadOption(_) | Self::Controller(_) | Self::BadDirectory { .. })
    }

    /// Whether the same command may succeed later: the server does not answer, stops, or is busy.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::ConnectionRefused(_)
            | Self::NoRoute(..)
            | Self::NoAnswer(_)
            | Self::Busy(_)
            | Self::PeerTimeout(..)
            | Self::Aborted(..)
            | Self::Restarted(..)
            | Self::Corrupt { .. } => true,
            Self::Refused { reason, .. } => reason.is_temporary(),
            _ => false,
        }
    }

    /// The same error, with what has arrived.
    pub(crate) fn with_received(self, received: Received) -> Self {
        match self {
            Self::PeerTimeout(address, _) => Self::PeerTimeout(address, received),
            Self::Aborted(address, _) => Self::Aborted(address, received),
            Self::Restarted(address, _) => Self::Restarted(address, received),
            Self::Interrupted(_) => Self::Interrupted(received),
            error => error,
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

    /// The error of listening on `address`.
    pub(crate) fn listen(address: SocketAddr, reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse(address),
            _ => Self::CannotListen(address, reason),
        }
    }

    /// The error of sending to `address`.
    pub(crate) fn reach(address: SocketAddr, reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::ConnectionRefused => Self::ConnectionRefused(address),
            _ => Self::NoRoute(address, reason),
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
            (NetError::listen(address, system(libc::EADDRINUSE)), ["127.0.0.1:7267", "another port"]),
            (NetError::listen(address, system(libc::EACCES)), ["127.0.0.1:7267", "allowed"]),
            (NetError::reach(address, system(libc::ECONNREFUSED)), ["no process listens", "rampmeter serve"]),
            (NetError::reach(address, system(libc::ENETUNREACH)), ["no route to", "check the address"]),
            (NetError::file(Path::new("x.part"), system(libc::ENOSPC)), ["x.part", "make room"]),
            (NetError::file(Path::new("x.part"), system(libc::EACCES)), ["x.part", "a writable path"]),
            (
                NetError::PeerTimeout(address, Received { got: 1500, size: Some(3000), resumable: true }),
                ["1.5 kB of 3 kB", "resume"],
            ),
            (
                NetError::Refused { address, name: "a".into(), reason: Refusal::NoSuchFile },
                ["no such file", "below its directory"],
            ),
        ] {
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)) && !text.contains('\n'), "{text}");
        }
    }
}
