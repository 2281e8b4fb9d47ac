//! The errors of streams, one line each: what is wrong, where, and what to write or do instead.

use std::io;
use std::net::SocketAddr;

use rampmeter_session::PublicKey;
use rampmeter_units::{Bytes, RegistryError};
use thiserror::Error;

use crate::files::KeyChanged;
use crate::host::{EndReason, SessionEnd};
use crate::keys::KeyError;
use crate::socket::{path_size, smallest_packet};

/// Why a session or a stream cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The text is not the address of a server.
    #[error("`{0}`: {1}; write HOST:PORT or HOST:PORT?key=KEY, for example 127.0.0.1:7268")]
    BadAddress(String, String),
    /// An option with an invalid value.
    #[error("{0}")]
    BadOption(String),
    /// An unknown controller, or invalid settings.
    #[error(transparent)]
    Controller(#[from] RegistryError),
    /// The host's name cannot be resolved.
    #[error("no address is known for `{0}`: check its spelling")]
    UnknownHost(String),
    /// The port is in use.
    #[error("{0} is in use: write another port, or 0 for any free one")]
    PortInUse(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}; write an address of this machine and a port that is allowed")]
    CannotListen(SocketAddr, io::Error),
    /// No process listens on the port.
    #[error("no process listens on {0}: start the server there, or check the port")]
    ConnectionRefused(SocketAddr),
    /// The network or this host refused to send to the address.
    #[error("no route to {0}: {1}; check the address and this machine's network")]
    NoRoute(SocketAddr, io::Error),
    /// The server never answered.
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
    /// The server has another key than the one expected.
    #[error(transparent)]
    KeyChanged(Box<KeyChanged>),
    /// A file of keys cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
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
    /// There are as many streams as are allowed.
    #[error("the session has as many streams as are allowed: end some, or raise the maximum")]
    TooManyStreams,
    /// The session has ended.
    #[error("the session has ended: {}", reason(*.0))]
    Ended(SessionEnd),
    /// An unexpected error of the operating system.
    #[error("network error of the operating system: {0}")]
    System(#[from] io::Error),
}

impl StreamError {
    /// Whether the error is in the request itself.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::BadAddress(..) | Self::BadOption(_) | Self::Controller(_))
    }

    /// Whether another attempt cannot succeed before somebody changes something.
    pub fn is_permanent(&self) -> bool {
        self.is_usage() || matches!(self, Self::KeyChanged(_) | Self::Key(_) | Self::NotAuthorized { .. })
    }

    /// The server at `address` has not answered. The kernel may know that the path is too small for a handshake.
    pub(super) fn no_answer(address: SocketAddr) -> Self {
        let known = path_size(address).filter(|&known| known < smallest_packet(address));
        known.map_or(Self::NoAnswer(address), |known| Self::SmallPath(address, known))
    }

    pub(super) fn listen(address: SocketAddr, reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse(address),
            _ => Self::CannotListen(address, reason),
        }
    }

    pub(super) fn reach(address: SocketAddr, reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::ConnectionRefused => Self::ConnectionRefused(address),
            _ => Self::NoRoute(address, reason),
        }
    }
}

/// Why a session ended, in words.
pub(super) fn reason(end: SessionEnd) -> &'static str {
    match end {
        SessionEnd::WrongKey => "the other host has another key",
        SessionEnd::NotAuthorized => "this host's key is not on the other host's list",
        SessionEnd::Finished => "the other host has closed it",
        SessionEnd::Stopping => "the other host stops",
        SessionEnd::Restarted => "the other host was restarted",
        SessionEnd::Busy => "the other host has no place for another session",
        SessionEnd::NoAnswer => "the other host does not answer",
    }
}

/// How a stream ended, apart from its regular end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// Both streams were delivered.
    Finished,
    /// The peer reset it.
    Reset,
    /// This host reset it.
    Aborted,
    /// The peer stopped responding.
    TimedOut,
    /// Its session ended.
    Session(SessionEnd),
}

impl From<EndReason> for StreamEnd {
    fn from(reason: EndReason) -> Self {
        match reason {
            EndReason::Finished => Self::Finished,
            EndReason::Reset => Self::Reset,
            EndReason::Aborted | EndReason::FalseFeedback => Self::Aborted,
            EndReason::PeerTimeout => Self::TimedOut,
        }
    }
}

impl From<StreamEnd> for io::Error {
    fn from(end: StreamEnd) -> Self {
        match end {
            StreamEnd::Finished => Self::new(io::ErrorKind::BrokenPipe, "the stream has ended"),
            StreamEnd::Reset => Self::new(io::ErrorKind::ConnectionReset, "the peer has reset the stream"),
            StreamEnd::Aborted => Self::new(io::ErrorKind::ConnectionAborted, "this host has reset the stream"),
            StreamEnd::TimedOut => Self::new(io::ErrorKind::TimedOut, "the peer of the stream does not respond"),
            StreamEnd::Session(end) => Self::new(io::ErrorKind::ConnectionAborted, reason(end)),
        }
    }
}
