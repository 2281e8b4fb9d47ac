//! Which sockets are ready, asked and waited for in one system call.
//!
//! `epoll_pwait2` waits for as long as is said, to the nanosecond. Kernels before 5.11 lack it: there `ppoll` waits on the
//! epoll descriptor and `epoll_wait` asks, two calls for one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use rampmeter_units::Duration;

/// Sockets told of at once.
const MOST: usize = 64;

/// Sockets to wait for, and those that were ready at the end of the last wait.
#[derive(Debug)]
pub(crate) struct Ready {
    epoll: Epoll,
    events: [EpollEvent; MOST],
    count: usize,
    /// The kernel knows `epoll_pwait2`.
    is_new: bool,
}

impl Ready {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, events: [EpollEvent::empty(); MOST], count: 0, is_new: true })
    }

    /// Waits for `source` to be readable, too; `token` is its name here.
    pub(crate) fn add(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(self.epoll.add(source, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
    }

    /// Waits for it to be writable as well, or no longer.
    pub(crate) fn await_room(&self, source: impl AsFd, token: u64, room: bool) -> io::Result<()> {
        let flags = if room { EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT } else { EpollFlags::EPOLLIN };
        Ok(self.epoll.modify(source, &mut EpollEvent::new(flags, token))?)
    }

    pub(crate) fn remove(&self, source: impl AsFd) {
        // It was added, and is open: nothing can be wrong.
        let _ = self.epoll.delete(source);
    }

    /// Waits until something is ready, a signal comes or `span` has passed. False if it was the time.
    pub(crate) fn wait(&mut self, span: Duration) -> io::Result<bool> {
        self.count = 0;
        let mut got = if self.is_new { self.wait_new(span) } else { self.wait_old(span) };
        // Old kernels do not know the call, and some containers forbid what they do not know.
        if self.is_new && matches!(got, Err(Errno::ENOSYS | Errno::EPERM)) {
            self.is_new = false;
            got = self.wait_old(span);
        }
        match got {
            Ok(count) => self.count = count,
            Err(Errno::EINTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        Ok(self.count > 0)
    }

    fn wait_new(&mut self, span: Duration) -> Result<usize, Errno> {
        let timeout = libc::timespec { tv_sec: timespec(span).tv_sec(), tv_nsec: timespec(span).tv_nsec() };
        // SAFETY: an EpollEvent is an `epoll_event`; the kernel writes at most MOST of them to `events` and reads
        // `timeout`, both of which outlive the call; no signal mask is given.
        let got = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.0.as_raw_fd(),
                self.events.as_mut_ptr(),
                MOST as libc::c_int,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        Errno::result(got).map(|count| count as usize)
    }

    fn wait_old(&mut self, span: Duration) -> Result<usize, Errno> {
        let epoll: BorrowedFd<'_> = self.epoll.0.as_fd();
        match ppoll(&mut [PollFd::new(epoll, PollFlags::POLLIN)], Some(timespec(span)), None) {
            Ok(0) => Ok(0),
            Ok(_) => self.epoll.wait(&mut self.events, EpollTimeout::ZERO),
            Err(error) => Err(error),
        }
    }

    /// What was ready at the end of the last wait, one after the other: its name, and whether it has room to write.
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
    fn kernels_without_epoll_pwait2_wait_all_the_same() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut ready = Ready::new().unwrap();
        ready.is_new = false;
        ready.add(reader.as_fd(), 3).unwrap();
        assert!(!ready.wait(Duration::from_micros(10)).unwrap());
        nix::unistd::write(&writer, b"x").unwrap();
        assert!(ready.wait(Duration::MAX).unwrap());
        assert_eq!((ready.next(), ready.next()), (Some((3, false)), None));
    }
}
