//! The first contact of two hosts: addresses, trust in keys, and what can go wrong when a program contacts a server or
//! listens. Files, streams and tunnels share it.

mod address;
mod trust;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rampmeter_session::{Denial, Name, PublicKey};
use rampmeter_units::{Bytes, RegistryError};
use thiserror::Error;

use crate::keys::KeyError;
use crate::socket::{path_size, smallest_packet};

pub use address::{STREAMS_PORT, ServerAddress};
pub use trust::{Trust, Trusted};

/// Why a server cannot be contacted, or an address cannot be listened on. The messages have one line each: what is
/// wrong, where, and what to write or do instead.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ContactError {
    /// The text is not an address.
    #[error("`{text}`: {problem}; write {form}")]
    BadAddress {
        /// The text.
        text: String,
        /// What is wrong.
        problem: String,
        /// What to write instead.
        form: &'static str,
    },
    /// An option with an invalid value.
    #[error("{0}")]
    BadOption(String),
    /// An unknown controller, or invalid settings.
    #[error(transparent)]
    Controller(#[from] RegistryError),
    /// The host's name cannot be resolved.
    #[error("no address is known for `{0}`: check its spelling")]
    UnknownHost(String),
    /// No process listens on the port.
    #[error("no process listens on {0}: start the server there, or check the port")]
    ConnectionRefused(SocketAddr),
    /// The network or this host refused to send to the address.
    #[error("no route to {0}: {1}; check the address and this machine's network")]
    NoRoute(SocketAddr, io::Error),
    /// The server never answered.
    #[error("no answer from {0}: check the address, and that no firewall blocks UDP")]
    NoAnswer(SocketAddr),
    /// The server is another service.
    #[error(
        "{0} is another service: check the port (of files 7267, of tunnels 7268), and that both ends run the same version"
    )]
    NotThisService(SocketAddr),
    /// The server does not have the name that was asked for.
    #[error("{0} is not `{1}`: check the address; its operator gives its names with --name HOST:PORT")]
    NotThisName(SocketAddr, String),
    /// The path to the server carries packets of this size only, as far as the kernel knows.
    #[error(
        "no answer from {0}: its path carries packets of {known} bytes; raise the MTU of its links and tunnels to {smallest}",
        known = .1.as_u64(),
        smallest = smallest_packet(*.0).as_u64()
    )]
    SmallPath(SocketAddr, Bytes),
    /// The server has no place for another session of this network or key.
    #[error("{0} has no place for another session: try again later")]
    Busy(SocketAddr),
    /// The server has another key than the one expected.
    #[error(transparent)]
    KeyChanged(Box<KeyChanged>),
    /// This client's key is not on the server's list.
    #[error("{address} serves only keys on its list: {advice}", advice = listing_advice(.own.as_ref()))]
    NotAuthorized {
        /// The server.
        address: SocketAddr,
        /// The key of this client, if it has one that it keeps.
        own: Option<PublicKey>,
    },
    /// A file of keys cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The port is in use.
    #[error("{0} is in use: write another port, or 0 for any free one")]
    PortInUse(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}; write an address of this machine and a port that is allowed")]
    CannotListen(SocketAddr, io::Error),
    /// An unexpected error of the operating system.
    #[error("network error of the operating system: {0}")]
    System(#[from] io::Error),
}

/// What to do for a server that serves listed keys only.
fn listing_advice(own: Option<&PublicKey>) -> String {
    own.map_or_else(
        || "this client has none that it keeps; make one with `rampmeter key`, and ask its operator to add it".into(),
        |own| format!("ask its operator to add {own}, or give a file with a listed key as the identity"),
    )
}

