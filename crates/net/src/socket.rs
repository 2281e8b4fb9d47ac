//! A thin layer over a UDP socket: sends batches with an ECN code for each packet, and receives batches with the code
//! and the kernel's receive timestamp of each packet. Uses no segmentation or coalescing (no GSO, no GRO): a paced
//! packet leaves alone, and each arrival has its own timestamp. All `unsafe` code of packet input and output is here.

use std::io;
use std::mem::{self, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_int, c_void, iovec, mmsghdr};
use rampmeter_units::Ecn;

use crate::layout::{Control, RawAddress};

/// The maximum number of packets of one system call.
pub(crate) const BATCH: usize = 32;

/// The size of the kernel's buffers, for bursts that arrive while the thread is busy.
const KERNEL_BUFFER: c_int = 4 << 20;

/// A UDP socket that does not block.
#[derive(Debug)]
pub struct Socket {
    inner: UdpSocket,
}

/// Packets to send, oldest first.
#[derive(Debug, Default)]
pub(crate) struct SendBatch {
    bytes: Vec<u8>,
    packets: Vec<Outgoing>,
    sent: usize,
}

#[derive(Debug)]
struct Outgoing {
    to: SocketAddr,
    ecn: Ecn,
    end: usize,
}

impl SendBatch {
    /// Adds a packet whose bytes `write` appends, and whose receiver it returns; omits it if there is none.
    pub(crate) fn push(&mut self, ecn: Ecn, write: impl FnOnce(&mut Vec<u8>) -> Option<SocketAddr>) {
        let start = self.bytes.len();
        match write(&mut self.bytes) {
            Some(to) => self.packets.push(Outgoing { to, ecn, end: self.bytes.len() }),
            None => self.bytes.truncate(start),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() >= BATCH
    }
}

/// The result of sending a batch.
#[derive(Debug)]
pub(crate) enum SendResult {
    /// All packets were sent.
    Done,
    /// The kernel's send buffer is full; the remaining packets stay in the batch.
    Blocked,
    /// The kernel refused a packet, which is dropped; other packets may remain in the batch.
    Refused(io::Error),
}

/// Received packets.
#[derive(Debug)]
pub(crate) struct ReceiveBatch {
    bytes: Vec<u8>,
    slot: usize,
    datagrams: Vec<Datagram>,
}

/// The metadata of a received packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    pub(crate) ecn: Ecn,
    /// The kernel's receive timestamp, in nanoseconds on the wall clock.
    pub(crate) stamp: Option<u64>,
    len: usize,
    index: usize,
}

impl ReceiveBatch {
    /// Buffers for packets of up to `largest` bytes; larger ones are dropped.
    pub(crate) fn new(largest: usize) -> Self {
        Self { bytes: vec![0; largest * BATCH], slot: largest, datagrams: Vec::with_capacity(BATCH) }
    }

    /// The packets, with their bytes, which may be decrypted in place.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Datagram, &mut [u8])> {
        let mut slots = self.bytes.chunks_exact_mut(self.slot).enumerate();
        self.datagrams.iter().filter_map(move |d| {
            let (_, slot) = slots.find(|(index, _)| *index == d.index)?;
            Some((d, &mut slot[..d.len]))
        })
    }
}

