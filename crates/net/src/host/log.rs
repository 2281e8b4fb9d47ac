//! What a host logs: one line for each connection and session, never one for each packet, and no key but public ones.

use std::net::SocketAddr;

use rampmeter_session::{PublicKey, Refusal};
use rampmeter_transport::Statistics;
use rampmeter_units::{Duration, Time};
use tracing::{debug, info};

use super::EndReason;
use crate::stream::Stream;

/// Refusals that are logged in a second: strangers cause them.
const REFUSALS_A_SECOND: u32 = 10;

/// Logs refused sessions, a few each second.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    second: Time,
    lines: u32,
    omitted: u64,
}

impl RefusalLog {
    /// Whether another line may be written; if so, how many were omitted before it.
    fn admit(&mut self, now: Time) -> Option<u64> {
        if now.since(self.second) >= Duration::from_secs(1) {
            (self.second, self.lines) = (now, 0);
        }
        self.lines += 1;
        if self.lines > REFUSALS_A_SECOND {
            self.omitted += 1;
            return None;
        }
        Some(std::mem::take(&mut self.omitted))
    }

    pub(super) fn refused(&mut self, now: Time, peer: SocketAddr, key: Option<PublicKey>, why: Refusal) {
        let Some(omitted) = self.admit(now) else { return };
        let key = key.map(tracing::field::display);
        info!(%peer, key, why = %reason(why), omitted, "session refused");
    }
}

fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NotAuthorized => "its key is not listed",
        Refusal::OtherKey => "it expects another key of this host",
        Refusal::Busy => "there is no place for it",
    }
}

pub(super) fn accepted(peer: Option<SocketAddr>, connection: u32, handshake: Duration) {
    info!(
        peer = peer.map(tracing::field::display),
        connection,
        handshake_s = handshake.as_secs_f64(),
        "connection accepted"
    );
}

pub(super) fn moved(from: SocketAddr, to: Option<SocketAddr>) {
    info!(%from, to = to.map(tracing::field::display), "session moved");
}

pub(super) fn discarded(count: usize) {
    debug!(count, "unused sessions discarded");
}

pub(super) fn ended(now: Time, stream: &Stream, statistics: &Statistics, why: EndReason) {
    let seconds = now.since(stream.opened_at).as_secs_f64();
    let &Statistics { acknowledged: sent, arrived: received, data_packets: packets, retransmitted, .. } = statistics;
    let rate_bps = ((sent + received) as f64 * 8.0 / seconds.max(1e-9)) as u64;
    let (peer, connection) = (stream.address.map(tracing::field::display), stream.id.number());
    info!(peer, connection, ?why, sent, received, seconds, rate_bps, packets, retransmitted, "connection ended");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_writes_few_lines_and_their_number() {
        let mut log = RefusalLog::default();
        let admitted = |log: &mut RefusalLog, now| (0..1000).filter_map(|_| log.admit(now)).collect::<Vec<_>>();
        assert_eq!(admitted(&mut log, Time::ZERO), [0; 10]);
        let next = admitted(&mut log, Time::ZERO + Duration::from_secs(1));
        assert_eq!((next.len(), next[0]), (10, 990));
    }
}
