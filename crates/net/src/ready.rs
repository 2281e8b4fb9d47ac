//! The readiness of sockets: one system call queries it and waits for it.
//!
//! `epoll_pwait2` has a timeout in nanoseconds. Kernels before 5.11 do not have it: there `ppoll` waits on the epoll
//! descriptor and `epoll_wait` reads the events, two calls instead of one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use rampmeter_units::Duration;

const MAX_EVENTS: usize = 64;

/// The sockets to wait for, and those that were ready at the end of the last wait.
#[derive(Debug)]
pub(crate) struct Ready {
    epoll: Epoll,
    events: [EpollEvent; MAX_EVENTS],
    count: usize,
    /// Whether the kernel has `epoll_pwait2`.
    has_pwait2: bool,
}

impl Ready {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, events: [EpollEvent::empty(); MAX_EVENTS], count: 0, has_pwait2: true })
    }

    /// Adds `source` to the sockets; its events have this `token`.
    pub(crate) fn add(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(self.epoll.add(source, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
    }

    /// Whether to wait for writability as well.
    pub(crate) fn set_write_interest(&self, source: impl AsFd, token: u64, writable: bool) -> io::Result<()> {
        let flags = if writable { EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT } else { EpollFlags::EPOLLIN };
        Ok(self.epoll.modify(source, &mut EpollEvent::new(flags, token))?)
    }

    pub(crate) fn remove(&self, source: impl AsFd) {
        // The socket was added and is open, so this cannot fail.
        let _ = self.epoll.delete(source);
    }

    /// Waits until a socket is ready, a signal arrives or `span` has passed. False after a timeout.
    pub(crate) fn wait(&mut self, span: Duration) -> io::Result<bool> {
        self.count = 0;
        let mut result = if self.has_pwait2 { self.wait_pwait2(span) } else { self.wait_ppoll(span) };
        // Old kernels do not have the call, and some containers forbid calls that they do not know.
        if self.has_pwait2 && matches!(result, Err(Errno::ENOSYS | Errno::EPERM)) {
            self.has_pwait2 = false;
            result = self.wait_ppoll(span);
        }
        match result {
            Ok(count) => self.count = count,
            Err(Errno::EINTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        Ok(self.count > 0)
    }

    fn wait_pwait2(&mut self, span: Duration) -> Result<usize, Errno> {
        let timeout = libc::timespec { tv_sec: timespec(span).tv_sec(), tv_nsec: timespec(span).tv_nsec() };
        // SAFETY: an EpollEvent is an `epoll_event`; the kernel writes at most MOST of them to `events` and reads
        // `timeout`, both of which outlive the call; no signal mask is given.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.0.as_raw_fd(),
                self.events.as_mut_ptr(),
                MAX_EVENTS as libc::c_int,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        Errno::result(result).map(|count| count as usize)
    }

    fn wait_ppoll(&mut self, span: Duration) -> Result<usize, Errno> {
        let epoll: BorrowedFd<'_> = self.epoll.0.as_fd();
        match ppoll(&mut [PollFd::new(epoll, PollFlags::POLLIN)], Some(timespec(span)), None) {
            Ok(0) => Ok(0),
            Ok(_) => self.epoll.wait(&mut self.events, EpollTimeout::ZERO),
            Err(error) => Err(error),
        }
    }

    /// The next socket that was ready at the end of the last wait: its token, and whether it is writable.
    pub(crate) fn next(&mut self) -> Option<(u64, bool)> {
        self.count = self.count.checked_sub(1)?;
        let event = self.events[self.count];
        Some((event.data(), event.events().contains(EpollFlags::EPOLLOUT)))
    }
}

fn timespec(span: Duration) -> TimeSpec {
    let nanos = span.as_nanos();
    TimeSpec::new((nanos / 1_000_000_000).min(1_000_000) as i64, (nanos % 1_000_000_000) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_works_without_epoll_pwait2() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut ready = Ready::new().unwrap();
        ready.has_pwait2 = false;
        ready.add(reader.as_fd(), 3).unwrap();
        assert!(!ready.wait(Duration::from_micros(10)).unwrap());
        nix::unistd::write(&writer, b"x").unwrap();
        assert!(ready.wait(Duration::MAX).unwrap());
        assert_eq!((ready.next(), ready.next()), (Some((3, false)), None));
    }
}
