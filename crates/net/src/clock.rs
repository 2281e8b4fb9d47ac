//! Time on the open wire: one monotonic clock, and a wait that ends when it should.
//!
//! The kernel wakes a sleeper late by its timer slack (50 us unless told otherwise, and a thousandth of the wait for
//! `poll`) and by what it takes to get a core back. So the slack is set to its least, a wait is told to end early by as
//! much as the latest ones ended late, and what is left is spun away: some microseconds, so that a paced sender leaves
//! most of its core to others.
//!
//! The kernel stamps arrivals with the wall clock. Both clocks are slewed alike, so the distance between them changes
//! only when somebody *sets* the wall clock; it is measured once, and again when a stamp proves it wrong.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use rampmeter_units::{Duration, Time};

/// How much of a wait is spun away at its end, if the kernel wakes us as late as it usually does.
const SPIN: Duration = Duration::from_micros(5);

/// A wake-up is never believed to be later than this: a busy machine is not a reason to spin.
const LATEST: Duration = Duration::from_micros(50);

/// A stamp older than this says that the wall clock was set, not that a packet waited.
const OLDEST_STAMP: Duration = Duration::from_secs(5);

/// A monotonic clock that starts at zero.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// The system's monotonic clock at our zero.
    zero: u64,
    /// The wall clock at our zero.
    wall_zero: u64,
    /// How late the kernel usually wakes us.
    late: Duration,
}

impl Default for Clock {
    fn default() -> Self {
        Self::start()
    }
}

impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Self {
        let zero = monotonic();
        let mut clock = Self { zero, wall_zero: 0, late: Duration::ZERO };
        clock.measure_wall();
        clock
    }

    /// Now.
    pub fn now(&self) -> Time {
        Time::from_nanos(monotonic().saturating_sub(self.zero))
    }

    /// When a packet that the kernel stamped at `stamp` on the wall clock arrived; `now` if that can't be.
    pub(crate) fn arrival(&mut self, stamp: u64, now: Time) -> Time {
        let at = Time::from_nanos(stamp.saturating_sub(self.wall_zero));
        if at <= now && now.since(at) < OLDEST_STAMP {
            return at;
        }
        if at > now + Duration::from_millis(1) || now.since(at) >= OLDEST_STAMP {
            self.measure_wall();
        }
        now
    }

    /// Reads both clocks close together: the best of a few tries, since anything may happen between two readings.
    fn measure_wall(&mut self) {
        let tries = (0..5).map(|_| {
            let (before, wall, after) = (monotonic(), wall(), monotonic());
            (after - before, wall.saturating_sub(before + (after - before) / 2 - self.zero))
        });
        self.wall_zero = tries.min().map_or(0, |(_, zero)| zero);
    }

    /// Waits until `until`, or until `fd` is readable; true if it is. A signal ends the wait early.
    pub(crate) fn wait(&mut self, fd: BorrowedFd<'_>, until: Time) -> Result<bool, Errno> {
        loop {
            let now = self.now();
            let left = until.since(now);
            // Poll's own slack is a thousandth of the wait.
            let sleep = left.saturating_sub(self.late + SPIN + left / 1000);
            let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
            match ppoll(&mut fds, Some(TimeSpec::new(seconds(sleep), nanoseconds(sleep))), None) {
                Ok(0) => {}
                Ok(_) => return Ok(true),
                Err(Errno::EINTR) => return Ok(false),
                Err(error) => return Err(error),
            }
            let woken = self.now();
            if sleep > Duration::ZERO {
                self.learn(woken.since(now + sleep));
            }
            if until.since(woken) <= SPIN + LATEST {
                while self.now() < until {
                    std::hint::spin_loop();
                }
                return Ok(false);
            }
        }
    }

    /// A wake-up was late by `late`. Rises faster than it falls, so that most wake-ups are early enough.
    fn learn(&mut self, late: Duration) {
        let late = late.min(LATEST);
        let weight = if late > self.late { 4 } else { 16 };
        self.late = (self.late * (weight - 1) + late) / weight;
    }
}

/// Asks the kernel to wake the calling thread on time.
pub fn be_punctual() {
    // Without it waits end up to 50 us later; nothing else changes.
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// Puts the calling thread before all ordinary ones (`SCHED_FIFO`), so that a busy machine does not delay its packets.
/// Needs `CAP_SYS_NICE`. Not for rates whose packets leave less than about 50 us apart: waits that short are spun, and
/// the kernel throttles an urgent thread that never sleeps (50 ms in each second).
pub fn be_urgent() -> io::Result<()> {
    // SAFETY: a sched_param is made of integers, for which zero is a value; the kernel only reads it, during the call.
    let result = unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn monotonic() -> u64 {
    // The clock exists on every Linux.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or(TimeSpec::new(0, 0));
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn seconds(span: Duration) -> i64 {
    (span.as_nanos() / 1_000_000_000).min(1_000_000) as i64
}

fn nanoseconds(span: Duration) -> i64 {
    (span.as_nanos() % 1_000_000_000) as i64
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_wait_ends_at_its_time_and_not_before() {
        be_punctual();
        let mut clock = Clock::start();
        let (reader, _writer) = nix::unistd::pipe().unwrap();
        for micros in [0, 1, 30, 300, 3000] {
            let until = clock.now() + Duration::from_micros(micros);
            assert!(!clock.wait(reader.as_fd(), until).unwrap());
            assert!(clock.now() >= until);
        }
    }

    #[test]
    fn a_wait_ends_when_something_is_readable() {
        let mut clock = Clock::start();
        let (reader, writer) = nix::unistd::pipe().unwrap();
        nix::unistd::write(&writer, b"x").unwrap();
        assert!(clock.wait(reader.as_fd(), Time::MAX).unwrap());
    }

    #[test]
    fn stamps_turn_into_our_time() {
        let mut clock = Clock::start();
        let stamp = wall();
        let now = clock.now();
        let at = clock.arrival(stamp, now);
        assert!(now.since(at) < Duration::from_secs(1));
        assert_eq!(clock.arrival(stamp + 3_600_000_000_000, now), now, "the wall clock was set");
    }
}
