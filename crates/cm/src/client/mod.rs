//! The application's side of the API: the calls of the paper's Figure 4.
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
//!             // send a packet of up to `bytes` bytes from your own socket, then:
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
//! A [`Client`] can be cloned and used from any number of threads. No thread waits with the lock held: one thread polls
//! the files, the others wait for that thread. So a call first waits until there is room for its commands. Then,
//! under one lock, it checks its arguments, updates the state and writes the commands: a call that fails has changed
//! nothing.

mod flows;
mod own_socket;
mod receiving;
mod sending;
mod state;
#[cfg(test)]
mod tests;
mod wait;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use rampmeter_manager::Share;
use rampmeter_units::Duration;

pub use self::own_socket::{HEADER_BYTES, Header};
use self::state::State;
use crate::error::Error;
use crate::fork;
use crate::handshake::{ANSWER_TIMEOUT, ClientRequest, connect, receive_memory, send_request};
use crate::layout::WORDS;
use crate::memory::Memory;
use crate::message::PathState;
use crate::time::now;
use crate::wakeup::Wakeup;

/// A flow's id. Positive; not used again for a long time after the flow is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u32);

impl Id {
    /// The id in C.
    pub fn to_c(self) -> i32 {
        self.0 as i32
    }

    /// The id from C; `None` if it is not positive.
    pub fn from_c(id: i32) -> Option<Self> {
        u32::try_from(id).ok().filter(|id| *id > 0).map(Self)
    }
}

/// The options of a new flow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// The flow's share of its destination's rate.
    pub share: Share,
}

/// An event of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The flow may send one packet now (`cmapp_send`). The answer is [`Client::notify`].
    Send {
        /// The maximum size of the packet.
        bytes: u32,
    },
    /// The flow's rate or round-trip time has changed (`cmapp_update`).
    Update(PathState),
    /// There is room again for [`Client::send`], which had returned [`Error::Full`].
    Room,
    /// The daemon closed the flow. Its id is valid for [`Client::close`] only.
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
    /// Signaled when notices were read, or when the thread that polled the files has stopped polling.
    changed: Condvar,
    /// By which the daemon wakes this process.
    wakeup: Wakeup,
    /// By which other threads of this process wake the one that polls.
    own_event: EventFd,
    /// Readable when there are events or the daemon has ended: for the program's own poll loop.
    epoll: Epoll,
    /// The program polls `epoll`: it must become readable also while no thread waits here.
    is_polled: AtomicBool,
    /// The process that made the connection.
    tag: u64,
}

impl Shared {
    /// Ends the current or next sleep of the thread that polls.
    fn wake_own(&self) {
        // A full counter means that the file is readable already.
        let _ = self.own_event.write(1);
    }

    /// Removes what has ended a sleep.
    fn clear(&self) {
        let _ = self.own_event.read();
        // The end of the daemon is noticed when there are no more notices.
        let _: bool = self.wakeup.clear();
    }
}

/// The number of connections so far, so that each connection starts with other ids.
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

impl Client {
    /// Connects to this host's daemon ([`crate::default_socket`]).
    pub fn connect() -> Result<Self, Error> {
        Self::connect_to(&crate::default_socket())
    }

    /// Connects to the daemon that listens at `path`; fails if it does not answer within ten seconds.
    pub fn connect_to(path: &Path) -> Result<Self, Error> {
        let tag = fork::tag().map_err(|_| Error::System)?;
        let socket = connect(path, ANSWER_TIMEOUT)?;
        send_request(&socket, ClientRequest::Connect).map_err(|_| Error::Disconnected)?;
        let file = receive_memory(&socket)?;
        let memory = Arc::new(Memory::open(&file, WORDS).map_err(|_| Error::System)?);
        let wakeup = Wakeup::of_client(Arc::clone(&memory), socket);
        let own_event =
            EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map_err(|_| Error::System)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|_| Error::System)?;
        for file in [wakeup.as_fd(), own_event.as_fd()] {
            epoll.add(file, EpollEvent::new(EpollFlags::EPOLLIN, 0)).map_err(|_| Error::System)?;
        }
        let state = State::new(memory, CONNECTIONS.fetch_add(1, Ordering::Relaxed).wrapping_mul(64));
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            wakeup,
            own_event,
            epoll,
            is_polled: AtomicBool::new(false),
            tag,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The next event of any flow; `None` if there is none before `timeout` or a signal. Without a timeout the call
    /// waits without limit.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Option<(Id, Event)>, Error> {
        let mut state = self.lock()?;
        let until = timeout.map(|timeout| now() + timeout);
        let mut is_last = false;
        if self.shared.is_polled.load(Ordering::Relaxed) {
            self.shared.clear();
        }
        loop {
            state.read_notices();
            if let Some((id, event)) = state.next_event() {
                self.rearm_poll(&state);
                return Ok(Some((Id(id), event)));
            }
            if is_last {
                self.rearm_poll(&state);
                return Ok(None);
            }
            let is_late = until.is_some_and(|until| now() >= until);
            let interrupted;
            (state, interrupted) = self.wait(state, until)?;
            is_last = is_late || interrupted;
        }
    }

    /// A file that is readable when there may be events or the daemon has ended: for the program's own poll loop, which
    /// then calls [`Client::next`] with a timeout of zero until there are no more events.
    pub fn file(&self) -> Result<BorrowedFd<'_>, Error> {
        let state = self.lock()?;
        self.shared.is_polled.store(true, Ordering::Relaxed);
        self.rearm_poll(&state);
        Ok(self.shared.epoll.0.as_fd())
    }

    /// Ends the connection and all flows, for every clone: waiting and later calls return [`Error::Disconnected`]. Does
    /// nothing in a forked child, because the connection belongs to its parent.
    pub fn disconnect(&self) {
        if self.is_ours().is_err() {
            return;
        }
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).disconnected = true;
        let _ = self.shared.wakeup.end();
        self.shared.wake_own();
        self.shared.changed.notify_all();
    }

    /// Checks that this process made the connection and is not a child of the process that did.
    pub fn is_ours(&self) -> Result<(), Error> {
        if fork::is_current(self.shared.tag) { Ok(()) } else { Err(Error::Forked) }
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        // This check comes before the lock: in a child, another thread of the parent may hold the lock forever.
        self.is_ours()?;
        let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.disconnected { Err(Error::Disconnected) } else { Ok(state) }
    }
}
