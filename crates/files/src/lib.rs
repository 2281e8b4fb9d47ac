//! File transfer: `serve` a directory, `get` files of it by name. A stream carries a request and its answer; `protocol`
//! has the messages.
//!
//! A file is written to a part file and renamed when its BLAKE3 hash is verified. A transfer that ends early leaves the
//! part; the next one compares the part's length and hash with the other end, which reads as much of its file, and goes
//! on from there if the hashes agree. So both ends read every byte exactly once, hashing it as they go, and a file that
//! only grew is resumed, too.
//!
//! BLAKE3, because one core hashes gigabytes a second with it, incrementally, which SHA-2 does not without special
//! instructions; and in pure Rust, so that no C compiler is needed.
//!
//! ```
//! use rampmeter_files::{GetOptions, ServeOptions, Server, get};
//! use rampmeter_streams::ServerOptions;
//!
//! let (here, there) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! std::fs::write(there.path().join("report.txt"), "all is well")?;
//!
//! let server = ServerOptions { address: "127.0.0.1:0".parse()?, ..ServerOptions::default() };
//! let options = ServeOptions { directory: there.path().to_owned(), server, ..ServeOptions::default() };
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
//! The server's controller sends the files, unless the client names another: `rampmeter_net::ControllerPolicy` has
//! the rules.
//!
//! The cost of a client to a server is bounded: by the limits of `rampmeter-streams`, and by places for transfers and
//! for threads that hash (`server/`).

mod client;
mod error;
mod frame;
mod part;
mod progress;
mod protocol;
mod server;
mod url;

use rampmeter_session::Service;

pub use client::{FileReport, GetOptions, Report, get, parse_hash};
pub use error::{NetError, Received};
pub use part::STANDARD_OUTPUT;
pub use progress::{Progress, ProgressHandler};
pub use protocol::Refusal;
pub use server::{DegradedHandler, ServeOptions, Server, TransferHandler, TransferReport};

/// The service, in the handshakes of sessions.
pub const SERVICE: Service = Service(1);

/// The default port of `serve`: "RAMP" on a telephone keypad.
pub const DEFAULT_PORT: u16 = 7267;
