//! The errors of streams, one line each: what is wrong, and what to do. `contact` has those of a session's beginning.

use std::io;

use rampmeter_net::{EndReason, SessionEnd};
use thiserror::Error;

/// Why a stream cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// There are as many streams as are allowed.
    #[error("the session has as many streams as are allowed: end some, or raise the maximum")]
    TooManyStreams,
    /// The session has ended.
    #[error("the session has ended: {}", reason(*.0))]
    Ended(SessionEnd),
}

/// Why a session ended, in words.
pub(super) fn reason(end: SessionEnd) -> &'static str {
    match end {
        SessionEnd::Denied(_) => "the other host has another key, or is another service",
        SessionEnd::NotAuthorized => "this host's key is not on the other host's list",
        SessionEnd::Finished => "the other host has closed it",
        SessionEnd::Stopping => "the other host stops",
        SessionEnd::Restarted => "the other host was restarted",
        SessionEnd::Busy => "the other host has no place for another session",
        SessionEnd::NoAnswer => "the other host does not answer",
    }
}

/// How a stream ended, apart from its regular end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// Both streams were delivered.
    Finished,
    /// The peer reset it.
    Reset,
    /// This host reset it.
    Aborted,
    /// The peer stopped responding.
    TimedOut,
    /// Its session ended.
    Session(SessionEnd),
}

impl From<EndReason> for StreamEnd {
    fn from(reason: EndReason) -> Self {
        match reason {
            EndReason::Finished => Self::Finished,
            EndReason::Reset => Self::Reset,
            EndReason::Aborted | EndReason::FalseFeedback => Self::Aborted,
            EndReason::PeerTimeout => Self::TimedOut,
        }
    }
}

impl From<StreamEnd> for io::Error {
    fn from(end: StreamEnd) -> Self {
        match end {
            StreamEnd::Finished => Self::new(io::ErrorKind::BrokenPipe, "the stream has ended"),
            StreamEnd::Reset => Self::new(io::ErrorKind::ConnectionReset, "the peer has reset the stream"),
            StreamEnd::Aborted => Self::new(io::ErrorKind::ConnectionAborted, "this host has reset the stream"),
            StreamEnd::TimedOut => Self::new(io::ErrorKind::TimedOut, "the peer of the stream does not respond"),
            StreamEnd::Session(end) => Self::new(io::ErrorKind::ConnectionAborted, reason(end)),
        }
    }
}
