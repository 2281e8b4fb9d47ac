//! The other host of a connection.

use std::net::SocketAddr;

use rampmeter_manager::{Destination, Owner};
use rampmeter_session::SessionId;
use rampmeter_transport::{Address, network};

/// The other host of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// In clear, at an address: only for scenarios, whose streams carry no data. Other crates name such a peer with the
    /// feature `clear` only.
    #[non_exhaustive]
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

#[cfg(feature = "clear")]
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

    fn session(&self) -> Owner {
        match self {
            Self::Clear(_) => Owner::default(),
            Self::Session(id, _) => Owner(id.lower_half()),
        }
    }

    fn network(&self) -> Destination {
        network(self.destination())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn only_the_emulated_world_can_send_in_clear() {
        let manifest = |path: &std::path::Path| fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let crates = fs::read_dir("..").unwrap().map(|entry| entry.unwrap().path()).chain(["../..".into()]);
        let mut users = Vec::new();
        for path in crates.filter(|path| path.join("Cargo.toml").exists()) {
            let text = manifest(&path);
            let named = text.lines().filter(|line| line.contains("rampmeter-net") && line.contains("clear"));
            users.extend(named.map(|_| path.file_name().map(ToOwned::to_owned)));
        }
        assert_eq!(users, [Some("linux".into())]);
        let own: toml::Table = manifest(".".as_ref()).parse().unwrap();
        let features = own["features"].as_table().unwrap();
        let enabled = features.values().flat_map(|value| value.as_array().unwrap());
        assert!(enabled.into_iter().all(|feature| feature.as_str() != Some("clear")), "no other feature enables it");
    }
}
