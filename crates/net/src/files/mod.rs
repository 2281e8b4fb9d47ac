//! File transfer: `serve` a directory, `get` files of it by name. A connection carries requests and answers in sequence;
//! `protocol` has the messages.
//!
//! A file is written to a part file and renamed when its BLAKE3 hash is verified. A transfer that ends early leaves the
//! part; the next one compares the part's length and hash with the other end, which reads as much of its file, and goes
//! on from there if the hashes agree. So both ends read every byte exactly once, hashing it as they go, unless the
//! server knows the hash (`hashes`), and a file that only grew is resumed, too.
//!
//! BLAKE3, because one core hashes gigabytes a second with it, incrementally, which SHA-2 does not without special
//! instructions; and in pure Rust, so that no C compiler is needed.
//!
//! ```
//! use rampmeter_net::files::{ClientOptions, GetOptions, ServeOptions, Server, get};
//!
//! let (here, there) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! std::fs::write(there.path().join("report.txt"), "all is well")?;
//!
//! let address = "127.0.0.1:0".parse()?;
//! let options = ServeOptions { directory: there.path().to_owned(), address, ..ServeOptions::default() };
//! let stop = options.stop.clone();
//! let server = Server::bind(options)?;
//! let url = format!("{}/report.txt?key={}", server.address(), server.key());
//! let serving = std::thread::spawn(move || server.run());
//!
//! let options = GetOptions { urls: vec![url], out: Some(here.path().to_owned()), ..GetOptions::default() };
//! let report = get(&options)?;
//! assert_eq!(report.bytes, 11);
//! assert_eq!(std::fs::read(here.path().join("report.txt"))?, b"all is well");
//!
//! stop.store(true, std::sync::atomic::Ordering::Relaxed);
//! serving.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The server's controller sends the files, unless the client names another: `server/controller_policy.rs` has the
//! rules.
//!
//! The cost of a client to a server is bounded: `server/` has places and a queue for connections, shares of memory and
//! of the threads that hash, and timeouts for clients that make no progress. Threads read files, so that a slow disk
//! stops no packets; what the kernel has in memory is read without them (`page_cache`).

mod client;
mod directory;
mod error;
mod hashes;
mod page_cache;
mod part;
mod pool;
mod progress;
mod protocol;
mod server;
mod source;
mod stream_output;
mod url;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rampmeter_session::{MAX_OVERHEAD, MIN_HELLO_BYTES};
use rampmeter_transport::Config;
use rampmeter_units::Bytes;
use rampmeter_wire::UDP_BYTES;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

pub use client::{ClientOptions, FileReport, GetOptions, Report, get, parse_hash};
pub use directory::Directory;
pub use error::{NetError, Received};
pub use part::STANDARD_OUTPUT;
pub use progress::{Progress, ProgressHandler};
pub use protocol::Refusal;
pub use rampmeter_session::shares::has_place;
#[cfg(feature = "tunnel")]
pub(crate) use server::ControllerPolicy;
pub use server::{
    DegradedHandler, MAX_THREADS, ServeOptions, Server, TransferHandler, TransferReport, default_threads, serve,
};

/// The default port of `serve`: "RAMP" on a telephone keypad.
pub const DEFAULT_PORT: u16 = 7267;

/// The controller of servers and clients that name no other. Over a path that loses 1% of its packets, PCP moves a file
/// in 4.5 s for which NewReno takes 21.3 s (`docs/files.md`).
pub const DEFAULT_CONTROLLER: &str = "pcp";

/// A flag that SIGINT (Ctrl-C) and SIGTERM set. Both ends stop cleanly when it is set.
pub fn stop_on_interrupt() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second signal ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// The largest packets that are tried: those of Ethernet with jumbo frames.
const MAX_PACKET: Bytes = Bytes::new(9000);

/// The default transport settings of file transfer: a peer that does not respond is given up after about ten seconds;
/// datagrams begin with 1200 bytes, which every path of QUIC carries (RFC 9000 section 14).
pub fn default_transport() -> Config {
    Config {
        packet: Bytes::new((UDP_BYTES + MIN_HELLO_BYTES) as u64),
        max_packet: MAX_PACKET,
        overhead: Bytes::new((UDP_BYTES + MAX_OVERHEAD) as u64),
        max_timeouts: 5,
        ..Config::default()
    }
}

/// The largest datagram that arrives: a packet, or a handshake.
pub(crate) fn max_datagram(transport: &Config) -> usize {
    (transport.packet.max(transport.max_packet).as_u64() as usize).max(MIN_HELLO_BYTES)
}

/// Unpredictable random numbers: a generator for cryptography with a seed from the operating system. Each packet needs a
/// number; a system call for each takes an eighth of a busy server's time.
pub(crate) fn os_random() -> impl RngCore + Send {
    StdRng::from_os_rng()
}

/// A random seed for a controller's choices.
pub(crate) fn fresh_seed() -> u64 {
    os_random().next_u64()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    #[test]
    fn an_interrupt_sets_the_flag() {
        let flag = super::stop_on_interrupt().unwrap();
        assert!(!flag.load(Ordering::Relaxed));
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGINT).unwrap();
        assert!(flag.load(Ordering::Relaxed));
    }
}
