//! File transfer: `serve` a directory, `get` a file from it. One connection a file; `protocol.rs` has what is said.
//!
//! A download goes to `NAME.part` and gets its name when its BLAKE3 hash is right. Whatever ends it early leaves the
//! part; the next `get` tells the server how long the part is and what it hashes to, and the server, which reads as much
//! of the file, goes on from there if it is the same and starts anew if not. So both ends read every byte exactly once,
//! hashing it on the way, and a file that only grew is resumed, too.
//!
//! BLAKE3 because one core hashes gigabytes a second with it, piece by piece as they pass, which SHA-2 does not without
//! special instructions; and in pure Rust, so that no C compiler is needed.
//!
//! The server's controller sends the file, unless the client names another: `lending.rs` has who may have which.
//!
//! What a stranger can cost a server is bounded: a request has about a kilobyte and ten seconds; a client may keep
//! `send_buffer` bytes of memory; there are `most_clients` at once; who takes nothing for a minute is dropped. Reading
//! is bounded by the file asked for. See the crate's header for what is *not* protected.

mod client;
mod directory;
mod error;
mod lending;
mod part;
mod progress;
mod protocol;
mod server;
mod transfer;
mod url;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rampmeter_transport::Config;
use rand::rngs::OsRng;
use rand::{RngCore, TryRngCore};

pub use client::{GetOptions, GetReport, get};
pub use directory::Directory;
pub use error::NetError;
pub use part::STANDARD_OUTPUT;
pub use protocol::Refusal;
pub use server::{Observer, ServeOptions, Served, Server, Warner, serve};

/// The port that `serve` listens at unless told otherwise: "RAMP" on a telephone.
pub const DEFAULT_PORT: u16 = 7267;

/// A flag that Ctrl-C, or a request to terminate, raises. Both ends stop cleanly when it is up.
pub fn stop_on_interrupt() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second one ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Connections as file transfer wants them: a silent peer is given up after about ten seconds.
pub fn default_transport() -> Config {
    Config { most_timeouts: 5, ..Config::default() }
}

/// Numbers that nobody can foresee, from the operating system.
fn unforeseeable() -> impl RngCore + Send {
    OsRng.unwrap_err()
}

/// A seed for what need not be foreseen, but may: which of its choices a controller makes.
fn fresh_seed() -> u64 {
    unforeseeable().next_u64()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    #[test]
    fn an_interrupt_raises_the_flag() {
        let flag = super::stop_on_interrupt().unwrap();
        assert!(!flag.load(Ordering::Relaxed));
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGINT).unwrap();
        assert!(flag.load(Ordering::Relaxed));
    }
}
