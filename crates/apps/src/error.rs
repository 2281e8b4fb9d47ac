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
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(&'static str),
    /// The system refused something.
    #[error("the system refused a socket or a file: {0}")]
    System(#[from] io::Error),
}
