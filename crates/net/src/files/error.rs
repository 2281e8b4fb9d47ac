//! What can go wrong, one line each: what was wrong, where, and what would be right.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rampmeter_units::{Bytes, RegistryError};
use thiserror::Error;

use super::protocol::Refusal;
use crate::history::HistoryError;

/// Why a file was not served or not got.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetError {
    /// Not an address of a file.
    #[error("`{url}`: {reason}; give HOST:PORT/NAME, for example 127.0.0.1:7267/data.bin")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An option with an impossible value.
    #[error("{0}")]
    BadOption(String),
    /// No such controller, or wrong settings for it.
    #[error(transparent)]
    Controller(#[from] RegistryError),
    /// Histories cannot be kept there.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The directory to serve is not one.
    #[error("{}: {reason}; give a directory that can be read", path.display())]
    BadDirectory {
        /// What was given.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// The port is taken.
    #[error("{0} is in use: give another port, or 0 for any free one")]
    PortInUse(SocketAddr),
    /// Can't listen there.
    #[error("can't listen at {address}: {reason}; give an address of this machine and a port that is allowed")]
    CannotListen {
        /// What was given.
        address: SocketAddr,
        /// What the system says.
        reason: io::Error,
    },
    /// The host's name means nothing.
    #[error("no address is known for `{0}`: check its spelling")]
    UnknownHost(String),
    /// The peer's machine is there, but nobody listens.
    #[error("nobody listens at {0}: start `rampmeter serve` there, or check the port")]
    NobodyListens(SocketAddr),
    /// Packets can't get there.
    #[error("no way to {address}: {reason}; check the address and this machine's network")]
    NoRoute {
        /// Where to.
        address: SocketAddr,
        /// What the system says.
        reason: io::Error,
    },
    /// Nothing ever came back.
    #[error("{0} does not answer: check the address, and that firewalls let UDP pass")]
    NoAnswer(SocketAddr),
    /// The peer fell silent.
    #[error("{address} fell silent after {}: run the same command {}", of(*got, *size), again(*kept))]
    Vanished {
        /// Who.
        address: SocketAddr,
        /// Bytes of the file that are here.
        got: u64,
        /// Its size, if known.
        size: Option<u64>,
        /// Whether they stay there for the next download.
        kept: bool,
    },
    /// The peer broke the transfer off.
    #[error("{address} broke off after {}: run the same command {}", of(*got, *size), again(*kept))]
    BrokenOff {
        /// Who.
        address: SocketAddr,
        /// Bytes of the file that are here.
        got: u64,
        /// Its size, if known.
        size: Option<u64>,
        /// Whether they stay there for the next download.
        kept: bool,
    },
    /// The server refuses.
    #[error("{address} refuses `{name}`: {reason}")]
    Refused {
        /// Who.
        address: SocketAddr,
        /// What was asked for: the file, or the controller if it is for that.
        name: String,
        /// Why.
        reason: Refusal,
    },
    /// The peer speaks something else.
    #[error("{0} does not speak this protocol: both ends should run the same version")]
    BadAnswer(SocketAddr),
    /// The hash is wrong.
    #[error("`{name}` arrived damaged (its hash is wrong) and {}: get it again", if *kept { "was deleted" } else { "is of no use" })]
    Corrupt {
        /// What was asked for.
        name: String,
        /// Whether it was in a file that could be deleted.
        kept: bool,
    },
    /// The disk is full.
    #[error("no space left for {}: make room and run the same command to resume", .0.display())]
    DiskFull(PathBuf),
    /// Another download writes the same part.
    #[error("{} is being written by another download: wait for it, or give another output", .0.display())]
    PartInUse(PathBuf),
    /// A file can't be written.
    #[error("{}: {reason}; give an output that can be written", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// Stopped from outside.
    #[error("stopped after {}: run the same command {}", of(*got, *size), again(*kept))]
    Interrupted {
        /// Bytes of the file that are here.
        got: u64,
        /// Its size, if known.
        size: Option<u64>,
        /// Whether they stay there for the next download.
        kept: bool,
    },
    /// The system refused something that it should not have.
    #[error("the system's network refused: {0}")]
    System(#[from] io::Error),
}

impl NetError {
    /// Whether what was asked for makes no sense, rather than that it failed.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::BadUrl { .. } | Self::BadOption(_) | Self::Controller(_) | Self::BadDirectory { .. })
    }

    /// Trouble with the file at `path`.
    pub(crate) fn file(path: &Path, reason: io::Error) -> Self {
        let path = path.to_owned();
        match reason.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path),
            _ => Self::File { path, reason },
        }
    }

    /// Trouble with listening at `address`.
    pub(crate) fn listen(address: SocketAddr, reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse(address),
            _ => Self::CannotListen { address, reason },
        }
    }

    /// Trouble with reaching `address`.
    pub(crate) fn reach(address: SocketAddr, reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::ConnectionRefused => Self::NobodyListens(address),
            _ => Self::NoRoute { address, reason },
        }
    }
}

fn of(got: u64, size: Option<u64>) -> String {
    let got = Bytes::new(got);
    size.map_or_else(|| got.to_string(), |size| format!("{got} of {}", Bytes::new(size)))
}

fn again(kept: bool) -> &'static str {
    if kept { "to resume" } else { "again" }
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
            (NetError::reach(address, system(libc::ECONNREFUSED)), ["nobody listens", "rampmeter serve"]),
            (NetError::reach(address, system(libc::ENETUNREACH)), ["no way to", "check the address"]),
            (NetError::file(Path::new("x.part"), system(libc::ENOSPC)), ["x.part", "make room"]),
            (NetError::file(Path::new("x.part"), system(libc::EACCES)), ["x.part", "can be written"]),
            (NetError::Vanished { address, got: 1500, size: Some(3000), kept: true }, ["1.5 kB of 3 kB", "resume"]),
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
