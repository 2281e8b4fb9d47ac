//! The daemon: one process owns congestion control for all flows of a host.
//!
//! ```text
//! loop { commands of all clients ──► host ──► notices into rings, wakeups;  nothing came? spin, then sleep }
//!        messages of other daemons ──►    ──► messages to them, datagrams
//! ```
//!
//! While clients are busy, the daemon does not sleep, and a grant needs no system call. When idle, the daemon sleeps
//! until a client wakes it, a client connects or ends, or the manager's next deadline comes.

mod arrival;
mod carrier;
mod clients;
mod flow;
mod host;
mod listeners;
mod log;
mod options;
mod output;
mod protocol;
mod session;
mod status;
mod turns;
mod unread;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rampmeter_manager::{Owner, Quotas};
use rampmeter_units::{Duration, Time};
use rand::TryRngCore;
use rand::rngs::OsRng;

use self::carrier::Carrier;
use self::host::{Action, Host};
use self::log::Log;
pub use self::options::{DaemonError, Limits, Options};
use self::output::Output;
pub use self::protocol::{Carriage, DEFAULT_PORT, Protocol};
use self::session::{MAX_PER_TURN, Session};
pub use self::status::{MacroflowStatus, PeerStatus, Status, UserStatus, status};
use self::turns::Turns;
use crate::error::Error;
use crate::handshake::{ClientRequest, Peer, read_request, send_answer};
use crate::limits::MAX_CLIENTS;
use crate::socket_path;
use crate::spin::{Spin, pause};
use crate::time::{now, sleep};

/// The maximum spin time.
const SPIN: Duration = Duration::from_micros(50);
/// The maximum delay of the kernel's wakeups: this last part of a wait is spun.
const MAX_WAKEUP_DELAY: Duration = Duration::from_micros(15);
/// The interval between checks of the sockets while the daemon is busy.
const FILE_CHECK_INTERVAL: Duration = Duration::from_micros(500);
/// The maximum sleep, after which the daemon checks whether it has to stop.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// The Congestion Manager of a host.
#[derive(Debug)]
pub struct Daemon {
    controller: String,
    public: bool,
    path: PathBuf,
    /// The identity of this daemon's socket at `path`.
    identity: Option<(u64, u64)>,
    listener: UnixListener,
    epoll: Epoll,
    /// Clients that have connected but not sent a request yet, by number.
    pending_clients: BTreeMap<u32, PendingClient>,
    sessions: Vec<Session>,
    next_number: u32,
    host: Host,
    output: Output,
    /// The readers of the status: whose they are, and a reference that each one holds until it ends.
    readers: Vec<(Owner, Weak<()>)>,
    turns: Turns,
    carrier: Carrier,
    spin: Spin,
    log: Log,
    stop: Arc<AtomicBool>,
}

const LISTENER: u64 = u64::MAX;

/// The event number of the first carrier socket; no client's files have such numbers.
const CARRIER: u64 = u64::MAX - 16;

/// The time in which a connected client has to send its request.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of simultaneous readers of the status.
const MAX_READERS: u64 = 16;

/// The maximum number of clients accepted at a time, so that a flood of them does not stop the others.
const MAX_ACCEPTED: usize = 64;

#[derive(Debug)]
struct PendingClient {
    peer: Peer,
    socket: UnixStream,
    since: Time,
}

