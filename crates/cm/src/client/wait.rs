//! Waiting for the daemon. One thread at a time polls the files, without the lock; all other waiting threads wait for
//! that thread.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use rampmeter_units::{Duration, Time};

use super::state::State;
use super::{Client, Id, Shared};
use crate::error::Error;
use crate::handshake::ANSWER_TIMEOUT;
use crate::message::Command;
use crate::spin::pause;
use crate::time::{now, sleep};

/// The maximum time that a call waits for a daemon that does not read its commands.
pub(super) const ROOM_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) type Guard<'a> = MutexGuard<'a, State>;

impl Client {
    /// Takes the lock when `commands` commands and `data` bytes fit and `check` succeeds. While the call waits for
    /// room, other threads get the lock, so a call must not change anything before this.
    pub(super) fn lock_with_room(
        &self,
        commands: u64,
        data: usize,
        check: impl Fn(&mut State) -> Result<(), Error>,
    ) -> Result<Guard<'_>, Error> {
        let mut state = self.lock()?;
        check(&mut state)?;
        let mut until = None;
        while !state.has_room(commands, data)? {
            state = self.wait_for_room(state, *until.get_or_insert_with(|| now() + ROOM_TIMEOUT))?;
            check(&mut state)?;
        }
        Ok(state)
    }

    /// The lock with room for a command about an open flow.
    pub(super) fn lock_for_flow(&self, flow: Id) -> Result<Guard<'_>, Error> {
        self.lock_with_room(1, 0, |state| state.flows.open(flow.0).map(drop))
    }

    /// Sends a command, for which there is room, and wakes the daemon if it sleeps.
    pub(super) fn send_command(&self, state: &mut State, id: u32, command: Command) -> Result<(), Error> {
        self.send_command_with_data(state, id, command, &[])
    }

    pub(super) fn send_command_with_data(
        &self,
        state: &mut State,
        id: u32,
        command: Command,
        data: &[u8],
    ) -> Result<(), Error> {
        state.push_command(id, command, data)?;
        self.shared.wakeup.notify();
        Ok(())
    }

    /// Waits for a moment because the ring or the data area is full.
    fn wait_for_room<'a>(&'a self, mut state: Guard<'a>, until: Time) -> Result<Guard<'a>, Error> {
        self.shared.wakeup.notify();
        if now() >= until || self.is_disconnected() {
            state.disconnected |= self.is_disconnected();
            return Err(if state.disconnected { Error::Disconnected } else { Error::Full });
        }
        drop(state);
        std::thread::sleep(std::time::Duration::from_micros(20));
        self.lock()
    }

    /// Waits for notices, for another thread that has read some, or until `until`; reads the notices. The flag says
    /// that a signal ended the wait.
    pub(super) fn wait<'a>(&'a self, mut state: Guard<'a>, until: Option<Time>) -> Result<(Guard<'a>, bool), Error> {
        if state.read_notices() {
            return Ok((self.on_notices_read(state)?, false));
        }
        if state.has_poller {
            let left = until.map_or(Duration::from_secs(1), |until| until.since(now()));
            let left = std::time::Duration::from_nanos(left.as_nanos());
            let (state, _) = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            return if state.disconnected { Err(Error::Disconnected) } else { Ok((state, false)) };
        }
        state.has_poller = true;
        let (has_new, spin_time, start) = (state.notices.poller(), state.spin.current, now());
        drop(state);
        let interrupted = self.await_notices(&has_new, spin_time, until);
        let is_disconnected = !has_new() && self.is_disconnected();
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.has_poller = false;
        state.disconnected |= is_disconnected;
        if state.read_notices() {
            state.spin.on_wait(now().since(start));
        }
        Ok((self.on_notices_read(state)?, interrupted))
    }

    /// Waits until `answer` finds the daemon's answer in the state.
    pub(super) fn wait_for_answer<'a, T>(
        &'a self,
        mut state: Guard<'a>,
        mut answer: impl FnMut(&mut State) -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        let until = now() + ANSWER_TIMEOUT;
        loop {
            if let Some(answer) = answer(&mut state) {
                drop(state);
                self.rearm_poll_after_wait();
                return answer;
            }
            let waited = if now() < until {
                self.wait(state, Some(until))
            } else {
                state.disconnected = true;
                drop(state);
                Err(Error::Disconnected)
            };
            (state, _) = waited.inspect_err(|_| self.rearm_poll_after_wait())?;
        }
    }

    /// Wakes the other waiting threads after notices were read.
    fn on_notices_read<'a>(&'a self, state: Guard<'a>) -> Result<Guard<'a>, Error> {
        self.shared.changed.notify_all();
        if state.disconnected { Err(Error::Disconnected) } else { Ok(state) }
    }

    /// Spins for a while, then sleeps; true if a signal ended the sleep.
    fn await_notices(&self, has_new: &impl Fn() -> bool, spin_time: Duration, until: Option<Time>) -> bool {
        let start = now();
        let until = until.unwrap_or(Time::MAX);
        loop {
            let time = now();
            if has_new() || time >= until {
                return false;
            }
            if time.since(start) >= spin_time {
                break;
            }
            pause(time.since(start));
        }
        let Shared { wakeup, own_event, .. } = &*self.shared;
        wakeup.prepare_sleep();
        let mut interrupted = false;
        if !has_new() {
            // The sleep is limited as a safeguard; no wakeup should get lost.
            let span = until.since(now()).min(Duration::from_secs(1));
            interrupted = sleep(&[wakeup.as_fd(), own_event.as_fd()], span).unwrap_or(true);
            self.shared.clear();
        }
        wakeup.end_sleep();
        interrupted
    }

    /// Whether the daemon has ended the connection.
    fn is_disconnected(&self) -> bool {
        self.shared.wakeup.has_ended()
    }

    /// A thread that waited for an answer has reset the files and read other notices too: see [`Client::rearm_poll`].
    fn rearm_poll_after_wait(&self) {
        if self.shared.is_polled.load(Ordering::Relaxed) {
            self.rearm_poll(&self.shared.state.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Arranges an [`Event::Room`](super::Event::Room) for the flow, see [`State::request_room_event`], and wakes the
    /// thread that polls if the event is there at once.
    pub(super) fn request_room_event(&self, id: u32) {
        let Ok(mut state) = self.lock() else { return };
        state.request_room_event(id);
        if !state.events.is_empty() {
            self.wake_waiting(&state);
        }
    }

    /// Takes the lock and reads all waiting notices, which other threads may wait for.
    pub(super) fn lock_and_read_notices(&self) -> Result<Guard<'_>, Error> {
        let mut state = self.lock()?;
        if state.read_notices() {
            self.wake_waiting(&state);
        }
        if state.disconnected { Err(Error::Disconnected) } else { Ok(state) }
    }

    /// Wakes the threads that wait, because the state has changed.
    fn wake_waiting(&self, state: &State) {
        self.shared.changed.notify_all();
        if state.has_poller {
            self.shared.wake_own();
        }
        self.rearm_poll(state);
    }

    /// The caller returns to the program. If that polls `epoll`, the file must become readable with the next notice, or
    /// now if there are events.
    pub(super) fn rearm_poll(&self, state: &State) {
        if self.shared.is_polled.load(Ordering::Relaxed) {
            self.shared.wakeup.prepare_sleep();
            if state.disconnected || !state.events.is_empty() || state.notices.has_more() {
                self.shared.wake_own();
            }
        }
    }
}
