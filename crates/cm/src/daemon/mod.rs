//! The daemon: one process owns congestion control for all of a host's flows.
//!
//! ```text
//! loop { commands of all clients ──► host ──► grants and news into rings, bells;  nothing came? spin, then sleep }
//!        messages of other daemons ──►    ──► messages to them, datagrams
//! ```
//!
//! While clients are busy nobody sleeps and no system call is made for a grant. In silence the daemon sleeps until a
//! bell rings, somebody connects or dies, or the manager's next deadline comes.

mod carrier;
mod flow;
mod host;
mod inner;
mod listeners;
mod options;
mod output;
mod paths;
mod protocol;
mod session;
mod status;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rampmeter_units::{Duration, Time};
use rand::TryRngCore;
use rand::rngs::OsRng;

use self::carrier::Carrier;
use self::host::{Action, Host};
pub use self::options::{DaemonError, Limits, Options};
use self::output::Output;
pub use self::protocol::{Carriage, DEFAULT_PORT, Protocol};
use self::session::Session;
pub use self::status::{MacroflowStatus, PeerStatus, Status, status};
use crate::error::Error;
use crate::limits::MAX_CLIENTS;
use crate::meeting::{Peer, Wish, answer, hear};
use crate::place;
use crate::spin::{Spin, look_away};
use crate::time::{now, sleep};

/// The longest spell of spinning.
const SPIN: Duration = Duration::from_micros(50);
/// How late the kernel may wake us: what is left of a wait is spun.
const LATE: Duration = Duration::from_micros(15);
/// While there is always something to do: how often sockets are looked at.
const GLANCE: Duration = Duration::from_micros(500);
/// How often a sleeper looks whether it is to stop.
const NAP: Duration = Duration::from_millis(100);

/// The Congestion Manager of a host.
#[derive(Debug)]
pub struct Daemon {
    controller: String,
    public: bool,
    path: PathBuf,
    /// Which socket there is ours.
    identity: Option<(u64, u64)>,
    listener: UnixListener,
    epoll: Epoll,
    /// Connected, and yet to say what they want; by number.
    newcomers: BTreeMap<u32, Newcomer>,
    sessions: Vec<Session>,
    next_number: u32,
    host: Host,
    output: Output,
    /// Who is being told what goes on.
    readers: Arc<()>,
    carrier: Carrier,
    spin: Spin,
    stop: Arc<AtomicBool>,
}

const LISTENER: u64 = u64::MAX;

/// The first of the sockets that messages come through; no client's files have such numbers.
const CARRIER: u64 = u64::MAX - 16;

/// How long somebody may be connected without saying what for.
const HESITATION: Duration = Duration::from_secs(5);

/// How many may be reading what goes on at a time.
const MAX_READERS: usize = 16;

#[derive(Debug)]
struct Newcomer {
    peer: Peer,
    socket: UnixStream,
    since: Time,
}

