//! The machine's monotonic clock, the same in every process, and waits on it.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use rampmeter_units::{Duration, Time};

pub(crate) fn now() -> Time {
    // The clock exists on every Linux.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or(TimeSpec::new(0, 0));
    Time::from_nanos(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Sleeps until one of `files` is readable, or for `span`. True if a signal ended the sleep.
pub(crate) fn sleep(files: &[BorrowedFd<'_>], span: Duration) -> Result<bool, Errno> {
    let mut polled: Vec<_> = files.iter().map(|file| PollFd::new(*file, PollFlags::POLLIN)).collect();
    let nanos = span.as_nanos().min(1_000_000 * 1_000_000_000);
    let span = TimeSpec::new((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as i64);
    match ppoll(&mut polled, Some(span), None) {
        Ok(_) => Ok(false),
        Err(Errno::EINTR) => Ok(true),
        Err(error) => Err(error),
    }
}
