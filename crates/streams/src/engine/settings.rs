//! What an engine is made with.

use std::sync::Arc;

use rampmeter_net::HistoryFile;
use rampmeter_net::monitor::Monitor;
use rampmeter_trace::HostTrace;
use rampmeter_transport::Config;
use rampmeter_units::{Bytes, Duration};

use crate::entry::Windows;

/// The interval of checks that no event causes, unless a shorter silence ends a session.
const SWEEP: Duration = Duration::from_secs(1);

/// What an engine is made with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The settings of connections that this host opens.
    pub(crate) transport: Config,
    /// The maximum number of streams of a session that the other host has opened.
    pub(crate) max_streams: usize,
    /// Streams that are opened in advance, for each session that this host has opened.
    pub(crate) spare: usize,
    /// All receive windows.
    pub(crate) windows: Arc<Windows>,
    /// How the other hosts share them.
    pub(crate) sharers: Sharers,
    /// The engine's number among those of its server.
    pub(crate) number: usize,
    /// Where the engine puts its state once a second.
    pub(crate) monitor: Option<Monitor>,
    /// The trace of its connections.
    pub(crate) trace: Option<HostTrace>,
    /// Where it keeps what it has learnt of paths.
    pub(crate) history: Option<Arc<HistoryFile>>,
    /// A session ends after this time without packets of the other host.
    pub(crate) max_silence: Duration,
    /// A stream is reset after this time in which its peer takes nothing.
    pub(crate) max_stall: Duration,
}

impl Settings {
    /// The first receive window of a stream.
    pub(crate) fn first_window(&self) -> Bytes {
        self.transport.receive_window
    }

    /// The interval of checks that no event causes.
    pub(super) fn sweep(&self) -> Duration {
        SWEEP.min(self.max_silence / 4)
    }
}

/// Who shares the receive windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharers {
    /// Nobody: there is one session.
    One,
    /// Networks, and the addresses in them.
    Networks,
    /// Keys: only listed ones are served.
    Keys,
}
