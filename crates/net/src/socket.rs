//! A thin layer over a UDP socket: batches out with an ECN code per packet, batches in with the code and the kernel's
//! receive timestamp per packet. Neither segments nor coalesces (no GSO, no GRO): a paced packet leaves alone, and each
//! arrival has a stamp of its own. All `unsafe` of packet input and output is here.

use std::io;
use std::mem::{self, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_int, c_void, iovec, mmsghdr};
use rampmeter_units::Ecn;

use crate::layout::{Control, Name};

/// Packets that one system call moves at most.
pub(crate) const BATCH: usize = 32;

/// Kernel buffers, for bursts that come while the thread is busy.
const KERNEL_BUFFER: c_int = 4 << 20;

/// A UDP socket that does not block.
#[derive(Debug)]
pub struct Socket {
    inner: UdpSocket,
}

/// Packets on their way out, oldest first.
#[derive(Debug, Default)]
pub(crate) struct SendBatch {
    bytes: Vec<u8>,
    packets: Vec<Outgoing>,
    /// Packets that have left.
    gone: usize,
}

#[derive(Debug)]
struct Outgoing {
    to: SocketAddr,
    ecn: Ecn,
    end: usize,
}

impl SendBatch {
    /// Adds a packet whose bytes `write` appends; leaves it out if that fails.
    pub(crate) fn push(&mut self, to: SocketAddr, ecn: Ecn, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let start = self.bytes.len();
        if write(&mut self.bytes) {
            self.packets.push(Outgoing { to, ecn, end: self.bytes.len() });
        } else {
            self.bytes.truncate(start);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() >= BATCH
    }
}

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum Sending {
    /// All of it left.
    Done,
    /// The kernel takes no more for now; the rest is still in the batch.
    Blocked,
    /// The kernel refused a packet, which is dropped; others may be left in the batch.
    Refused(io::Error),
}

/// Packets that came in.
#[derive(Debug)]
pub(crate) struct ReceiveBatch {
    bytes: Vec<u8>,
    slot: usize,
    datagrams: Vec<Datagram>,
}

/// What is known of a packet that came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    pub(crate) ecn: Ecn,
    /// Nanoseconds on the wall clock when the kernel got it.
    pub(crate) stamp: Option<u64>,
    len: usize,
    index: usize,
}

impl ReceiveBatch {
    /// Room for packets of up to `largest` bytes; larger ones are dropped.
    pub(crate) fn new(largest: usize) -> Self {
        Self { bytes: vec![0; largest * BATCH], slot: largest, datagrams: Vec::with_capacity(BATCH) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Datagram, &[u8])> {
        self.datagrams.iter().map(|d| (d, &self.bytes[d.index * self.slot..][..d.len]))
    }
}

impl Socket {
    /// Listens at `address`.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::new(UdpSocket::bind(address)?)
    }

    /// Talks to `peer` only; the kernel says when nobody listens there.
    pub fn connect(peer: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr =
            if peer.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let inner = UdpSocket::bind(any)?;
        inner.connect(peer)?;
        Self::new(inner)
    }

