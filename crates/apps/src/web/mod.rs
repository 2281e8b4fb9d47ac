//! A web server whose transmissions the Congestion Manager schedules, although they go through the kernel's TCP
//! (`congestion-manager.md`, section 3.2.1). It works with any HTTP client.
//!
//! ```text
//! a client connects        cm_open to its address: all of its connections share one macroflow
//! it requests an object    cm_query decides which representation arrives in time              (`representation`)
//! there is data            cm_request, cmapp_send: one packet to the kernel, cm_notify           (`connection`)
//! feedback                 cm_update with the values of TCP_INFO                             (`tcp_feedback`)
//! ```
//!
//! One thread serves all connections and never waits: not for a client, and not for a disk, which other threads read
//! (`disk`). The cost of a client is bounded: a header of 8 kB within ten seconds, a connection without progress for a
//! minute, a maximum number of connections, of which one network has four fifths at most. Only regular files below the
//! directory are sent.
//!
//! *Deviation*: the kernel retransmits at times of its own, and its congestion window still applies where it is smaller
//! than the flow's share; [`Line::held_up`] counts how often.

mod answer;
mod connection;
mod disk;
mod line;
mod priority;
mod range;
pub mod representation;
mod request;
mod status;

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rampmeter_cm::{Client, Error, Event, Id};
use rampmeter_net::{Directory, has_place};

use self::answer::Answer;
use self::connection::{Connection, Failure};
use self::disk::{Disk, Done, Work};

pub use self::line::Line;
use self::request::{Parsed, parse};
use crate::AppError;

/// The maximum sleep, after which `stop` and the timeouts are checked.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// The maximum time for answers after `stop` is set.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

const LISTENER: u64 = 0;
const MANAGER: u64 = 1;
const DISK: u64 = 2;

/// The maximum number of connections accepted at a time, so that a flood of them does not stop the others.
const MAX_ACCEPTED: usize = 64;

/// The options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory whose files are served.
    pub directory: PathBuf,
    /// The address at which it listens.
    pub listen: SocketAddr,
    /// The time within which an object should arrive, if there are several representations.
    pub within: rampmeter_units::Duration,
    /// The maximum number of connections.
    pub max_connections: usize,
    /// Set from outside to end the server.
    pub stop: Arc<AtomicBool>,
}

/// A web server.
pub struct Server<'a> {
    options: Options,
    client: Client,
    disk: Disk,
    listener: TcpListener,
    epoll: Epoll,
    connections: BTreeMap<u64, Connection>,
    by_flow: HashMap<Id, u64>,
    next: u64,
    tell: Box<dyn FnMut(&Line) + 'a>,
}

impl<'a> Server<'a> {
    /// Starts to listen; `client` is connected to the congestion manager, and `tell` is called for every response.
    pub fn bind(options: Options, client: Client, tell: impl FnMut(&Line) + 'a) -> Result<Self, AppError> {
        let directory = Directory::open(&options.directory, false)
            .map_err(|error| AppError::Directory(options.directory.clone(), error))?;
        let listener = TcpListener::bind(options.listen).map_err(|error| AppError::Listen(options.listen, error))?;
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(std::io::Error::from)?;
        let readable = |word| EpollEvent::new(EpollFlags::EPOLLIN, word);
        epoll.add(&listener, readable(LISTENER)).map_err(std::io::Error::from)?;
        epoll.add(client.file()?, readable(MANAGER)).map_err(std::io::Error::from)?;
        let disk = Disk::new(directory, options.within)?;
        epoll.add(&disk, readable(DISK)).map_err(std::io::Error::from)?;
        Ok(Self {
            options,
            client,
            disk,
            listener,
            epoll,
            connections: BTreeMap::new(),
            by_flow: HashMap::new(),
            next: DISK + 1,
            tell: Box::new(tell),
        })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or(self.options.listen)
    }

    /// Serves until `stop` is set or the congestion manager ends. Answers that are being sent at the end are reported,
    /// too.
    pub fn run(&mut self) -> Result<(), AppError> {
        let result = self.serve();
        for mut connection in std::mem::take(&mut self.connections).into_values() {
            if let Some(line) = connection.end(Instant::now()) {
                (self.tell)(&line);
            }
        }
        match result {
            // The server and its daemon are usually stopped together, and the daemon may end first.
            Err(AppError::Manager(Error::Disconnected)) if self.options.stop.load(Ordering::Relaxed) => Ok(()),
            other => other,
        }
    }

