//! The session with a server: which server it is, and whether it is the right one.

use std::net::SocketAddr;

use rampmeter_control::AnyController;
use rampmeter_net::{
    Alarm, ContactError, DEFAULT_CONTROLLER, EndReason, Event, EventLoop, Host, HostId, Limits, SessionEnd, Socket,
    Trusted, fresh_seed, max_datagram, os_random,
};
use rampmeter_session::{Config as SessionConfig, Denial, Goodbye, PublicKey, SessionId, Sessions};
use rampmeter_transport::{Config, ConnectionId, Endpoint, EndpointConfig, State};
use rampmeter_units::{Duration, Random, Time};

use super::ClientOptions;
use crate::SERVICE;
use crate::error::NetError;
use crate::progress::Progress;
use crate::protocol::check_controller;

/// The maximum wait for the last acknowledgements once everything is done.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Refuses options that no session can have.
pub(super) fn check_options(options: &ClientOptions) -> Result<(), NetError> {
    options.transport.check().map_err(ContactError::BadOption)?;
    if let Some(name) = &options.controller {
        check_controller(name).map_err(|reason| {
            NetError::BadOption(format!("{name:?} cannot be a controller: {reason}; write a name such as `pcp`"))
        })?;
    }
    Ok(())
}

/// What a link reports.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// The connection is established.
    Opened,
    /// The connection has bytes to read, or space to write.
    Ready,
    /// The connection has ended.
    Closed(EndReason),
    /// The server stopped or was restarted.
    Restarted,
}

/// A session with a server.
#[derive(Debug)]
pub(super) struct Link<'a> {
    options: &'a ClientOptions,
    trusted: &'a Trusted,
    net: EventLoop<AnyController>,
    /// Ends a wait.
    pub(super) alarm: Alarm,
    host: HostId,
    session: SessionId,
    pub(super) address: SocketAddr,
    pub(super) key: Option<PublicKey>,
    pub(super) is_new_server: bool,
    pub(super) handshake: Option<Duration>,
    connection: Option<ConnectionId>,
    /// Since when this client has asked for the server's key, without which there is no connection; `None` if the key is
    /// known.
    asking_since: Option<Time>,
}

impl<'a> Link<'a> {
    pub(super) fn open(
        options: &'a ClientOptions,
        trusted: &'a Trusted,
        address: SocketAddr,
    ) -> Result<Self, NetError> {
        let factory = options.registry.factory(DEFAULT_CONTROLLER, &toml::Table::new())?;
        let make = move || factory(Random::from_seed(fresh_seed()));
        let endpoint = Endpoint::new(EndpointConfig::default(), make, os_random());
        let socket = Socket::connect(address).map_err(|reason| ContactError::reach(address, reason))?;
        let limits = Limits { peer_timeout: options.peer_timeout, ..Limits::default() };
        let mut net = EventLoop::new(max_datagram(&options.transport))?;
        // The peer timeout ends the wait for a server, too.
        let config = SessionConfig::client(trusted.identity.clone(), trusted.purpose(SERVICE));
        let config = SessionConfig { max_hellos: u32::MAX, ..config };
        let sessions = Sessions::new(config, os_random());
        let mut host = Host::new(endpoint, sessions, socket, limits);
        let now = net.now();
        let session = host.connect(now, address, trusted.expected()).ok_or_else(|| ContactError::no_answer(address))?;
        let host = net.add(host)?;
        let alarm = net.alarm()?;
        Ok(Self {
            options,
            trusted,
            net,
            alarm,
            host,
            session,
            address,
            key: trusted.expected(),
            is_new_server: false,
            handshake: None,
            connection: None,
            asking_since: trusted.expected().is_none().then_some(now),
        })
    }

    /// Whether the server's key is not known yet, so that there can be no connection.
    pub(super) fn asks_for_key(&self) -> bool {
        self.asking_since.is_some()
    }

    /// Fails once the server has not shown its key for the time in which a peer must send something.
    pub(super) fn check_answer(&self) -> Result<(), NetError> {
        let is_overdue = |since: Time| self.now().since(since) >= self.options.peer_timeout;
        match self.asking_since {
            Some(since) if is_overdue(since) => Err(ContactError::no_answer(self.address).into()),
            _ => Ok(()),
        }
    }

    pub(super) fn now(&self) -> Time {
        self.net.now()
    }

    pub(super) fn host(&mut self) -> Option<&mut Host<AnyController>> {
        self.net.host_mut(self.host)
    }

    /// Opens the connection; `None` if that is not possible yet.
    pub(super) fn connect(&mut self) -> Option<ConnectionId> {
        if self.asks_for_key() {
            return None;
        }
        let now = self.now();
        // The peer timeout ends the connection, and not the number of its own timeouts, which may take less time.
        let transport = Config { max_timeouts: u32::MAX, ..self.options.transport.clone() };
        self.connection = self.net.host_mut(self.host)?.open(now, self.session, &transport);
        self.connection
    }

