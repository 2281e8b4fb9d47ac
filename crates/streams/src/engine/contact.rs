//! A client's first contact with its server: one address after the other, until one answers with the right key.

use rampmeter_net::{ContactError, SessionEnd, Socket};
use rampmeter_session::{Denial, Goodbye, PublicKey, SessionId};
use rampmeter_trace::End;
use rampmeter_units::Time;

use super::super::dial::Dial;
use super::{Engine, trace_connection};

impl Engine {
    /// Begins to contact a server.
    pub(crate) fn dial(&mut self, dial: Dial) {
        self.server = Some(dial.address);
        self.dial = Some(dial);
        self.attempt(self.net.now());
    }

    /// Tries to reach the server at the present address.
    fn attempt(&mut self, now: Time) {
        let Some(dial) = &mut self.dial else { return };
        dial.deadline = now + dial.timeout;
        self.server = Some(dial.address);
        let expected = dial.trusted.expected();
        self.ask(now, expected);
    }

    /// Asks the present address for a session, with the key that it should have, or for its key.
    fn ask(&mut self, now: Time, expected: Option<PublicKey>) {
        let (Some(dial), Some(host)) = (&mut self.dial, self.net.host_mut(self.host)) else { return };
        let address = dial.address;
        dial.session = host.connect(now, address, expected);
        match (dial.session, expected) {
            (Some(session), Some(key)) => self.begin(now, session, key),
            (Some(_), None) => {} // the server's key comes first
            (None, _) => self.fail_dial(ContactError::no_answer(address)),
        }
    }

    /// The server's key is known: opens the first streams.
    fn begin(&mut self, now: Time, session: SessionId, key: PublicKey) {
        let Some(dial) = &self.dial else { return };
        self.add_session(session, key, dial.address);
        let Some(host) = self.net.host_mut(self.host) else { return };
        let first = host.open(now, session, &self.settings.transport);
        self.settings.windows.take(None, self.settings.first_window());
        if let (Some(member), Some(id)) = (self.sessions.get_mut(&session), first) {
            trace_connection(host, &self.settings, id, End::Client);
            member.opening.insert(id);
        }
    }

    pub(super) fn on_key(&mut self, now: Time, session: SessionId, key: PublicKey) {
        let Some(dial) = self.dial.as_mut().filter(|dial| dial.session == Some(session)) else { return };
        match dial.trusted.check(key) {
            Ok(is_new) => {
                dial.is_new_server = is_new;
                self.begin(now, session, key);
            }
            Err(error) => self.fail_dial(error),
        }
    }

    /// When the present attempt ends.
    pub(super) fn dial_deadline(&self) -> Time {
        self.dial.as_ref().map_or(Time::MAX, |dial| dial.deadline)
    }

    /// Ends an attempt that has taken too long.
    pub(super) fn check_dial(&mut self, now: Time) {
        if let Some(dial) = self.dial.as_ref().filter(|dial| dial.deadline <= now) {
            let error = ContactError::no_answer(dial.address);
            self.try_next_address(now, error);
        }
    }

    /// The server does not answer at the present address.
    pub(super) fn try_next_address(&mut self, now: Time, error: ContactError) {
        let Some(dial) = &mut self.dial else { return };
        let Some(address) = dial.others.pop() else { return self.fail_dial(error) };
        dial.address = address;
        if let Some(session) = dial.session.take() {
            self.discard(session);
            if let Some(host) = self.net.host_mut(self.host) {
                host.disconnect(now, session, Goodbye::Finished);
            }
        }
        match Socket::connect(address).and_then(|socket| self.net.replace_socket(self.host, socket)) {
            Ok(()) => self.attempt(now),
            Err(reason) => self.try_next_address(now, ContactError::reach(address, reason)),
        }
    }

    pub(super) fn fail_dial(&mut self, error: ContactError) {
        if let Some(dial) = self.dial.take() {
            drop(dial.reply.send(Err(error)));
            self.stop_at = Some(self.net.now());
        }
    }

