//! Addresses in C.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use cm::Error;

/// Parses a `sockaddr_in` or `sockaddr_in6`: family, port and address (ip(7), ipv6(7)).
pub(crate) fn read(bytes: &[u8]) -> Result<SocketAddr, Error> {
    let two = |at: usize| bytes.get(at..at + 2).map(|b| [b[0], b[1]]).ok_or(Error::Invalid);
    let family = i32::from(u16::from_ne_bytes(two(0)?));
    let port = u16::from_be_bytes(two(2)?);
    match family {
        libc::AF_INET => {
            let ip: [u8; 4] = bytes.get(4..8).and_then(|ip| ip.try_into().ok()).ok_or(Error::Invalid)?;
            Ok((Ipv4Addr::from(ip), port).into())
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = bytes.get(8..24).and_then(|ip| ip.try_into().ok()).ok_or(Error::Invalid)?;
            let scope: [u8; 4] = bytes.get(24..28).and_then(|scope| scope.try_into().ok()).ok_or(Error::Invalid)?;
            Ok(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, u32::from_ne_bytes(scope)).into())
        }
        _ => Err(Error::Destination),
    }
}

/// The bytes of a `sockaddr_in` or `sockaddr_in6`.
pub(crate) fn write(address: SocketAddr) -> Vec<u8> {
    let head = |family: i32| [(family as u16).to_ne_bytes(), address.port().to_be_bytes()].concat();
    match address {
        SocketAddr::V4(v4) => [&head(libc::AF_INET)[..], &v4.ip().octets(), &[0; 8]].concat(),
        SocketAddr::V6(v6) => {
            let flow = v6.flowinfo().to_be_bytes();
            [&head(libc::AF_INET6)[..], &flow, &v6.ip().octets(), &v6.scope_id().to_ne_bytes()].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ipv4_and_ipv6_addresses_are_read() {
        let mut v4 = [0_u8; 16];
        v4[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        v4[2..8].copy_from_slice(&[0, 80, 192, 0, 2, 1]);
        assert_eq!(read(&v4), Ok("192.0.2.1:80".parse().unwrap()));
        assert_eq!(read(&v4[..7]), Err(Error::Invalid));
        let mut v6 = [0_u8; 28];
        v6[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        v6[23] = 1;
        assert_eq!(read(&v6), Ok("[::1]:0".parse().unwrap()));
        for address in ["192.0.2.1:80", "[fe80::1%3]:2961"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(read(&write(address)), Ok(address));
        }
        assert_eq!(read(&[1, 0, 0, 0]), Err(Error::Destination), "a Unix socket");
        assert_eq!(read(&[]), Err(Error::Invalid));
    }
}
