//! The process's connection, who is to be called for which flow, and who is being called at the moment.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_double, c_int, c_void};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::ThreadId;
use std::time::Instant;

use cm::{Client, Error, Event, Id, Options};
use rampmeter_units::Duration;

/// What C gives `cm_open`, in its layout.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Callbacks {
    send: Option<extern "C" fn(c_int, c_int, *mut c_void)>,
    update: Option<extern "C" fn(c_int, c_double, c_double, *mut c_void)>,
    room: Option<extern "C" fn(c_int, *mut c_void)>,
    closed: Option<extern "C" fn(c_int, c_int, *mut c_void)>,
}

/// What callbacks are given back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User(pub(crate) *mut c_void);

// SAFETY: only handed through; `cm.h` says that callbacks run in whatever thread dispatches.
unsafe impl Send for User {}

#[derive(Debug, Default)]
struct Desk {
    flows: HashMap<Id, (Callbacks, User)>,
    /// The thread that dispatches, and the flow whose callback it is in.
    dispatcher: Option<(ThreadId, Option<Id>)>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    desk: Mutex<Desk>,
    /// A callback returned, or a dispatcher left.
    changed: Condvar,
}

/// Nobody holds this lock while waiting for anything, so a forked child finds it free but for bad luck.
static CONNECTION: RwLock<Option<Arc<Connection>>> = RwLock::new(None);

/// The connection there is, for calls that name a flow: without a connection no flow is known.
pub(crate) fn existing() -> Result<Arc<Connection>, Error> {
    CONNECTION.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::Unknown)
}

/// The same for calls that name no flow.
pub(crate) fn connected() -> Result<Arc<Connection>, Error> {
    existing().map_err(|_| Error::Gone)
}

/// What there is gives way to `connection`.
fn put(connection: Option<Arc<Connection>>) -> Option<Arc<Connection>> {
    std::mem::replace(&mut CONNECTION.write().unwrap_or_else(PoisonError::into_inner), connection)
}

/// The connection; made if there is none.
pub(crate) fn get() -> Result<Arc<Connection>, Error> {
    existing().or_else(|_| {
        let connection = Connection::to(&cm::default_socket())?;
        // Another thread may have done the same meanwhile: the first one's stays.
        let mut place = CONNECTION.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(place.get_or_insert(connection)))
    })
}

/// A new connection takes the place of whichever there was, which ends.
pub(crate) fn connect(path: &Path) -> Result<(), Error> {
    let connection = Connection::to(path)?;
    if let Some(old) = put(Some(connection)) {
        old.end();
    }
    Ok(())
}

/// Ends the connection.
pub(crate) fn disconnect() -> Result<(), Error> {
    if connected()?.is_dispatching() {
        return Err(Error::Reentry);
    }
    if let Some(old) = put(None) {
        old.end();
    }
    Ok(())
}

