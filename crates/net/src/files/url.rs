//! Addresses of files, `rampmeter://HOST:PORT/NAME?key=KEY`, and of directories, whose names end with `/`. The scheme
//! and the key may be omitted.

use std::net::{SocketAddr, ToSocketAddrs};

use rampmeter_session::PublicKey;

use super::error::NetError;
use super::protocol::check_directory_name;

/// The address of a file, or of a directory if the name ends with `/` or is empty.
#[derive(Debug)]
pub(crate) struct Url {
    /// HOST:PORT, as written.
    pub(crate) server: String,
    /// The addresses of the host.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) name: String,
    /// The server's key.
    pub(crate) key: Option<PublicKey>,
}

impl Url {
    /// Reads the text and resolves the host.
    pub(crate) fn read(url: &str) -> Result<Self, NetError> {
        let bad = |reason: &str| NetError::BadUrl(url.to_owned(), reason.to_owned());
        let text = url.strip_prefix("rampmeter://").unwrap_or(url);
        let (text, key) = match text.rsplit_once("?key=") {
            Some((text, key)) => (text, Some(key.parse().map_err(|error| bad(&format!("its key is wrong: {error}")))?)),
            None => (text, None),
        };
        let (server, name) = text.split_once('/').ok_or_else(|| bad("it has no `/` before the file's name"))?;
        let (host, port) = server.rsplit_once(':').ok_or_else(|| bad("it has no port"))?;
        if host.is_empty() || port.parse::<u16>().map_or(true, |port| port == 0) {
            return Err(bad("its host or its port is missing or wrong"));
        }
        // A `/` at the end is a directory's.
        check_directory_name(name.strip_suffix('/').unwrap_or(name))
            .map_err(|reason| bad(&format!("the name is wrong: {reason}")))?;
        let addresses: Vec<_> = server.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        if addresses.is_empty() {
            return Err(NetError::UnknownHost(host.to_owned()));
        }
        Ok(Self { server: server.to_owned(), addresses, name: name.to_owned(), key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_url_is_refused_with_the_right_form() {
        for url in [
            "",
            "host",
            "host/name",
            ":1/x",
            "127.0.0.1:/x",
            "127.0.0.1:0/x",
            "127.0.0.1:70000/x",
            "h:1/../x",
            "h:1/..",
            "h:1/a//",
            "h:1///",
            "h:1//etc/passwd",
            "127.0.0.1:1/x?key=short",
        ] {
            let error = Url::read(url).unwrap_err();
            assert!(matches!(error, NetError::BadUrl { .. }), "{url}: {error}");
            assert!(error.to_string().contains("HOST:PORT/NAME") && error.is_usage());
        }
        let url = Url::read("[::1]:7/a/b").unwrap();
        assert_eq!((url.addresses[0].to_string().as_str(), url.name.as_str(), url.key), ("[::1]:7", "a/b", None));
        let key = "A".repeat(43);
        let url = Url::read(&format!("rampmeter://[::1]:7/a?b?key={key}")).unwrap();
        assert_eq!((url.name.as_str(), url.key.map(|key| key.to_string())), ("a?b", Some(key)));
        assert!(matches!(Url::read("no-such-host.invalid:7/x"), Err(NetError::UnknownHost(_))));
    }
}
