//! Packets of the endpoint and of its sessions to the socket: encoded, sealed, in batches.

use rampmeter_control::Controller;
use rampmeter_session::{MAX_OVERHEAD, MIN_HELLO_BYTES, Sessions};
use rampmeter_transport::Transmit;
use rampmeter_units::{Ecn, Time};
use rampmeter_wire::{Kind, MAX_RECEIPTS, cm_encode, encode, encoded_len};

use super::{BATCHES_A_RUN, Host};
use crate::clock::Clock;
use crate::peer::Peer;
use crate::socket::SendResult;

/// The maximum size of acknowledgements in one datagram, which every path of QUIC carries (RFC 9000 section 14).
const MAX_ACKS: usize = MIN_HELLO_BYTES - MAX_OVERHEAD;

/// The packets that one datagram reports. If two in a row are lost, the proof in the next acknowledgement, of 64
/// packets, still covers all of theirs.
const MAX_REPORTED: usize = 3 * MAX_RECEIPTS;

/// Acknowledgements for one peer, encoded, which leave in one datagram.
#[derive(Debug, Default)]
pub(super) struct Acks {
    to: Option<Peer>,
    bytes: Vec<u8>,
    /// The receipts in them.
    receipts: usize,
}

impl<C: Controller> Host<C> {
    pub(super) fn transmit(&mut self, clock: &Clock) -> bool {
        for _ in 0..BATCHES_A_RUN {
            self.fill(clock.now());
            if self.outgoing.is_empty() {
                return false;
            }
            match self.socket.send(&mut self.outgoing) {
                SendResult::Done => {}
                SendResult::Blocked => {
                    self.blocked = true;
                    return false;
                }
                SendResult::Refused(error) => self.report_socket_error(error),
            }
        }
        true
    }

    /// Encodes packets that may be sent now, up to a full batch.
    fn fill(&mut self, now: Time) {
        self.acknowledge(now);
        self.seal_acks(now);
        while !self.blocked && !self.outgoing.is_full() && self.push_next(now) {}
    }

    /// Encodes the acknowledgements that are due. Those of one session leave together, in few datagrams.
    pub(super) fn acknowledge(&mut self, now: Time) {
        while !self.blocked {
            let Some(transmit) = self.endpoint.poll_control(now) else { break };
            self.trace_sent(now, &transmit);
            let is_alone = transmit.packet.kind != Kind::Data || transmit.padding > 0;
            if is_alone || matches!(transmit.to, Peer::Clear(_)) {
                self.push(now, &transmit);
                continue;
            }
            let len = self.acks.bytes.len() + encoded_len(&transmit.packet);
            let receipts = self.acks.receipts + transmit.packet.receipts.len();
            if self.acks.to != Some(transmit.to) || len > MAX_ACKS || receipts > MAX_REPORTED {
                self.seal_acks(now);
            }
            self.acks.to = Some(transmit.to);
            self.acks.receipts += transmit.packet.receipts.len();
            encode(&transmit.packet, &mut self.acks.bytes);
        }
    }

    /// Adds the encoded acknowledgements to the packets to send.
    fn seal_acks(&mut self, now: Time) {
        let (Some(Peer::Session(session, _)), Some(sessions)) = (self.acks.to.take(), &mut self.sessions) else {
            return;
        };
        let acks = &self.acks.bytes;
        self.outgoing.push(Ecn::NotEct, |bytes| {
            sessions.seal(now, session, bytes, |bytes| {
                bytes.extend_from_slice(acks);
                true
            })
        });
        self.acks.bytes.clear();
        self.acks.receipts = 0;
    }

    fn push_next(&mut self, now: Time) -> bool {
        if let Some((to, datagram)) = self.sessions.as_mut().and_then(Sessions::poll_transmit) {
            self.outgoing.push(Ecn::NotEct, |bytes| {
                bytes.extend(datagram);
                Some(to)
            });
            return true;
        }
        if self.push_message() {
            return true;
        }
        let Some(transmit) = self.endpoint.poll_transmit(now) else { return self.push_message() };
        self.trace_sent(now, &transmit);
        self.push(now, &transmit);
        true
    }

    /// Encodes and seals a packet.
    fn push(&mut self, now: Time, transmit: &Transmit<Peer>) {
        let (packet, len) = (&transmit.packet, usize::from(transmit.packet.payload));
        let stream = self.streams.get(&transmit.connection.number());
        let write = |bytes: &mut Vec<u8>| {
            encode(packet, bytes);
            bytes.resize(bytes.len() + usize::from(transmit.padding), 0);
            len == 0 || stream.is_some_and(|stream| stream.outgoing.copy(transmit.offset, len, bytes))
        };
        self.outgoing.push(transmit.ecn, |bytes| match (transmit.to, &mut self.sessions) {
            (Peer::Clear(address), None) => write(bytes).then_some(address.into()),
            (Peer::Clear(_), Some(_)) => None,
            (Peer::Session(session, _), sessions) => sessions.as_mut()?.seal(now, session, bytes, write),
        });
        if len == 0 {
            return;
        }
        // Fewer bytes are unsent now. The next packet of the peer may be a round trip away.
        let waiting = self.streams.get_mut(&transmit.connection.number()).filter(|stream| stream.wants_space);
        if let Some((stream, connection)) = waiting.zip(self.endpoint.connection(transmit.connection)) {
            self.events.extend(stream.writable(connection, &self.limits));
        }
    }

    fn push_message(&mut self) -> bool {
        let Some(message) = self.endpoint.poll_message() else { return false };
        let in_clear = self.sessions.is_none();
        self.outgoing.push(message.ecn, |bytes| {
            if let Some(message) = &message.message {
                cm_encode(message, bytes);
            }
            bytes.resize(bytes.len() + usize::from(message.payload), 0);
            match message.to {
                Peer::Clear(address) if in_clear => Some(address.into()),
                Peer::Clear(_) | Peer::Session(..) => None,
            }
        });
        true
    }
}
