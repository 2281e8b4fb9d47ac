//! Waiting for the daemon. One thread at a time listens to the bell, without the lock; others that wait, wait for it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rampmeter_units::{Duration, Time};

use super::state::State;
use super::{Client, Id};
use crate::error::Error;
use crate::message::Command;
use crate::ring::Lookout;
use crate::spin::look_away;
use crate::time::{now, sleep};

/// How long a call waits for a daemon that does not take what is said to it.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

pub(super) type Guard<'a> = MutexGuard<'a, State>;

impl Client {
    /// The lock, with room for so many commands and for `data` bytes that go with them, and with what is `sound` at that
    /// moment. Waiting for room lets other threads in, so nothing of a call may be noted or said before this.
    pub(super) fn room(
        &self,
        commands: u64,
        data: usize,
        sound: impl Fn(&mut State) -> Result<(), Error>,
    ) -> Result<Guard<'_>, Error> {
        let mut state = self.lock()?;
        sound(&mut state)?;
        let mut until = None;
        while !state.has_room(commands, data)? {
            state = self.wait_for_room(state, *until.get_or_insert_with(|| now() + PATIENCE))?;
            sound(&mut state)?;
        }
        Ok(state)
    }

    /// Room for a command about a flow that is open.
    pub(super) fn room_for(&self, flow: Id) -> Result<Guard<'_>, Error> {
        self.room(1, 0, |state| state.flows.open(flow.0).map(drop))
    }

    /// Says something to the daemon, for which there is room, and wakes it if it sleeps.
    pub(super) fn say(&self, state: &mut State, id: u32, command: Command) -> Result<(), Error> {
        self.say_with(state, id, command, &[])
    }

    /// Says something with data to the daemon.
    pub(super) fn say_with(&self, state: &mut State, id: u32, command: Command, data: &[u8]) -> Result<(), Error> {
        state.say(id, command, data)?;
        self.shared.theirs.ring();
        Ok(())
    }

    /// The ring or the data area is full: the daemon has something to do.
    fn wait_for_room<'a>(&'a self, mut state: Guard<'a>, until: Time) -> Result<Guard<'a>, Error> {
        self.shared.theirs.ring();
        if now() >= until || self.is_over() {
            state.gone |= self.is_over();
            return Err(if state.gone { Error::Gone } else { Error::Full });
        }
        drop(state);
        std::thread::sleep(std::time::Duration::from_micros(20));
        self.lock()
    }

    /// Waits until something comes, somebody else has taken something in, or it is `until`; takes in what came. The flag
    /// says that a signal ended the wait.
    pub(super) fn wait<'a>(&'a self, mut state: Guard<'a>, until: Option<Time>) -> Result<(Guard<'a>, bool), Error> {
        if state.take_in() {
            return Ok((self.took_in(state)?, false));
        }
        if state.has_listener {
            let left = until.map_or(Duration::from_secs(1), |until| until.since(now()));
            let left = std::time::Duration::from_nanos(left.as_nanos());
            let (state, _) = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            return if state.gone { Err(Error::Gone) } else { Ok((state, false)) };
        }
        state.has_listener = true;
        let (lookout, spell, start) = (state.notices.lookout(), state.spin.spell(), now());
        drop(state);
        let interrupted = self.await_bell(&lookout, spell, until);
        let is_over = !lookout.sees_something() && self.is_over();
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.has_listener = false;
        state.gone |= is_over;
        if state.take_in() {
            state.spin.learn(now().since(start));
        }
        Ok((self.took_in(state)?, interrupted))
    }

    /// Waits for something to come that may be the answer to a question.
    pub(super) fn wait_for_answer<'a>(&'a self, mut state: Guard<'a>, until: Time) -> Result<Guard<'a>, Error> {
        if now() >= until {
            state.gone = true;
            return Err(Error::Gone);
        }
        self.wait(state, Some(until)).map(|(state, _)| state)
    }

    /// Something has changed for everybody who waits.
    fn took_in<'a>(&'a self, state: Guard<'a>) -> Result<Guard<'a>, Error> {
        self.shared.changed.notify_all();
        if state.gone { Err(Error::Gone) } else { Ok(state) }
    }

    /// Spins for a while, then sleeps; true if a signal ended that.
    fn await_bell(&self, lookout: &Lookout, spell: Duration, until: Option<Time>) -> bool {
        let start = now();
        let until = until.unwrap_or(Time::MAX);
        loop {
            let time = now();
            if lookout.sees_something() || time >= until {
                return false;
            }
            if time.since(start) >= spell {
                break;
            }
            look_away(time.since(start));
        }
        let bell = &self.shared.ours;
        bell.about_to_sleep();
        let mut interrupted = false;
        if !lookout.sees_something() {
            // Not for ever, though nothing should get lost.
            let span = until.since(now()).min(Duration::from_secs(1));
            interrupted = sleep(&[bell.as_fd(), self.shared.socket.as_fd()], span).unwrap_or(true);
            bell.silence();
        }
        bell.awake();
        interrupted
    }

    /// Whether the daemon has hung up.
    fn is_over(&self) -> bool {
        let mut files = [PollFd::new(self.shared.socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut files, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }

    /// Who had to wait for an answer has heard the bell, and taken in what else came: see [`Client::leave`].
    pub(super) fn leave_after_waiting(&self) {
        if self.shared.is_polled.load(Ordering::Relaxed) {
            self.leave(&self.shared.state.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// A flow that was told there is no room is to hear of some, [`State::promise_room`]; if that is at once, so is whoever
    /// sleeps.
    pub(super) fn promise_room(&self, id: u32) {
        let Ok(mut state) = self.lock() else { return };
        state.promise_room(id);
        if !state.events.is_empty() {
            self.shared.changed.notify_all();
            if state.has_listener {
                self.shared.ours.ring_anyway();
            }
            self.leave(&state);
        }
    }

    /// The caller goes about its own business: whoever polls must hear of what comes, or is here already.
    pub(super) fn leave(&self, state: &State) {
        if self.shared.is_polled.load(Ordering::Relaxed) {
            self.shared.ours.about_to_sleep();
            if state.gone || !state.events.is_empty() || state.notices.has_more() {
                self.shared.ours.ring_anyway();
            }
        }
    }
}
