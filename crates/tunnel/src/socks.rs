//! SOCKS5 (RFC 1928): what a local program sends to the SOCKS port, and the answers. `CONNECT` only, without
//! authentication: the port is for programs of this machine.
//!
//! ```text
//! program   version 5, methods                     request: version, command, 0, address, port
//! answer    version 5, method 0 (none)             version, code, 0, 0.0.0.0, 0
//! ```

use super::protocol::{Target, is_host};

/// The program has sent something that cannot be served, and gets this answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocksError(pub(crate) &'static [u8]);

/// The answer to a greeting.
pub(crate) const NO_AUTHENTICATION: [u8; 2] = [5, 0];

/// Codes of answers to a request.
pub(crate) const SUCCEEDED: u8 = 0;
pub(crate) const FAILURE: u8 = 1;
pub(crate) const NOT_ALLOWED: u8 = 2;
pub(crate) const NETWORK_UNREACHABLE: u8 = 3;
pub(crate) const HOST_UNREACHABLE: u8 = 4;
pub(crate) const CONNECTION_REFUSED: u8 = 5;

/// The answer to a request.
pub(crate) const fn answer(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// The maximum length of a greeting, and of a request.
pub(crate) const MAX_GREETING: usize = 257;
pub(crate) const MAX_REQUEST: usize = 262;

/// Reads a greeting, and returns its length; `None` if it is incomplete.
pub(crate) fn greeting(bytes: &[u8]) -> Result<Option<usize>, SocksError> {
    match bytes {
        [] | [5] => Ok(None),
        [5, count, rest @ ..] => {
            let count = usize::from(*count);
            let Some(methods) = rest.get(..count) else { return Ok(None) };
            if methods.contains(&0) { Ok(Some(2 + count)) } else { Err(SocksError(&[5, 0xff])) }
        }
        // SOCKS4 or something else: silence, as its answers are not known.
        _ => Err(SocksError(&[])),
    }
}

const GENERAL: [u8; 10] = answer(FAILURE);
const BAD_COMMAND: [u8; 10] = answer(7);
const BAD_ADDRESS: [u8; 10] = answer(8);

/// Reads where a program wants to connect to, and returns the request's length; `None` if it is incomplete.
pub(crate) fn request(bytes: &[u8]) -> Result<Option<(Target, usize)>, SocksError> {
    match bytes {
        [] | [5] | [5, _] => return Ok(None),
        [5, 1, 0, ..] => {}
        [5, 1, ..] => return Err(SocksError(&GENERAL)),
        [5, ..] => return Err(SocksError(&BAD_COMMAND)),
        _ => return Err(SocksError(&[])),
    }
    let Some((&kind, rest)) = bytes.get(3..).and_then(<[u8]>::split_first) else { return Ok(None) };
    let (host, used) = match kind {
        1 => {
            let Some(ip) = rest.first_chunk::<4>() else { return Ok(None) };
            (std::net::Ipv4Addr::from(*ip).to_string(), 4)
        }
        3 => {
            let Some((&len, rest)) = rest.split_first() else { return Ok(None) };
            let Some(name) = rest.get(..usize::from(len)) else { return Ok(None) };
            let name = std::str::from_utf8(name).map_err(|_| SocksError(&BAD_ADDRESS))?;
            (name.to_owned(), 1 + usize::from(len))
        }
        4 => {
            let Some(ip) = rest.first_chunk::<16>() else { return Ok(None) };
            (std::net::Ipv6Addr::from(*ip).to_string(), 16)
        }
        _ => return Err(SocksError(&BAD_ADDRESS)),
    };
    let Some(port) = rest.get(used..).and_then(|rest| rest.first_chunk::<2>()) else { return Ok(None) };
    if !is_host(&host) {
        return Err(SocksError(&BAD_ADDRESS));
    }
    Ok(Some((Target { host, port: u16::from_be_bytes(*port) }, 4 + used + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_an_address_or_a_name() {
        let read = |bytes: &[u8]| request(bytes).map(|read| read.map(|(r, len)| (r.host, r.port, len)));
        let named = |host: &str, port, len| Ok(Some((host.to_owned(), port, len)));
        assert_eq!(read(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 80, 9]), named("10.0.0.1", 80, 10));
        assert_eq!(read(b"\x05\x01\x00\x03\x03a.b\x01\xbb"), named("a.b", 443, 10));
        let mut v6 = vec![5, 1, 0, 4];
        v6.extend([0; 15]);
        v6.extend([1, 0, 22]);
        assert_eq!(read(&v6), named("::1", 22, 22));
        for len in 0..v6.len() {
            assert_eq!(read(&v6[..len]), Ok(None));
        }
    }

    #[test]
    fn what_cannot_be_served_gets_an_answer() {
        assert_eq!(greeting(&[5, 2, 1, 0]), Ok(Some(4)));
        assert_eq!(greeting(&[5, 2, 1]), Ok(None));
        assert_eq!(greeting(&[5, 1, 2]), Err(SocksError(&[5, 0xff])), "it wants a password");
        assert_eq!(greeting(b"GET / HTTP/1.1"), Err(SocksError(&[])));
        assert_eq!(greeting(&[4, 1]), Err(SocksError(&[])));
        assert_eq!(request(&[5, 3, 0, 1]), Err(SocksError(&BAD_COMMAND)), "UDP ASSOCIATE");
        assert_eq!(request(&[5, 1, 0, 9]), Err(SocksError(&BAD_ADDRESS)));
        assert_eq!(request(b"\x05\x01\x00\x03\x03a\nb\x00\x01"), Err(SocksError(&BAD_ADDRESS)));
        assert_eq!(request(b"\x05\x01\x00\x03\x00\x00\x01"), Err(SocksError(&BAD_ADDRESS)));
    }
}
