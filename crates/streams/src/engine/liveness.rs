//! What an engine does when another host is silent.
//!
//! ```text
//! client   15 s without packets        probes, each second; after half of a shorter `max_silence`
//!          3 s without an answer       takes a new socket, each 3 s: its own address may have changed
//!          5 s                         new streams wait (the tunnel); what is sent stays in the buffers
//!          30 s (`max_silence`)        the session ends
//! server   60 s without packets        the session ends; so clients that sleep or move can return
//!          5 to 6 s after a check      the same, if the client has not answered (`Session::check`)
//! ```
//!
//! A server that was restarted answers with a reset, which ends the session at once.

use rampmeter_control::AnyController;
use rampmeter_net::{SessionEnd, Socket};
use rampmeter_session::SessionId;
use rampmeter_units::{Duration, Time};

use super::Engine;

/// A client asks its server for an answer after this time without packets.
const QUIET: Duration = Duration::from_secs(15);

/// A client takes a new socket after this time without an answer: its address may have changed.
const UNANSWERED: Duration = Duration::from_secs(3);

/// The other host of a session does not answer after this time.
const SILENT: Duration = Duration::from_secs(5);

impl Engine {
    /// Looks for what no event reports.
    pub(super) fn sweep(&mut self, now: Time) {
        if self.dial.as_ref().is_some_and(|dial| dial.reply.is_closed()) {
            self.stop_at = Some(now); // nobody waits for it
        }
        let Some(host) = self.net.host_mut(self.host) else { return };
        host.check_clients(now);
        if let Some(monitor) = &self.settings.monitor {
            monitor.publish_of(self.settings.number, host.status(now, AnyController::name));
        }
        let abandoned = self.streams.iter().filter(|(id, entry)| entry.is_abandoned(**id, host));
        for id in abandoned.map(|(id, _)| *id).collect::<Vec<_>>() {
            host.abort(now, id);
        }
        let max_stall = self.settings.max_stall;
        let stalled = self
            .streams
            .iter_mut()
            .filter_map(|(id, entry)| entry.is_stalled(now, *id, host, max_stall).then_some(*id));
        for id in stalled.collect::<Vec<_>>() {
            host.abort(now, id);
        }
        let waiting: Vec<_> =
            self.sessions.iter_mut().filter(|(_, member)| !member.late.is_empty()).map(|(id, _)| *id).collect();
        for session in waiting {
            if let (Some(member), Some(host)) = (self.sessions.get_mut(&session), self.net.host(self.host)) {
                member.discard_ended(host);
            }
            self.place_late(now, session);
        }
        if self.dial.is_none() {
            for session in self.sessions.keys().copied().collect::<Vec<_>>() {
                self.check_session(now, session);
            }
        }
    }

    /// Asks a session for an answer, and ends it if there is none.
    fn check_session(&mut self, now: Time, session: SessionId) {
        let is_client = self.server.is_some();
        let max = self.settings.max_silence;
        let quiet = QUIET.min(max / 2);
        let Some(host) = self.net.host_mut(self.host) else { return };
        let silence = host.silence(now, session);
        let checked_at = self.sessions.get_mut(&session).and_then(|member| {
            // Any packet since then is an answer; without a connection there can be none.
            member.checked_at = member.checked_at.filter(|at| silence.is_some_and(|silence| silence >= now.since(*at)));
            member.checked_at
        });
        if checked_at.is_some() {
            host.probe(now, session);
        }
        let has_failed = checked_at.is_some_and(|at| now.since(at) >= SILENT);
        if has_failed || !host.has_session(session) || silence.is_some_and(|silence| silence >= max) {
            self.end_session(session, SessionEnd::NoAnswer);
            if let Some(host) = self.net.host_mut(self.host) {
                host.end_unanswered(now, session);
            }
            return;
        }
        let (Some(silence), true) = (silence, is_client) else { return };
        // Without bytes in flight, silence says nothing before a probe.
        let unanswered = if host.awaits_feedback(session) { silence } else { silence.saturating_sub(quiet) };
        if silence >= quiet || unanswered >= UNANSWERED {
            host.probe(now, session);
        }
        if let Some(member) = self.sessions.get(&session) {
            let answers = unanswered < SILENT;
            member.answers.send_if_modified(|now| std::mem::replace(now, answers) != answers);
        }
        if unanswered >= UNANSWERED {
            self.rebind(now);
        }
    }

    /// Takes a new socket, whose address is that of the present route to the server.
    pub(super) fn rebind(&mut self, now: Time) {
        let Some(server) = self.server.filter(|_| now.since(self.rebound_at) >= UNANSWERED) else { return };
        self.rebound_at = now;
        // Without a route there is nothing to do but to try again later.
        if let Ok(socket) = Socket::connect(server) {
            let _ = self.net.replace_socket(self.host, socket);
        }
        let Some(host) = self.net.host_mut(self.host) else { return };
        for &session in self.sessions.keys() {
            host.probe(now, session);
            host.retry(now, session);
        }
    }
}
