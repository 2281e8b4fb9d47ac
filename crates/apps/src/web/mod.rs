//! A web server whose transmissions the Congestion Manager schedules, although they leave through the kernel's TCP
//! (`congestion-manager.md`, section 3.2.1). Its clients are any.
//!
//! ```text
//! a client connects        cm_open to its address: all of its connections share one macroflow
//! it asks for an object    cm_query says which representation arrives in time                    (`representation`)
//! there is data            cm_request, cmapp_send: one packet to the kernel, cm_notify           (`connection`)
//! the kernel knows more    cm_update with what TCP_INFO says                                     (`tcp_feedback`)
//! ```
//!
//! One thread serves all. What a stranger can cost is bounded: a head of 8 kB within ten seconds, a connection that is
//! silent for a minute, so many connections at once. Only regular files below the directory leave.
//!
//! *Deviation*: what the kernel repairs it sends again at times of its own, and its window, which grows and shrinks as
//! ever, can bind where it is smaller than the flow's share of the macroflow's; [`Line::held_up`] says how often.

mod answer;
mod connection;
mod line;
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
use rampmeter_net::files::Directory;

use self::answer::Answer;
use self::connection::{Connection, Refused};
pub use self::line::Line;
use self::request::{Parsed, parse};
use crate::AppError;

/// The longest sleep: how soon it notices that it is to stop, and who is late.
const NAP: Duration = Duration::from_millis(100);

/// How long answers may still take once it is to stop.
const GRACE: Duration = Duration::from_secs(2);

const LISTENER: u64 = 0;
const MANAGER: u64 = 1;

/// What a server is to be like.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory whose files are served.
    pub directory: PathBuf,
    /// Where it listens.
    pub listen: SocketAddr,
    /// An object is to arrive within this, where there is a choice.
    pub within: rampmeter_units::Duration,
    /// Connections at a time.
    pub max_connections: usize,
    /// Raised from outside to end it.
    pub stop: Arc<AtomicBool>,
}

/// A web server.
pub struct Server<'a> {
    options: Options,
    client: Client,
    directory: Directory,
    listener: TcpListener,
    epoll: Epoll,
    connections: BTreeMap<u64, Connection>,
    by_flow: HashMap<Id, u64>,
    next: u64,
    tell: Box<dyn FnMut(&Line) + 'a>,
}