    fn serve(&mut self) -> Result<(), AppError> {
        rampmeter_net::set_min_timer_slack();
        let mut events = [EpollEvent::empty(); 64];
        let mut stopped_at = None;
        while !self.is_closed(&mut stopped_at)? {
            let now = Instant::now();
            let next = self.connections.values().filter_map(|connection| connection.next_poll).min();
            let left = next.map_or(MAX_SLEEP, |next| next.saturating_duration_since(now).min(MAX_SLEEP));
            // Rounded up: a slightly late poll costs less than not sleeping.
            let left = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
            let ready = match self.epoll.wait(&mut events, EpollTimeout::from(left)) {
                Err(Errno::EINTR) => 0,
                ready => ready.map_err(std::io::Error::from)?,
            };
            for event in &events[..ready] {
                match event.data() {
                    LISTENER => self.accept_clients()?,
                    MANAGER => self.handle_events()?,
                    DISK => self.handle_disk()?,
                    number => self.on_ready(number, event.events())?,
                }
            }
            self.poll_connections()?;
        }
        Ok(())
    }

    /// Whether `stop` is set and all answers that were being sent then have ended, or taken too long.
    fn is_closed(&mut self, stopped_at: &mut Option<Instant>) -> Result<bool, AppError> {
        if !self.options.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if stopped_at.is_none() {
            let _ = self.epoll.delete(&self.listener);
        }
        let since = *stopped_at.get_or_insert_with(Instant::now);
        if since.elapsed() < STOP_TIMEOUT && self.connections.values().any(Connection::is_answering) {
            return Ok(false);
        }
        let left: Vec<u64> = self.connections.keys().copied().collect();
        left.into_iter().try_for_each(|number| self.disconnect(number))?;
        Ok(true)
    }

    /// Handles the congestion manager's events.
    fn handle_events(&mut self) -> Result<(), AppError> {
        while let Some((flow, event)) = self.client.next(Some(rampmeter_units::Duration::ZERO))? {
            let Some(&number) = self.by_flow.get(&flow) else { continue };
            match event {
                Event::Send { bytes } => self.with(number, |connection, client| connection.send(client, bytes))?,
                Event::Closed(_) => self.disconnect(number)?,
                Event::Update(_) | Event::Room => {}
            }
        }
        Ok(())
    }

    /// Handles the results of other threads.
    fn handle_disk(&mut self) -> Result<(), AppError> {
        self.disk.clear();
        while let Some((number, done)) = self.disk.next() {
            match done {
                Done::Answer(answer, target) => self.start_answer(number, answer, target)?,
                Done::Read(bytes) => self.with(number, |connection, client| connection.on_read(client, bytes))?,
            }
        }
        Ok(())
    }

    /// Accepts waiting connections.
    fn accept_clients(&mut self) -> Result<(), AppError> {
        for _ in 0..MAX_ACCEPTED {
            let (socket, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => {
                    // The client has closed the connection, or there are no file descriptors left; an immediate retry
                    // would fail too.
                    std::thread::sleep(Duration::from_millis(1));
                    return Ok(());
                }
            };
            let connected = self.connections.values().map(|connection| connection.peer.ip());
            if !has_place(peer.ip(), self.options.max_connections, connected) {
                continue;
            }
            let Some(connection) = unless_broken(Connection::new(socket, peer, &self.client))? else { continue };
            let number = self.next;
            self.next += 1;
            let interest = EpollEvent::new(EpollFlags::EPOLLIN, number);
            self.epoll.add(&connection.socket, interest).map_err(std::io::Error::from)?;
            self.by_flow.insert(connection.flow, number);
            self.connections.insert(number, connection);
        }
        Ok(())
    }

