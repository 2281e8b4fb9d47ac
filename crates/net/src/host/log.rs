//! What a host logs: lines for each connection and session, a limited number each second, never one for each packet,
//! and no key but public ones.

use std::net::SocketAddr;

use rampmeter_session::{PublicKey, Refusal};
use rampmeter_transport::Statistics;
use rampmeter_units::{Duration, Time};
use tracing::field::display;
use tracing::{debug, info, warn};

use super::EndReason;
use crate::stream::Stream;

/// Refusals that are logged in a second: strangers cause them.
const REFUSALS_A_SECOND: u32 = 10;

/// Connections whose beginning, end or move is logged in a second: clients cause them.
const CONNECTIONS_A_SECOND: u32 = 100;

/// Limits the lines of a log that others cause.
#[derive(Debug, Clone)]
pub struct LineLimit {
    max: u32,
    second: Time,
    lines: u32,
    omitted: u64,
}

impl LineLimit {
    /// At most `max` lines a second.
    pub fn new(max: u32) -> Self {
        Self { max, second: Time::ZERO, lines: 0, omitted: 0 }
    }

    /// Whether another line may be written; if so, how many were omitted before it.
    pub fn admit(&mut self, now: Time) -> Option<u64> {
        if now.since(self.second) >= Duration::from_secs(1) {
            (self.second, self.lines) = (now, 0);
        }
        if self.lines >= self.max {
            self.omitted += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.omitted))
    }
}

/// The lines of a host, of each kind a limited number.
#[derive(Debug)]
pub(super) struct Log {
    refused: LineLimit,
    accepted: LineLimit,
    moved: LineLimit,
    degraded: LineLimit,
    ended: LineLimit,
}

impl Default for Log {
    fn default() -> Self {
        let connections = LineLimit::new(CONNECTIONS_A_SECOND);
        Self {
            refused: LineLimit::new(REFUSALS_A_SECOND),
            accepted: connections.clone(),
            moved: connections.clone(),
            degraded: connections.clone(),
            ended: connections,
        }
    }
}

impl Log {
    pub(super) fn refused(&mut self, now: Time, peer: SocketAddr, key: Option<PublicKey>, why: Refusal) {
        let Some(omitted) = self.refused.admit(now) else { return };
        let key = key.map(display);
        info!(%peer, key, why = %reason(why), omitted, "session refused");
    }

    pub(super) fn accepted(&mut self, now: Time, stream: &Stream, handshake: Duration) {
        let Some(omitted) = self.accepted.admit(now) else { return };
        let (peer, connection, client) = (stream.address.map(display), stream.id.number(), stream.client.as_deref());
        info!(peer, client, connection, handshake_s = handshake.as_secs_f64(), omitted, "connection accepted");
    }

    pub(super) fn moved(&mut self, now: Time, client: Option<&str>, from: SocketAddr, to: Option<SocketAddr>) {
        let Some(omitted) = self.moved.admit(now) else { return };
        info!(client, %from, to = to.map(display), omitted, "session moved");
    }

    pub(super) fn degraded(&mut self, now: Time, stream: Option<&Stream>, why: &str) {
        let Some(omitted) = self.degraded.admit(now) else { return };
        let peer = stream.and_then(|stream| stream.address).map(display);
        warn!(peer, client = stream.and_then(|stream| stream.client.as_deref()), why, omitted, "controller degraded");
    }

    pub(super) fn ended(&mut self, now: Time, stream: &Stream, statistics: &Statistics, why: EndReason) {
        let Some(omitted) = self.ended.admit(now) else { return };
        let seconds = now.since(stream.opened_at).as_secs_f64();
        let &Statistics { acknowledged: sent, arrived: received, data_packets: packets, retransmitted, .. } =
            statistics;
        let rate_bps = ((sent + received) as f64 * 8.0 / seconds.max(1e-9)) as u64;
        let (peer, connection, client) = (stream.address.map(display), stream.id.number(), stream.client.as_deref());
        info!(
            peer,
            client,
            connection,
            ?why,
            sent,
            received,
            seconds,
            rate_bps,
            packets,
            retransmitted,
            omitted,
            "connection ended"
        );
    }
}

fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NotAuthorized => "its key is not listed",
        Refusal::OtherKey => "it expects another key of this host",
        Refusal::OtherService => "it asks for another service",
        Refusal::OtherName => "it asks for a name that this host does not have",
        Refusal::Busy => "there is no place for it",
    }
}

pub(super) fn discarded(count: usize) {
    debug!(count, "unused sessions discarded");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_writes_few_lines_and_their_number() {
        for mut limit in [LineLimit::new(10), Log::default().refused] {
            let admitted = |limit: &mut LineLimit, now| (0..1000).filter_map(|_| limit.admit(now)).collect::<Vec<_>>();
            assert_eq!(admitted(&mut limit, Time::ZERO), [0; 10]);
            let next = admitted(&mut limit, Time::ZERO + Duration::from_secs(1));
            assert_eq!((next.len(), next[0]), (10, 990));
        }
    }
}
