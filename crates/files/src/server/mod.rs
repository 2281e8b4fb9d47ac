//! The server: serves the regular files below a directory to many clients.
//!
//! ```text
//! mod       binds the port and starts the threads
//! common    what the threads share: limits that hold for the server as a whole
//! worker    one thread: its host, and the connections of its sessions
//! lane      one connection
//! ```
//!
//! Each thread has a socket of the port, an event loop and the sessions that the kernel gives it (`steering`). Threads
//! share no packets and no connections.

mod admission;
mod common;
mod lane;
mod options;
mod shared;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use rampmeter_net::{Clock, ContactError, Directory, HistoryFile, MAX_THREADS, Port};
use rampmeter_session::{Member, PublicKey};

use self::common::Common;
use self::worker::Worker;
use super::error::NetError;

pub use options::{DegradedHandler, ServeOptions, TransferHandler, TransferReport};

/// A server bound to its address.
#[derive(Debug)]
pub struct Server {
    common: Arc<Common>,
    workers: Vec<Worker>,
    address: SocketAddr,
    refused_threads: Option<io::Error>,
}

/// Serves until `options.stop` is set.
pub fn serve(options: ServeOptions) -> Result<(), NetError> {
    Server::bind(options)?.run()
}

impl Server {
    /// Binds the server to its address.
    pub fn bind(options: ServeOptions) -> Result<Self, NetError> {
        options.transport.check().map_err(ContactError::BadOption)?;
        let factory = options.registry.factory(&options.controller, &options.settings)?;
        let bad_directory = |reason| NetError::BadDirectory(options.directory.clone(), reason);
        let directory = Directory::open(&options.directory, options.hidden).map_err(bad_directory)?;
        let (file, histories) = options.history.as_deref().map(HistoryFile::open).transpose()?.unzip();
        let refused = |reason| ContactError::listen(options.address, reason);
        let port = Port::bind(options.address, options.threads.clamp(1, MAX_THREADS)).map_err(refused)?;
        let address = port.sockets[0].local_address().map_err(refused)?;
        if let Some(monitor) = &options.monitor {
            monitor.set_address(address);
        }
        let clock = Clock::start();
        let threads = port.sockets.len();
        let common = Arc::new(Common::new(threads, directory, file, options));
        let histories = histories.unwrap_or_default();
        let workers = port.sockets.into_iter().zip(Member::group(threads)).enumerate();
        let workers = workers.map(|(number, (socket, member))| {
            Worker::new(number, Arc::clone(&common), clock, socket, member, &factory, &histories)
        });
        Ok(Self { workers: workers.collect::<Result<_, _>>()?, common, address, refused_threads: port.refused })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's public key.
    pub fn key(&self) -> PublicKey {
        self.common.options.identity.public()
    }

    /// Why there is one thread, if there should be more.
    pub fn refused_threads(&self) -> Option<&io::Error> {
        self.refused_threads.as_ref()
    }

    /// Serves until `options.stop` is set, or a thread fails.
    pub fn run(self) -> Result<(), NetError> {
        let mut workers = self.workers.into_iter();
        let Some(first) = workers.next() else { return Ok(()) };
        thread::scope(|scope| {
            let others: Vec<_> = workers
                .map(|worker| {
                    let name = format!("rampmeter-{}", worker.number());
                    let spawned = thread::Builder::new().name(name).spawn_scoped(scope, || worker.run());
                    spawned.inspect_err(|_| self.common.end())
                })
                .collect();
            let mut result = first.run();
            for other in others {
                let ended = match other?.join() {
                    Ok(ended) => ended,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                result = result.and(ended);
            }
            result
        })
    }
}
