//! The connection of the process, the callbacks of each flow, and the callback that runs at the moment.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_double, c_int, c_void};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::ThreadId;
use std::time::Instant;

use cm::{Client, Error, Event, Id, Options};
use rampmeter_units::Duration;

/// The callbacks of `cm_open`, in C's layout.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Callbacks {
    send: Option<extern "C" fn(c_int, c_int, *mut c_void)>,
    update: Option<extern "C" fn(c_int, c_double, c_double, *mut c_void)>,
    room: Option<extern "C" fn(c_int, *mut c_void)>,
    closed: Option<extern "C" fn(c_int, c_int, *mut c_void)>,
}

/// The argument `user` of the callbacks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User(pub(crate) *mut c_void);

// SAFETY: the pointer is only passed on; `cm.h` says that callbacks run in the thread that dispatches.
unsafe impl Send for User {}

#[derive(Debug, Default)]
struct State {
    flows: HashMap<Id, (Callbacks, User)>,
    /// The thread that dispatches, and the flow whose callback runs in it.
    dispatcher: Option<(ThreadId, Option<Id>)>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    state: Mutex<State>,
    /// Signaled when a callback has returned or a thread has ended its dispatching.
    changed: Condvar,
}

/// No thread waits for anything while it holds this lock, so in a forked child it is almost always free.
static CONNECTION: RwLock<Option<Arc<Connection>>> = RwLock::new(None);

/// The current connection, for calls that name a flow: without a connection no flow is known.
pub(crate) fn existing() -> Result<Arc<Connection>, Error> {
    CONNECTION.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::Unknown)
}

/// The same for calls that name no flow.
pub(crate) fn connected() -> Result<Arc<Connection>, Error> {
    existing().map_err(|_| Error::Disconnected)
}

/// Replaces the current connection with `connection` and returns it.
fn replace(connection: Option<Arc<Connection>>) -> Option<Arc<Connection>> {
    std::mem::replace(&mut CONNECTION.write().unwrap_or_else(PoisonError::into_inner), connection)
}

/// The current connection; a new one if there is none.
pub(crate) fn get() -> Result<Arc<Connection>, Error> {
    existing().or_else(|_| {
        let connection = Connection::to(&cm::default_socket())?;
        // If another thread has connected meanwhile, its connection is used.
        let mut current = CONNECTION.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(current.get_or_insert(connection)))
    })
}

/// Replaces the current connection, which ends.
pub(crate) fn connect(path: &Path) -> Result<(), Error> {
    let connection = Connection::to(path)?;
    if let Some(old) = replace(Some(connection)) {
        old.end();
    }
    Ok(())
}

/// Ends the connection.
pub(crate) fn disconnect() -> Result<(), Error> {
    if connected()?.is_dispatching() {
        return Err(Error::Reentry);
    }
    if let Some(old) = replace(None) {
        old.end();
    }
    Ok(())
}

