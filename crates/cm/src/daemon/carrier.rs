//! The transport of messages between daemons: UDP, or IP packets of protocol 253 (RFC 3692), which need privileges.
//!
//! ```text
//! UDP   IP | UDP, port 2961 | message        data: IP | UDP | CM | UDP | payload
//! raw   IP | message                         data: IP | CM | UDP | payload
//! ```
//!
//! Data is sent with ECT(0), because its receiver reports marks; the ECN code of a received message is passed on. The
//! error queue (ip(7), `IP_RECVERR`) reports hosts on which no daemon listens.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, RecvMsg, SockFlag, SockType, SockaddrStorage, bind,
    recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use rampmeter_units::Ecn;

use super::arrival::Arrival;
use super::protocol::{Carriage, RAW_PROTOCOL};

/// The maximum number of messages read from one socket in a turn.
const MAX_PER_TURN: usize = 64;

const MAX_MESSAGE: usize = 1 << 16;

/// The size of the kernel's buffers, for bursts that arrive while the daemon is busy.
const KERNEL_BUFFER: usize = 4 << 20;

#[derive(Debug)]
struct Socket {
    file: OwnedFd,
    v4: bool,
    /// Received packets include the IP header.
    raw: bool,
    /// The socket accepts ECN codes.
    ecn: bool,
}

/// The sockets for messages.
#[derive(Debug)]
pub(super) struct Carrier {
    sockets: Vec<Socket>,
    buffer: Vec<u8>,
}

impl Carrier {
    /// Listens as `carriage` says, at `address` or at all addresses of the host.
    pub(super) fn new(carriage: Carriage, address: Option<IpAddr>) -> io::Result<Self> {
        let mut sockets = Vec::new();
        match (carriage, address) {
            (Carriage::None, _) => {}
            (Carriage::Udp(port), Some(address)) => sockets.push(Socket::udp((address, port).into())?),
            (Carriage::Udp(port), None) => {
                sockets.push(Socket::udp((Ipv4Addr::UNSPECIFIED, port).into())?);
                match Socket::udp((Ipv6Addr::UNSPECIFIED, port).into()) {
                    // The host has no IPv6.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {}
                    other => sockets.push(other?),
                }
            }
            (Carriage::Raw, Some(IpAddr::V4(address))) => sockets.push(Socket::raw(address)?),
            (Carriage::Raw, Some(IpAddr::V6(_))) => return Err(Errno::EAFNOSUPPORT.into()),
            (Carriage::Raw, None) => sockets.push(Socket::raw(Ipv4Addr::UNSPECIFIED)?),
        }
        Ok(Self { sockets, buffer: vec![0; MAX_MESSAGE] })
    }

