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
//! listens to the bell, the others to that thread.

mod flows;
mod receiving;
mod state;
mod wait;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use rampmeter_manager::{Share, Thresholds};
use rampmeter_units::{Bytes, Duration};

use self::flows::{Flow, Flows, Stage};
use self::state::{Answer, State};
use crate::bell::Bell;
use crate::data::Writer;
use crate::error::Error;
use crate::fork;
use crate::layout::{CLIENT_SLEEPS, COMMANDS, DAEMON_SLEEPS, EVENTS, WORDS};
use crate::limits::{MOST_DATAGRAMS, MOST_QUEUED, MOST_REQUESTS};
use crate::meeting::{Wish, greet, receive};
use crate::memory::Memory;
use crate::message::{Command, Feedback, MOST_RTT, PathState, are_sound, is_sound};
use crate::ring::{Consumer, Producer};
use crate::spin::Spin;
use crate::time::now;

/// The longest that a waiting client spins before it sleeps.
const SPIN: Duration = Duration::from_micros(50);

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

/// Connects to the socket at `path`.
pub(crate) fn connect(path: &Path) -> Result<UnixStream, Error> {
    UnixStream::connect(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Error::Denied,
        _ => Error::NoDaemon,
    })
}

/// Ids of one connection are not those of the one before.
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

impl Client {
    /// Connects to this host's daemon ([`crate::default_socket`]).
    pub fn connect() -> Result<Self, Error> {
        Self::connect_to(&crate::default_socket())
    }

    /// Connects to the daemon that listens at `path`.
    pub fn connect_to(path: &Path) -> Result<Self, Error> {
        let mark = fork::mark().map_err(|_| Error::System)?;
        let socket = connect(path)?;
        greet(&socket, Wish::Client).map_err(|_| Error::Gone)?;
        let files = receive(&socket)?;
        let memory = Arc::new(Memory::open(&files.memory, WORDS).map_err(|_| Error::System)?);
        let ours = Bell::new(Arc::clone(&memory), CLIENT_SLEEPS, files.client_bell);
        let theirs = Bell::new(Arc::clone(&memory), DAEMON_SLEEPS, files.daemon_bell);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|_| Error::System)?;
        for file in [socket.as_fd(), ours.as_fd()] {
            epoll.add(file, EpollEvent::new(EpollFlags::EPOLLIN, 0)).map_err(|_| Error::System)?;
        }
        let state = State {
            commands: Producer::new(Arc::clone(&memory), COMMANDS),
            notices: Consumer::new(Arc::clone(&memory), EVENTS),
            data: Writer::new(memory),
            flows: Flows::new(CONNECTIONS.fetch_add(1, Ordering::Relaxed).wrapping_mul(64)),
            events: std::collections::VecDeque::new(),
            questions: std::collections::HashMap::new(),
            next_token: 0,
            gone: false,
            has_listener: false,
            spin: Spin::new(SPIN),
        };
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

    /// Opens a flow to `to` (`cm_open`). The port matters to [`Client::send`] only.
    pub fn open(&self, to: SocketAddr, options: &Options) -> Result<Id, Error> {
        if !is_sound(&options.share) {
            return Err(Error::Invalid);
        }
        let mut state = self.lock()?;
        let flow = Flow {
            stage: Stage::Opening,
            mtu: 0,
            state: PathState::default(),
            share: options.share,
            has_port: to.port() > 0,
            wanted: 0,
            queued: 0,
            datagrams: 0,
            wants_room: false,
        };
        let id = state.flows.add(flow)?;
        let until = now() + wait::SILENCE;
        let mut state = self.say(state, id, Command::Open { to, share: options.share })?;
        loop {
            match state.flows.get(id)?.stage {
                Stage::Open if options.share.curve.is_some() => {
                    return self.say(state, id, Command::Share(options.share)).map(|_| Id(id));
                }
                Stage::Open => return Ok(Id(id)),
                Stage::Over(error) => {
                    state.flows.remove(id)?;
                    return Err(error);
                }
                Stage::Opening => state = self.wait_for_answer(state, until)?,
            }
        }
    }

    /// The most that a packet of the flow may carry (`cm_mtu`): the path's MTU without headers of IP and UDP.
    pub fn mtu(&self, flow: Id) -> Result<u32, Error> {
        Ok(self.lock()?.flows.open(flow.0)?.mtu)
    }