impl Connection {
    fn to(path: &Path) -> Result<Arc<Self>, Error> {
        let client = Client::connect_to(path)?;
        Ok(Arc::new(Self { client, state: Mutex::default(), changed: Condvar::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this thread runs a callback. A child of the process that connected runs none.
    fn is_dispatching(&self) -> bool {
        self.client.is_ours().is_ok()
            && self.state().dispatcher.is_some_and(|(thread, _)| thread == std::thread::current().id())
    }

    pub(crate) fn open(&self, to: SocketAddr, callbacks: Callbacks, user: User) -> Result<Id, Error> {
        let mut opening = None;
        // The flow is inserted before another thread can read an event of it.
        let opened = self.client.open_with(to, &Options::default(), |id| {
            opening = Some(id);
            self.state().flows.insert(id, (callbacks, user));
        });
        if let (Err(_), Some(id)) = (opened, opening) {
            self.state().flows.remove(&id);
        }
        opened
    }

    pub(crate) fn close(&self, id: Id) -> Result<(), Error> {
        let closed = self.client.close(id);
        // The flow is still open, or belongs to the parent process.
        if !matches!(closed, Err(Error::Full | Error::Forked)) {
            let mut state = self.state();
            state.flows.remove(&id);
            self.wait_while(state, |flow| flow == id);
        }
        closed
    }

    /// Ends all flows. No callback is called after this, and a thread that dispatches gets an error. In a child of the
    /// process that connected there is nothing to end.
    fn end(&self) {
        if self.client.is_ours().is_err() {
            return;
        }
        self.client.disconnect();
        let mut state = self.state();
        state.flows.clear();
        self.wait_while(state, |_| true);
    }

    /// Waits while another thread runs a callback of a flow that `matches`.
    fn wait_while(&self, mut state: MutexGuard<'_, State>, matches: impl Fn(Id) -> bool) {
        let me = std::thread::current().id();
        while state.dispatcher.is_some_and(|(thread, flow)| thread != me && flow.is_some_and(&matches)) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the first event, then calls callbacks until there are no more.
    pub(crate) fn dispatch(&self, timeout: Option<Duration>) -> Result<c_int, Error> {
        let until = timeout.map(|timeout| Instant::now() + std::time::Duration::from_nanos(timeout.as_nanos()));
        let left = || until.map(|until| until.saturating_duration_since(Instant::now()));
        // A child of the process must not wait for a thread of its parent.
        self.client.is_ours()?;
        if !self.enter(left)? {
            return Ok(0);
        }
        let _guard = DispatchGuard(self);
        let mut called = 0;
        loop {
            let wait = if called > 0 {
                Some(Duration::ZERO)
            } else {
                left().map(|span| Duration::from_nanos(span.as_nanos() as u64))
            };
            match self.client.next(wait) {
                Ok(Some((id, event))) => called += c_int::from(self.call(id, event)),
                Ok(None) => return Ok(called),
                // After callbacks the call succeeds; the next call returns the error.
                Err(_) if called > 0 => return Ok(called),
                Err(error) => return Err(error),
            }
            if called == MAX_CALLS {
                return Ok(called);
            }
        }
    }

    /// Makes this thread the one that dispatches; false if another thread dispatches until the time is over.
    fn enter(&self, left: impl Fn() -> Option<std::time::Duration>) -> Result<bool, Error> {
        let me = std::thread::current().id();
        let mut state = self.state();
        while let Some((thread, _)) = state.dispatcher {
            if thread == me {
                return Err(Error::Reentry);
            }
            let span = left().unwrap_or(std::time::Duration::from_secs(1));
            if span.is_zero() {
                return Ok(false);
            }
            (state, _) = self.changed.wait_timeout(state, span).unwrap_or_else(PoisonError::into_inner);
        }
        state.dispatcher = Some((me, None));
        Ok(true)
    }

    /// Calls the callback of an event without any lock. False if there is none.
    fn call(&self, id: Id, event: Event) -> bool {
        let mut state = self.state();
        let Some((callbacks, User(user))) = state.flows.get(&id).copied() else { return false };
        if let Some((_, flow)) = &mut state.dispatcher {
            *flow = Some(id);
        }
        drop(state);
        let flow = id.to_c();
        let called = match event {
            Event::Send { bytes } => callbacks.send.map(|send| send(flow, bytes as c_int, user)),
            Event::Update(path) => {
                callbacks.update.map(|update| update(flow, path.rate.as_bps_f64(), path.srtt.as_secs_f64(), user))
            }
            Event::Room => callbacks.room.map(|room| room(flow, user)),
            Event::Closed(error) => callbacks.closed.map(|closed| closed(flow, error.code(), user)),
        };
        if called.is_none() && matches!(event, Event::Send { .. }) {
            // No callback will use this grant.
            let _ = self.client.notify(id, 0);
        }
        if let Some((_, flow)) = &mut self.state().dispatcher {
            *flow = None;
        }
        self.changed.notify_all();
        called.is_some()
    }
}

/// The maximum number of callbacks of one `cm_dispatch`, so that the program can do other work.
const MAX_CALLS: c_int = 256;

/// Ends the dispatching when dropped.
struct DispatchGuard<'a>(&'a Connection);

impl Drop for DispatchGuard<'_> {
    fn drop(&mut self) {
        self.0.state().dispatcher = None;
        self.0.changed.notify_all();
    }
}

static DESCRIPTIONS: LazyLock<HashMap<c_int, CString>> = LazyLock::new(|| {
    let words = |error: Error| Some((error.code(), CString::new(error.to_string()).ok()?));
    Error::ALL.into_iter().filter_map(words).collect()
});

pub(crate) fn describe(error: c_int) -> &'static CStr {
    if error >= 0 {
        return c"no error";
    }
    DESCRIPTIONS.get(&error).map_or(c"unknown error number", CString::as_c_str)
}
