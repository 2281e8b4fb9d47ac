//! Time on a real network: one monotonic clock, and waits that end on time.
//!
//! The kernel wakes a thread late, by its timer slack (50 us by default, and a thousandth of the wait for `poll`) and
//! by the time until a core is available. So the slack is set to its minimum, and a wait ends earlier by the wake-up
//! latency that the fastest of the recent wake-ups had ([`WakeupLatency`]). The thread spins for the short rest of the
//! wait. Most packets of a paced sender leave some tens of microseconds late, with the actual time in `sent_at`; to
//! spin that long would need more of the core than everything else that a sender does.
//!
//! The kernel timestamps arrivals with the wall clock. Both clocks are slewed equally, so their offset changes only
//! when the wall clock is *set*. The offset is measured every second, and whenever a timestamp contradicts it: round
//! trips end at a timestamp, and a wall clock that was set back by a millisecond would make all of them shorter.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use rampmeter_units::{Duration, Time};

use crate::ready::Ready;

/// The part of a wait that the thread spins, if the kernel wakes it with the minimum latency.
const SPIN: Duration = Duration::from_micros(5);

/// The maximum of the expected wake-up latency: a busy machine is not a reason to spin.
const MAX_LATENCY: Duration = Duration::from_micros(50);

/// A wake-up that is later than this is a stall: no processor was available for the thread.
const STALL: Duration = Duration::from_micros(500);

/// The time for which a measured offset between the clocks is valid.
const WALL_OFFSET_VALID: Duration = Duration::from_secs(1);

/// The nanoseconds of a second, and of a day.
const NANOS: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * NANOS;

/// A timestamp older than this means that the wall clock was set, not that a packet was queued.
const MAX_STAMP_AGE: Duration = Duration::from_secs(5);

/// A monotonic clock that starts at the time of day (UTC). Hosts with synchronized wall clocks share its instants, at
/// which PCP flows in competitive mode drain the queue together. The wall clock is read once, at the start: hosts that
/// started on different days share only instants whose interval divides a day, as 2.5 s and its multiples by powers of
/// two do.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// The system's monotonic clock at this clock's zero, modulo 2^64: the day may have begun before the system.
    zero: u64,
    /// The wall clock at this clock's zero.
    wall_zero: u64,
    /// The time of the last measurement of `wall_zero`.
    measured_at: Time,
    latency: WakeupLatency,
    /// The time at which the thread should have woken, if it woke after a stall.
    stalled: Option<Time>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::start()
    }
}

impl Clock {
    /// A clock that starts at the current time of day.
    pub fn start() -> Self {
        let zero = monotonic().wrapping_sub(wall() % DAY);
        let mut clock =
            Self { zero, wall_zero: 0, measured_at: Time::ZERO, latency: WakeupLatency::default(), stalled: None };
        clock.measure_wall();
        clock
    }

    /// The current time.
    pub fn now(&self) -> Time {
        Time::from_nanos(monotonic().wrapping_sub(self.zero))
    }

    /// The arrival time of a packet that the kernel timestamped at `stamp` on the wall clock; `now` if the timestamp is
    /// invalid.
    pub(crate) fn arrival(&mut self, stamp: u64, now: Time) -> Time {
        if now.since(self.measured_at) > WALL_OFFSET_VALID {
            self.measure_wall();
        }
        let at = Time::from_nanos(stamp.saturating_sub(self.wall_zero));
        if at <= now && now.since(at) < MAX_STAMP_AGE {
            return at;
        }
        if at > now + Duration::from_millis(1) || now.since(at) >= MAX_STAMP_AGE {
            self.measure_wall();
        }
        now
    }

    /// Reads both clocks close together: the best of a few attempts, since the thread may be interrupted between two
    /// readings.
    fn measure_wall(&mut self) {
        let attempts = (0..5).map(|_| {
            let (before, wall, after) = (monotonic(), wall(), monotonic());
            let now = (before + (after - before) / 2).wrapping_sub(self.zero);
            (after - before, wall.saturating_sub(now))
        });
        self.wall_zero = attempts.min().map_or(0, |(_, zero)| zero);
        self.measured_at = self.now();
    }

    /// Waits until `until`, or until a socket is `ready`. A signal ends the wait early.
    pub(crate) fn wait(&mut self, ready: &mut Ready, until: Time) -> io::Result<()> {
        loop {
            let now = self.now();
            let remaining = until.since(now);
            // The kernel's own slack is a thousandth of the wait.
            let sleep = remaining.saturating_sub(self.latency.expected() + SPIN + remaining / 1000);
            if ready.wait(sleep)? {
                self.record_stall(now + sleep, self.now());
                return Ok(());
            }
            if self.finish_wait(now, sleep, until) {
                return Ok(());
            }
        }
    }

