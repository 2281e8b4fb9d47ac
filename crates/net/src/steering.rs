//! Several sockets on one port, one for each thread of a server, and how the kernel chooses the socket of a datagram.
//!
//! A program in classic BPF, which needs no privilege, reads each datagram before it is queued
//! (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)):
//!
//! * datagrams of a session go to the thread that opened it, by the session's id ([`rampmeter_session::group`]), also if
//!   their sender has a new address;
//! * all others, such as the first of a handshake, go to a thread by their source: an IPv4 address, or the first 64
//!   bits of an IPv6 address. So all sessions of one destination are in one thread, as is its history.
//!
//! The first socket is bound alone, so a port that is in use is refused as ever. After that `SO_REUSEPORT` lets sockets
//! of the same user join. The program names the sockets of this process only, so that a socket that joins later gets
//! nothing, unless its owner replaces the program.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZero;
use std::os::fd::AsRawFd;
use std::thread::available_parallelism;

use libc::{sock_filter, sock_fprog};
use nix::sys::socket::sockopt::{AttachReusePortCbpf, ReusePort};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrIn6, bind, setsockopt, socket};
use rampmeter_session::group::{INDEX_AT, INDEX_MASK, WITH_ID};

use crate::socket::Socket;

/// The maximum number of threads of a server.
pub const MAX_THREADS: usize = 16;

/// The number of threads that this machine has cores for.
pub fn default_threads() -> usize {
    available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS)
}

/// The sockets of a port.
#[derive(Debug)]
pub struct Port {
    /// At least one.
    pub sockets: Vec<Socket>,
    /// Why there is only one, if there should be more.
    pub refused: Option<io::Error>,
}

impl Port {
    /// Binds `count` sockets to `address`; one if the kernel refuses more.
    pub fn bind(address: SocketAddr, count: usize) -> io::Result<Self> {
        Self::bind_with(address, count, &mut program(count))
    }

    fn bind_with(address: SocketAddr, count: usize, program: &mut [sock_filter]) -> io::Result<Self> {
        let first = UdpSocket::bind(address)?;
        let (others, refused) = match join(&first, count, program) {
            Ok(others) => (others, None),
            Err(reason) => {
                tracing::warn!(%reason, "one thread serves all clients: the kernel refuses several sockets on one port");
                setsockopt(&first, ReusePort, &false)?;
                (Vec::new(), Some(reason))
            }
        };
        let sockets = std::iter::once(first).chain(others).map(Socket::new).collect::<io::Result<_>>()?;
        Ok(Self { sockets, refused })
    }
}

/// Binds `count` sockets in all to the address of `first`, with a program that chooses one of them.
fn join(first: &UdpSocket, count: usize, program: &mut [sock_filter]) -> io::Result<Vec<UdpSocket>> {
    if count <= 1 {
        return Ok(Vec::new());
    }
    setsockopt(first, ReusePort, &true)?;
    let address = first.local_addr()?;
    let others = (1..count).map(|_| bind_beside(address)).collect::<io::Result<_>>()?;
    let len = program.len() as u16;
    setsockopt(first, AttachReusePortCbpf, &sock_fprog { len, filter: program.as_mut_ptr() })?;
    Ok(others)
}

fn bind_beside(address: SocketAddr) -> io::Result<UdpSocket> {
    let open = |family| socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    let socket = open(if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 })?;
    setsockopt(&socket, ReusePort, &true)?;
    match address {
        SocketAddr::V4(address) => bind(socket.as_raw_fd(), &SockaddrIn::from(address))?,
        SocketAddr::V6(address) => bind(socket.as_raw_fd(), &SockaddrIn6::from(address))?,
    }
    Ok(socket.into())
}

/// Spreads networks over threads (Knuth, The Art of Computer Programming, section 6.4): 2^32 by the golden ratio.
const MULTIPLIER: u32 = 0x9e37_79b1;

/// Bits of the product that depend on few bits of the network.
const LOW_BITS: u32 = 16;