impl Daemon {
    /// Listens; clients are served by [`Daemon::run`].
    pub fn bind(options: Options) -> Result<Self, DaemonError> {
        let factory = options.registry.factory(&options.controller, &options.settings)?;
        let Protocol { carriage, address, .. } = options.protocol;
        let path = options.socket;
        let listener = place::listen(&path, options.public).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => DaemonError::Running(path.clone()),
            _ => DaemonError::Listen { path: path.clone(), error },
        })?;
        let carrier = Carrier::new(carriage, address).map_err(|error| {
            let _ = std::fs::remove_file(&path);
            DaemonError::Speak { carriage, address, error }
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
            identity: place::identity(&path),
            path,
            listener,
            epoll,
            newcomers: BTreeMap::new(),
            sessions: Vec::new(),
            next_number: 0,
            host: Host::new(factory, options.sharing, options.limits, &options.protocol, random),
            output: Output::new(address),
            readers: Arc::default(),
            carrier,
            spin: Spin::new(SPIN),
            stop: options.stop,
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves until it is told to stop. The thread that calls this has its timers made precise.
    pub fn run(&mut self) -> Result<(), DaemonError> {
        raise_file_limit();
        // Without it waits end up to 50 us later; nothing else changes.
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut glanced = now();
        while !self.stop.load(Ordering::Relaxed) {
            let time = now();
            if self.turn(time) {
                if time.since(glanced) > GLANCE {
                    glanced = time;
                    self.look_at_files()?;
                }
                continue;
            }
            self.rest()?;
            glanced = now();
        }
        Ok(())
    }

    /// Everything that can be done now; true if there was something.
    fn turn(&mut self, now: Time) -> bool {
        let (mut busy, mut leaving) = (false, Vec::new());
        for session in &mut self.sessions {
            match session.take_commands(&mut self.host, now).and_then(|some| session.catch_up().map(|()| some)) {
                Ok(some) => busy |= some,
                Err(_) => leaving.push(session.number),
            }
        }
        self.host.advance(now);
        while let Some(action) = self.host.poll_action() {
            busy = true;
            match action {
                Action::Transmit { to, data } | Action::Deliver { to, data } => self.output.send(to, &data),
                Action::Say { to, message, ecn } => {
                    if !self.carrier.send(to, &message, ecn) {
                        self.host.unreachable(now, to);
                    }
                }
                Action::Tell { client, id, notice } => {
                    let session = self.sessions.binary_search_by_key(&client, |session| session.number);
                    let Ok(index) = session else { continue };
                    if self.sessions[index].tell(id, notice).is_err() {
                        leaving.push(client);
                    }
                }
            }
        }
        for session in &mut self.sessions {
            session.ring();
        }
        for number in leaving {
            self.part(now, number);
        }
        busy
    }

    /// Nothing is to be done: spins for a while, then sleeps.
    fn rest(&mut self) -> Result<(), DaemonError> {
        let start = now();
        let deadline = self.host.deadline();
        loop {
            if self.sessions.iter().any(Session::has_more) {
                self.spin.learn(now().since(start));
                return Ok(());
            }
            let time = now();
            if time >= deadline {
                return Ok(());
            }
            if time.since(start) >= self.spin.spell() && deadline.since(time) > LATE {
                break;
            }
            look_away(time.since(start));
        }
        for session in &self.sessions {
            session.about_to_sleep();
        }
        let behind = self.sessions.iter().any(Session::is_behind);
        let longest = if behind { Duration::from_millis(1) } else { NAP };
        let mut timed = false;
        if !self.sessions.iter().any(Session::has_more) {
            let left = deadline.since(now()).saturating_sub(LATE);
            timed = left < longest;
            sleep(&[self.epoll.0.as_fd()], left.min(longest)).map_err(io::Error::from)?;
        }
        for session in &self.sessions {
            session.awake();
        }
        let quiet = now().since(start);
        if !(timed && now() + LATE >= deadline) {
            self.spin.learn(quiet);
        }
        self.look_at_files()
    }

    fn look_at_files(&mut self) -> Result<(), DaemonError> {
        let mut ready = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut ready, EpollTimeout::ZERO) {
            Err(Errno::EINTR) => 0,
            other => other.map_err(io::Error::from)?,
        };
        for event in &ready[..count] {
            match event.data() {
                LISTENER => self.welcome(),
                number if number >= CARRIER => self.listen((number - CARRIER) as usize, event.events()),
                data => self.hear_of(data as u32, data >> 32),
            }
        }
        let time = now();
        self.newcomers.retain(|_, newcomer| time.since(newcomer.since) < HESITATION);
        Ok(())
    }

    /// Other daemons have said something, or their systems that there are none.
    fn listen(&mut self, socket: usize, events: EpollFlags) {
        let (host, time) = (&mut self.host, now());
        if events.contains(EpollFlags::EPOLLERR) {
            self.carrier.complaints(socket, |peer| host.unreachable(time, peer));
        }
        self.carrier.receive(socket, |arrival| {
            host.receive(now(), arrival.from, arrival.to, arrival.ecn, arrival.bytes);
        });
    }

    /// Lets in whoever waits.
    fn welcome(&mut self) {
        loop {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // No files are left, as a rule. Trying again at once would not help.
                Err(_) => return std::thread::sleep(std::time::Duration::from_millis(1)),
            };
            let Ok(peer) = Peer::of(&socket) else { continue };
            let refusal = if !(self.public || peer.is_trusted()) {
                Some(Error::Denied)
            } else if self.sessions.len() + self.newcomers.len() >= MAX_CLIENTS {
                Some(Error::Full)
            } else {
                None
            };
            if let Some(error) = refusal {
                let _ = answer(&socket, Err(error));
                continue;
            }
            let number = self.next_number;
            self.next_number = (number + 1) % (u32::MAX - 1);
            let watched = self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, number.into())).is_ok();
            if watched && socket.set_nonblocking(true).is_ok() {
                self.newcomers.insert(number, Newcomer { peer, socket, since: now() });
            }
        }
    }

    /// A file of this client has something to say: the first is its socket, the second its bell, the third its process.
    fn hear_of(&mut self, number: u32, file: u64) {
        if let Some(Newcomer { peer, socket, .. }) = self.newcomers.remove(&number) {
            // Who fails here hears nothing more of us, which tells it enough.
            let _ = self.epoll.delete(&socket);
            let _ = self.admit(number, peer, socket);
        } else if let Ok(index) = self.sessions.binary_search_by_key(&number, |session| session.number) {
            match file {
                1 => self.sessions[index].silence(),
                // A socket says nothing but that it is over.
                _ => self.part(now(), number),
            }
        }
    }

    fn admit(&mut self, number: u32, peer: Peer, mut socket: UnixStream) -> io::Result<()> {
        match hear(&mut socket) {
            Err(error) => answer(&socket, Err(error)),
            Ok(Wish::Status) if Arc::strong_count(&self.readers) > MAX_READERS => answer(&socket, Err(Error::Full)),
            Ok(Wish::Status) => {
                answer(&socket, Ok(None))?;
                let pids = self.sessions.iter().map(|session| (session.number, session.peer.pid)).collect();
                let status = status::describe(&self.host, now(), &self.controller, &pids, self.output.refused);
                let readers = Arc::clone(&self.readers);
                status::hand_over(&status, socket, status::READING, readers);
                Ok(())
            }
            Ok(Wish::Client) => {
                let reply = socket.try_clone()?;
                let (session, files) = Session::new(number, peer, socket)?;
                for (file, kind) in session.files().zip(0_u64..) {
                    self.epoll.add(file, EpollEvent::new(EpollFlags::EPOLLIN, kind << 32 | u64::from(number)))?;
                }
                answer(&reply, Ok(Some(&files)))?;
                let place = self.sessions.partition_point(|other| other.number < number);
                self.sessions.insert(place, session);
                Ok(())
            }
        }
    }

    /// A client is gone, or has to go; nobody else notices.
    fn part(&mut self, now: Time, number: u32) {
        if let Ok(index) = self.sessions.binary_search_by_key(&number, |session| session.number) {
            let session = self.sessions.remove(index);
            for file in session.files() {
                let _ = self.epoll.delete(file);
            }
            self.host.forget(now, number);
        }
    }
}

/// Each client takes four files, and systems allow few unless asked.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        if soft < hard {
            // Where that is refused, clients beyond the limit are too.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Clients notice by their sockets; the next daemon finds the place empty, unless it is there already.
        if place::identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
