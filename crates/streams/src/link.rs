//! Commands of tasks to the engine, and its alarm.
//!
//! The queue is bounded by what exists: a stream has at most one `Update` in it, a task waits for the answer to its
//! `Open`, and the tunnel sends its client a message for each `Check`.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rampmeter_control::AnyController;
use rampmeter_net::Alarm;
use rampmeter_session::SessionId;
use rampmeter_transport::ConnectionId;
use tokio::sync::oneshot;

use super::error::StreamError;
use super::stream::Stream;

/// Makes controllers; `None` leaves the present one.
pub(super) struct MakeController(pub(super) Box<dyn FnMut() -> Option<AnyController> + Send>);

impl fmt::Debug for MakeController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MakeController").finish()
    }
}

/// A command to the engine.
#[derive(Debug)]
pub(super) enum Command {
    /// Opens a stream in a session.
    Open(SessionId, oneshot::Sender<Result<Stream, StreamError>>),
    /// Looks at the pipe of a stream.
    Update(ConnectionId),
    /// Replaces the controller of the session's macroflow, now and on each new path.
    Control(SessionId, MakeController),
    /// Asks the other host of a session for an answer, and ends the session soon if there is none.
    Check(SessionId),
    /// Ends a session.
    Close(SessionId),
    /// Ends the engine, once all that finished streams have written is delivered.
    Stop,
}

/// The way to the engine.
#[derive(Debug)]
pub(super) struct Link {
    /// None after the engine's end.
    queue: Mutex<Option<Vec<Command>>>,
    /// Whether the engine waits, or is about to.
    waits: AtomicBool,
    alarm: Alarm,
}

impl Link {
    pub(super) fn new(alarm: Alarm) -> Self {
        Self { queue: Mutex::new(Some(Vec::new())), waits: AtomicBool::new(false), alarm }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Option<Vec<Command>>) -> T) -> T {
        act(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives a command to the engine; after its end, drops it.
    pub(super) fn push(&self, command: Command) {
        self.with(|queue| queue.as_mut().map(|queue| queue.push(command)));
        if self.waits.swap(false, Ordering::SeqCst) {
            self.alarm.ring();
        }
    }

    /// The engine is about to wait. False if there are commands.
    pub(super) fn may_wait(&self) -> bool {
        self.waits.store(true, Ordering::SeqCst);
        self.with(|queue| queue.as_ref().is_none_or(Vec::is_empty))
    }

    /// The engine has waited: takes the commands.
    pub(super) fn take(&self) -> Vec<Command> {
        self.waits.store(false, Ordering::SeqCst);
        self.with(|queue| queue.as_mut().map(std::mem::take).unwrap_or_default())
    }

    /// The engine has ended.
    pub(super) fn end(&self) {
        drop(self.with(Option::take));
    }
}
