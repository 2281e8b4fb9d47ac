//! What the kernel tells of a TCP connection (`struct tcp_info`, `linux/tcp.h`).

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// The structure as Linux 4.19 and later fill it; older and newer ones agree in what they have, and what an older one
/// lacks is zero.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TcpInfo {
    state: u8,
    /// How it is about repairing losses: [`TcpInfo::OPEN`] and so on.
    pub repair: u8,
    retransmits: u8,
    probes: u8,
    /// Times in a row that the retransmission timer has run out.
    pub backoff: u8,
    options: [u8; 3],
    timeouts: [u32; 2],
    /// The largest segment it sends, without headers.
    pub segment: u32,
    received_segment: u32,
    unacked: u32,
    /// Segments that arrived beyond a gap.
    pub sacked: u32,
    queues: [u32; 3],
    since_last: [u32; 4],
    path_mtu: u32,
    receive_threshold: u32,
    /// Smoothed round-trip time.
    pub rtt_us: u32,
    rtt_variance_us: u32,
    threshold: u32,
    /// In packets.
    pub window: u32,
    advertised_mss: u32,
    reordering: u32,
    receiver: [u32; 2],
    /// Retransmitted packets.
    pub retransmitted: u32,
    /// Bytes a second; all ones for no limit.
    pub pacing_rate: u64,
    most_pacing_rate: u64,
    /// Bytes acknowledged without a gap.
    pub acked_bytes: u64,
    received_bytes: u64,
    segments: [u32; 2],
    /// Bytes written and not sent yet.
    pub unsent: u32,
    /// The least round-trip time.
    pub min_rtt_us: u32,
    data_packets_received: u32,
    /// Packets with payload sent, repetitions included.
    pub data_packets: u32,
    delivery_rate: u64,
    limited_us: [u64; 3],
    delivered: u32,
    /// Packets that arrived with a congestion mark.
    pub marked: u32,
    sent_bytes: u64,
    /// Bytes sent again.
    pub repeated_bytes: u64,
}

impl TcpInfo {
    /// All is well.
    pub const OPEN: u8 = 0;
    /// The window was reduced without a loss to repair, for a mark as a rule.
    pub const REDUCED: u8 = 2;
    /// Losses are being repaired.
    pub const RECOVERY: u8 = 3;
    /// The retransmission timer has run out.
    pub const LOSS: u8 = 4;

    /// What there is to tell of `socket`.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        // SAFETY: all zeros is a valid `TcpInfo`.
        let mut info: Self = unsafe { mem::zeroed() };
        let mut len = mem::size_of::<Self>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `info`, and any bytes are a valid `TcpInfo`.
        let result = unsafe {
            let (to, file) = ((&raw mut info).cast(), socket.as_fd().as_raw_fd());
            libc::getsockopt(file, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len)
        };
        if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_counts_what_is_sent_and_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        far.write_all(&[7; 5000]).unwrap();
        near.read_exact(&mut [0; 5000]).unwrap();
        let acked = || TcpInfo::of(&far).unwrap().acked_bytes;
        while acked() < 5000 {
            std::thread::yield_now();
        }
        let info = TcpInfo::of(&far).unwrap();
        assert_eq!((info.acked_bytes, info.unsent, info.repeated_bytes, info.repair), (5000, 0, 0, TcpInfo::OPEN));
        assert!(info.segment > 500 && info.rtt_us > 0 && info.data_packets > 0, "{info:?}");
    }
}
