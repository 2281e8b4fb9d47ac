//! What is known of the hosts that flows are open to.

use std::fmt::Debug;

use rampmeter_units::Duration;

use super::Agent;
use super::prober::State;

/// Whether a host has a Congestion Manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It has been asked, or will be.
    Unknown,
    /// It has answered.
    Present,
    /// It has not, or its system says so.
    Absent,
}

/// One such host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerStatus<A> {
    /// Where it is.
    pub address: A,
    /// Whether it has a Congestion Manager.
    pub presence: Presence,
    /// The last round trip of a probe, or of the handshake.
    pub rtt: Option<Duration>,
    /// Probes that were sent.
    pub probes: u64,
    /// Responses to them.
    pub responses: u64,
    /// Flows that are open to it.
    pub flows: usize,
}

impl<A: Copy + Ord + Debug> Agent<A> {
    /// The hosts that flows are open to.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus<A>> {
        self.peers.iter().filter(|peer| !peer.members.is_empty()).map(|peer| PeerStatus {
            address: peer.address,
            presence: match peer.prober.state {
                State::Asking | State::Waiting { .. } => Presence::Unknown,
                State::Present => Presence::Present,
                State::Absent { .. } => Presence::Absent,
            },
            rtt: peer.prober.rtt,
            probes: peer.prober.tally.0,
            responses: peer.prober.tally.1,
            flows: peer.members.len(),
        })
    }

    /// How many hosts send to us.
    pub fn senders(&self) -> usize {
        self.responders.len()
    }
}