    pub(super) fn on_session_ended(&mut self, now: Time, session: SessionId, end: SessionEnd) {
        let Some(dial) = &self.dial else { return self.end_session(session, end) };
        if dial.session != Some(session) {
            return;
        }
        let (address, deadline, expected) = (dial.address, dial.deadline, dial.trusted.expected());
        self.discard(session);
        match end {
            // Asks for its key, to say what it is.
            SessionEnd::Denied(Denial::OtherKey) => self.ask(now, None),
            SessionEnd::NoAnswer if now < deadline => self.ask(now, expected),
            SessionEnd::Denied(why) => {
                if let Some(name) = self.dial.as_ref().map(|dial| dial.trusted.server().to_owned()) {
                    self.try_next_address(now, ContactError::denied(address, &name, why));
                }
            }
            SessionEnd::NotAuthorized => {
                if let Some(own) = self.dial.as_ref().map(|dial| dial.trusted.own_key()) {
                    self.fail_dial(ContactError::NotAuthorized { address, own });
                }
            }
            SessionEnd::Busy => self.try_next_address(now, ContactError::Busy(address)),
            SessionEnd::Finished | SessionEnd::Stopping | SessionEnd::Restarted | SessionEnd::NoAnswer => {
                self.try_next_address(now, ContactError::no_answer(address));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use rampmeter_control::Registry;
    use rampmeter_net::{EventLoop, Host, ServerAddress, Trust, Trusted, max_datagram, os_random};
    use rampmeter_session::{Config, Sessions};
    use rampmeter_units::Duration;
    use tokio::sync::{mpsc, oneshot};

    use super::super::super::client::ClientOptions;
    use super::super::super::link::Link;
    use super::super::super::server::{Server, ServerOptions};
    use super::super::super::{default_limits, endpoint};
    use super::*;

    /// The engine of a client that does not know its server's key.
    fn engine(trusted: &Trusted, address: std::net::SocketAddr) -> Engine {
        let options = ClientOptions::default();
        let make = endpoint(&Registry::default(), "newreno", &toml::Table::new(), 1).unwrap();
        let mut net = EventLoop::new(max_datagram(&options.transport)).unwrap();
        let config = Config::client(trusted.identity.clone(), trusted.purpose(options.service));
        let (endpoint, sessions) = (make(options.transport.clone(), 10), Sessions::new(config, os_random()));
        let host = Host::new(endpoint, sessions, Socket::connect(address).unwrap(), default_limits());
        let host = net.add(host).unwrap();
        let link = Link::new(net.alarm().unwrap()).into();
        Engine::new(net, host, link, options.engine_settings(), mpsc::unbounded_channel().0)
    }

    #[test]
    fn an_attempt_that_is_over_does_not_end_the_session() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        let server = ServerOptions { address: "127.0.0.1:0".parse().unwrap(), ..ServerOptions::default() };
        let server = Server::bind(server).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let trust = Trust::KnownServers(directory.path().join("known_servers"));
        let trusted = Trusted::new(&ServerAddress::read("server:1").unwrap(), &trust, None).unwrap();
        let mut engine = engine(&trusted, address);
        let (reply, mut connected) = oneshot::channel();
        let others = vec![server.address()];
        let timeout = Duration::from_secs(60);
        let (session, deadline, is_new_server) = (None, Time::MAX, false);
        engine.dial(Dial { trusted, address, session, others, timeout, deadline, is_new_server, reply });
        let asked = |engine: &Engine| engine.dial.as_ref().and_then(|dial| dial.session).unwrap();
        let now = engine.net.now();

        // Half a minute without an answer is not the minute that the user waits.
        let first = asked(&engine);
        engine.on_session_ended(now, first, SessionEnd::NoAnswer);
        let second = asked(&engine);
        assert!(first != second && engine.server == Some(address));

        engine.check_dial(now + timeout);
        assert!(!engine.net.host(engine.host).unwrap().has_session(second));
        while connected.try_recv().is_err() {
            engine.run_once().unwrap();
        }
        engine.on_session_ended(now, second, SessionEnd::NoAnswer);
        assert!(!engine.is_stopped());
    }
}
