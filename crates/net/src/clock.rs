//! Time on the open wire: one monotonic clock, and a wait that ends when it should.
//!
//! The kernel wakes a sleeper late by its timer slack (50 us unless told otherwise, and a thousandth of the wait for
//! `poll`) and by what it takes to get a core back. So the slack is set to its minimum, and a wait is asked to end
//! earlier by as much as the most punctual of the latest ones ended late ([`Punctuality`]). What little is left is spun away. Most
//! packets of a paced sender leave some tens of microseconds late and say so (`sent_at`); to spin those away would cost
//! more of the core than all else that a sender does.
//!
//! The kernel stamps arrivals with the wall clock. Both clocks are slewed alike, so the distance between them changes
//! only when somebody *sets* the wall clock. It is measured every second, and when a stamp proves it wrong: round trips
//! end at a stamp, and a wall clock that was set back by a millisecond would make all of them shorter.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use rampmeter_units::{Duration, Time};

use crate::ready::Ready;

/// How much of a wait is spun away at its end, if the kernel wakes us as punctually as it can.
const SPIN: Duration = Duration::from_micros(5);

/// A wake-up is never expected to be later than this: a busy machine is not a reason to spin.
const LATEST: Duration = Duration::from_micros(50);

/// A wake-up that is later than this is a stall: the thread, or the machine, got no processor.
const STALL: Duration = Duration::from_micros(500);

/// How long the distance between the two clocks is relied on.
const WALL_HOLDS: Duration = Duration::from_secs(1);

/// Nanoseconds a second, and a day.
const NANOS: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * NANOS;

/// A stamp older than this says that the wall clock was set, not that a packet waited.
const OLDEST_STAMP: Duration = Duration::from_secs(5);

/// A monotonic clock that starts at the time of day (UTC). Hosts whose wall clocks agree share its moments, at which PCP
/// flows in competitive mode drain the queue together. The wall clock is read once, at the start: hosts that started on
/// different days share only moments whose interval divides a day, as 2.5 s and its doublings do.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// The system's monotonic clock at our zero, modulo 2^64: the day may have begun before the system.
    zero: u64,
    /// The wall clock at our zero.
    wall_zero: u64,
    /// When that was last measured.
    measured_at: Time,
    punctuality: Punctuality,
    /// When the thread should have woken, if that was a stall ago.
    stalled: Option<Time>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::start()
    }
}

impl Clock {
    /// A clock that reads the time of day now.
    pub fn start() -> Self {
        let zero = monotonic().wrapping_sub(wall() % DAY);
        let mut clock =
            Self { zero, wall_zero: 0, measured_at: Time::ZERO, punctuality: Punctuality::default(), stalled: None };
        clock.measure_wall();
        clock
    }

    /// Now.
    pub fn now(&self) -> Time {
        Time::from_nanos(monotonic().wrapping_sub(self.zero))
    }

    /// When a packet that the kernel stamped at `stamp` on the wall clock arrived; `now` if that can't be.
    pub(crate) fn arrival(&mut self, stamp: u64, now: Time) -> Time {
        if now.since(self.measured_at) > WALL_HOLDS {
            self.measure_wall();
        }
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
            let now = (before + (after - before) / 2).wrapping_sub(self.zero);
            (after - before, wall.saturating_sub(now))
        });
        self.wall_zero = tries.min().map_or(0, |(_, zero)| zero);
        self.measured_at = self.now();
    }

    /// Waits until `until`, or until something is `ready`. A signal ends the wait early.
    pub(crate) fn wait(&mut self, ready: &mut Ready, until: Time) -> io::Result<()> {
        loop {
            let now = self.now();
            let left = until.since(now);
            // The kernel's own slack is a thousandth of the wait.
            let sleep = left.saturating_sub(self.punctuality.expected() + SPIN + left / 1000);
            if ready.wait(sleep)? {
                self.note_stall(now + sleep, self.now());
                return Ok(());
            }
            if self.is_over(now, sleep, until) {
                return Ok(());
            }
        }
    }

    /// Waits until `until`, whatever comes in. A signal ends the wait early.
    pub(crate) fn sleep(&mut self, until: Time) {
        let now = self.now();
        let sleep = until.since(now).saturating_sub(self.punctuality.expected() + SPIN);
        if sleep > Duration::ZERO {
            let wake = self.zero.wrapping_add((now + sleep).as_nanos());
            let wake = TimeSpec::new((wake / NANOS) as i64, (wake % NANOS) as i64);
            // Woken early by a signal, it is as if something had come in.
            let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &wake);
        }
        self.is_over(now, sleep, until);
    }

    fn note_stall(&mut self, meant: Time, woken: Time) {
        if woken.since(meant) > STALL {
            self.stalled = Some(meant);
        }
    }

    /// Since when the thread should have been awake, if its last wait ended in a stall. Told once.
    pub(crate) fn take_stall(&mut self) -> Option<Time> {
        self.stalled.take()
    }

    /// After a sleep for `sleep` that began at `began`: spins the rest of the wait away if it is short. Whether it is over.
    fn is_over(&mut self, began: Time, sleep: Duration, until: Time) -> bool {
        let woken = self.now();
        if sleep > Duration::ZERO {
            self.punctuality.woken(woken.since(began + sleep));
        }
        self.note_stall(began + sleep, woken);
        let is_short = until.since(woken) <= SPIN + LATEST;
        if is_short {
            while self.now() < until {
                std::hint::spin_loop();
            }
        }
        is_short
    }
}

