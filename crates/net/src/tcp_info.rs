//! The kernel's statistics of a TCP connection (`struct tcp_info`, `linux/tcp.h`).

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// The structure as of Linux 4.19. Later versions only append fields, and the fields that an earlier version does not
/// have are zero.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TcpInfo {
    state: u8,
    /// The state of congestion control (`tcpi_ca_state`): [`TcpInfo::OPEN`] and so on.
    pub ca_state: u8,
    retransmits: u8,
    probes: u8,
    /// The number of consecutive retransmission timeouts.
    pub backoff: u8,
    options: [u8; 3],
    timeouts: [u32; 2],
    /// The maximum size of a segment that it sends, without headers.
    pub segment: u32,
    received_segment: u32,
    unacked: u32,
    /// Segments acknowledged selectively (RFC 2018).
    pub sacked: u32,
    lost: u32,
    retransmissions: u32,
    forward: u32,
    since_last: [u32; 4],
    path_mtu: u32,
    receive_threshold: u32,
    /// The smoothed round-trip time.
    pub rtt_us: u32,
    rtt_variance_us: u32,
    threshold: u32,
    /// The congestion window, in packets.
    pub window: u32,
    advertised_mss: u32,
    reordering: u32,
    receiver: [u32; 2],
    /// Retransmitted packets.
    pub retransmitted: u32,
    /// The pacing rate, in bytes a second; all ones for no limit.
    pub pacing_rate: u64,
    max_pacing_rate: u64,
    /// Bytes acknowledged cumulatively.
    pub acked_bytes: u64,
    received_bytes: u64,
    segments: [u32; 2],
    /// Bytes written and not sent yet.
    pub unsent: u32,
    /// The minimum round-trip time.
    pub min_rtt_us: u32,
    data_packets_received: u32,
    /// Packets with payload sent, retransmissions included.
    pub data_packets: u32,
    delivery_rate: u64,
    /// The time with bytes to send or in flight.
    pub busy_us: u64,
    /// The part of it in which the peer's receive window was full.
    pub receive_window_us: u64,
    send_buffer_us: u64,
    delivered: u32,
    /// Packets delivered with a congestion mark.
    pub marked: u32,
    sent_bytes: u64,
    /// Bytes retransmitted.
    pub retransmitted_bytes: u64,
}

impl TcpInfo {
    /// No loss or mark is being handled.
    pub const OPEN: u8 = 0;
    /// The window was reduced without a loss, usually after a mark.
    pub const REDUCED: u8 = 2;
    /// Fast recovery.
    pub const RECOVERY: u8 = 3;
    /// Recovery after a retransmission timeout.
    pub const LOSS: u8 = 4;

    /// Packets in flight, as the kernel counts them (`tcp_packets_in_flight`).
    pub fn in_flight(&self) -> u32 {
        (self.unacked + self.retransmissions).saturating_sub(self.sacked + self.lost)
    }

    /// The kernel's statistics of `socket`.
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
    fn the_kernel_counts_bytes_sent_and_acknowledged() {
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
        assert_eq!(
            (info.acked_bytes, info.unsent, info.retransmitted_bytes, info.ca_state),
            (5000, 0, 0, TcpInfo::OPEN)
        );
        assert!(info.segment > 500 && info.rtt_us > 0 && info.data_packets > 0, "{info:?}");
    }
}
