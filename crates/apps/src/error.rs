//! Why an application could not start or go on, with what would help.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Why an application could not start or go on.
#[derive(Debug, Error)]
pub enum AppError {
    /// The congestion manager refused.
    #[error(transparent)]
    Manager(#[from] rampmeter_cm::Error),
    /// It can't listen there.
    #[error("can't listen at {address}: {error}; choose another address or a free port")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// There is nothing to serve.
    #[error("{path}: {error}; give a directory whose files are to be served")]
    Directory {
        /// What was given.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// Nothing that was sent was ever acknowledged.
    #[error(
        "nothing was ever acknowledged by {to}{}; start a receiver there: rampmeter cm listen {}",
        said(*refused), .to.port()
    )]
    Unheard {
        /// The receiver.
        to: SocketAddr,
        /// Its system said that the port is closed (ICMP).
        refused: bool,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(&'static str),
    /// The system refused something.
    #[error("the system refused a socket or a file: {0}")]
    System(#[from] io::Error),
}

/// What the receiver's system said.
fn said(refused: bool) -> &'static str {
    if refused { ", whose system says that nobody listens there" } else { "" }
}
