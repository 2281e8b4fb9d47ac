//! The end of an engine. Nothing acknowledges a goodbye, and copies that leave together may be lost together: a client
//! would wait for half a minute. So a server sends them three times.

use rampmeter_net::SessionEnd;
use rampmeter_session::{Goodbye, SessionId};
use rampmeter_units::{Duration, Time};

use super::Engine;

/// The time between two goodbyes of a server that ends.
const GOODBYE_INTERVAL: Duration = Duration::from_millis(50);

impl Engine {
    /// Tells the other hosts and all tasks that it ends.
    pub(super) fn end(&mut self) {
        self.link.end();
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        let (end, goodbye, times) = match self.server {
            Some(_) => (SessionEnd::Finished, Goodbye::Finished, 1),
            None => (SessionEnd::Stopping, Goodbye::Stopping, if sessions.is_empty() { 1 } else { 3 }),
        };
        for &id in &sessions {
            self.end_session(id, end);
        }
        for _ in 1..times {
            for &id in &sessions {
                if let Some(host) = self.net.host_mut(self.host) {
                    host.announce_disconnect(id, goodbye);
                }
            }
            self.run_last(self.net.now() + GOODBYE_INTERVAL);
        }
        let now = self.net.now();
        for &id in &sessions {
            if let Some(host) = self.net.host_mut(self.host) {
                host.disconnect(now, id, goodbye);
            }
        }
        self.run_last(now); // the goodbyes are sent, or nothing can be
    }

    /// Sends what waits, until then.
    fn run_last(&mut self, until: Time) {
        while self.net.run_once(until).is_ok() {
            while let Some((_, event)) = self.net.poll_event() {
                self.on_event(event);
            }
            if until <= self.net.now() {
                break;
            }
        }
    }
}