impl Daemon {
    /// Starts to listen; [`Daemon::run`] serves the clients.
    pub fn bind(options: Options) -> Result<Self, DaemonError> {
        let factory = options.registry.factory(&options.controller, &options.settings)?;
        let Protocol { carriage, address, .. } = options.protocol;
        let path = options.socket;
        let listener = socket_path::listen(&path, options.public).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => DaemonError::Running(path.clone()),
            _ => DaemonError::Listen(path.clone(), error),
        })?;
        let carrier = Carrier::new(carriage, address).map_err(|error| {
            let _ = std::fs::remove_file(&path);
            DaemonError::CarrierFailed { carriage, address, error }
        })?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(io::Error::from)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER)).map_err(io::Error::from)?;
        for (file, number) in carrier.files().zip(CARRIER..) {
            epoll.add(file, EpollEvent::new(EpollFlags::EPOLLIN, number)).map_err(io::Error::from)?;
        }
        let random = Box::new(OsRng.unwrap_err());
        Ok(Self {
            controller: options.controller,
            public: options.public,
            identity: socket_path::identity(&path),
            path,
            listener,
            epoll,
            pending_clients: BTreeMap::new(),
            sessions: Vec::new(),
            next_number: 0,
            host: Host::new(factory, options.sharing, options.limits, &options.protocol, random),
            output: Output::new(address),
            readers: Vec::new(),
            turns: Turns::default(),
            carrier,
            spin: Spin::new(SPIN),
            log: Log::default(),
            stop: options.stop,
        })
    }

    /// The path of the daemon's socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves clients until `stop` is set. Makes the timers of the calling thread precise.
    pub fn run(&mut self) -> Result<(), DaemonError> {
        raise_file_limit();
        // Without this, waits end up to 50 us later.
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut checked_at = now();
        while !self.stop.load(Ordering::Relaxed) {
            let time = now();
            if self.turn(time) {
                if time.since(checked_at) > FILE_CHECK_INTERVAL {
                    checked_at = time;
                    self.check_files()?;
                }
                continue;
            }
            self.wait()?;
            checked_at = now();
        }
        Ok(())
    }

    /// Does everything that can be done now; true if there was something.
    fn turn(&mut self, now: Time) -> bool {
        let (mut busy, mut failed) = (false, Vec::new());
        for index in self.turns.order(self.sessions.len()) {
            let session = &mut self.sessions[index];
            let max = self.turns.left(session.owner()).min(MAX_PER_TURN);
            let taken = session.take_commands(&mut self.host, now, max);
            match taken.and_then(|taken| session.flush_unread().map(|()| taken)) {
                Ok(taken) => {
                    busy |= taken > 0;
                    self.turns.took(session.owner(), taken);
                }
                Err(_) => failed.push(session.number),
            }
        }
        self.host.advance(now);
        while let Some(action) = self.host.poll_action() {
            busy = true;
            match action {
                Action::Transmit { to, data } | Action::Deliver { to, data } => self.output.send(to, &data),
                Action::SendMessage { to, message, ecn } => {
                    if !self.carrier.send(to, &message, ecn) {
                        self.host.agent.on_unreachable(now, to);
                    }
                }
                Action::Notify { client, id, notice } => {
                    let session = self.sessions.binary_search_by_key(&client, |session| session.number);
                    let Ok(index) = session else { continue };
                    if self.sessions[index].send_notice(id, notice).is_err() {
                        failed.push(client);
                    }
                }
            }
        }
        for session in &mut self.sessions {
            session.wake();
        }
        for number in failed {
            self.disconnect(now, number);
        }
        busy
    }

    /// Waits for the next event: spins for a while, then sleeps.
    fn wait(&mut self) -> Result<(), DaemonError> {
        let start = now();
        let deadline = self.host.deadline();
        loop {
            if self.sessions.iter().any(|session| session.commands.has_more()) {
                self.spin.on_wait(now().since(start));
                return Ok(());
            }
            let time = now();
            if time >= deadline {
                return Ok(());
            }
            if time.since(start) >= self.spin.current && deadline.since(time) > MAX_WAKEUP_DELAY {
                break;
            }
            pause(time.since(start));
        }
        for session in &self.sessions {
            session.wakeup.prepare_sleep();
        }
        let has_unread = self.sessions.iter().any(|session| !session.unread.is_empty());
        let max_sleep = if has_unread { Duration::from_millis(1) } else { MAX_SLEEP };
        let mut timed = false;
        if !self.sessions.iter().any(|session| session.commands.has_more()) {
            let left = deadline.since(now()).saturating_sub(MAX_WAKEUP_DELAY);
            timed = left < max_sleep;
            sleep(&[self.epoll.0.as_fd()], left.min(max_sleep)).map_err(io::Error::from)?;
        }
        for session in &self.sessions {
            session.wakeup.end_sleep();
        }
        let waited = now().since(start);
        if !(timed && now() + MAX_WAKEUP_DELAY >= deadline) {
            self.spin.on_wait(waited);
        }
        self.check_files()
    }

    fn check_files(&mut self) -> Result<(), DaemonError> {
        let mut ready = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut ready, EpollTimeout::ZERO) {
            Err(Errno::EINTR) => 0,
            other => other.map_err(io::Error::from)?,
        };
        for event in &ready[..count] {
            match event.data() {
                LISTENER => self.accept_clients(),
                number if number >= CARRIER => self.on_carrier_event((number - CARRIER) as usize, event.events()),
                data => self.on_readable(data as u32, data >> 32),
            }
        }
        let time = now();
        self.pending_clients.retain(|_, client| time.since(client.since) < HELLO_TIMEOUT);
        Ok(())
    }

    /// A carrier socket is readable or has errors in its error queue.
    fn on_carrier_event(&mut self, socket: usize, events: EpollFlags) {
        let (host, time) = (&mut self.host, now());
        if events.contains(EpollFlags::EPOLLERR) {
            self.carrier.read_errors(socket, |peer| host.agent.on_unreachable(time, peer));
        }
        self.carrier.receive(socket, |arrival| {
            host.receive(now(), arrival.from, arrival.to, arrival.ecn, arrival.bytes);
        });
    }

    /// Accepts waiting connections.
    fn accept_clients(&mut self) {
        for _ in 0..MAX_ACCEPTED {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Usually there are no file descriptors left, and an immediate retry would fail too.
                Err(_) => return std::thread::sleep(std::time::Duration::from_millis(1)),
            };
            let Ok(peer) = Peer::of(&socket) else { continue };
            let refusal = if !(self.public || peer.is_trusted()) {
                Some(Error::Denied)
            } else if !self.has_place(peer.owner()) {
                Some(Error::Full)
            } else {
                None
            };
            if let Some(error) = refusal {
                self.log.refused(now(), peer, error);
                let _ = send_answer(&socket, Err(error));
                continue;
            }
            let number = self.next_number;
            self.next_number = (number + 1) % (u32::MAX - 1);
            let watched = self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, number.into())).is_ok();
            if watched && socket.set_nonblocking(true).is_ok() {
                self.pending_clients.insert(number, PendingClient { peer, socket, since: now() });
            }
        }
    }

    /// Whether another client of this owner may connect.
    fn has_place(&self, owner: Owner) -> bool {
        let connected = self.sessions.iter().map(Session::owner);
        let all = connected.chain(self.pending_clients.values().map(|client| client.peer.owner()));
        Quotas::with_users(MAX_CLIENTS as u64, all).permits(owner, 1)
    }

    /// A file of this client is readable: `file` is 0 for its socket, 1 for its process.
    fn on_readable(&mut self, number: u32, file: u64) {
        if let Some(PendingClient { peer, socket, .. }) = self.pending_clients.remove(&number) {
            // If this fails, the socket is closed, which tells the client.
            let _ = self.epoll.delete(&socket);
            let _ = self.admit(number, peer, socket);
        } else if let Ok(index) = self.sessions.binary_search_by_key(&number, |session| session.number) {
            let is_woken = file == 0 && self.sessions[index].wakeup.clear();
            if !is_woken {
                self.disconnect(now(), number);
            }
        }
    }

    fn admit(&mut self, number: u32, peer: Peer, mut socket: UnixStream) -> io::Result<()> {
        match read_request(&mut socket) {
            Err(error) => send_answer(&socket, Err(error)),
            Ok(ClientRequest::Status) => {
                self.readers.retain(|(_, reader)| reader.strong_count() > 0);
                let others = self.readers.iter().map(|(owner, _)| *owner);
                if !Quotas::with_users(MAX_READERS, others).permits(peer.owner(), 1) {
                    return send_answer(&socket, Err(Error::Full));
                }
                send_answer(&socket, Ok(None))?;
                let outside = status::Outside {
                    controller: &self.controller,
                    clients: self.sessions.iter().map(|session| (session.number, session.peer)).collect(),
                    refused: self.output.refused,
                    refused_clients: self.log.refused_clients,
                };
                let status = status::describe(&self.host, now(), &outside);
                let reader = Arc::new(());
                self.readers.push((peer.owner(), Arc::downgrade(&reader)));
                status::send(&status, socket, status::READ_TIMEOUT, reader);
                Ok(())
            }
            Ok(ClientRequest::Connect) => {
                let reply = socket.try_clone()?;
                let (session, memory) = Session::new(number, peer, socket)?;
                for (file, kind) in session.files().zip(0_u64..) {
                    self.epoll.add(file, EpollEvent::new(EpollFlags::EPOLLIN, kind << 32 | u64::from(number)))?;
                }
                send_answer(&reply, Ok(Some(&memory)))?;
                self.host.add_client(number, peer.owner());
                log::connected(peer, number);
                let index = self.sessions.partition_point(|other| other.number < number);
                self.sessions.insert(index, session);
                Ok(())
            }
        }
    }

    /// Removes a client that has ended or misbehaved; other clients are not affected.
    fn disconnect(&mut self, now: Time, number: u32) {
        if let Ok(index) = self.sessions.binary_search_by_key(&number, |session| session.number) {
            let session = self.sessions.remove(index);
            for file in session.files() {
                let _ = self.epoll.delete(file);
            }
            self.host.remove_client(now, number);
            log::disconnected(session.peer, number);
        }
    }
}

/// Raises the limit of open files: each client needs two, and the default limit is low.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // If this fails, clients beyond the limit are refused.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Clients see that their sockets are closed. The socket is removed unless the next daemon has replaced it
        // already.
        if socket_path::identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod hostile_tests;