/// The program that returns the number of a socket, of `count`. Offset 0 is the first byte of UDP's payload.
fn program(count: usize) -> Vec<sock_filter> {
    use libc::{
        BPF_A, BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_MISC, BPF_MOD, BPF_MUL, BPF_RET,
        BPF_RSH, BPF_TAX, BPF_W, BPF_X, BPF_XOR,
    };
    const BYTE: u32 = BPF_LD | BPF_B | BPF_ABS;
    const WORD: u32 = BPF_LD | BPF_W | BPF_ABS;
    const EQUAL: u32 = BPF_JMP | BPF_JEQ | BPF_K;
    let step = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let skip_if = |k, jt, jf| sock_filter { jt, jf, ..step(EQUAL, k) };
    // Loads from here on are from the header of IP.
    let ip = |offset: u32| (libc::SKF_NET_OFF as u32).wrapping_add(offset);
    vec![
        step(BYTE, 0),
        skip_if(WITH_ID[0].into(), 1, 0),
        skip_if(WITH_ID[1].into(), 0, 4),
        // With the id of a session: its index.
        step(WORD, INDEX_AT as u32),
        step(BPF_ALU | BPF_AND | BPF_K, INDEX_MASK),
        step(BPF_ALU | BPF_MOD | BPF_K, count as u32),
        step(BPF_RET | BPF_A, 0),
        // Others: the network.
        step(BYTE, ip(0)),
        step(BPF_ALU | BPF_RSH | BPF_K, 4),
        skip_if(6, 2, 0),
        step(WORD, ip(12)),
        skip_if(0, 5, 5),
        step(WORD, ip(8)),
        step(BPF_ALU | BPF_MUL | BPF_K, MULTIPLIER),
        step(BPF_MISC | BPF_TAX, 0),
        step(WORD, ip(12)),
        step(BPF_ALU | BPF_XOR | BPF_X, 0),
        step(BPF_ALU | BPF_MUL | BPF_K, MULTIPLIER),
        step(BPF_ALU | BPF_RSH | BPF_K, LOW_BITS),
        step(BPF_ALU | BPF_MOD | BPF_K, count as u32),
        step(BPF_RET | BPF_A, 0),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{IpAddr, Ipv6Addr};
    use std::time::{Duration, Instant};

    use nix::sched::{CloneFlags, unshare};
    use rampmeter_session::group::owner;

    use super::*;
    use crate::socket::ReceiveBatch;

    const COUNT: usize = 3;

    /// What the program computes.
    fn expected(from: IpAddr, datagram: &[u8]) -> usize {
        let network = match from {
            IpAddr::V4(ip) => ip.to_bits(),
            IpAddr::V6(ip) => {
                let prefix = (Ipv6Addr::to_bits(ip) >> 64) as u64;
                ((prefix >> 32) as u32).wrapping_mul(MULTIPLIER) ^ prefix as u32
            }
        };
        let by_network = (network.wrapping_mul(MULTIPLIER) >> LOW_BITS) as usize % COUNT;
        owner(datagram, COUNT).unwrap_or(by_network)
    }

    /// The socket that has received the datagram.
    fn receive(port: &Port, batch: &mut ReceiveBatch) -> usize {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            for (number, socket) in port.sockets.iter().enumerate() {
                socket.receive(batch).unwrap();
                if batch.iter_mut().next().is_some() {
                    return number;
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("no socket has it");
    }

    /// Sends datagrams of all kinds from all addresses, and returns which sockets have received any.
    fn spread(listen: &str, from: &[&str]) -> BTreeSet<usize> {
        let port = Port::bind(listen.parse().unwrap(), COUNT).unwrap();
        assert!(port.refused.is_none(), "{:?}", port.refused);
        let to = port.sockets[0].local_address().unwrap().port();
        let (mut batch, mut used) = (ReceiveBatch::new(1500), BTreeSet::new());
        for from in from {
            let from: IpAddr = from.parse().unwrap();
            let target = if from.is_ipv4() { "127.0.0.1".parse().unwrap() } else { IpAddr::V6(Ipv6Addr::LOCALHOST) };
            let sender = UdpSocket::bind((from, 0)).unwrap();
            for first in [0x31, 0x33, 0x36, 0x37, 0] {
                for last in 0..4 {
                    let datagram = [first, 1, 2, 3, 4, 5, 6, 7, last, 9, 10];
                    sender.send_to(&datagram, (target, to)).unwrap();
                    let number = receive(&port, &mut batch);
                    assert_eq!(number, expected(from, &datagram), "{datagram:?} from {from}");
                    used.insert(number);
                }
            }
            sender.send_to(&[0x36], (target, to)).unwrap();
            receive(&port, &mut batch); // any socket may have a datagram that is too short for an id
        }
        used
    }

    #[test]
    fn ipv4_datagrams_reach_the_thread_of_their_session_or_network() {
        let from = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.1.2.3"];
        assert_eq!(spread("127.0.0.1:0", &from).len(), COUNT);
        assert_eq!(spread("[::]:0", &from).len(), COUNT, "to a socket of both protocols");
    }

    #[test]
    fn ipv6_networks_of_64_bits_have_one_thread() {
        let from = ["::1", "fd00:1::1", "fd00:1::2", "fd00:1:0:1::1", "fd00:2::1", "2001:db8::1"];
        std::thread::spawn(move || {
            if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
                return eprintln!("skipped: namespaces need root ({error})");
            }
            let ip = |arguments: &str| {
                assert!(std::process::Command::new("ip").args(arguments.split(' ')).status().unwrap().success());
            };
            ip("link set lo up");
            from[1..].iter().for_each(|address| ip(&format!("address add {address}/64 dev lo nodad")));
            assert_eq!(spread("[::]:0", &from).len(), COUNT);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_port_in_use_is_refused() {
        let port = Port::bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let address = port.sockets[0].local_address().unwrap();
        for count in [1, 2] {
            assert_eq!(Port::bind(address, count).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn a_socket_that_joins_later_gets_nothing() {
        let port = Port::bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let address = port.sockets[0].local_address().unwrap();
        let joined = bind_beside(address).unwrap();
        joined.set_nonblocking(true).unwrap();
        let (sender, mut batch) = (UdpSocket::bind("127.0.0.1:0").unwrap(), ReceiveBatch::new(1500));
        for number in 0..=255 {
            sender.send_to(&[0x36, 0, 0, 0, 0, 0, 0, 0, number, 0, 0, 0, 0], address).unwrap();
            assert_eq!(receive(&port, &mut batch), usize::from(number) % 2);
        }
        assert_eq!(joined.recv(&mut [0; 100]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_program_that_the_kernel_refuses_leaves_one_socket() {
        let mut without_end = [program(2)[0]];
        let port = Port::bind_with("127.0.0.1:0".parse().unwrap(), 2, &mut without_end).unwrap();
        assert_eq!(port.sockets.len(), 1);
        assert_eq!(port.refused.unwrap().raw_os_error(), Some(libc::EINVAL));
        let address = port.sockets[0].local_address().unwrap();
        assert!(bind_beside(address).is_err(), "no other socket may join");
        let (sender, mut batch) = (UdpSocket::bind("127.0.0.1:0").unwrap(), ReceiveBatch::new(1500));
        sender.send_to(&[0x36; 30], address).unwrap();
        assert_eq!(receive(&Port { sockets: port.sockets, refused: None }, &mut batch), 0);
    }
}
