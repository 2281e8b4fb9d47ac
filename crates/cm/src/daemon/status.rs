//! What goes on, for `rampmeter cm status`: one JSON document, read over the daemon's socket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rampmeter_manager::{Destination, Presence};
use rampmeter_units::{Bytes, Time};
use serde::{Deserialize, Serialize};

use super::host::Host;
use crate::error::Error;
use crate::meeting::{SILENCE, Wish, greet, reach, receive_go_ahead};

/// What a daemon is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The controller of its macroflows.
    pub controller: String,
    /// The processes that are connected.
    pub processes: Vec<i32>,
    /// The paths in use.
    pub macroflows: Vec<MacroflowStatus>,
    /// The hosts that datagrams left with it go to.
    pub peers: Vec<PeerStatus>,
    /// How many other daemons send to this one.
    pub senders: usize,
    /// How much came in that was no message.
    pub garbage: u64,
    /// Datagrams that the kernel did not take.
    pub refused: u64,
}

/// A host, as far as its congestion manager is concerned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Where that is spoken to.
    pub address: SocketAddr,
    /// Whether it has one; nothing while that is not known.
    pub present: Option<bool>,
    /// The last round trip of a probe or of the handshake.
    pub rtt_s: Option<f64>,
    /// Probes that were sent.
    pub probes: u64,
    /// Responses to them.
    pub responses: u64,
    /// Flows that are open to it.
    pub flows: usize,
}

/// Flows to one destination: all of them, but for those that the network was found to treat worse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MacroflowStatus {
    /// Where they go.
    pub destination: IpAddr,
    /// The rate that they have together.
    pub rate_bps: u64,
    /// How much they may have outstanding together; nothing where a rate alone decides.
    pub window_bytes: Option<u64>,
    /// How much they have outstanding together.
    pub in_flight_bytes: u64,
    /// Smoothed round-trip time.
    pub srtt_s: f64,
    /// Flows.
    pub flows: usize,
    /// Whose they are.
    pub processes: Vec<i32>,
}

/// What goes on in `host`; `pid` tells whose client a number stands for.
pub(super) fn describe(host: &Host, now: Time, controller: &str, pids: &BTreeMap<u32, i32>, refused: u64) -> Status {
    let mut macroflows: BTreeMap<(Destination, Option<u32>), Vec<_>> = BTreeMap::new();
    for flow in host.flows() {
        macroflows.entry((flow.destination, host.manager().macroflow_of(flow.manager_id))).or_default().push(flow);
    }
    let describe = |((to, _), flows): ((Destination, _), Vec<&super::flow::Flow>)| {
        let status = host.manager().query(now, flows[0].manager_id)?;
        let processes: BTreeSet<i32> = flows.iter().filter_map(|flow| pids.get(&flow.client).copied()).collect();
        let ip = Ipv6Addr::from(to.0);
        Some(MacroflowStatus {
            destination: ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
            rate_bps: status.rate.as_bps(),
            window_bytes: (status.window < Bytes::MAX).then(|| status.window.as_u64()),
            in_flight_bytes: status.in_flight.as_u64(),
            srtt_s: status.smoothed_rtt.as_secs_f64(),
            flows: flows.len(),
            processes: processes.into_iter().collect(),
        })
    };
    Status {
        controller: controller.to_owned(),
        processes: pids.values().copied().collect::<BTreeSet<_>>().into_iter().collect(),
        macroflows: macroflows.into_iter().filter_map(describe).collect(),
        peers: host.peers().map(|peer| of_peer(&peer)).collect(),
        senders: host.senders(),
        garbage: host.garbage(),
        refused,
    }
}

fn of_peer(peer: &rampmeter_manager::PeerStatus<SocketAddr>) -> PeerStatus {
    PeerStatus {
        address: peer.address,
        present: match peer.presence {
            Presence::Unknown => None,
            presence => Some(presence == Presence::Present),
        },
        rtt_s: peer.rtt.map(rampmeter_units::Duration::as_secs_f64),
        probes: peer.probes,
        responses: peer.responses,
        flows: peer.flows,
    }
}

/// How long a reader may take.
pub(super) const READING: Duration = Duration::from_secs(5);

/// Bytes written at a time: so few go into a socket whole or not at all.
const PIECE: usize = 16 * 1024;

/// Hands `status` to whoever asked, in a thread of its own: a slow reader holds nobody up, and none is served for longer
/// than `within`. So long there is a copy of `readers`.
pub(super) fn hand_over(status: &Status, socket: UnixStream, within: Duration, readers: Arc<()>) {
    let Ok(text) = serde_json::to_string(status) else { return };
    // Whoever hangs up does not want to know.
    let _ = std::thread::Builder::new().name("status".into()).spawn(move || {
        let _ = write(text.as_bytes(), socket, Instant::now() + within);
        drop(readers);
    });
}

fn write(text: &[u8], mut socket: UnixStream, until: Instant) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    for piece in text.chunks(PIECE) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_write_timeout(Some(left))?;
        socket.write_all(piece)?;
    }
    Ok(())
}

/// What the daemon at `path` is doing; gives up one that does not answer in ten seconds.
pub fn status(path: &Path) -> Result<Status, Error> {
    let mut socket = reach(path, SILENCE)?;
    greet(&socket, Wish::Status).map_err(|_| Error::Gone)?;
    receive_go_ahead(&mut socket)?;
    let mut text = String::new();
    socket.read_to_string(&mut text).map_err(|_| Error::Gone)?;
    serde_json::from_str(&text).map_err(|_| Error::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reads_slowly_is_told_for_a_while_only() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let processes = (0..1_000_000).collect(); // more than fits into a socket
        let status = Status {
            controller: String::new(),
            processes,
            macroflows: vec![],
            peers: vec![],
            senders: 0,
            garbage: 0,
            refused: 0,
        };
        let readers = Arc::new(());
        hand_over(&status, ours, Duration::from_millis(200), Arc::clone(&readers));
        let (begin, mut bytes) = (Instant::now(), [0; 4096]);
        while Arc::strong_count(&readers) > 1 {
            assert!(begin.elapsed() < Duration::from_secs(10));
            let _ = theirs.read(&mut bytes).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
