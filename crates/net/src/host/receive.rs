//! Datagrams from the socket to the endpoint, to the streams and to the application.

use std::net::SocketAddr;

use rampmeter_control::Controller;
use rampmeter_units::{Ecn, Time};
use rampmeter_wire::{CM_VERSION, Kind, Packet, cm_decode, decode, decode_first};

use super::{BATCHES_A_RUN, Event, Host};
use crate::clock::Clock;
use crate::peer::Peer;
use crate::socket::{Datagram, ReceiveBatch};

impl<C: Controller> Host<C> {
    /// Receives packets. True if there may be more.
    pub(crate) fn receive(&mut self, clock: &mut Clock, batch: &mut ReceiveBatch) -> bool {
        self.expects_reply = false;
        for _ in 0..BATCHES_A_RUN {
            let more = match self.socket.receive(batch) {
                Ok(more) => more,
                Err(error) => {
                    self.report_socket_error(error);
                    return true;
                }
            };
            for (datagram, packets) in batch.iter_mut() {
                let now = clock.now();
                let arrived_at = datagram.stamp.map_or(now, |stamp| clock.arrival(stamp, now));
                for bytes in packets {
                    self.received_bytes += bytes.len() as u64;
                    self.on_datagram(now, &datagram, arrived_at, bytes);
                }
                self.acknowledge(now);
                if self.outgoing.is_full() {
                    self.transmit(clock);
                }
            }
            self.transmit(clock);
            if !more {
                return false;
            }
        }
        true
    }

    fn on_datagram(&mut self, now: Time, datagram: &Datagram, arrived_at: Time, bytes: &mut [u8]) {
        let (from, ecn) = (datagram.from, datagram.ecn);
        let Some(sessions) = &mut self.sessions else {
            return self.on_clear_datagram(now, from.remote, ecn, arrived_at, bytes);
        };
        let opened = sessions.receive(now, from, bytes);
        let address = opened.as_ref().and_then(|opened| sessions.first_address(opened.session));
        self.on_session_events(now);
        let (Some(opened), Some(address)) = (opened, address) else { return };
        let peer = Peer::session(opened.session, address);
        let mut rest = &bytes[opened.bytes];
        while let Ok((packet, payload, others)) = decode_first(rest) {
            self.on_packet(now, peer, ecn, arrived_at, &packet, payload);
            rest = others;
        }
    }

    fn on_clear_datagram(&mut self, now: Time, from: SocketAddr, ecn: Ecn, arrived_at: Time, bytes: &[u8]) {
        if bytes.first().is_some_and(|first| first >> 4 == CM_VERSION) {
            return self.on_message(now, from, ecn, bytes);
        }
        if let Ok((packet, payload)) = decode(bytes) {
            self.on_packet(now, Peer::Clear(from), ecn, arrived_at, &packet, payload);
        }
    }

    fn on_packet(&mut self, now: Time, from: Peer, ecn: Ecn, arrived_at: Time, packet: &Packet, payload: &[u8]) {
        self.expects_reply |= packet.kind != Kind::Data || packet.payload > 0 || packet.ping;
        let accepted = self.endpoint.receive(now, from, packet, ecn, arrived_at);
        self.trace_received(now, packet, ecn);
        if self.endpoint.must_acknowledge() {
            self.acknowledge(now);
        }
        self.collect(now); // a packet may open the connection that its payload is for
        if packet.kind == Kind::Syn {
            return;
        }
        let Some(stream) = self.streams.get_mut(&packet.connection).filter(|stream| stream.peer == from) else {
            return;
        };
        if let Some(accepted) = accepted {
            stream.incoming.store(accepted.offset, &payload[accepted.skip..][..accepted.len]);
        }
        let Some(connection) = self.endpoint.connection(stream.id) else { return };
        let events = stream.on_packet(packet, connection, &self.limits);
        self.events.extend(events.into_iter().flatten());
    }

    /// A message of another Congestion Manager, or a datagram with its header.
    fn on_message(&mut self, now: Time, from: SocketAddr, ecn: Ecn, bytes: &[u8]) {
        let Ok((message, payload)) = cm_decode(bytes) else { return };
        self.expects_reply = true;
        let delivery = self.endpoint.receive_message(now, Peer::Clear(from), &message, payload.len(), ecn);
        self.events.extend(delivery.map(|delivery| Event::Datagram(from, delivery, payload.len())));
    }
}
