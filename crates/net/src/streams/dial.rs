//! A client's first contact with its server: the address, and whether the server is the right one.

use std::net::{SocketAddr, ToSocketAddrs};

use rampmeter_session::{KeyPair, PublicKey};
use rampmeter_units::Time;
use tokio::sync::oneshot;

use super::error::StreamError;
use super::session::Session;
use crate::files::{KeyChanged, Trust};
use crate::keys;

/// The address of a server: `HOST:PORT` or `HOST:PORT?key=KEY`, after `rampmeter://` if wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerAddress {
    /// HOST:PORT, as written.
    pub(super) text: String,
    pub(super) key: Option<PublicKey>,
}

impl ServerAddress {
    pub(super) fn read(address: &str) -> Result<Self, StreamError> {
        let bad = |reason: &str| StreamError::BadAddress(address.to_owned(), reason.to_owned());
        let text = address.strip_prefix("rampmeter://").unwrap_or(address);
        let (text, key) = match text.rsplit_once("?key=") {
            Some((text, key)) => (text, Some(key.parse().map_err(|error| bad(&format!("its key is wrong: {error}")))?)),
            None => (text, None),
        };
        let text = text.strip_suffix('/').unwrap_or(text);
        let (host, port) = text.rsplit_once(':').ok_or_else(|| bad("it has no port"))?;
        if host.is_empty() || text.contains('/') || port.parse::<u16>().map_or(true, |port| port == 0) {
            return Err(bad("its host or its port is missing or wrong"));
        }
        Ok(Self { text: text.to_owned(), key })
    }

    /// The addresses of the host. It blocks.
    pub(super) fn resolve(&self) -> Result<Vec<SocketAddr>, StreamError> {
        let found: Vec<_> = self.text.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        let host = self.text.rsplit_once(':').map_or(self.text.as_str(), |(host, _)| host);
        if found.is_empty() { Err(StreamError::UnknownHost(host.to_owned())) } else { Ok(found) }
    }
}

/// Which server is the right one, and who this client is.
#[derive(Debug)]
pub(super) struct Trusted {
    server: ServerAddress,
    trust: Trust,
    pub(super) expected: Option<PublicKey>,
    pub(super) identity: KeyPair,
}

impl Trusted {
    pub(super) fn new(server: ServerAddress, trust: Trust, identity: KeyPair) -> Result<Self, StreamError> {
        let expected = match (server.key, &trust) {
            (Some(key), _) => Some(key),
            (None, Trust::Key(key)) => Some(*key),
            (None, Trust::KnownServers(path)) => keys::known_server(path, &server.text)?,
        };
        Ok(Self { server, trust, expected, identity })
    }

    /// The server has shown its key: it is new, or another than the expected one. True if it was stored.
    pub(super) fn check(&self, key: PublicKey) -> Result<bool, StreamError> {
        match (&self.trust, self.expected) {
            (_, Some(expected)) if expected == key => Ok(false),
            (trust, Some(expected)) => {
                let (origin, remedy) = match trust {
                    _ if self.server.key.is_some() => ("is in the address".to_owned(), "write it there"),
                    Trust::Key(_) => ("--key gives".to_owned(), "give it there"),
                    Trust::KnownServers(path) => {
                        (format!("{} has", path.display()), "delete the server's line in that file")
                    }
                };
                let server = self.server.text.clone();
                Err(StreamError::KeyChanged(Box::new(KeyChanged { server, got: key, expected, origin, remedy })))
            }
            (Trust::KnownServers(path), None) => {
                keys::remember_server(path, &self.server.text, key)?;
                Ok(true)
            }
            (Trust::Key(_), None) => Ok(false),
        }
    }
}

/// A first contact that has not succeeded yet.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) trusted: Trusted,
    pub(super) address: SocketAddr,
    /// Addresses to be tried after this one.
    pub(super) others: Vec<SocketAddr>,
    /// When the present attempt ends.
    pub(super) deadline: Time,
    pub(super) is_new_server: bool,
    pub(super) reply: oneshot::Sender<Result<Connected, StreamError>>,
}

/// A session that a client has opened.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) session: Session,
    pub(super) address: SocketAddr,
    pub(super) is_new_server: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_a_port_and_perhaps_a_key() {
        for address in ["", "host", "host:", ":7", "host:0", "host:70000", "host:7/x", "host:7?key=short"] {
            let error = ServerAddress::read(address).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains("HOST:PORT"), "{address}: {error}");
        }
        let key = "A".repeat(43);
        let read = ServerAddress::read(&format!("rampmeter://[::1]:7/?key={key}")).unwrap();
        assert_eq!((read.text.as_str(), read.key.map(|key| key.to_string())), ("[::1]:7", Some(key)));
        assert_eq!(ServerAddress::read("a:7").unwrap().key, None);
        assert!(ServerAddress::read("no-such-host.invalid:7").unwrap().resolve().is_err());
    }
}