    /// The flow has a packet to send (`cm_request`); [`Event::Send`] says when it may. One event comes for each request.
    pub fn request(&self, flow: Id) -> Result<(), Error> {
        let mut state = self.lock()?;
        let f = state.flows.open(flow.0)?;
        if f.wanted >= MOST_REQUESTS {
            return Err(Error::Full);
        }
        f.wanted += 1;
        self.say(state, flow.0, Command::Request).map(drop)
    }

    /// The flow has sent a packet of `sent` bytes, or none if that is zero (`cm_notify`). Answers the oldest grant that
    /// has no answer; without one it says what a flow has sent by its own clock.
    pub fn notify(&self, flow: Id, sent: u64) -> Result<(), Error> {
        if sent > u32::MAX.into() {
            return Err(Error::Invalid);
        }
        let mut state = self.lock()?;
        state.flows.open(flow.0)?;
        self.say(state, flow.0, Command::Notify { sent: Bytes::new(sent) }).map(drop)
    }

    /// How packets of the flow fared (`cm_update`).
    pub fn update(&self, flow: Id, feedback: &Feedback) -> Result<(), Error> {
        let most = Bytes::new(1 << 40);
        let is_sound = feedback.received <= most
            && feedback.lost <= most
            && feedback.rtt.is_none_or(|rtt| rtt > Duration::ZERO && rtt <= MOST_RTT);
        if !is_sound {
            return Err(Error::Invalid);
        }
        let mut state = self.lock()?;
        state.flows.open(flow.0)?;
        self.say(state, flow.0, Command::Update(*feedback)).map(drop)
    }

    /// The flow's share of its path's rate, and the round-trip time (`cm_query`).
    pub fn query(&self, flow: Id) -> Result<PathState, Error> {
        let mut state = self.lock()?;
        state.flows.open(flow.0)?;
        let answer = self.ask(state, flow.0, |token| Command::Query { token });
        match answer? {
            Answer::State(state) => Ok(state),
            Answer::Done(_) => Err(Error::Gone), // a daemon that answers something else is none
        }
    }

    /// Leaves a datagram with the congestion manager, which sends it when its turn comes (`cm_send`).
    pub fn send(&self, flow: Id, data: &[u8]) -> Result<(), Error> {
        let mut state = self.lock()?;
        let f = state.flows.open(flow.0)?;
        let length = data.len() as u64;
        if !f.has_port {
            return Err(Error::Destination);
        } else if length > f.mtu.into() {
            return Err(Error::TooLarge);
        } else if f.queued + length > MOST_QUEUED || f.datagrams >= MOST_DATAGRAMS {
            f.wants_room = true;
            return Err(Error::Full);
        }
        let until = now() + wait::PATIENCE;
        while !state.data.write(data).map_err(|_| Error::Gone)? {
            state = self.wait_for_room(state, until)?;
        }
        let f = state.flows.open(flow.0)?;
        f.queued += length;
        f.datagrams += 1;
        let said = self.say(state, flow.0, Command::Send { length: length as u32 });
        said.map(drop).inspect_err(|_| {
            // Data without its command: nobody could tell what belongs to what any more.
            if let Ok(mut state) = self.lock() {
                state.gone = true;
            }
        })
    }

    /// The share that the flow was given.
    pub fn share_of(&self, flow: Id) -> Result<Share, Error> {
        Ok(self.lock()?.flows.open(flow.0)?.share)
    }

    /// The flow is to have this share of its path. Guarantees need a daemon whose scheduler keeps them.
    pub fn share(&self, flow: Id, share: Share) -> Result<(), Error> {
        if !is_sound(&share) {
            return Err(Error::Invalid);
        }
        let mut state = self.lock()?;
        state.flows.open(flow.0)?.share = share;
        self.say(state, flow.0, Command::Share(share)).map(drop)
    }

    /// The flow wants [`Event::Update`] for changes beyond these (RFC 3124, `cm_thresh`).
    pub fn thresholds(&self, flow: Id, thresholds: &Thresholds) -> Result<(), Error> {
        if !are_sound(thresholds) {
            return Err(Error::Invalid);
        }
        let mut state = self.lock()?;
        state.flows.open(flow.0)?;
        self.say(state, flow.0, Command::Watch(*thresholds)).map(drop)
    }

    /// The flow ends (`cm_close`). No event of it comes any more.
    pub fn close(&self, flow: Id) -> Result<(), Error> {
        let mut state = self.lock()?;
        let closed = state.flows.remove(flow.0)?;
        state.events.retain(|(id, _)| *id != flow.0);
        if closed.stage == Stage::Open {
            return self.say(state, flow.0, Command::Close).map(drop);
        }
        Ok(())
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
            if let Some((id, event)) = state.events.pop_front() {
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