impl<'a> Server<'a> {
    /// Listens; `client` is connected to the congestion manager, and `tell` hears of every response.
    pub fn bind(options: Options, client: Client, tell: impl FnMut(&Line) + 'a) -> Result<Self, AppError> {
        let directory = Directory::open(&options.directory)
            .map_err(|error| AppError::Directory { path: options.directory.clone(), error })?;
        let listener =
            TcpListener::bind(options.listen).map_err(|error| AppError::Listen { address: options.listen, error })?;
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(std::io::Error::from)?;
        let watch = |word| EpollEvent::new(EpollFlags::EPOLLIN, word);
        epoll.add(&listener, watch(LISTENER)).map_err(std::io::Error::from)?;
        epoll.add(client.file()?, watch(MANAGER)).map_err(std::io::Error::from)?;
        Ok(Self {
            options,
            client,
            directory,
            listener,
            epoll,
            connections: BTreeMap::new(),
            by_flow: HashMap::new(),
            next: MANAGER + 1,
            tell: Box::new(tell),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or(self.options.listen)
    }

    /// Serves until it is told to stop, or the congestion manager is gone. What is under way then is told of, too.
    pub fn run(&mut self) -> Result<(), AppError> {
        let result = self.serve();
        for mut connection in std::mem::take(&mut self.connections).into_values() {
            if let Some(line) = connection.end(Instant::now()) {
                (self.tell)(&line);
            }
        }
        match result {
            // Whoever stops the server as a rule stops the daemon with it, and that may be the first to go.
            Err(AppError::Manager(Error::Gone)) if self.options.stop.load(Ordering::Relaxed) => Ok(()),
            other => other,
        }
    }

    fn serve(&mut self) -> Result<(), AppError> {
        // Waits end up to 50 us later without it.
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut events = [EpollEvent::empty(); 64];
        let mut last_orders = None;
        while !self.is_closed(&mut last_orders)? {
            let now = Instant::now();
            let next = self.connections.values().filter_map(|connection| connection.next_look).min();
            let left = next.map_or(NAP, |next| next.saturating_duration_since(now).min(NAP));
            // Rounded up: looking a little late costs less than not sleeping.
            let left = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
            let ready = match self.epoll.wait(&mut events, EpollTimeout::from(left)) {
                Err(Errno::EINTR) => 0,
                ready => ready.map_err(std::io::Error::from)?,
            };
            for event in &events[..ready] {
                match event.data() {
                    LISTENER => self.welcome()?,
                    MANAGER => self.obey()?,
                    number => self.attend(number, event.events())?,
                }
            }
            self.look()?;
        }
        Ok(())
    }

    /// Whether it was told to stop and all answers that were under way then have ended, or taken too long.
    fn is_closed(&mut self, last_orders: &mut Option<Instant>) -> Result<bool, AppError> {
        if !self.options.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if last_orders.is_none() {
            let _ = self.epoll.delete(&self.listener);
        }
        let since = *last_orders.get_or_insert_with(Instant::now);
        if since.elapsed() < GRACE && self.connections.values().any(Connection::is_sending) {
            return Ok(false);
        }
        let left: Vec<u64> = self.connections.keys().copied().collect();
        left.into_iter().try_for_each(|number| self.part(number))?;
        Ok(true)
    }

    /// Does what the congestion manager says.
    fn obey(&mut self) -> Result<(), AppError> {
        while let Some((flow, event)) = self.client.next(Some(rampmeter_units::Duration::ZERO))? {
            let Some(&number) = self.by_flow.get(&flow) else { continue };
            match event {
                Event::Send { bytes } => self.with(number, |connection, client| connection.send(client, bytes))?,
                Event::Closed(_) => self.part(number)?,
                Event::Update(_) | Event::Room => {}
            }
        }
        Ok(())
    }

    /// Lets in whoever waits.
    fn welcome(&mut self) -> Result<(), AppError> {
        loop {
            let (socket, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => {
                    // They hung up, or no files are left; trying again at once would not help.
                    std::thread::sleep(Duration::from_millis(1));
                    return Ok(());
                }
            };
            if self.connections.len() >= self.options.max_connections {
                continue;
            }
            let connection = match Connection::new(socket, peer, &self.client) {
                Ok(connection) => connection,
                Err(Refused::Broken) => continue,
                Err(Refused::Manager(error)) => return Err(error.into()),
            };
            let number = self.next;
            self.next += 1;
            let interest = EpollEvent::new(EpollFlags::EPOLLIN, number);
            self.epoll.add(&connection.socket, interest).map_err(std::io::Error::from)?;
            self.by_flow.insert(connection.flow, number);
            self.connections.insert(number, connection);
        }
    }

    /// A connection has something to say, or room.
    fn attend(&mut self, number: u64, events: EpollFlags) -> Result<(), AppError> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        if events.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP) {
            return self.part(number);
        }
        if events.contains(EpollFlags::EPOLLOUT) && connection.is_blocked {
            connection.is_blocked = false;
            self.with(number, |connection, client| Ok(connection.ask(client)?))?;
        }
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        if events.contains(EpollFlags::EPOLLIN) && connection.is_listening() {
            if connection.hear().is_err() {
                return self.part(number);
            }
            // What has just arrived acknowledges as a rule what was sent before.
            self.look_at(number, Instant::now())?;
            self.answer(number)?;
            let stays = |connection: &Connection| connection.is_sending() || !connection.is_half_closed;
            if !self.connections.get(&number).is_some_and(stays) {
                return self.part(number);
            }
        }
        self.watch(number);
        Ok(())
    }