    /// Waits until something happens, until `until` at the latest.
    pub(super) fn wait(&mut self, until: Time) -> Result<(), NetError> {
        Ok(self.net.run_once(until)?)
    }

    /// The next event; `None` if there is none, an error if the session cannot go on.
    pub(super) fn poll(&mut self) -> Result<Option<LinkEvent>, NetError> {
        while let Some((_, event)) = self.net.poll_event() {
            let now = self.now();
            match event {
                Event::Key(session, key) => self.on_key(session, key)?,
                Event::SessionEnded(_, end) => {
                    if let Some(event) = self.on_session_ended(now, end)? {
                        return Ok(Some(event));
                    }
                }
                Event::Opened(_, rtt) => {
                    self.handshake.get_or_insert(rtt);
                    return Ok(Some(LinkEvent::Opened));
                }
                Event::Readable(_) | Event::Writable(_) => return Ok(Some(LinkEvent::Ready)),
                Event::Closed(_, ended, _) => {
                    self.connection = None;
                    return Ok(Some(LinkEvent::Closed(ended)));
                }
                // After the server's first answer, errors of the path may be temporary; the peer timeout ends the
                // transfer if they are not.
                Event::SocketError(error) if self.handshake.is_none() => {
                    return Err(ContactError::reach(self.address, error).into());
                }
                // This client sends only requests, so a degraded controller does not matter.
                Event::Accepted(..)
                | Event::Moved(_)
                | Event::Datagram(..)
                | Event::SocketError(_)
                | Event::Degraded(..) => {}
            }
        }
        Ok(None)
    }

    /// The server has shown its key: it is new, or another than the expected one.
    fn on_key(&mut self, session: SessionId, key: PublicKey) -> Result<(), NetError> {
        if self.trusted.check(key)? {
            self.is_new_server = true;
            if let Some(on_progress) = &self.options.on_progress {
                on_progress.call(&Progress::FirstContact { server: self.address, key });
            }
        }
        self.key = Some(key);
        self.session = session;
        self.asking_since = None;
        Ok(())
    }

    fn on_session_ended(&mut self, now: Time, end: SessionEnd) -> Result<Option<LinkEvent>, NetError> {
        let address = self.address;
        match end {
            // Asks for its key, to say what it is.
            SessionEnd::Denied(Denial::OtherKey) => {
                self.asking_since = Some(now);
                self.connection = None;
                let session = self.net.host_mut(self.host).and_then(|host| host.connect(now, address, None));
                self.session = session.ok_or_else(|| ContactError::no_answer(address))?;
                Ok(None)
            }
            SessionEnd::Denied(why) => Err(ContactError::denied(address, self.trusted.server(), why).into()),
            SessionEnd::NotAuthorized => {
                Err(ContactError::NotAuthorized { address, own: self.trusted.own_key() }.into())
            }
            SessionEnd::Finished | SessionEnd::Stopping | SessionEnd::Restarted => Ok(Some(LinkEvent::Restarted)),
            SessionEnd::Busy => Err(ContactError::Busy(address).into()),
            SessionEnd::NoAnswer => Err(ContactError::no_answer(address).into()),
        }
    }

    /// The minimum and the smoothed round-trip time, and the fraction of the server's packets that did not arrive.
    pub(super) fn measure(&self) -> Option<(Duration, Duration, f64)> {
        let host = self.net.host(self.host)?;
        let id = self.connection?;
        let statistics = host.endpoint().connection(id)?.statistics();
        let arrivals = host.arrivals(id);
        let loss = if arrivals.sent == 0 { 0.0 } else { arrivals.missing() as f64 / arrivals.sent as f64 };
        Some((statistics.min_rtt, statistics.smoothed_rtt, loss))
    }

    /// Ends the session because everything was done: waits until the server knows it, but not for long.
    pub(super) fn finish(&mut self) -> Result<(), NetError> {
        let began = self.now();
        let connection = self.connection;
        if let (Some(host), Some(id)) = (self.host(), connection) {
            host.finish(began, id);
        }
        loop {
            let now = self.now();
            let Some(host) = self.net.host(self.host) else { break };
            let connection = connection.and_then(|id| host.endpoint().connection(id));
            let is_closed = connection.is_none_or(|connection| connection.state() == State::Lingering);
            if is_closed || now.since(began) >= CLOSE_TIMEOUT {
                break;
            }
            self.net.run_once(now + Duration::from_millis(20))?;
            while self.net.poll_event().is_some() {}
        }
        let (now, session) = (self.now(), self.session);
        if let Some(host) = self.host() {
            host.disconnect(now, session, Goodbye::Finished);
        }
        Ok(self.net.run_once(now)?) // notifies the server
    }

    /// Ends the connection at once.
    pub(super) fn abort(&mut self) {
        let (now, connection) = (self.now(), self.connection.take());
        if let (Some(host), Some(id)) = (self.host(), connection) {
            host.abort(now, id);
        }
        // Notifies the server; if that fails, it notices by itself.
        let _ = self.net.run_once(now);
    }
}