/// How late wake-ups are at best: a thread that asks to be woken earlier by that is seldom woken early, and then by little.
#[derive(Debug, Clone, Copy, Default)]
pub struct Punctuality(Duration);

impl Punctuality {
    /// A wake-up was late by `late`.
    pub fn woken(&mut self, late: Duration) {
        let late = late.min(LATEST);
        // It falls at once and rises slowly: a tenth or so of all wake-ups are more punctual.
        self.0 = if late < self.0 { (self.0 + late * 3) / 4 } else { (self.0 * 31 + late) / 32 };
    }

    /// How late one is at best.
    pub fn expected(self) -> Duration {
        self.0
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
    now.tv_sec() as u64 * NANOS + now.tv_nsec() as u64
}

fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
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
        let mut ready = Ready::new().unwrap();
        ready.add(reader.as_fd(), 0).unwrap();
        for micros in [0, 1, 30, 300, 3000] {
            let until = clock.now() + Duration::from_micros(micros);
            clock.wait(&mut ready, until).unwrap();
            assert!(clock.now() >= until);
            assert_eq!(ready.next(), None);
            let until = clock.now() + Duration::from_micros(micros);
            clock.sleep(until);
            assert!(clock.now() >= until);
        }
    }

    #[test]
    fn a_wait_ends_when_something_is_readable() {
        let mut clock = Clock::start();
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut ready = Ready::new().unwrap();
        ready.add(reader.as_fd(), 7).unwrap();
        nix::unistd::write(&writer, b"x").unwrap();
        clock.wait(&mut ready, Time::MAX).unwrap();
        assert_eq!(ready.next(), Some((7, false)));
    }

    #[test]
    fn a_wake_up_that_is_late_is_told_once() {
        let mut clock = Clock::start();
        let at = |micros| Time::ZERO + Duration::from_micros(micros);
        clock.note_stall(at(1000), at(1400));
        assert_eq!(clock.take_stall(), None);
        clock.note_stall(at(1000), at(3000));
        clock.note_stall(at(4000), at(4010));
        assert_eq!((clock.take_stall(), clock.take_stall()), (Some(at(1000)), None));
    }

    #[test]
    fn wake_ups_are_expected_to_be_as_late_as_the_most_punctual() {
        let mut punctuality = Punctuality::default();
        (0..400).for_each(|n| punctuality.woken(Duration::from_micros(if n % 8 == 0 { 12 } else { 40 })));
        let expected = punctuality.expected();
        assert!((12..24).contains(&(expected.as_nanos() / 1000)), "{expected}");
        punctuality.woken(Duration::from_millis(9));
        assert!(punctuality.expected() < expected + Duration::from_micros(2));
    }

    #[test]
    fn all_clocks_read_the_time_of_day() {
        let (first, second) = (Clock::start(), Clock::start());
        let (wall, read) = (wall(), [first.now().as_nanos(), second.now().as_nanos()]);
        let apart = |a: u64, b: u64| (a.abs_diff(b) % DAY).min(DAY - a.abs_diff(b) % DAY);
        assert!(apart(read[0], wall) < NANOS && apart(read[0], read[1]) < NANOS, "{wall} {read:?}");
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
