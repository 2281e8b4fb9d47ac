//! The run's clock: nanoseconds since it began, and how to wait for them.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use rampmeter_units::{Duration, Time};

/// The longest sleep: how soon whoever sleeps notices that the run is over.
pub(crate) const NAP: Duration = Duration::from_millis(20);

/// Runs since the run began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    began: Instant,
}

impl Clock {
    /// A clock that is zero now.
    pub(crate) fn start() -> Self {
        Self { began: Instant::now() }
    }

    pub(crate) fn now(self) -> Time {
        Time::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// How long until `at`; zero if it is past.
    pub(crate) fn until(self, at: Time) -> Duration {
        at.since(self.now())
    }
}

/// Sleeps until one of `sources` can be read, `span` has passed or it is time to look up. True if `span` has passed.
pub(crate) fn sleep<const N: usize>(sources: [BorrowedFd<'_>; N], span: Duration) -> io::Result<bool> {
    let mut sources = sources.map(|source| PollFd::new(source, PollFlags::POLLIN));
    let nap = std::time::Duration::from_nanos(span.min(NAP).as_nanos());
    match ppoll(&mut sources, Some(TimeSpec::from_duration(nap)), None) {
        Ok(0) => Ok(span <= NAP),
        Ok(_) | Err(nix::Error::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
