//! The daemon's status for `rampmeter cm status`: one JSON document, read over the daemon's socket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rampmeter_control::Controller;
use rampmeter_manager::{Destination, Owner, PathState, Presence};
use rampmeter_units::{Bytes, Time};
use serde::{Deserialize, Serialize};

use super::flow::DaemonFlow;
use super::host::Host;
use crate::error::Error;
use crate::handshake::{ANSWER_TIMEOUT, ClientRequest, Peer, connect, receive_acceptance, send_request};

/// The status of a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The controller of its macroflows.
    pub controller: String,
    /// The connected processes.
    pub processes: Vec<i32>,
    /// The users of these processes.
    pub users: Vec<UserStatus>,
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
    /// The number of clients that were refused: those of other users, or without a place.
    pub refused_clients: u64,
}

/// What a user has of the daemon. Users share no macroflows; the daemon's user and root count as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserStatus {
    /// The user; that of the daemon for root, too.
    pub uid: u32,
    /// The number of connections to the daemon.
    pub clients: usize,
    /// The number of flows.
    pub flows: u64,
    /// The memory of datagrams that wait in the daemon.
    pub queued_bytes: u64,
    /// The rate of all its macroflows together.
    pub rate_bps: u64,
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
    /// The state of its controller ([`Controller::state`]).
    pub state: String,
    /// Why its controller cannot work as designed on this path; none while it does.
    pub degraded: Option<String>,
    /// The rate of all its flows together.
    pub rate_bps: u64,
    /// The congestion window of all its flows together; none if only a rate applies.
    pub window_bytes: Option<u64>,
    /// The bytes in flight of all its flows together.
    pub in_flight_bytes: u64,
    /// The smoothed round-trip time.
    pub srtt_s: f64,
    /// The minimum round-trip time.
    pub min_rtt_s: f64,
    /// Bytes sent since its congestion control began, headers included, as in the next two.
    pub sent_bytes: u64,
    /// Bytes delivered.
    pub delivered_bytes: u64,
    /// Bytes lost.
    pub lost_bytes: u64,
    /// The number of reports of marked packets.
    pub marked: u64,
    /// The number of flows.
    pub flows: usize,
    /// The processes of the flows.
    pub processes: Vec<i32>,
}

/// What only the daemon knows, not its host.
#[derive(Debug)]
pub(super) struct Outside<'a> {
    pub(super) controller: &'a str,
    /// The processes of clients, by the numbers of the clients.
    pub(super) clients: BTreeMap<u32, Peer>,
    pub(super) refused: u64,
    pub(super) refused_clients: u64,
}

/// The status of `host`.
pub(super) fn describe(host: &Host, now: Time, outside: &Outside<'_>) -> Status {
    let Outside { controller, clients, refused, refused_clients } = outside;
    let mut macroflows: BTreeMap<(Destination, Option<u32>), Vec<_>> = BTreeMap::new();
    for flow in host.flows() {
        macroflows.entry((flow.destination, host.manager.macroflow_of(flow.manager_id))).or_default().push(flow);
    }
    let mut users = users(host, clients);
    let describe = |flows: Vec<&DaemonFlow>| {
        let macroflow = describe_macroflow(host, now, &flows, clients)?;
        if let Some(user) = users.get_mut(&flows[0].owner) {
            user.rate_bps = user.rate_bps.saturating_add(macroflow.rate_bps);
        }
        Some(macroflow)
    };
    Status {
        controller: (*controller).to_owned(),
        processes: clients.values().map(|peer| peer.pid).collect::<BTreeSet<_>>().into_iter().collect(),
        macroflows: macroflows.into_values().filter_map(describe).collect(),
        users: users.into_values().collect(),
        peers: host.agent.peers().map(PeerStatus::from).collect(),
        senders: host.agent.senders(),
        garbage: host.garbage,
        refused: *refused,
        refused_clients: *refused_clients,
    }
}

/// The users of these clients, still without their rates.
fn users(host: &Host, clients: &BTreeMap<u32, Peer>) -> BTreeMap<Owner, UserStatus> {
    let mut users = BTreeMap::new();
    for peer in clients.values() {
        let owner = peer.owner();
        let uid = if owner == Owner::default() { nix::unistd::geteuid().as_raw() } else { peer.uid };
        let (flows, queued_bytes) = host.clients.used(owner);
        let user = UserStatus { uid, clients: 0, flows, queued_bytes, rate_bps: 0 };
        users.entry(owner).or_insert(user).clients += 1;
    }
    users
}

fn describe_macroflow(
    host: &Host,
    now: Time,
    flows: &[&DaemonFlow],
    clients: &BTreeMap<u32, Peer>,
) -> Option<MacroflowStatus> {
    let PathState { destination, status, totals, controller, .. } = host.manager.path(now, flows[0].manager_id)?;
    let processes: BTreeSet<i32> = flows.iter().filter_map(|flow| Some(clients.get(&flow.client)?.pid)).collect();
    Some(MacroflowStatus {
        destination: IpAddr::V6(destination.0.into()).to_canonical(),
        state: controller.state().to_owned(),
        degraded: controller.degraded_reason().map(str::to_owned),
        rate_bps: status.rate.as_bps(),
        window_bytes: (status.window < Bytes::MAX).then(|| status.window.as_u64()),
        in_flight_bytes: status.in_flight.as_u64(),
        srtt_s: status.smoothed_rtt.as_secs_f64(),
        min_rtt_s: status.min_rtt.min(status.smoothed_rtt).as_secs_f64(),
        sent_bytes: totals.sent.as_u64(),
        delivered_bytes: totals.delivered.as_u64(),
        lost_bytes: totals.lost.as_u64(),
        marked: totals.marked,
        flows: flows.len(),
        processes: processes.into_iter().collect(),
    })
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
            users: vec![],
            macroflows: vec![],
            peers: vec![],
            senders: 0,
            garbage: 0,
            refused: 0,
            refused_clients: 0,
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