impl Socket {
    /// A socket bound to `address`.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::new(UdpSocket::bind(address)?)
    }

    /// A socket connected to `peer`; the kernel reports an error if no socket is bound there.
    pub fn connect(peer: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr =
            if peer.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let inner = UdpSocket::bind(any)?;
        inner.connect(peer)?;
        Self::new(inner)
    }

    /// Takes over a socket that was made elsewhere, for example in another network namespace.
    pub fn new(inner: UdpSocket) -> io::Result<Self> {
        inner.set_nonblocking(true)?;
        let socket = Self { inner };
        let v6 = socket.local_address()?.is_ipv6();
        socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        socket.set(libc::SOL_IP, libc::IP_RECVTOS, 1).or_else(|error| if v6 { Ok(()) } else { Err(error) })?;
        if v6 {
            socket.set(libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        // Root may exceed the system's limit; for other users the kernel applies the limit without an error.
        for (force, ask) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
            socket
                .set(libc::SOL_SOCKET, force, KERNEL_BUFFER)
                .or_else(|_| socket.set(libc::SOL_SOCKET, ask, KERNEL_BUFFER))?;
        }
        Ok(socket)
    }

    /// The address that the socket is bound to.
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

    pub(crate) fn send(&self, batch: &mut SendBatch) -> SendResult {
        while batch.sent < batch.packets.len() {
            match self.send_some(batch) {
                Ok(count) => batch.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return SendResult::Blocked,
                Err(error) => {
                    batch.sent += 1;
                    return SendResult::Refused(error);
                }
            }
        }
        batch.bytes.clear();
        batch.packets.clear();
        batch.sent = 0;
        SendResult::Done
    }

    fn send_some(&self, batch: &SendBatch) -> io::Result<usize> {
        let mut start = batch.sent.checked_sub(1).map_or(0, |before| batch.packets[before].end);
        let mut addresses = [RawAddress::default(); BATCH];
        let mut controls = [Control::default(); BATCH];
        let mut buffers = empty_buffers();
        let mut messages = empty_messages();
        let packets = batch.packets[batch.sent..].iter().take(BATCH);
        let count = packets.len();
        for (index, packet) in packets.enumerate() {
            let name_len = addresses[index].write(packet.to);
            let control_len = controls[index].write_ecn(packet.to, packet.ecn);
            buffers[index] =
                iovec { iov_base: batch.bytes[start..].as_ptr().cast_mut().cast(), iov_len: packet.end - start };
            start = packet.end;
            let header = &mut messages[index].msg_hdr;
            header.msg_name = addresses[index].0.as_mut_ptr().cast();
            header.msg_namelen = name_len as libc::socklen_t;
            header.msg_iov = &raw mut buffers[index];
            header.msg_iovlen = 1;
            header.msg_control = controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = control_len as _;
        }
        // SAFETY: the first `count` messages point to addresses, controls, buffers and bytes that live, unmoved, until
        // the call returns, with their true lengths; the kernel writes only to `messages`.
        let sent = unsafe { libc::sendmmsg(self.fd(), messages.as_mut_ptr(), count as _, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    /// Receives at most a batch of packets. True if there may be more.
    pub(crate) fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<bool> {
        batch.datagrams.clear();
        let mut addresses = [RawAddress::default(); BATCH];
        let mut controls = [Control::default(); BATCH];
        let mut buffers = empty_buffers();
        let mut messages = empty_messages();
        for (index, slot) in batch.bytes.chunks_exact_mut(batch.slot).enumerate() {
            buffers[index] = iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            let header = &mut messages[index].msg_hdr;
            header.msg_name = addresses[index].0.as_mut_ptr().cast();
            header.msg_namelen = addresses[index].0.len() as libc::socklen_t;
            header.msg_iov = &raw mut buffers[index];
            header.msg_iovlen = 1;
            header.msg_control = controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = controls[index].0.len() as _;
        }
        let (all, flags) = (messages.len() as u32, libc::MSG_DONTWAIT);
        // SAFETY: every message points to an address, a control buffer, an iovec and a slot of its own that live,
        // unmoved, until the call returns, with their true lengths; no timeout is given.
        let got = unsafe { libc::recvmmsg(self.fd(), messages.as_mut_ptr(), all, flags as _, std::ptr::null_mut()) };
        if got < 0 {
            let error = io::Error::last_os_error();
            let is_empty = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if is_empty { Ok(false) } else { Err(error) };
        }
        for (index, message) in messages.iter().take(got as usize).enumerate() {
            let Some(from) = addresses[index].read() else { continue };
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                continue; // larger than the packets of any connection
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
    // SAFETY: an mmsghdr consists of integers and raw pointers, for which all zeros is a valid value.
    unsafe { mem::zeroed() }
}

fn empty_buffers() -> [iovec; BATCH] {
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
            out.push(*ecn, |bytes| {
                bytes.extend([number as u8; 3]);
                receiver.local_address().ok()
            });
        }
        out.push(Ecn::Ce, |_| None);
        assert!(matches!(sender.send(&mut out), SendResult::Done));
        assert!(out.is_empty());

        let mut batch = ReceiveBatch::new(100);
        assert!(!receiver.receive(&mut batch).unwrap());
        let got: Vec<_> = batch.iter_mut().collect();
        assert_eq!(got.len(), 20);
        for (number, (datagram, bytes)) in got.iter().enumerate() {
            assert_eq!(**bytes, [number as u8; 3]);
            assert_eq!(datagram.ecn, codes[number % 4], "packet {number}");
            assert_eq!(datagram.from, sender.local_address().unwrap());
            // Timestamps may be out of order: for a moment after the first socket of a machine enables them, the kernel
            // timestamps some packets as they arrive and others only as they are read.
            assert!(datagram.stamp.is_some(), "a receive timestamp");
        }
    }

    #[test]
    fn each_packet_arrives_with_its_ecn_code_and_a_timestamp() {
        exchange("127.0.0.1");
    }

    #[test]
    fn ecn_codes_and_timestamps_arrive_over_ipv6() {
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
        let got: Vec<_> = batch.iter_mut().map(|(_, bytes)| bytes.to_vec()).collect();
        assert_eq!(got, [vec![2; 100]]);
    }
}
