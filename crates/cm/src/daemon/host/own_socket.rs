//! Programs that send from sockets of their own, and whose receiver's daemon reports what arrived: they write the
//! headers, and this host's agent counts their packets and sends probes.
//!
//! ```text
//! program ── Header ──► agent: handshake, once          ◄── Header: what to write ──
//! program ── data with a header, from its own socket ──► the receiver's daemon
//! program ── Notify ──► agent: counts, probes
//! ```
//!
//! A grant for such a packet is charged with its headers, so that the answer never costs more.

use rampmeter_manager::OwnHeader;
use rampmeter_units::{Bytes, Time};
use rampmeter_wire::{CM_HEADER_BYTES, UDP_BYTES};

use super::Host;
use crate::daemon::protocol::Carriage;
use crate::error::Error;
use crate::inner_udp::INNER_BYTES;
use crate::message::{Notice, OwnSocket};

/// All headers of such a packet.
pub(super) const OWN_HEADERS: Bytes = Bytes::new((UDP_BYTES + CM_HEADER_BYTES + INNER_BYTES) as u64);

impl Host {
    /// The flow's process sends from a socket of its own from now on.
    pub(super) fn use_own_socket(&mut self, now: Time, index: usize) -> Result<(), Error> {
        let Some(flow) = &mut self.flows[index] else { return Err(Error::Closed) };
        if flow.to.port() == 0 {
            return Err(Error::Destination);
        }
        // Programs cannot send IP packets of another protocol.
        if matches!(self.carriage, Carriage::Udp(_)) {
            flow.own_socket = true;
            let (flow, owner) = (flow.manager_id, flow.owner);
            self.use_agent_feedback(now, index);
            self.agent.use_own_socket(flow, owner);
            self.send_own_header(index);
        }
        Ok(())
    }

    /// Sends the flow's process the contents of its headers.
    pub(super) fn send_own_header(&mut self, index: usize) {
        let Some(Some(flow)) = self.flows.get(index) else { return };
        if flow.own_socket {
            let header: Option<OwnHeader> = self.agent.own_header(flow.manager_id);
            let socket = header.zip(self.carriage.peer(flow.to)).map(|(header, peer)| OwnSocket { peer, header });
            self.notify_client(flow.client, flow.id, Notice::Header(socket));
        }
    }

    /// The agent counts a packet of a process, if it counts those of the flow. Returns its size with all headers.
    pub(super) fn count_own(&mut self, now: Time, index: usize, sent: Bytes, tag: Option<u32>) -> Option<Bytes> {
        let flow = self.flows[index].as_mut().filter(|flow| flow.has_own_headers())?;
        if sent == Bytes::ZERO {
            return Some(Bytes::ZERO);
        }
        // The client library gives no header to a packet that is too large for one.
        let tag = tag.filter(|_| sent <= flow.mtu);
        let payload = INNER_BYTES + sent.as_u64() as usize;
        let whole = self.agent.sent_by_program(now, flow.manager_id, payload, tag)?;
        flow.agent_bytes.0 += sent.as_u64();
        flow.agent_bytes.1 += whole.as_u64();
        Some(whole)
    }
}
