//! Socket addresses and control messages in the binary layouts of the kernel (ip(7), ipv6(7), cmsg(3)). Safe code only:
//! the structures are written and read field by field.

use std::mem::size_of;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::c_int;
use rampmeter_session::Route;
use rampmeter_units::Ecn;

/// A socket address in the kernel's layout: `sockaddr_in` or `sockaddr_in6`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(8))]
pub(crate) struct RawAddress(pub(crate) [u8; 28]);

impl RawAddress {
    pub(crate) fn write(&mut self, address: SocketAddr) -> usize {
        let bytes = &mut self.0;
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                16
            }
            SocketAddr::V6(v6) => {
                bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                28
            }
        }
    }

    pub(crate) fn read(&self) -> Option<SocketAddr> {
        let bytes = &self.0;
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match c_int::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
            libc::AF_INET => {
                let ip: [u8; 4] = bytes[4..8].try_into().ok()?;
                Some(SocketAddrV4::new(ip.into(), port).into())
            }
            libc::AF_INET6 => {
                let ip: [u8; 16] = bytes[8..24].try_into().ok()?;
                let scope = u32::from_ne_bytes(bytes[24..28].try_into().ok()?);
                Some(SocketAddrV6::new(ip.into(), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

/// A buffer for control messages: a length, a level, a type and data each, padded to whole words (cmsg(3)).
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control(pub(crate) [u8; 128]);

impl Default for Control {
    fn default() -> Self {
        Self([0; 128])
    }
}

const WORD: usize = size_of::<usize>();
const CONTROL_HEADER: usize = WORD + 8;

/// What the kernel reports beside the bytes that it received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) ecn: Ecn,
    /// The receive timestamp, in nanoseconds on the wall clock.
    pub(crate) stamp: Option<u64>,
    /// The size of each packet, if the kernel has coalesced several; the last one may be shorter.
    pub(crate) segment: Option<usize>,
    /// The local address that they were sent to, if the socket asks for it.
    pub(crate) to: Option<IpAddr>,
}

impl Control {
    /// Writes the messages for a packet or, with the size of a `segment`, for several that the kernel separates. Returns
    /// their length.
    pub(crate) fn write(&mut self, to: Route, ecn: Ecn, segment: Option<u16>) -> usize {
        // An IPv4-mapped IPv6 address is sent as IPv4.
        let v6 = matches!(to.remote, SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_none());
        let (level, kind) = if v6 { (libc::SOL_IPV6, libc::IPV6_TCLASS) } else { (libc::SOL_IP, libc::IP_TOS) };
        let mut end = self.push(0, level, kind, &c_int::from(ecn.bits()).to_ne_bytes());
        // `in_pktinfo` is an interface, the local address, another address; `in6_pktinfo` the address, an interface.
        end = match to.local {
            Some(IpAddr::V4(ip)) => {
                let info = [[0; 4], ip.octets(), [0; 4]].concat();
                self.push(end, libc::SOL_IP, libc::IP_PKTINFO, &info)
            }
            Some(IpAddr::V6(ip)) => {
                let info = [&ip.octets()[..], &[0; 4]].concat();
                self.push(end, libc::SOL_IPV6, libc::IPV6_PKTINFO, &info)
            }
            None => end,
        };
        segment.map_or(end, |size| self.push(end, libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes()))
    }

    /// Writes a message at `at`. Returns the place after it.
    fn push(&mut self, at: usize, level: c_int, kind: c_int, data: &[u8]) -> usize {
        let len = CONTROL_HEADER + data.len();
        let bytes = &mut self.0[at..];
        bytes[..WORD].copy_from_slice(&len.to_ne_bytes());
        bytes[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        bytes[WORD + 4..WORD + 8].copy_from_slice(&kind.to_ne_bytes());
        bytes[CONTROL_HEADER..len].copy_from_slice(data);
        at + len.next_multiple_of(WORD)
    }

    /// The control messages that the kernel wrote.
    #[allow(clippy::unnecessary_cast, reason = "the length's type is the C library's choice")]
    pub(crate) fn read(&self, header: &libc::msghdr) -> Received {
        self.read_first(header.msg_controllen as usize)
    }

    /// The control messages in the first `len` bytes.
    pub(crate) fn read_first(&self, len: usize) -> Received {
        let mut received = Received { ecn: Ecn::NotEct, stamp: None, segment: None, to: None };
        let mut rest = &self.0[..len.min(self.0.len())];
        while let Some((header, _)) = rest.split_at_checked(CONTROL_HEADER) {
            let length = header[..WORD].try_into().map_or(0, usize::from_ne_bytes);
            let number = |at: usize| header[at..at + 4].try_into().map_or(0, c_int::from_ne_bytes);
            let Some(data) = rest.get(CONTROL_HEADER..length) else { break };
            let integer = || data.try_into().ok().map(c_int::from_ne_bytes);
            match (number(WORD), number(WORD + 4)) {
                (libc::SOL_IP, libc::IP_TOS) => {
                    received.ecn = data.first().map_or(received.ecn, |&tos| Ecn::from_bits(tos));
                }
                (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                    received.ecn = integer().map_or(received.ecn, |class| Ecn::from_bits(class as u8));
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    received.segment = integer().and_then(|size| usize::try_from(size).ok());
                }
                (libc::SOL_IP, libc::IP_PKTINFO) => {
                    received.to = data.get(4..).and_then(|rest| rest.first_chunk::<4>()).map(|ip| IpAddr::from(*ip));
                }
                (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                    received.to = data.first_chunk::<16>().map(|ip| IpAddr::from(*ip));
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => received.stamp = nanoseconds(data),
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(WORD)..).unwrap_or_default();
        }
        received
    }
}

/// A `timespec` in nanoseconds.
fn nanoseconds(timespec: &[u8]) -> Option<u64> {
    let (seconds, nanos) = timespec.split_at_checked(timespec.len() / 2)?;
    let number = |bytes: &[u8]| match bytes.len() {
        8 => bytes.try_into().ok().map(i64::from_ne_bytes),
        4 => bytes.try_into().ok().map(i32::from_ne_bytes).map(i64::from),
        _ => None,
    };
    u64::try_from(number(seconds)?.checked_mul(1_000_000_000)?.checked_add(number(nanos)?)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_written_address_reads_as_itself(ip: [u8; 16], port: u16, scope: u32, v4: bool) {
            let address: SocketAddr = if v4 {
                SocketAddrV4::new([ip[0], ip[1], ip[2], ip[3]].into(), port).into()
            } else {
                SocketAddrV6::new(ip.into(), port, 0, scope).into()
            };
            let mut name = RawAddress::default();
            name.write(address);
            prop_assert_eq!(name.read(), Some(address));
        }

        #[test]
        fn no_control_bytes_make_the_reader_panic(bytes in prop::array::uniform32(any::<u32>()), len in 0usize..200) {
            let mut control = Control::default();
            for (chunk, word) in control.0.chunks_exact_mut(4).zip(bytes) {
                chunk.copy_from_slice(&word.to_ne_bytes());
            }
            let _ = control.read_first(len);
            control.0[..WORD].copy_from_slice(&(bytes[0] as usize % 140).to_ne_bytes());
            let _ = control.read_first(len);
        }
    }
}