    /// Takes over a socket made elsewhere, for example in another network namespace.
    pub fn new(inner: UdpSocket) -> io::Result<Self> {
        inner.set_nonblocking(true)?;
        let socket = Self { inner };
        let v6 = socket.local_address()?.is_ipv6();
        socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        socket.set(libc::SOL_IP, libc::IP_RECVTOS, 1).or_else(|error| if v6 { Ok(()) } else { Err(error) })?;
        if v6 {
            socket.set(libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        // Root may pass the system's limit; for others the kernel quietly takes less.
        for (force, ask) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
            socket
                .set(libc::SOL_SOCKET, force, KERNEL_BUFFER)
                .or_else(|_| socket.set(libc::SOL_SOCKET, ask, KERNEL_BUFFER))?;
        }
        Ok(socket)
    }

    /// Where it listens.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn set(&self, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
        let len = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: the pointer and the length describe `value`, which outlives the call; the kernel only reads it.
        let result = unsafe { libc::setsockopt(self.fd(), level, name, (&raw const value).cast::<c_void>(), len) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn fd(&self) -> c_int {
        self.inner.as_raw_fd()
    }

    /// Sends what is in the batch.
    pub(crate) fn send(&self, batch: &mut SendBatch) -> Sending {
        while batch.gone < batch.packets.len() {
            match self.send_some(batch) {
                Ok(count) => batch.gone += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Sending::Blocked,
                Err(error) => {
                    batch.gone += 1;
                    return Sending::Refused(error);
                }
            }
        }
        batch.bytes.clear();
        batch.packets.clear();
        batch.gone = 0;
        Sending::Done
    }

    fn send_some(&self, batch: &SendBatch) -> io::Result<usize> {
        let mut start = batch.gone.checked_sub(1).map_or(0, |before| batch.packets[before].end);
        let mut names = [Name::default(); BATCH];
        let mut controls = [Control::default(); BATCH];
        let mut pieces = empty_pieces();
        let mut messages = empty_messages();
        let packets = batch.packets[batch.gone..].iter().take(BATCH);
        let count = packets.len();
        for (index, packet) in packets.enumerate() {
            let name_len = names[index].write(packet.to);
            let control_len = controls[index].write_ecn(packet.to, packet.ecn);
            pieces[index] =
                iovec { iov_base: batch.bytes[start..].as_ptr().cast_mut().cast(), iov_len: packet.end - start };
            start = packet.end;
            let header = &mut messages[index].msg_hdr;
            header.msg_name = names[index].0.as_mut_ptr().cast();
            header.msg_namelen = name_len as libc::socklen_t;
            header.msg_iov = &raw mut pieces[index];
            header.msg_iovlen = 1;
            header.msg_control = controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = control_len as _;
        }
        // SAFETY: the first `count` messages point to names, controls, pieces and bytes that live, unmoved, until the
        // call is over, with their true lengths; the kernel writes only to `messages`.
        let sent = unsafe { libc::sendmmsg(self.fd(), messages.as_mut_ptr(), count as _, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    /// Takes what has come in, at most a batch of it. True if there may be more.
    pub(crate) fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<bool> {
        batch.datagrams.clear();
        let mut names = [Name::default(); BATCH];
        let mut controls = [Control::default(); BATCH];
        let mut pieces = empty_pieces();
        let mut messages = empty_messages();
        for (index, slot) in batch.bytes.chunks_exact_mut(batch.slot).enumerate() {
            pieces[index] = iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            let header = &mut messages[index].msg_hdr;
            header.msg_name = names[index].0.as_mut_ptr().cast();
            header.msg_namelen = names[index].0.len() as libc::socklen_t;
            header.msg_iov = &raw mut pieces[index];
            header.msg_iovlen = 1;
            header.msg_control = controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = controls[index].0.len() as _;
        }
        let (all, flags) = (messages.len() as u32, libc::MSG_DONTWAIT);
        // SAFETY: every message points to a name, a control buffer, a piece and a slot of its own that live, unmoved,
        // until the call is over, with their true lengths; no timeout is given.
        let got = unsafe { libc::recvmmsg(self.fd(), messages.as_mut_ptr(), all, flags as _, std::ptr::null_mut()) };
        if got < 0 {
            let error = io::Error::last_os_error();
            let nothing = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if nothing { Ok(false) } else { Err(error) };
        }
        for (index, message) in messages.iter().take(got as usize).enumerate() {
            let Some(from) = names[index].read() else { continue };
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                continue; // larger than any packet we speak of
            }
            let (ecn, stamp) = controls[index].read(&message.msg_hdr);
            batch.datagrams.push(Datagram { from, ecn, stamp, len: message.msg_len as usize, index });
        }
        Ok(got as usize == BATCH)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

fn empty_messages() -> [mmsghdr; BATCH] {
    // SAFETY: an mmsghdr is made of integers and raw pointers, for which all zeros is a value.
    unsafe { mem::zeroed() }
}

fn empty_pieces() -> [iovec; BATCH] {
    [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(ip: &str) {
        let receiver = Socket::bind(format!("{ip}:0").parse().unwrap()).unwrap();
        let sender = Socket::bind(format!("{ip}:0").parse().unwrap()).unwrap();
        let mut out = SendBatch::default();
        let codes = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        for (number, ecn) in codes.iter().cycle().take(20).enumerate() {
            out.push(receiver.local_address().unwrap(), *ecn, |bytes| {
                bytes.extend([number as u8; 3]);
                true
            });
        }
        out.push(receiver.local_address().unwrap(), Ecn::Ce, |_| false);
        assert!(matches!(sender.send(&mut out), Sending::Done));
        assert!(out.is_empty());

        let mut batch = ReceiveBatch::new(100);
        assert!(!receiver.receive(&mut batch).unwrap());
        let got: Vec<_> = batch.iter().collect();
        assert_eq!(got.len(), 20);
        for (number, (datagram, bytes)) in got.iter().enumerate() {
            assert_eq!(*bytes, [number as u8; 3]);
            assert_eq!(datagram.ecn, codes[number % 4], "packet {number}");
            assert_eq!(datagram.from, sender.local_address().unwrap());
            // Not that stamps are in order: for a moment after the first socket of a machine asks for them, the kernel
            // stamps some packets as they arrive and others only as they are read.
            assert!(datagram.stamp.is_some(), "a receive timestamp");
        }
    }

    #[test]
    fn every_ecn_code_and_a_timestamp_arrive_with_each_packet() {
        exchange("127.0.0.1");
    }

    #[test]
    fn also_over_ipv6() {
        if UdpSocket::bind("[::1]:0").is_ok() {
            exchange("[::1]");
        }
    }

    #[test]
    fn a_packet_too_large_for_its_slot_is_dropped() {
        let receiver = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(&[1; 101], receiver.local_address().unwrap()).unwrap();
        sender.send_to(&[2; 100], receiver.local_address().unwrap()).unwrap();
        let mut batch = ReceiveBatch::new(100);
        receiver.receive(&mut batch).unwrap();
        let got: Vec<_> = batch.iter().map(|(_, bytes)| bytes.to_vec()).collect();
        assert_eq!(got, [vec![2; 100]]);
    }
}