impl ContactError {
    /// Whether the error is in the request itself: an invalid address, option, controller or file of keys.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::BadAddress { .. } | Self::BadOption(_) | Self::Controller(_) | Self::Key(_))
    }

    /// Whether another attempt cannot succeed before somebody changes something.
    pub fn is_permanent(&self) -> bool {
        self.is_usage()
            || matches!(
                self,
                Self::KeyChanged(_) | Self::NotAuthorized { .. } | Self::NotThisService(_) | Self::NotThisName(..)
            )
    }

    /// Whether the same attempt may succeed later: the server does not answer, or is busy.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::ConnectionRefused(_) | Self::NoRoute(..) | Self::NoAnswer(_) | Self::Busy(_))
    }

    /// The server at `address` has not answered. The kernel may know that the path is too small for a handshake.
    pub fn no_answer(address: SocketAddr) -> Self {
        let known = path_size(address).filter(|&known| known < smallest_packet(address));
        known.map_or(Self::NoAnswer(address), |known| Self::SmallPath(address, known))
    }

    /// The server at `address`, asked as `name`, has not answered, because it is another one.
    pub fn denied(address: SocketAddr, name: &str, why: Denial) -> Self {
        match why {
            Denial::OtherKey => Self::no_answer(address),
            Denial::OtherService => Self::NotThisService(address),
            Denial::OtherName => Self::NotThisName(address, name.to_owned()),
        }
    }

    /// The error of listening on `address`.
    pub fn listen(address: SocketAddr, reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse(address),
            _ => Self::CannotListen(address, reason),
        }
    }

    /// The error of sending to `address`.
    pub fn reach(address: SocketAddr, reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::ConnectionRefused => Self::ConnectionRefused(address),
            _ => Self::NoRoute(address, reason),
        }
    }
}

/// The names of a server by which clients may ask for it; any if there are none.
pub fn names(names: &[String]) -> Option<BTreeSet<Name>> {
    (!names.is_empty()).then(|| names.iter().map(|name| Name::new(name)).collect())
}

/// A server has another key than the one expected.
#[derive(Debug, Error)]
#[error(
    "{server} has the key {got}, and not {expected}, which {}: if its operator confirms the new key, {}; otherwise somebody else may answer in its place",
    .origin.is_there(), .origin.remedy()
)]
pub struct KeyChanged {
    /// HOST:PORT.
    pub server: String,
    /// The key that it has.
    pub got: PublicKey,
    /// The one that was expected.
    pub expected: PublicKey,
    /// Where that one is from.
    pub origin: KeyOrigin,
}

/// Where the key of a server is known from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOrigin {
    /// Its address.
    Address,
    /// The options of the client.
    Options,
    /// A line in the file of known servers.
    KnownServers {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

impl KeyOrigin {
    fn is_there(&self) -> String {
        match self {
            Self::Address => "is in the address".into(),
            Self::Options => "was given as its key".into(),
            Self::KnownServers { path, line } => format!("{}:{line} has", path.display()),
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::Address => "write it there".into(),
            Self::Options => "give it instead".into(),
            Self::KnownServers { line, .. } => format!("delete line {line} of that file"),
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
        let keys = [1, 2]
            .map(|seed| rampmeter_session::KeyPair::generate(&mut rampmeter_units::Random::from_seed(seed)).public());
        let changed = |origin| {
            let [got, expected] = keys;
            ContactError::KeyChanged(Box::new(KeyChanged { server: "a:1".into(), got, expected, origin }))
        };
        for (error, words) in [
            (ContactError::listen(address, system(libc::EADDRINUSE)), ["127.0.0.1:7267", "another port"]),
            (ContactError::listen(address, system(libc::EACCES)), ["127.0.0.1:7267", "allowed"]),
            (ContactError::reach(address, system(libc::ECONNREFUSED)), ["no process listens", "start the server"]),
            (ContactError::reach(address, system(libc::ENETUNREACH)), ["no route to", "check the address"]),
            (ContactError::SmallPath(address, Bytes::new(600)), ["600 bytes", "raise the MTU"]),
            (ContactError::NotAuthorized { address, own: Some(keys[0]) }, [&keys[0].to_string(), "identity"]),
            (ContactError::NotAuthorized { address, own: None }, ["has none", "`rampmeter key`"]),
            (changed(KeyOrigin::Address), [&keys[0].to_string(), "write it there"]),
            (changed(KeyOrigin::Options), [&keys[1].to_string(), "give it instead"]),
            (
                changed(KeyOrigin::KnownServers { path: "/k/known_servers".into(), line: 3 }),
                ["/k/known_servers:3 has", "delete line 3"],
            ),
        ] {
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)) && !text.contains('\n'), "{text}");
        }
    }
}
