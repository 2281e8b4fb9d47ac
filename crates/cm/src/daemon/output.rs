//! Datagrams of the daemon's: it sends what flows left with it (`cm_send`) and hands on what came for programs of this host;
//! and it asks the kernel how large a packet may be.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use libc::{c_int, c_void, socklen_t};
use rampmeter_units::Bytes;

/// Headers of a datagram: UDP's, and IPv4's or IPv6's.
const HEADERS: [usize; 2] = [28, 48];

/// A packet's size where the kernel knows none, and at most: interfaces of larger ones, such as loopback, are as a rule
/// not the whole path.
const LARGEST: usize = 1500;

/// Every path of IPv6 carries so much, and nearly every one of IPv4.
const LEAST: usize = 576;

/// Sends datagrams.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The address of ours that they come from; the kernel's choice if there is none.
    address: Option<IpAddr>,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    /// Datagrams that the kernel refused; like those that get lost on the way, but known to [`super::status()`].
    pub(super) refused: u64,
}

impl Output {
    /// Sends from `address`.
    pub(super) fn new(address: Option<IpAddr>) -> Self {
        Self { address, ..Self::default() }
    }

    /// Sends a datagram. One that the kernel does not take is lost, as it could be anywhere on the way.
    pub(super) fn send(&mut self, to: SocketAddr, data: &[u8]) {
        if self.socket(to.is_ipv4()).and_then(|socket| socket.send_to(data, to)).is_err() {
            self.refused += 1;
        }
    }

    fn socket(&mut self, v4: bool) -> io::Result<&UdpSocket> {
        let (place, any): (_, SocketAddr) = if v4 {
            (&mut self.v4, (Ipv4Addr::UNSPECIFIED, 0).into())
        } else {
            (&mut self.v6, (Ipv6Addr::UNSPECIFIED, 0).into())
        };
        if place.is_none() {
            let own = self.address.filter(|address| address.is_ipv4() == v4);
            let socket = UdpSocket::bind(own.map_or(any, |own| (own, 0).into()))?;
            socket.set_nonblocking(true)?;
            *place = Some(socket);
        }
        place.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// How many bytes of an application a packet to `ip` carries: what the kernel has discovered of the path, without headers.
pub(super) fn mtu(ip: IpAddr) -> Bytes {
    let packet = kernel_mtu(ip).map_or(LARGEST, |mtu| mtu.clamp(LEAST, LARGEST));
    Bytes::new((packet - HEADERS[usize::from(ip.is_ipv6())]) as u64)
}

fn kernel_mtu(ip: IpAddr) -> io::Result<usize> {
    let (any, level, name): (SocketAddr, _, _) = match ip {
        IpAddr::V4(_) => ((Ipv4Addr::UNSPECIFIED, 0).into(), libc::IPPROTO_IP, libc::IP_MTU),
        IpAddr::V6(_) => ((Ipv6Addr::UNSPECIFIED, 0).into(), libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect((ip, 9))?; // any port will do: nothing is sent
    let mut mtu: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: the pointers and the length describe `mtu`, which outlives the call.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut mtu).cast::<c_void>(), &raw mut length) };
    if result == 0 && mtu > 0 { Ok(mtu as usize) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_how_large_packets_may_be() {
        assert_eq!(mtu("127.0.0.1".parse().unwrap()), Bytes::new(1472));
    }

    #[test]
    fn datagrams_leave_and_refusals_are_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut output = Output::default();
        output.send(receiver.local_addr().unwrap(), b"hello");
        let mut bytes = [0; 10];
        assert_eq!(receiver.recv(&mut bytes).unwrap(), 5);
        output.send(receiver.local_addr().unwrap(), &vec![0; 70_000]);
        assert_eq!(output.refused, 1);
    }
}