    /// Waits until `until`, regardless of arrivals. A signal ends the wait early.
    pub(crate) fn sleep(&mut self, until: Time) {
        let now = self.now();
        let sleep = until.since(now).saturating_sub(self.latency.expected() + SPIN);
        if sleep > Duration::ZERO {
            let wake = self.zero.wrapping_add((now + sleep).as_nanos());
            let wake = TimeSpec::new((wake / NANOS) as i64, (wake % NANOS) as i64);
            // A signal may end the sleep early, as an arrival would.
            let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &wake);
        }
        self.finish_wait(now, sleep, until);
    }

    fn record_stall(&mut self, due: Time, woken_at: Time) {
        if woken_at.since(due) > STALL {
            self.stalled = Some(due);
        }
    }

    /// The time at which the thread should have woken, if its last wait ended in a stall. Returned once.
    pub(crate) fn take_stall(&mut self) -> Option<Time> {
        self.stalled.take()
    }

    /// After a sleep for `sleep` from `began` on: spins for the rest of the wait if that is short. Returns whether the
    /// wait is over.
    fn finish_wait(&mut self, began: Time, sleep: Duration, until: Time) -> bool {
        let woken_at = self.now();
        if sleep > Duration::ZERO {
            self.latency.on_wakeup(woken_at.since(began + sleep));
        }
        self.record_stall(began + sleep, woken_at);
        let is_short = until.since(woken_at) <= SPIN + MAX_LATENCY;
        if is_short {
            while self.now() < until {
                std::hint::spin_loop();
            }
        }
        is_short
    }
}

/// The minimum wake-up latency: a thread that requests its wake-up earlier by this rarely wakes up early, and then only
/// slightly.
#[derive(Debug, Clone, Copy, Default)]
pub struct WakeupLatency(Duration);

impl WakeupLatency {
    /// Records a wake-up that was late by `late`.
    pub fn on_wakeup(&mut self, late: Duration) {
        let late = late.min(MAX_LATENCY);
        // It falls quickly and rises slowly: about a tenth of all wake-ups have a lower latency.
        self.0 = if late < self.0 { (self.0 + late * 3) / 4 } else { (self.0 * 31 + late) / 32 };
    }

    /// The expected minimum latency.
    pub fn expected(self) -> Duration {
        self.0
    }
}

/// Sets the timer slack of the calling thread to its minimum.
pub fn set_min_timer_slack() {
    // If it fails, waits end up to 50 us later; nothing else changes.
    let _ = nix::sys::prctl::set_timerslack(1);
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
    fn a_wait_never_ends_early() {
        set_min_timer_slack();
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
    fn a_wait_ends_when_a_socket_is_readable() {
        let mut clock = Clock::start();
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut ready = Ready::new().unwrap();
        ready.add(reader.as_fd(), 7).unwrap();
        nix::unistd::write(&writer, b"x").unwrap();
        clock.wait(&mut ready, Time::MAX).unwrap();
        assert_eq!(ready.next(), Some((7, false)));
    }

    #[test]
    fn a_stall_is_reported_once() {
        let mut clock = Clock::start();
        let at = |micros| Time::ZERO + Duration::from_micros(micros);
        clock.record_stall(at(1000), at(1400));
        assert_eq!(clock.take_stall(), None);
        clock.record_stall(at(1000), at(3000));
        clock.record_stall(at(4000), at(4010));
        assert_eq!((clock.take_stall(), clock.take_stall()), (Some(at(1000)), None));
    }

    #[test]
    fn the_expected_latency_is_that_of_the_fastest_wakeups() {
        let mut latency = WakeupLatency::default();
        (0..400).for_each(|n| latency.on_wakeup(Duration::from_micros(if n % 8 == 0 { 12 } else { 40 })));
        let expected = latency.expected();
        assert!((12..24).contains(&(expected.as_nanos() / 1000)), "{expected}");
        latency.on_wakeup(Duration::from_millis(9));
        assert!(latency.expected() < expected + Duration::from_micros(2));
    }

    #[test]
    fn clocks_start_at_the_time_of_day() {
        let (first, second) = (Clock::start(), Clock::start());
        let (wall, read) = (wall(), [first.now().as_nanos(), second.now().as_nanos()]);
        let apart = |a: u64, b: u64| (a.abs_diff(b) % DAY).min(DAY - a.abs_diff(b) % DAY);
        assert!(apart(read[0], wall) < NANOS && apart(read[0], read[1]) < NANOS, "{wall} {read:?}");
    }

    #[test]
    fn wall_clock_timestamps_convert_to_the_clocks_time() {
        let mut clock = Clock::start();
        let stamp = wall();
        let now = clock.now();
        let at = clock.arrival(stamp, now);
        assert!(now.since(at) < Duration::from_secs(1));
        assert_eq!(clock.arrival(stamp + 3_600_000_000_000, now), now, "the wall clock was set");
    }
}