impl Connection {
    fn to(path: &Path) -> Result<Arc<Self>, Error> {
        let client = Client::connect_to(path)?;
        Ok(Arc::new(Self { client, desk: Mutex::default(), changed: Condvar::new() }))
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this thread is in a callback. A child of the process that connected is in none.
    fn is_dispatching(&self) -> bool {
        self.client.is_ours().is_ok()
            && self.desk().dispatcher.is_some_and(|(thread, _)| thread == std::thread::current().id())
    }

    pub(crate) fn open(&self, to: SocketAddr, callbacks: Callbacks, user: User) -> Result<Id, Error> {
        let mut name = None;
        // It is known here before another thread can be told anything of it.
        let opened = self.client.open_named(to, &Options::default(), |id| {
            name = Some(id);
            self.desk().flows.insert(id, (callbacks, user));
        });
        if let (Err(_), Some(name)) = (opened, name) {
            self.desk().flows.remove(&name);
        }
        opened
    }

    pub(crate) fn close(&self, id: Id) -> Result<(), Error> {
        let closed = self.client.close(id);
        // It is open still, or the child of a process that has it cannot end it.
        if !matches!(closed, Err(Error::Full | Error::Forked)) {
            let mut desk = self.desk();
            desk.flows.remove(&id);
            self.wait_while(desk, |flow| flow == id);
        }
        closed
    }

    /// All flows end, and nobody is called any more; whoever dispatches is told so. In a child of the process that
    /// connected there is nothing to end.
    fn end(&self) {
        if self.client.is_ours().is_err() {
            return;
        }
        self.client.hang_up();
        let mut desk = self.desk();
        desk.flows.clear();
        self.wait_while(desk, |_| true);
    }

    /// Waits as long as another thread is in a callback of such a flow.
    fn wait_while(&self, mut desk: MutexGuard<'_, Desk>, is_meant: impl Fn(Id) -> bool) {
        let me = std::thread::current().id();
        while desk.dispatcher.is_some_and(|(thread, flow)| thread != me && flow.is_some_and(&is_meant)) {
            desk = self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the first event, then calls callbacks until there are no more.
    pub(crate) fn dispatch(&self, timeout: Option<Duration>) -> Result<c_int, Error> {
        let until = timeout.map(|timeout| Instant::now() + std::time::Duration::from_nanos(timeout.as_nanos()));
        let left = || until.map(|until| until.saturating_duration_since(Instant::now()));
        // A child of the process must not wait for a thread that it does not have.
        self.client.is_ours()?;
        if !self.enter(left)? {
            return Ok(0);
        }
        let _leave = Leave(self);
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
                // What was called was called; the error comes again at the next call.
                Err(_) if called > 0 => return Ok(called),
                Err(error) => return Err(error),
            }
            if called == MAX_CALLS {
                return Ok(called);
            }
        }
    }

    /// Makes this thread the one that dispatches; false if another one is, for longer than there is time.
    fn enter(&self, left: impl Fn() -> Option<std::time::Duration>) -> Result<bool, Error> {
        let me = std::thread::current().id();
        let mut desk = self.desk();
        while let Some((thread, _)) = desk.dispatcher {
            if thread == me {
                return Err(Error::Reentry);
            }
            let span = left().unwrap_or(std::time::Duration::from_secs(1));
            if span.is_zero() {
                return Ok(false);
            }
            (desk, _) = self.changed.wait_timeout(desk, span).unwrap_or_else(PoisonError::into_inner);
        }
        desk.dispatcher = Some((me, None));
        Ok(true)
    }

    /// Calls whoever is to be told, without any lock. False if nobody is.
    fn call(&self, id: Id, event: Event) -> bool {
        let mut desk = self.desk();
        let Some((callbacks, User(user))) = desk.flows.get(&id).copied() else { return false };
        if let Some((_, flow)) = &mut desk.dispatcher {
            *flow = Some(id);
        }
        drop(desk);
        let flow = id.to_c();
        let told = match event {
            Event::Send { bytes } => callbacks.send.map(|send| send(flow, bytes as c_int, user)),
            Event::Update(path) => {
                callbacks.update.map(|update| update(flow, path.rate.as_bps_f64(), path.srtt.as_secs_f64(), user))
            }
            Event::Room => callbacks.room.map(|room| room(flow, user)),
            Event::Closed(error) => callbacks.closed.map(|closed| closed(flow, error.code(), user)),
        };
        if told.is_none() && matches!(event, Event::Send { .. }) {
            // Nobody will use this grant.
            let _ = self.client.notify(id, 0);
        }
        if let Some((_, flow)) = &mut self.desk().dispatcher {
            *flow = None;
        }
        self.changed.notify_all();
        told.is_some()
    }
}

/// Callbacks that one call of `cm_dispatch` makes at most: a program with other things to do gets to do them.
const MAX_CALLS: c_int = 256;

/// Ends the dispatching, however that comes about.
struct Leave<'a>(&'a Connection);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.desk().dispatcher = None;
        self.0.changed.notify_all();
    }
}

static WORDS: LazyLock<HashMap<c_int, CString>> = LazyLock::new(|| {
    let words = |error: Error| Some((error.code(), CString::new(error.to_string()).ok()?));
    Error::ALL.into_iter().filter_map(words).collect()
});

/// What an error means.
pub(crate) fn describe(error: c_int) -> &'static CStr {
    if error >= 0 {
        return c"no error";
    }
    WORDS.get(&error).map_or(c"an error that the Congestion Manager does not know", CString::as_c_str)
}
