//! What the kernel tells of a TCP connection (`struct tcp_info`, `linux/tcp.h`).

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use socket2::Socket;

/// The structure as Linux 4.6 and later fill it; older and newer ones agree in what they have.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct TcpInfo {
    states: [u8; 8],
    timeouts_and_segments: [u32; 4],
    queues: [u32; 5],
    since_last: [u32; 4],
    path_mtu: u32,
    receive_threshold: u32,
    pub(crate) rtt_us: u32,
    rtt_variance_us: u32,
    threshold: u32,
    /// In packets.
    pub(crate) window: u32,
    advertised_mss: u32,
    reordering: u32,
    receiver: [u32; 2],
    /// Retransmitted packets.
    pub(crate) retransmitted: u32,
    /// Bytes a second; all ones for no limit.
    pub(crate) pacing_rate: u64,
    most_pacing_rate: u64,
    bytes: [u64; 2],
    segments: [u32; 2],
    unsent: u32,
    pub(crate) min_rtt_us: u32,
    data_packets_received: u32,
    /// Packets with payload sent, repetitions included.
    pub(crate) data_packets: u32,
}

impl TcpInfo {
    pub(crate) fn of(socket: &Socket) -> io::Result<Self> {
        // SAFETY: all zeros is a valid `TcpInfo`.
        let mut info: Self = unsafe { mem::zeroed() };
        let mut len = mem::size_of::<Self>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `info`, and any bytes are a valid `TcpInfo`.
        let result = unsafe {
            let to = (&raw mut info).cast();
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len)
        };
        if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
    }
}
