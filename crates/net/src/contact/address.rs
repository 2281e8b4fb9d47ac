//! Addresses of servers: `HOST:PORT` or `HOST:PORT?key=KEY`, after `rampmeter://` if wanted. A name of a file may follow
//! the port. After `rampmeter://` the port may be missing; it is then the default one of the service.

use std::net::{SocketAddr, ToSocketAddrs};

use rampmeter_session::PublicKey;

use super::ContactError;

/// The default port of a server of streams.
pub const STREAMS_PORT: u16 = 7268;

/// How the address of a server of streams is written.
const FORM: &str = "HOST:PORT or HOST:PORT?key=KEY, for example 127.0.0.1:7268";

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// HOST:PORT, as written.
    pub text: String,
    /// Its key.
    pub key: Option<PublicKey>,
}

impl ServerAddress {
    /// The address of a server of streams.
    pub fn read(address: &str) -> Result<Self, ContactError> {
        let (server, rest) = Self::read_with_rest(address, FORM, STREAMS_PORT)?;
        match rest {
            None | Some("") => Ok(server),
            Some(_) => Err(bad(address, "a name follows its port", FORM)),
        }
    }

    /// Reads an address, whose right `form` errors show, of a service with this `default_port`, and what follows the `/`
    /// after the port.
    pub fn read_with_rest<'a>(
        address: &'a str,
        form: &'static str,
        default_port: u16,
    ) -> Result<(Self, Option<&'a str>), ContactError> {
        let after_scheme = address.strip_prefix("rampmeter://");
        let text = after_scheme.unwrap_or(address);
        let wrong = |error| bad(address, &format!("its key is wrong: {error}"), form);
        let (text, key) = match text.rsplit_once("?key=") {
            Some((text, key)) => (text, Some(key.parse().map_err(wrong)?)),
            None => (text, None),
        };
        let (server, rest) = text.split_once('/').map_or((text, None), |(server, rest)| (server, Some(rest)));
        // Colons in brackets are those of an IPv6 address.
        let has_port = server.rsplit_once(']').map_or(server, |(_, rest)| rest).contains(':');
        let server = match after_scheme {
            Some(_) if !has_port => format!("{server}:{default_port}"),
            _ => server.to_owned(),
        };
        let (host, port) = server.rsplit_once(':').ok_or_else(|| bad(address, "it has no port", form))?;
        if host.is_empty() || port.parse::<u16>().map_or(true, |port| port == 0) {
            return Err(bad(address, "its host or its port is missing or wrong", form));
        }
        Ok((Self { text: server, key }, rest))
    }

    /// The addresses of the host, at least one. It blocks.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, ContactError> {
        let found: Vec<_> = self.text.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        let host = self.text.rsplit_once(':').map_or(self.text.as_str(), |(host, _)| host);
        if found.is_empty() { Err(ContactError::UnknownHost(host.to_owned())) } else { Ok(found) }
    }
}

fn bad(text: &str, problem: &str, form: &'static str) -> ContactError {
    ContactError::BadAddress { text: text.to_owned(), problem: problem.to_owned(), form }
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
        for (address, text) in [("a", "a:7268"), ("a/", "a:7268"), ("[::1]", "[::1]:7268"), ("a:7", "a:7")] {
            assert_eq!(ServerAddress::read(&format!("rampmeter://{address}")).unwrap().text, text);
        }
        assert!(ServerAddress::read("rampmeter://").is_err() && ServerAddress::read("rampmeter:///").is_err());
        assert!(ServerAddress::read("no-such-host.invalid:7").unwrap().resolve().is_err());
    }
}
