//! Addresses of files: HOST:PORT/NAME.

use std::net::{SocketAddr, ToSocketAddrs};

use super::error::NetError;
use super::protocol::check_name;

/// Resolves HOST:PORT/NAME into socket addresses and the name.
pub(crate) fn read_url(url: &str) -> Result<(Vec<SocketAddr>, String), NetError> {
    let bad = |reason: &str| NetError::BadUrl(url.to_owned(), reason.to_owned());
    let (host, name) = url.split_once('/').ok_or_else(|| bad("it has no `/` before the file's name"))?;
    let (before, port) = host.rsplit_once(':').ok_or_else(|| bad("it has no port"))?;
    if before.is_empty() || port.parse::<u16>().map_or(true, |port| port == 0) {
        return Err(bad("its host or its port is missing or wrong"));
    }
    check_name(name).map_err(|reason| bad(&format!("the name is wrong: {reason}")))?;
    let addresses: Vec<_> = host.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    if addresses.is_empty() {
        return Err(NetError::UnknownHost(before.to_owned()));
    }
    Ok((addresses, name.to_owned()))
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
            "h:1/",
            "h:1/../x",
            "h:1//etc/passwd",
        ] {
            let error = read_url(url).unwrap_err();
            assert!(matches!(error, NetError::BadUrl { .. }), "{url}: {error}");
            assert!(error.to_string().contains("HOST:PORT/NAME") && error.is_usage());
        }
        let (addresses, name) = read_url("[::1]:7/a/b").unwrap();
        assert_eq!((addresses[0].to_string().as_str(), name.as_str()), ("[::1]:7", "a/b"));
        assert!(matches!(read_url("no-such-host.invalid:7/x"), Err(NetError::UnknownHost(_))));
    }
}
