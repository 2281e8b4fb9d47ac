//! The daemon's datagrams: it sends those of flows (`cm_send`) and forwards received ones to programs of this host.
//! Also asks the kernel for the size of packets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use libc::{c_int, c_void, socklen_t};
use rampmeter_units::Bytes;

/// The headers of a datagram: UDP and IPv4, or UDP and IPv6.
const HEADERS: [usize; 2] = [28, 48];

/// The packet size if the kernel reports none, and the maximum: interfaces with a larger one, such as loopback, are
/// usually not the whole path.
const MAX_MTU: usize = 1500;

/// The minimum packet size: every IPv6 path and nearly every IPv4 path carries it.
const MIN_MTU: usize = 576;

/// Sends datagrams.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The local address of the datagrams; none for the kernel's choice.
    address: Option<IpAddr>,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    /// Datagrams that the kernel refused; reported by [`super::status()`].
    pub(super) refused: u64,
}

impl Output {
    pub(super) fn new(address: Option<IpAddr>) -> Self {
        Self { address, ..Self::default() }
    }

    /// Sends a datagram. One that the kernel refuses is lost, as if it were lost on the path.
    pub(super) fn send(&mut self, to: SocketAddr, data: &[u8]) {
        if self.socket(to.is_ipv4()).and_then(|socket| socket.send_to(data, to)).is_err() {
            self.refused += 1;
        }
    }

    fn socket(&mut self, v4: bool) -> io::Result<&UdpSocket> {
        let socket = if v4 { &mut self.v4 } else { &mut self.v6 };
        if socket.is_none() {
            let own = self.address.filter(|address| address.is_ipv4() == v4);
            let new = UdpSocket::bind((own.unwrap_or(any(v4)), 0))?;
            new.set_nonblocking(true)?;
            *socket = Some(new);
        }
        socket.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The number of application bytes in a packet to `ip`: the MTU that the kernel has discovered for the path, without
/// headers.
pub(super) fn mtu(ip: IpAddr) -> Bytes {
    let packet = kernel_mtu(ip).map_or(MAX_MTU, |mtu| mtu.clamp(MIN_MTU, MAX_MTU));
    Bytes::new((packet - HEADERS[usize::from(ip.is_ipv6())]) as u64)
}

fn kernel_mtu(ip: IpAddr) -> io::Result<usize> {
    let (level, name) =
        if ip.is_ipv4() { (libc::IPPROTO_IP, libc::IP_MTU) } else { (libc::IPPROTO_IPV6, libc::IPV6_MTU) };
    let socket = UdpSocket::bind((any(ip.is_ipv4()), 0))?;
    socket.connect((ip, 9))?; // any port: nothing is sent
    let mut mtu: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: the pointers and the length describe `mtu`, which outlives the call.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut mtu).cast::<c_void>(), &raw mut length) };
    if result == 0 && mtu > 0 { Ok(mtu as usize) } else { Err(io::Error::last_os_error()) }
}

/// The address that stands for all addresses of the host.
fn any(v4: bool) -> IpAddr {
    if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_the_packet_size() {
        assert_eq!(mtu("127.0.0.1".parse().unwrap()), Bytes::new(1472));
    }

    #[test]
    fn datagrams_are_sent_and_refusals_are_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut output = Output::default();
        output.send(receiver.local_addr().unwrap(), b"hello");
        let mut bytes = [0; 10];
        assert_eq!(receiver.recv(&mut bytes).unwrap(), 5);
        output.send(receiver.local_addr().unwrap(), &vec![0; 70_000]);
        assert_eq!(output.refused, 1);
    }
}
