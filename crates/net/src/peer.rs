//! The other host of a connection.

use std::net::SocketAddr;

use rampmeter_manager::Destination;
use rampmeter_session::SessionId;
use rampmeter_transport::{Address, network};

/// The other host of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// In clear, at an address: only for scenarios, whose streams carry no data.
    Clear(SocketAddr),
    /// In an encrypted session, which may change its address. The destination is that of its first address.
    Session(SessionId, Destination),
}

impl Peer {
    /// The other host of a session that begins at `address`.
    pub(crate) fn session(session: SessionId, address: SocketAddr) -> Self {
        Self::Session(session, address.destination())
    }

    pub(crate) fn session_id(self) -> Option<SessionId> {
        match self {
            Self::Clear(_) => None,
            Self::Session(id, _) => Some(id),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Clear(address)
    }
}

impl Address for Peer {
    fn destination(&self) -> Destination {
        match self {
            Self::Clear(address) => address.destination(),
            Self::Session(_, destination) => *destination,
        }
    }

    fn network(&self) -> Destination {
        network(self.destination())
    }
}
