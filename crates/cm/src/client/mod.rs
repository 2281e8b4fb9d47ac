//! The application's side: the calls of the paper's Figure 4.
//!
//! ```no_run
//! # fn main() -> Result<(), rampmeter_cm::Error> {
//! use rampmeter_cm::{Client, Event, Feedback, Options};
//! let client = Client::connect()?;
//! let flow = client.open("192.0.2.7:5000".parse().unwrap(), &Options::default())?;
//! client.request(flow)?;
//! while let Some((flow, event)) = client.next(None)? {
//!     match event {
//!         Event::Send { bytes } => {
//!             // send a packet of up to `bytes` bytes from a socket of one's own, then:
//!             client.notify(flow, bytes.into())?;
//!             client.request(flow)?;
//!         }
//!         Event::Update(path) => println!("{} now", path.rate),
//!         Event::Room => {}
//!         Event::Closed(error) => return Err(error),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] can be cloned and used from any number of threads. Whatever waits, waits without the lock: one thread
//! listens to the bell, the others to that thread. So a call first waits for room for what it has to say, and then, under
//! one lock, sees whether it makes sense, notes it and says it: what fails has changed nothing.

mod flows;
mod receiving;
mod sending;
mod state;
#[cfg(test)]
mod tests;
mod wait;

use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use rampmeter_manager::Share;
use rampmeter_units::Duration;

use self::state::State;
use crate::bell::Bell;
use crate::error::Error;
use crate::fork;
use crate::layout::{CLIENT_SLEEPS, DAEMON_SLEEPS, WORDS};
use crate::meeting::{SILENCE, Wish, greet, reach, receive};
use crate::memory::Memory;
use crate::message::PathState;
use crate::time::now;

/// A flow's id. Positive; not used again for long after the flow is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u32);

impl Id {
    /// As C has it.
    pub fn to_c(self) -> i32 {
        self.0 as i32
    }

    /// The id that C has; `None` if that can be none.
    pub fn from_c(id: i32) -> Option<Self> {
        u32::try_from(id).ok().filter(|id| *id > 0).map(Self)
    }
}

/// What a flow is to be like.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Its share of what all flows to its destination have.
    pub share: Share,
}

/// What happens to a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It may send one packet now (`cmapp_send`). Answered by [`Client::notify`].
    Send {
        /// The most that the packet may carry.
        bytes: u32,
    },
    /// Its rate or its round-trip time has changed (`cmapp_update`).
    Update(PathState),
    /// There is room again for [`Client::send`], which was refused.
    Room,
    /// The daemon closed it. Its id is good for [`Client::close`] only.
    Closed(Error),
}

/// A connection to the congestion manager.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something was taken in, or the listener stopped listening.
    changed: Condvar,
    ours: Bell,
    theirs: Bell,
    socket: UnixStream,
    /// Readable when there are events, or the daemon is gone: for a program's own poll loop.
    epoll: Epoll,
    /// Somebody polls that: the bell must ring also while nobody waits here.
    is_polled: AtomicBool,
    /// The process that all this belongs to.
    mark: u64,
}

/// Ids of one connection are not those of the one before.
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

impl Client {
    /// Connects to this host's daemon ([`crate::default_socket`]).
    pub fn connect() -> Result<Self, Error> {
        Self::connect_to(&crate::default_socket())
    }

    /// Connects to the daemon that listens at `path`; gives up one that does not answer in ten seconds.
    pub fn connect_to(path: &Path) -> Result<Self, Error> {
        let mark = fork::mark().map_err(|_| Error::System)?;
        let socket = reach(path, SILENCE)?;
        greet(&socket, Wish::Client).map_err(|_| Error::Gone)?;
        let files = receive(&socket)?;
        let memory = Arc::new(Memory::open(&files.memory, WORDS).map_err(|_| Error::System)?);
        let ours = Bell::new(Arc::clone(&memory), CLIENT_SLEEPS, files.client_bell);
        let theirs = Bell::new(Arc::clone(&memory), DAEMON_SLEEPS, files.daemon_bell);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|_| Error::System)?;
        for file in [socket.as_fd(), ours.as_fd()] {
            epoll.add(file, EpollEvent::new(EpollFlags::EPOLLIN, 0)).map_err(|_| Error::System)?;
        }
        let state = State::new(memory, CONNECTIONS.fetch_add(1, Ordering::Relaxed).wrapping_mul(64));
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            ours,
            theirs,
            socket,
            epoll,
            is_polled: AtomicBool::new(false),
            mark,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The next event of any flow; `None` if there is none when `timeout` is over or a signal has come. Without a timeout
    /// waits as long as it takes.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Option<(Id, Event)>, Error> {
        let mut state = self.lock()?;
        let until = timeout.map(|timeout| now() + timeout);
        let mut is_last = false;
        if self.shared.is_polled.load(Ordering::Relaxed) {
            self.shared.ours.silence();
        }
        loop {
            state.take_in();
            if let Some((id, event)) = state.next_event() {
                self.leave(&state);
                return Ok(Some((Id(id), event)));
            }
            if is_last {
                self.leave(&state);
                return Ok(None);
            }
            let is_late = until.is_some_and(|until| now() >= until);
            let interrupted;
            (state, interrupted) = self.wait(state, until)?;
            is_last = is_late || interrupted;
        }
    }

    /// A file that is readable when there may be events, or the daemon is gone: for a program's own poll loop, which then
    /// calls [`Client::next`] with a timeout of zero until there are no more.
    pub fn file(&self) -> Result<BorrowedFd<'_>, Error> {
        let state = self.lock()?;
        self.shared.is_polled.store(true, Ordering::Relaxed);
        self.leave(&state);
        Ok(self.shared.epoll.0.as_fd())
    }

    /// Ends the connection and all flows, for every clone: whoever waits is told ([`Error::Gone`]), as is whoever calls
    /// from now on. In a forked child does nothing: the connection is its parent's.
    pub fn hang_up(&self) {
        if self.is_ours().is_err() {
            return;
        }
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).gone = true;
        let _ = self.shared.socket.shutdown(Shutdown::Both);
        self.shared.ours.ring_anyway();
        self.shared.changed.notify_all();
    }

    /// Whether this process is the one that connected, and not a child of it.
    pub fn is_ours(&self) -> Result<(), Error> {
        if fork::is_still(self.shared.mark) { Ok(()) } else { Err(Error::Forked) }
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        // Before the lock: in a child another thread of its parent may hold it for ever.
        self.is_ours()?;
        let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.gone { Err(Error::Gone) } else { Ok(state) }
    }
}