    /// A connection is readable or writable.
    fn on_ready(&mut self, number: u64, events: EpollFlags) -> Result<(), AppError> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        if events.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP) {
            return self.disconnect(number);
        }
        if events.contains(EpollFlags::EPOLLOUT) && connection.is_blocked {
            connection.is_blocked = false;
            self.with(number, |connection, client| Ok(connection.request_grants(client)?))?;
        }
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        if events.contains(EpollFlags::EPOLLIN) && connection.is_listening() {
            if connection.read_requests().is_err() {
                return self.disconnect(number);
            }
            // A request usually acknowledges the previous answer.
            self.poll_connection(number, Instant::now())?;
            self.answer(number)?;
            let stays = |connection: &Connection| connection.is_answering() || !connection.is_half_closed;
            if !self.connections.get(&number).is_some_and(stays) {
                return self.disconnect(number);
            }
        }
        self.watch(number);
        Ok(())
    }

    /// Answers the next request, if it is complete and the one before it is answered.
    fn answer(&mut self, number: u64) -> Result<(), AppError> {
        let Some(connection) = self.connections.get_mut(&number).filter(|c| c.is_listening()) else { return Ok(()) };
        if connection.input.is_empty() {
            return Ok(());
        }
        let parsed = parse(&connection.input);
        if parsed == Parsed::Incomplete {
            return Ok(());
        }
        if let Some(line) = connection.finish(Instant::now()) {
            (self.tell)(&line);
        }
        match parsed {
            Parsed::Incomplete => Ok(()),
            Parsed::Refused(status, target) => {
                connection.input.clear();
                self.start_answer(number, Answer::refusal(status, None), target)
            }
            Parsed::Complete(request, length) => {
                connection.input.drain(..length);
                connection.is_preparing = true;
                let prioritized = connection.prioritize(&self.client, request.urgency);
                let path = prioritized.and_then(|()| Ok(self.client.query(connection.flow)?));
                let path = unless_broken(path)?;
                // A closed flow has no path; its connection ends.
                let started = path.is_some_and(|path| self.disk.start(number, Work::Answer(request, path)));
                if started { Ok(()) } else { self.disconnect(number) }
            }
        }
    }

    /// Starts to send an answer to a request for `target`.
    fn start_answer(&mut self, number: u64, answer: Answer, target: String) -> Result<(), AppError> {
        let Some(connection) = self.connections.get(&number) else { return Ok(()) };
        let line = Line::new(connection, target, &answer);
        self.with(number, |connection, client| Ok(connection.start_answer(client, answer, line)?))
    }

    /// Polls all connections that are due, and ends those with expired timeouts.
    fn poll_connections(&mut self) -> Result<(), AppError> {
        let now = Instant::now();
        let due =
            |connection: &Connection| connection.next_poll.is_some_and(|at| at <= now) || connection.has_timed_out(now);
        let due: Vec<u64> = self.connections.iter().filter(|(_, c)| due(c)).map(|(number, _)| *number).collect();
        for number in due {
            self.poll_connection(number, now)?;
            if self.connections.get(&number).is_some_and(|connection| connection.has_timed_out(now)) {
                self.disconnect(number)?;
            }
        }
        Ok(())
    }

    fn poll_connection(&mut self, number: u64, now: Instant) -> Result<(), AppError> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        let stays = connection.keeps_alive();
        let Some(last) = unless_broken(connection.poll_tcp_info(&self.client, now))? else {
            return self.disconnect(number);
        };
        if let Some(line) = last {
            (self.tell)(&line);
            if !stays {
                return self.disconnect(number);
            }
            self.answer(number)?;
        }
        self.watch(number);
        Ok(())
    }

    /// Runs `work` on a connection, and ends the connection if it fails.
    fn with(
        &mut self,
        number: u64,
        work: impl FnOnce(&mut Connection, &Client) -> Result<(), Failure>,
    ) -> Result<(), AppError> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        let mut works = unless_broken(work(connection, &self.client))?.is_some();
        if let Some((file, first, length)) = connection.next_read().filter(|_| works) {
            works = self.disk.start(number, Work::Read(file, first, length));
        }
        if !works {
            return self.disconnect(number);
        }
        self.watch(number);
        Ok(())
    }

    /// Sets the events to wait for: requests when one can be answered, room when there was none.
    fn watch(&mut self, number: u64) {
        let Some(connection) = self.connections.get(&number) else { return };
        let mut interest = EpollFlags::empty();
        interest.set(EpollFlags::EPOLLIN, connection.is_listening() && !connection.is_half_closed);
        interest.set(EpollFlags::EPOLLOUT, connection.is_blocked && connection.is_answering());
        let _ = self.epoll.modify(&connection.socket, &mut EpollEvent::new(interest, number));
    }

    /// Ends a connection. Its share goes to other flows of the client.
    fn disconnect(&mut self, number: u64) -> Result<(), AppError> {
        let Some(mut connection) = self.connections.remove(&number) else { return Ok(()) };
        if let Some(line) = connection.abort(Instant::now()) {
            (self.tell)(&line);
        }
        let _ = self.epoll.delete(&connection.socket);
        self.by_flow.remove(&connection.flow);
        unless_broken(self.client.close(connection.flow).map_err(Failure::from)).map(drop)
    }
}

/// The result, or none if only the connection failed; the congestion manager's failure ends the server.
fn unless_broken<T>(result: Result<T, Failure>) -> Result<Option<T>, AppError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Broken) => Ok(None),
        Err(Failure::Manager(error)) => Err(error.into()),
    }
}
