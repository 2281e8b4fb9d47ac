//! The state of the hosts that flows are open to.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration};

use super::Agent;
use super::prober::State;

/// Whether a host has a Congestion Manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The handshake is not complete.
    Unknown,
    /// It has one: it has answered.
    Present,
    /// It has none: it has not answered, or its system reports so.
    Absent,
}

/// The state of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerStatus<A> {
    /// Its address.
    pub address: A,
    /// Whether it has a Congestion Manager.
    pub presence: Presence,
    /// The last round trip of a probe, or of the handshake.
    pub rtt: Option<Duration>,
    /// The number of probes sent.
    pub probes: u64,
    /// The number of responses.
    pub responses: u64,
    /// Bytes that arrived and bytes that were lost, according to its responses.
    pub outcomes: (Bytes, Bytes),
    /// The number of open flows to it.
    pub flows: usize,
}

impl<A: Copy + Ord + Debug> Agent<A> {
    /// The hosts that flows are open to.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus<A>> {
        self.peers.iter().filter(|peer| !peer.members.is_empty()).map(|peer| PeerStatus {
            address: peer.address,
            presence: match peer.prober.state {
                State::SynDue | State::SynSent { .. } => Presence::Unknown,
                State::HasCm => Presence::Present,
                State::NoCm { .. } => Presence::Absent,
            },
            rtt: peer.prober.rtt,
            probes: peer.prober.counts.0,
            responses: peer.prober.counts.1,
            outcomes: peer.outcomes,
            flows: peer.members.len(),
        })
    }

    /// The number of hosts that send to this host.
    pub fn senders(&self) -> usize {
        self.responders.len()
    }
}
