//! A thin layer over a UDP socket: sends batches with an ECN code for each packet, and receives batches with the code
//! and the kernel's receive timestamp of each packet. All `unsafe` code of packet input and output is here.
//!
//! One buffer and one pass through the kernel carry many packets:
//!
//! * *sending* (generic segmentation offload, GSO): a run of packets in a batch with one receiver, one ECN code and one
//!   size, the last of which may be shorter. Only packets that are due at the same time are in a batch, so a paced
//!   packet leaves alone;
//! * *receiving* (generic receive offload, GRO): packets with one sender, one ECN code and one size that reach the
//!   kernel together. They have one timestamp, that of the first.
//!
//! Where the kernel or the interface refuses segmentation, the same packets are sent one by one.
//!
//! Packets are never fragmented, and the kernel sends them in whatever size the interface takes: connections find out
//! what their paths carry. Reports of routers about packets that are too large (ICMP) change nothing.

use std::io;
use std::mem::{self, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_int, c_void, iovec, mmsghdr};
use rampmeter_session::{MIN_HELLO_BYTES, Route};
use rampmeter_units::{Bytes, Ecn};

use crate::layout::{Control, RawAddress, Received};

/// The maximum number of packets of a batch.
pub(crate) const BATCH: usize = 64;

/// The maximum number of buffers that a system call receives.
const BUFFERS: usize = 16;

/// The size of a buffer: the largest datagram, and the most that the kernel coalesces.
const BUFFER: usize = 65_536;

/// The maximum payload of the packets that one buffer carries to the kernel, with IPv4.
const MAX_RUN_BYTES: usize = 65_507;

/// The maximum number of these packets (`UDP_MAX_SEGMENTS`).
const MAX_RUN: usize = 64;

/// The size of the kernel's buffers, for bursts that arrive while the thread is busy.
const KERNEL_BUFFER: c_int = 4 << 20;

/// A UDP socket that does not block.
#[derive(Debug)]
pub struct Socket {
    inner: UdpSocket,
    /// Whether the kernel and the interface separate the packets of a buffer.
    segments: bool,
}

/// Packets to send, oldest first.
#[derive(Debug, Default)]
pub(crate) struct SendBatch {
    bytes: Vec<u8>,
    packets: Vec<Outgoing>,
    sent: usize,
    /// The number of all bytes so far.
    pushed: u64,
    /// The packets before this one are sent one by one.
    singly_before: usize,
}

#[derive(Debug)]
struct Outgoing {
    to: Route,
    ecn: Ecn,
    start: usize,
    end: usize,
}

impl Outgoing {
    fn len(&self) -> usize {
        self.end - self.start
    }
}

impl SendBatch {
    /// Adds a packet whose bytes `write` appends, and whose way it returns; omits it if there is none.
    pub(crate) fn push(&mut self, ecn: Ecn, write: impl FnOnce(&mut Vec<u8>) -> Option<Route>) {
        let start = self.bytes.len();
        match write(&mut self.bytes) {
            Some(to) => {
                let end = self.bytes.len();
                self.pushed += (end - start) as u64;
                self.packets.push(Outgoing { to, ecn, start, end });
            }
            None => self.bytes.truncate(start),
        }
    }

    /// The number of bytes of all packets so far.
    pub(crate) fn pushed(&self) -> u64 {
        self.pushed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        // A run and a part of the next one would need two buffers each time.
        let last = self.packets.last().map_or(0, Outgoing::len);
        self.packets.len() >= BATCH || self.bytes.len() + last > MAX_RUN_BYTES
    }

    /// The number of packets, from `first` on, that one buffer can carry, and the size of each if there are several.
    fn run(&self, first: usize, segments: bool) -> (usize, Option<u16>) {
        let head = &self.packets[first];
        let size = head.len();
        let mut count = 1;
        if segments && first >= self.singly_before && size > 0 {
            let fits = |next: &&Outgoing| {
                (next.to, next.ecn) == (head.to, head.ecn)
                    && (1..=size).contains(&next.len())
                    && next.end - head.start <= MAX_RUN_BYTES
            };
            while let Some(next) = self.packets.get(first + count).filter(fits) {
                count += 1;
                if next.len() < size || count == MAX_RUN {
                    break;
                }
            }
        }
        (count, u16::try_from(size).ok().filter(|_| count > 1))
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
    /// The buffers, one after the other. Their memory is not touched, and takes no space, before packets arrive.
    bytes: Vec<u8>,
    largest: usize,
    arrivals: Vec<Arrival>,
}

/// A buffer with one packet, or with several that the kernel has coalesced.
#[derive(Debug)]
struct Arrival {
    datagram: Datagram,
    index: usize,
    len: usize,
    segment: usize,
}

/// The metadata of a received packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram {
    /// With the local address if the socket is bound to all.
    pub(crate) from: Route,
    pub(crate) ecn: Ecn,
    /// The kernel's receive timestamp, in nanoseconds on the wall clock.
    pub(crate) stamp: Option<u64>,
}

