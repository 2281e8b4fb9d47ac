//! The reasons why an application could not start or continue, with advice.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// The reasons why an application could not start or continue, with advice.
#[derive(Debug, Error)]
pub enum AppError {
    /// The congestion manager refused.
    #[error(transparent)]
    Manager(#[from] rampmeter_cm::Error),
    /// The application cannot listen at this address.
    #[error("cannot listen at {0}: {1}; choose another address or a free port")]
    Listen(SocketAddr, io::Error),
    /// The directory cannot be opened.
    #[error("{0}: {1}; name a directory that contains the files to serve")]
    Directory(PathBuf, io::Error),
    /// The receiver acknowledged none of the datagrams.
    #[error(
        "{to} acknowledged no datagram{}; start a receiver there: rampmeter cm listen {}",
        cause(*refused), .to.port()
    )]
    NoReceiver {
        /// The receiver.
        to: SocketAddr,
        /// The receiver's host reported that the port is closed (ICMP).
        refused: bool,
    },
    /// An option is invalid.
    #[error("{0}")]
    Usage(&'static str),
    /// The system refused a socket or a file.
    #[error("the system refused a socket or a file: {0}")]
    System(#[from] io::Error),
}

/// The cause, if the receiver's host has reported one.
fn cause(refused: bool) -> &'static str {
    if refused { ", because its port is closed" } else { "" }
}
