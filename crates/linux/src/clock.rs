//! The clock of a run: nanoseconds since its start, and a sleep until a point in time.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use rampmeter_units::{Duration, Time};

/// The longest sleep, so that every thread soon notices the end of the run.
pub(crate) const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    pub(crate) fn now(self) -> Time {
        Time::from_nanos(self.started.elapsed().as_nanos() as u64)
    }
}

/// Sleeps until one of `sources` is readable, or for `span`, at most [`STOP_CHECK_INTERVAL`]. True if `span` has
/// passed.
pub(crate) fn sleep<const N: usize>(sources: [BorrowedFd<'_>; N], span: Duration) -> io::Result<bool> {
    let mut sources = sources.map(|source| PollFd::new(source, PollFlags::POLLIN));
    let timeout = std::time::Duration::from_nanos(span.min(STOP_CHECK_INTERVAL).as_nanos());
    match ppoll(&mut sources, Some(TimeSpec::from_duration(timeout)), None) {
        Ok(0) => Ok(span <= STOP_CHECK_INTERVAL),
        Ok(_) | Err(nix::Error::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
