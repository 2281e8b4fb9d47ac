//! The daemon's status for `rampmeter cm status`: one JSON document, read over the daemon's socket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rampmeter_manager::{Destination, Presence};
use rampmeter_units::{Bytes, Time};
use serde::{Deserialize, Serialize};

use super::host::Host;
use crate::error::Error;
use crate::handshake::{ANSWER_TIMEOUT, ClientRequest, connect, receive_acceptance, send_request};

/// The status of a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The controller of its macroflows.
    pub controller: String,
    /// The connected processes.
    pub processes: Vec<i32>,
    /// The paths in use.
    pub macroflows: Vec<MacroflowStatus>,
    /// The hosts to which the daemon sends datagrams of flows.
    pub peers: Vec<PeerStatus>,
    /// The number of other daemons that send to this one.
    pub senders: usize,
    /// The number of received packets that were not valid messages, or that had a wrong tag.
    pub garbage: u64,
    /// The number of datagrams that the kernel refused.
    pub refused: u64,
}

/// The congestion manager of another host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its address.
    pub address: SocketAddr,
    /// Whether the host has a congestion manager; none while that is unknown.
    pub present: Option<bool>,
    /// The last round-trip time of a probe or of the handshake.
    pub rtt_s: Option<f64>,
    /// The number of probes sent.
    pub probes: u64,
    /// The number of responses received.
    pub responses: u64,
    /// Bytes that arrived there according to its responses, headers included.
    pub delivered_bytes: u64,
    /// Bytes that were lost.
    pub lost_bytes: u64,
    /// The number of open flows to it.
    pub flows: usize,
}

/// A macroflow: flows to one destination. A destination has several if a program has chosen so, or if the network was
/// found to treat its flows differently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MacroflowStatus {
    /// The destination.
    pub destination: IpAddr,
    /// The rate of all its flows together.
    pub rate_bps: u64,
    /// The congestion window of all its flows together; none if only a rate applies.
    pub window_bytes: Option<u64>,
    /// The bytes in flight of all its flows together.
    pub in_flight_bytes: u64,
    /// The smoothed round-trip time.
    pub srtt_s: f64,
    /// The number of flows.
    pub flows: usize,
    /// The processes of the flows.
    pub processes: Vec<i32>,
}

/// The status of `host`; `pids` has the process of each client's number.
pub(super) fn describe(host: &Host, now: Time, controller: &str, pids: &BTreeMap<u32, i32>, refused: u64) -> Status {
    let mut macroflows: BTreeMap<(Destination, Option<u32>), Vec<_>> = BTreeMap::new();
    for flow in host.flows() {
        macroflows.entry((flow.destination, host.manager.macroflow_of(flow.manager_id))).or_default().push(flow);
    }
    let describe = |((to, _), flows): ((Destination, _), Vec<&super::flow::DaemonFlow>)| {
        let status = host.manager.query(now, flows[0].manager_id)?;
        let processes: BTreeSet<i32> = flows.iter().filter_map(|flow| pids.get(&flow.client).copied()).collect();
        Some(MacroflowStatus {
            destination: IpAddr::V6(to.0.into()).to_canonical(),
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
        peers: host.agent.peers().map(PeerStatus::from).collect(),
        senders: host.agent.senders(),
        garbage: host.garbage,
        refused,
    }
}

impl From<rampmeter_manager::PeerStatus<SocketAddr>> for PeerStatus {
    fn from(peer: rampmeter_manager::PeerStatus<SocketAddr>) -> Self {
        let rampmeter_manager::PeerStatus { address, presence, rtt, probes, responses, outcomes, flows } = peer;
        let present = (presence != Presence::Unknown).then_some(presence == Presence::Present);
        let (delivered_bytes, lost_bytes) = (outcomes.0.as_u64(), outcomes.1.as_u64());
        let rtt_s = rtt.map(rampmeter_units::Duration::as_secs_f64);
        Self { address, present, rtt_s, probes, responses, delivered_bytes, lost_bytes, flows }
    }
}

/// The time in which a reader has to read the status.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of bytes written at a time: a socket takes so few at once or not at all.
const CHUNK: usize = 16 * 1024;

/// Sends `status` in its own thread, so that a slow reader delays no other client. The thread ends after `within` at
/// the latest, and holds `reader` until then.
pub(super) fn send(status: &Status, socket: UnixStream, within: Duration, reader: Arc<()>) {
    let Ok(text) = serde_json::to_string(status) else { return };
    // A reader that closes the socket needs no error.
    let _ = std::thread::Builder::new().name("status".into()).spawn(move || {
        let _ = write(text.as_bytes(), socket, Instant::now() + within);
        drop(reader);
    });
}

fn write(text: &[u8], mut socket: UnixStream, until: Instant) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    for chunk in text.chunks(CHUNK) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_write_timeout(Some(left))?;
        socket.write_all(chunk)?;
    }
    Ok(())
}

/// The status of the daemon at `path`; fails if it does not answer within ten seconds.
pub fn status(path: &Path) -> Result<Status, Error> {
    let mut socket = connect(path, ANSWER_TIMEOUT)?;
    send_request(&socket, ClientRequest::Status).map_err(|_| Error::Disconnected)?;
    receive_acceptance(&mut socket)?;
    let mut text = String::new();
    socket.read_to_string(&mut text).map_err(|_| Error::Disconnected)?;
    serde_json::from_str(&text).map_err(|_| Error::Disconnected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_is_served_for_a_limited_time() {
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
        send(&status, ours, Duration::from_millis(200), Arc::clone(&readers));
        let (begin, mut bytes) = (Instant::now(), [0; 4096]);
        while Arc::strong_count(&readers) > 1 {
            assert!(begin.elapsed() < Duration::from_secs(10));
            let _ = theirs.read(&mut bytes).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