impl ReceiveBatch {
    /// Buffers for packets of up to `largest` bytes; larger ones are dropped.
    pub(crate) fn new(largest: usize) -> Self {
        Self { bytes: vec![0; BUFFER * BUFFERS], largest, arrivals: Vec::with_capacity(BUFFERS) }
    }

    /// The packets that arrived together, in one buffer each time, with their bytes, which may be decrypted in place.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Datagram, impl Iterator<Item = &mut [u8]>)> {
        let (mut buffers, largest) = (self.bytes.chunks_exact_mut(BUFFER).enumerate(), self.largest);
        self.arrivals.iter().filter_map(move |arrival| {
            let (_, buffer) = buffers.find(|(index, _)| *index == arrival.index)?;
            let packets = buffer[..arrival.len].chunks_mut(arrival.segment);
            Some((arrival.datagram, packets.filter(move |packet| packet.len() <= largest)))
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
        let inner = UdpSocket::bind(unspecified(peer))?;
        inner.connect(peer)?;
        Self::new(inner)
    }

    /// Takes over a socket that was made elsewhere, for example in another network namespace.
    pub fn new(inner: UdpSocket) -> io::Result<Self> {
        inner.set_nonblocking(true)?;
        let mut socket = Self { inner, segments: false };
        let v6 = socket.local_address()?.is_ipv6();
        socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        socket.set(libc::SOL_IP, libc::IP_RECVTOS, 1).or_else(|error| if v6 { Ok(()) } else { Err(error) })?;
        if v6 {
            socket.set(libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        if socket.local_address()?.ip().is_unspecified() {
            let (level, name) =
                if v6 { (libc::SOL_IPV6, libc::IPV6_RECVPKTINFO) } else { (libc::SOL_IP, libc::IP_PKTINFO) };
            socket.set(level, name, 1)?;
        }
        let probe = socket.set(libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
        probe.or_else(|error| if v6 { Ok(()) } else { Err(error) })?;
        if v6 {
            socket.set(libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
            socket.set(libc::SOL_IPV6, libc::IPV6_DONTFRAG, 1)?;
        }
        // Kernels before 4.18 and 5.0 do not know these.
        socket.segments = socket.set(libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let _ = socket.set(libc::SOL_UDP, libc::UDP_GRO, 1);
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

    fn get(&self, level: c_int, name: c_int) -> io::Result<c_int> {
        let mut value: c_int = 0;
        let mut len = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: the pointers describe `value` and its length, which outlive the call; the kernel writes at most `len`
        // bytes.
        let result =
            unsafe { libc::getsockopt(self.fd(), level, name, (&raw mut value).cast::<c_void>(), &raw mut len) };
        if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
    }

    fn fd(&self) -> c_int {
        self.inner.as_raw_fd()
    }

    /// A packet that is larger than the interface takes is lost, as on any link of its path.
    pub(crate) fn send(&mut self, batch: &mut SendBatch) -> SendResult {
        let mut refused = None;
        while batch.sent < batch.packets.len() {
            match self.send_some(batch) {
                Ok(count) => batch.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return SendResult::Blocked,
                // This may be a report about an earlier packet, which anybody can forge.
                Err(error) if is_too_large(&error) && refused.replace(batch.sent) != Some(batch.sent) => {}
                Err(error) => {
                    let (count, segment) = batch.run(batch.sent, self.segments);
                    if segment.is_none() {
                        batch.sent += 1;
                        if is_too_large(&error) {
                            continue;
                        }
                        return SendResult::Refused(error);
                    }
                    self.on_refused_run(&error, batch.sent + count, batch);
                }
            }
        }
        batch.bytes.clear();
        batch.packets.clear();
        (batch.sent, batch.singly_before) = (0, 0);
        SendResult::Done
    }

    /// The kernel refused the run that ends before packet `end`: its packets are sent one by one. EIO means that the
    /// interface cannot separate packets at all. Other errors concern this receiver's path, such as a small MTU: a
    /// peer must not slow the sending to others.
    fn on_refused_run(&mut self, error: &io::Error, end: usize, batch: &mut SendBatch) {
        batch.singly_before = end;
        self.segments &= error.raw_os_error() != Some(libc::EIO);
    }

    /// Sends packets, and returns their number.
    fn send_some(&self, batch: &SendBatch) -> io::Result<usize> {
        let mut addresses = [RawAddress::default(); BUFFERS];
        let mut controls = [Control::default(); BUFFERS];
        let mut buffers = [const { EMPTY_BUFFER }; BUFFERS];
        let mut messages = empty_messages();
        let mut ends = [0; BUFFERS];
        let (mut first, mut count) = (batch.sent, 0);
        while first < batch.packets.len() && count < BUFFERS {
            let (packets, segment) = batch.run(first, self.segments);
            let head = &batch.packets[first];
            first += packets;
            let bytes = &batch.bytes[head.start..batch.packets[first - 1].end];
            let name_len = addresses[count].write(head.to.remote);
            let control_len = controls[count].write(head.to, head.ecn, segment);
            buffers[count] = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            ends[count] = first;
            let header = &mut messages[count].msg_hdr;
            header.msg_name = addresses[count].0.as_mut_ptr().cast();
            header.msg_namelen = name_len as libc::socklen_t;
            header.msg_iov = &raw mut buffers[count];
            header.msg_iovlen = 1;
            header.msg_control = controls[count].0.as_mut_ptr().cast();
            header.msg_controllen = control_len as _;
            count += 1;
        }
        // SAFETY: the first `count` messages point to addresses, controls, buffers and bytes that live, unmoved, until
        // the call returns, with their true lengths; the kernel writes only to `messages`.
        let sent = unsafe { libc::sendmmsg(self.fd(), messages.as_mut_ptr(), count as _, libc::MSG_DONTWAIT) };
        match usize::try_from(sent) {
            Ok(messages) => Ok(messages.checked_sub(1).map_or(0, |last| ends[last] - batch.sent)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// Receives at most a batch of packets. True if there may be more.
    pub(crate) fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<bool> {
        batch.arrivals.clear();
        let mut addresses = [RawAddress::default(); BUFFERS];
        let mut controls = [Control::default(); BUFFERS];
        let mut buffers = [const { EMPTY_BUFFER }; BUFFERS];
        let mut messages = empty_messages();
        for (index, buffer) in batch.bytes.chunks_exact_mut(BUFFER).enumerate() {
            buffers[index] = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            let header = &mut messages[index].msg_hdr;
            header.msg_name = addresses[index].0.as_mut_ptr().cast();
            header.msg_namelen = addresses[index].0.len() as libc::socklen_t;
            header.msg_iov = &raw mut buffers[index];
            header.msg_iovlen = 1;
            header.msg_control = controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = controls[index].0.len() as _;
        }
        let (all, flags) = (messages.len() as u32, libc::MSG_DONTWAIT);
        // SAFETY: every message points to an address, a control buffer, an iovec and a buffer of its own that live,
        // unmoved, until the call returns, with their true lengths; no timeout is given.
        let got = unsafe { libc::recvmmsg(self.fd(), messages.as_mut_ptr(), all, flags as _, std::ptr::null_mut()) };
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                _ if is_too_large(&error) => Ok(true), // a report of a router
                _ => Err(error),
            };
        }
        for (index, message) in messages.iter().take(got as usize).enumerate() {
            let Some(remote) = addresses[index].read() else { continue };
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                continue; // larger than the packets of any connection
            }
            let Received { ecn, stamp, segment, to } = controls[index].read(&message.msg_hdr);
            let from = Route { local: to, remote };
            let len = message.msg_len as usize;
            let segment = segment.unwrap_or(len).max(1);
            batch.arrivals.push(Arrival { datagram: Datagram { from, ecn, stamp }, index, len, segment });
        }
        Ok(got as usize == BUFFERS)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// The size of IP's and UDP's headers in packets to `to`.
fn headers(to: SocketAddr) -> usize {
    if to.ip().to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 }
}

/// The size of a packet to `to` with a handshake.
pub(crate) fn smallest_packet(to: SocketAddr) -> Bytes {
    Bytes::new((MIN_HELLO_BYTES + headers(to)) as u64)
}

/// The largest packet that the interface to `to` takes, IP header included, or a smaller one that routers have reported to
/// the kernel. Anybody can forge their reports: it limits what is tried, and explains failures.
pub(crate) fn path_size(to: SocketAddr) -> Option<Bytes> {
    let to = SocketAddr::new(to.ip().to_canonical(), to.port());
    let socket = Socket { inner: UdpSocket::bind(unspecified(to)).ok()?, segments: false };
    socket.inner.connect(to).ok()?;
    let (level, name) = if to.is_ipv4() { (libc::SOL_IP, libc::IP_MTU) } else { (libc::SOL_IPV6, libc::IPV6_MTU) };
    socket.get(level, name).ok().and_then(|mtu| u64::try_from(mtu).ok()).map(Bytes::new)
}

/// The largest payload of a packet to `to`, by [`path_size`].
pub(crate) fn max_payload(to: SocketAddr) -> Option<usize> {
    path_size(to).map(|size| (size.as_u64() as usize).saturating_sub(headers(to)))
}

fn unspecified(peer: SocketAddr) -> SocketAddr {
    if peer.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() }
}

fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

const EMPTY_BUFFER: iovec = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

fn empty_messages() -> [mmsghdr; BUFFERS] {
    // SAFETY: an mmsghdr consists of integers and raw pointers, for which all zeros is a valid value.
    unsafe { mem::zeroed() }
}

#[cfg(test)]
mod tests;