    /// Files that are readable when a message has arrived.
    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.file.as_fd())
    }

    /// Sends a message. False if no message can ever be sent there; a message that the kernel refuses for now is lost,
    /// as if it were lost on the path.
    pub(super) fn send(&mut self, to: SocketAddr, bytes: &[u8], ecn: Ecn) -> bool {
        let Some(socket) = self.sockets.iter_mut().find(|socket| socket.v4 == to.is_ipv4()) else { return false };
        // The call may return the error of an earlier packet instead of sending this one.
        for _ in 0..3 {
            match socket.send(to, bytes, ecn) {
                Err(Errno::EINVAL | Errno::EPERM) if socket.ecn && ecn != Ecn::NotEct => socket.ecn = false,
                Err(Errno::EINTR | Errno::ECONNREFUSED | Errno::ENOPROTOOPT | Errno::EHOSTUNREACH) => {}
                _ => break,
            }
        }
        true
    }

    /// Reads the messages of socket `index`, at most `MAX_PER_TURN`.
    pub(super) fn receive(&mut self, index: usize, mut each: impl FnMut(Arrival<'_>)) {
        let Some(socket) = self.sockets.get(index) else { return };
        for _ in 0..MAX_PER_TURN {
            match socket.receive(&mut self.buffer) {
                Ok(Some(arrival)) => each(arrival),
                Err(Errno::EAGAIN) => return,
                // Not a valid message; or the error of a sent message, which is also in the error queue.
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// Reads from the error queue which peers have no daemon.
    pub(super) fn read_errors(&mut self, index: usize, mut each: impl FnMut(SocketAddr)) {
        let Some(socket) = self.sockets.get(index) else { return };
        for _ in 0..MAX_PER_TURN {
            match socket.read_error(&mut self.buffer) {
                Ok(Some(peer)) => each(peer),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }
}

impl Socket {
    fn udp(address: SocketAddr) -> io::Result<Self> {
        let (v4, flags) = (address.is_ipv4(), SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC);
        let family = if v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let file = socket(family, SockType::Datagram, flags, None)?;
        if v4 {
            setsockopt(&file, sockopt::IpRecvTos, &true)?;
            setsockopt(&file, sockopt::Ipv4PacketInfo, &true)?;
            setsockopt(&file, sockopt::Ipv4RecvErr, &true)?;
        } else {
            setsockopt(&file, sockopt::Ipv6V6Only, &true)?;
            setsockopt(&file, sockopt::Ipv6RecvTClass, &true)?;
            setsockopt(&file, sockopt::Ipv6RecvPacketInfo, &true)?;
            setsockopt(&file, sockopt::Ipv6RecvErr, &true)?;
        }
        Self::bound(file, address, false)
    }

    fn raw(address: Ipv4Addr) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes and returns numbers.
        let file = unsafe { libc::socket(libc::AF_INET, kind, libc::c_int::from(RAW_PROTOCOL)) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created this file; it has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        setsockopt(&file, sockopt::Ipv4RecvErr, &true)?;
        Self::bound(file, (address, 0).into(), true)
    }

    fn bound(file: OwnedFd, address: SocketAddr, raw: bool) -> io::Result<Self> {
        // The kernel reduces the size to the system's limit.
        let _ = setsockopt(&file, sockopt::RcvBuf, &KERNEL_BUFFER);
        bind(file.as_raw_fd(), &SockaddrStorage::from(address))?;
        Ok(Self { file, v4: address.is_ipv4(), raw, ecn: true })
    }

    fn send(&self, to: SocketAddr, bytes: &[u8], ecn: Ecn) -> nix::Result<usize> {
        let (tos, class) = (ecn.bits(), i32::from(ecn.bits()));
        let control = if self.v4 { ControlMessage::Ipv4Tos(&tos) } else { ControlMessage::Ipv6TClass(&class) };
        let controls = if self.ecn && ecn != Ecn::NotEct { std::slice::from_ref(&control) } else { &[] };
        let name = SockaddrStorage::from(to);
        sendmsg(self.file.as_raw_fd(), &[IoSlice::new(bytes)], controls, MsgFlags::MSG_NOSIGNAL, Some(&name))
    }

    /// A received message; none if it is invalid.
    fn receive<'a>(&self, buffer: &'a mut [u8]) -> nix::Result<Option<Arrival<'a>>> {
        let mut control = cmsg_space!(libc::in6_pktinfo, libc::c_int);
        let mut pieces = [IoSliceMut::new(buffer)];
        let got: RecvMsg<'_, '_, SockaddrStorage> =
            recvmsg(self.file.as_raw_fd(), &mut pieces, Some(&mut control), MsgFlags::empty())?;
        let (from, length) = (got.address.and_then(|from| address(&from)), got.bytes);
        let (mut to, mut ecn) = (None, Ecn::NotEct);
        for control in got.cmsgs()? {
            match control {
                ControlMessageOwned::Ipv4Tos(tos) => ecn = Ecn::from_bits(tos),
                ControlMessageOwned::Ipv6TClass(class) => ecn = Ecn::from_bits(class as u8),
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    // For broadcast and multicast packets these two addresses differ.
                    let own = info.ipi_spec_dst.s_addr == info.ipi_addr.s_addr;
                    to = own.then(|| IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                    to = (!ip.is_multicast()).then_some(ip.into());
                }
                _ => {}
            }
        }
        let Some(from) = from else { return Ok(None) };
        if self.raw {
            return Ok(Arrival::parse_ipv4(&buffer[..length]));
        }
        Ok(to.map(|to| Arrival { from, to, ecn, bytes: &buffer[..length] }))
    }

    /// The peer that has no daemon, from the error queue; none for other errors.
    fn read_error(&self, buffer: &mut [u8]) -> nix::Result<Option<SocketAddr>> {
        let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, libc::in6_pktinfo, libc::c_int);
        let mut pieces = [IoSliceMut::new(buffer)];
        let got: RecvMsg<'_, '_, SockaddrStorage> =
            recvmsg(self.file.as_raw_fd(), &mut pieces, Some(&mut control), MsgFlags::MSG_ERRQUEUE)?;
        let mut is_final = false;
        for control in got.cmsgs()? {
            if let ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) = control {
                // ICMP port or protocol unreachable.
                is_final = [libc::ECONNREFUSED, libc::ENOPROTOOPT].contains(&(error.ee_errno as i32));
            }
        }
        let peer = got.address.and_then(|to| address(&to)).filter(|_| is_final);
        Ok(peer.map(|peer| if self.raw { (peer.ip(), 0).into() } else { peer }))
    }
}

fn address(name: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = name.as_sockaddr_in().map(|v4| SocketAddr::from(*v4));
    v4.or_else(|| name.as_sockaddr_in6().map(|v6| SocketAddr::from(*v6)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two carriers at the same port of different addresses.
    fn pair(carriage: impl Fn() -> Carriage) -> Option<(Carrier, Carrier)> {
        let at = |ip: &str| Carrier::new(carriage(), Some(ip.parse().unwrap()));
        match (at("127.0.0.1"), at("127.0.0.2")) {
            (Ok(one), Ok(two)) => Some((one, two)),
            _ => None,
        }
    }

    fn udp() -> (Carrier, Carrier, u16) {
        (20_000..30_000)
            .find_map(|port| pair(|| Carriage::Udp(port)).map(|(one, two)| (one, two, port)))
            .expect("a port is free")
    }

    fn received(carrier: &mut Carrier) -> Vec<(SocketAddr, IpAddr, Ecn, Vec<u8>)> {
        let mut received = Vec::new();
        carrier.receive(0, |arrival| received.push((arrival.from, arrival.to, arrival.ecn, arrival.bytes.to_vec())));
        received
    }

    #[test]
    fn messages_arrive_with_ecn_code_and_both_addresses() {
        let (mut one, mut two, port) = udp();
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ce] {
            assert!(one.send(([127, 0, 0, 2], port).into(), b"hello", ecn));
            let from = ([127, 0, 0, 1], port).into();
            assert_eq!(received(&mut two), [(from, [127, 0, 0, 2].into(), ecn, b"hello".to_vec())]);
        }
        assert!(!one.send("[::1]:9".parse().unwrap(), b"hello", Ecn::NotEct), "there is no socket for it");
    }

    #[test]
    fn the_error_queue_reports_hosts_without_a_daemon() {
        let (mut one, two, port) = udp();
        drop(two);
        let there = SocketAddr::from(([127, 0, 0, 2], port));
        for _ in 0..5 {
            assert!(one.send(there, b"hello", Ecn::NotEct));
        }
        let mut unreachable = Vec::new();
        one.read_errors(0, |peer| unreachable.push(peer));
        assert!(!unreachable.is_empty() && unreachable.iter().all(|peer| *peer == there), "{unreachable:?}");
    }

    #[test]
    fn raw_packets_carry_messages() {
        let Some((mut one, mut two)) = pair(|| Carriage::Raw) else {
            println!("raw_packets_carry_messages: SKIPPED, needs CAP_NET_RAW");
            return;
        };
        assert!(one.send(([127, 0, 0, 2], 0).into(), b"hello", Ecn::Ect0));
        let from = ([127, 0, 0, 1], 0).into();
        assert_eq!(received(&mut two), [(from, [127, 0, 0, 2].into(), Ecn::Ect0, b"hello".to_vec())]);
        drop(two);
        // The kernel reports no errors of packets that carry less than eight bytes.
        one.send(([127, 0, 0, 2], 0).into(), b"hello again", Ecn::Ect0);
        let mut unreachable = Vec::new();
        one.read_errors(0, |peer| unreachable.push(peer));
        assert_eq!(unreachable, [SocketAddr::from(([127, 0, 0, 2], 0))]);
    }
}