    /// Answers the next request, if it has come whole and the one before it is answered.
    fn answer(&mut self, number: u64) -> Result<(), AppError> {
        let Some(connection) = self.connections.get_mut(&number).filter(|c| c.is_listening()) else { return Ok(()) };
        if connection.input.is_empty() {
            return Ok(());
        }
        let (answer, target) = match parse(&connection.input) {
            Parsed::Part => return Ok(()),
            Parsed::Refused(status, target) => {
                connection.input.clear();
                (Answer::refusal(status, None), target)
            }
            Parsed::Whole(request, length) => {
                connection.input.drain(..length);
                let flow = connection.flow;
                let answer = Answer::to(&request, &self.directory, self.options.within, || self.client.query(flow));
                (answer.or_else(survivable)?, request.target)
            }
        };
        if let Some(line) = connection.finish(Instant::now()) {
            (self.tell)(&line);
        }
        let line = Line::new(connection.peer, target, &answer);
        self.with(number, |connection, client| Ok(connection.begin(client, answer, line)?))
    }

    /// Looks at all connections whose time has come, and parts with those whose time is over.
    fn look(&mut self) -> Result<(), AppError> {
        let now = Instant::now();
        let due = |connection: &Connection| connection.next_look.is_some_and(|at| at <= now) || connection.is_late(now);
        let due: Vec<u64> = self.connections.iter().filter(|(_, c)| due(c)).map(|(number, _)| *number).collect();
        for number in due {
            self.look_at(number, now)?;
            if self.connections.get(&number).is_some_and(|connection| connection.is_late(now)) {
                self.part(number)?;
            }
        }
        Ok(())
    }

    fn look_at(&mut self, number: u64, now: Instant) -> Result<(), AppError> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        let stays = connection.keeps_alive();
        let last = match connection.look(&self.client, now) {
            Ok(last) => last,
            Err(Refused::Broken) => return self.part(number),
            Err(Refused::Manager(error)) => return Err(error.into()),
        };
        if let Some(line) = last {
            (self.tell)(&line);
            if !stays {
                return self.part(number);
            }
            self.answer(number)?;
        }
        self.watch(number);
        Ok(())
    }

    /// Does something with a connection; parts with it if it is broken.
    fn with(
        &mut self,
        number: u64,
        work: impl FnOnce(&mut Connection, &Client) -> Result<(), Refused>,
    ) -> Result<(), AppError> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        match work(connection, &self.client) {
            Ok(()) => self.watch(number),
            Err(Refused::Broken) => self.part(number)?,
            Err(Refused::Manager(error)) => return Err(error.into()),
        }
        Ok(())
    }

    /// Has the kernel wake us for what matters: requests when one can be answered, room when it was missing.
    fn watch(&mut self, number: u64) {
        let Some(connection) = self.connections.get(&number) else { return };
        let mut interest = EpollFlags::empty();
        interest.set(EpollFlags::EPOLLIN, connection.is_listening() && !connection.is_half_closed);
        interest.set(EpollFlags::EPOLLOUT, connection.is_blocked && connection.is_sending());
        let _ = self.epoll.modify(&connection.socket, &mut EpollEvent::new(interest, number));
    }

    /// A connection ends. Its flow's share goes to the client's others.
    fn part(&mut self, number: u64) -> Result<(), AppError> {
        let Some(mut connection) = self.connections.remove(&number) else { return Ok(()) };
        if let Some(line) = connection.give_up(Instant::now()) {
            (self.tell)(&line);
        }
        let _ = self.epoll.delete(&connection.socket);
        self.by_flow.remove(&connection.flow);
        match self.client.close(connection.flow).map_err(Refused::from) {
            Err(Refused::Manager(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// A flow that is over can't be asked for its path; its connection is about to end anyway.
fn survivable(error: Error) -> Result<Answer, AppError> {
    match Refused::from(error) {
        Refused::Broken => Ok(Answer::refusal(status::Status::BadRequest, None)),
        Refused::Manager(error) => Err(error.into()),
    }
}
