//! From the packets and the state of an endpoint to events.

use std::collections::{BTreeMap, HashMap};

use rampmeter_control::{Controller, Record};
use rampmeter_transport::{Address, Connection, ConnectionId, EcnState, Endpoint, Envelope, State};
use rampmeter_units::{Bytes, Duration, Ecn, Time};
use rampmeter_wire::{Kind, Packet};

use crate::event::{Cause, End, FlowEvent, Grant, Metrics, Moment, Timer, Trace};

/// What a host with an endpoint reports of its work. All calls come after the endpoint's own.
pub trait Tap<C, A> {
    /// Something happened that may lead to packets.
    fn on_cause(&mut self, _cause: Cause) {}

    /// A packet of `flow` leaves.
    fn on_sent(
        &mut self,
        _now: Moment,
        _flow: (u32, End),
        _sent: (&Packet, &Envelope<A>, Bytes),
        _from: &Endpoint<C, A>,
    ) {
    }

    /// A packet of `flow` has arrived.
    fn on_received(&mut self, _now: Moment, _flow: (u32, End), _got: (&Packet, Bytes, Ecn), _at: &Endpoint<C, A>) {}

    /// The deadlines up to `now` were handled.
    fn on_deadline(&mut self, _now: Moment, _of: &Endpoint<C, A>) {}
}

impl<C, A> Tap<C, A> for () {}

/// Data in flight, by the offset of its first byte.
#[derive(Debug, Clone, Copy)]
struct Piece {
    number: u32,
    end: u64,
    sent_at: Time,
    is_reported: bool,
}

/// What was last seen of a connection.
#[derive(Debug, Default)]
struct Seen {
    pieces: BTreeMap<u64, Piece>,
    by_number: HashMap<u32, u64>,
    /// The first byte never sent.
    next: u64,
    lost: u64,
    timeouts: u64,
    metrics: Metrics,
    record: Record,
    state: Option<&'static str>,
    ecn: EcnState,
    timers: Vec<(&'static str, Time)>,
}

/// The tap that writes events to a [`Trace`].
#[derive(Debug)]
pub struct Recorder {
    trace: Trace,
    cause: Cause,
    ends: BTreeMap<ConnectionId, ((u32, End), Seen)>,
    /// The flows of connections, where packets do not say them.
    names: HashMap<ConnectionId, (u32, End)>,
}

impl Recorder {
    /// A recorder without events.
    pub fn new(trace: Trace) -> Self {
        Self { trace, cause: Cause::default(), ends: BTreeMap::new(), names: HashMap::new() }
    }

    /// The flow of a connection, and which of its ends this is.
    pub fn name(&mut self, id: ConnectionId, flow: u32, end: End) {
        self.names.insert(id, (flow, end));
    }

    /// The flow that [`Recorder::name`] gave a connection.
    pub fn flow_of(&self, id: ConnectionId) -> Option<(u32, End)> {
        self.names.get(&id).copied()
    }

    /// Compares the connection with what was last seen of it. `receipts`: the packets that the peer reports.
    fn look<C: Controller, A: Address>(
        &mut self,
        now: Moment,
        id: ConnectionId,
        at: &Endpoint<C, A>,
        packet: Option<&Packet>,
    ) {
        let Some((end, seen)) = self.ends.get_mut(&id) else { return };
        let Some(connection) = at.connection(id) else {
            self.trace.sink().on_flow_end(now.at, end.0, end.1);
            self.ends.remove(&id);
            self.names.remove(&id);
            return;
        };
        let mut sink = self.trace.sink();
        let mut emit = |event: &FlowEvent<'_>| sink.on_flow(now.at, end.0, end.1, event);
        let latest = seen.on_receipts(now.at, connection, packet, &mut emit);
        seen.on_losses(connection, &mut emit);
        seen.on_timers(now.local, connection, &mut emit);
        seen.on_ecn(connection, &mut emit);
        if let Some(controller) = at.flow(id).and_then(|flow| at.manager().controller(flow)) {
            seen.on_state(connection, controller, latest, &mut emit);
        }
    }
}

impl<C: Controller, A: Address> Tap<C, A> for Recorder {
    fn on_cause(&mut self, cause: Cause) {
        self.cause = cause;
    }

    fn on_sent(&mut self, now: Moment, flow: (u32, End), sent: (&Packet, &Envelope<A>, Bytes), from: &Endpoint<C, A>) {
        let (packet, envelope, bytes) = sent;
        let (id, offset, ecn) = (envelope.connection, envelope.offset, envelope.ecn);
        let (_, seen) = self.ends.entry(id).or_insert_with(|| (flow, Seen::default()));
        let is_repeated = seen.on_sent(now.at, packet, offset);
        if let Some(grant) = grant(now.local, packet, id, from) {
            self.trace.sink().on_flow(now.at, flow.0, flow.1, &FlowEvent::Granted(grant));
        }
        let event = FlowEvent::Sent { packet, bytes, ecn, offset, is_repeated, cause: self.cause };
        self.trace.sink().on_flow(now.at, flow.0, flow.1, &event);
        self.look(now, id, from, None);
    }

    fn on_received(&mut self, now: Moment, flow: (u32, End), got: (&Packet, Bytes, Ecn), at: &Endpoint<C, A>) {
        let (packet, bytes, ecn) = got;
        let id = ConnectionId::from_number(packet.connection);
        let offset = at.connection(id).map_or(0, |connection| connection.offset_of(packet));
        let event = FlowEvent::Received { packet, bytes, ecn, offset };
        self.trace.sink().on_flow(now.at, flow.0, flow.1, &event);
        self.cause = Cause::Arrival;
        self.look(now, id, at, Some(packet));
    }

    fn on_deadline(&mut self, now: Moment, of: &Endpoint<C, A>) {
        self.cause = Cause::Timer;
        let ids: Vec<_> = self.ends.keys().copied().collect();
        for id in ids {
            self.look(now, id, of, None);
        }
    }
}

/// The grant of a packet that was sent, if its flow shares its macroflow. Acknowledgements need none.
fn grant<C: Controller, A: Address>(
    local: Time,
    packet: &Packet,
    id: ConnectionId,
    from: &Endpoint<C, A>,
) -> Option<Grant> {
    let flow = from.flow(id).filter(|_| packet.kind == Kind::Data && packet.sequence_len() > 0)?;
    let (macroflow, waiting) = (from.manager().macroflow_of(flow)?, from.manager().waiting(flow));
    let status = from.manager().query(local, flow).filter(|status| status.flows > 1)?;
    Some(Grant { macroflow, flows: status.flows, waiting, window: status.window, in_flight: status.in_flight })
}

impl Seen {
    /// Returns whether the packet repeats what was sent before.
    fn on_sent(&mut self, now: Time, packet: &Packet, offset: u64) -> bool {
        let end = offset + packet.sequence_len();
        if end == offset {
            return false; // an acknowledgement
        }
        let piece = Piece { number: packet.number, end, sent_at: now, is_reported: false };
        if let Some(before) = self.pieces.insert(offset, piece) {
            self.by_number.remove(&before.number);
        }
        self.by_number.insert(packet.number, offset);
        let is_repeated = offset < self.next;
        self.next = self.next.max(end);
        is_repeated
    }

    /// The packets that are acknowledged for the first time, by receipts or by the stream. Returns the round trip of the
    /// last one.
    fn on_receipts(
        &mut self,
        now: Time,
        connection: &Connection,
        packet: Option<&Packet>,
        emit: &mut impl FnMut(&FlowEvent<'_>),
    ) -> Option<Duration> {
        let mut numbers: Vec<u32> = Vec::new();
        let mut latest = None;
        for receipt in packet.map_or(&[][..], |packet| &packet.receipts) {
            let Some(piece) = self.by_number.get(&receipt.number).and_then(|start| self.pieces.get_mut(start)) else {
                continue;
            };
            if !std::mem::replace(&mut piece.is_reported, true) {
                numbers.push(piece.number);
                latest = Some(now.since(piece.sent_at));
            }
        }
        let acknowledged = connection.acknowledged();
        while let Some(first) = self.pieces.first_entry().filter(|first| first.get().end <= acknowledged) {
            let piece = first.remove();
            self.by_number.remove(&piece.number);
            if !piece.is_reported {
                numbers.push(piece.number);
                latest = latest.or(Some(now.since(piece.sent_at)));
            }
        }
        if !numbers.is_empty() {
            emit(&FlowEvent::Acknowledged(&numbers));
        }
        latest
    }

    /// The packets that count as lost since the last look.
    fn on_losses(&mut self, connection: &Connection, emit: &mut impl FnMut(&FlowEvent<'_>)) {
        let counts = connection.statistics();
        let by_timeout = counts.timeouts > self.timeouts;
        if counts.lost > self.lost {
            for start in connection.lost() {
                let lost = self.pieces.get(&start).map(|piece| piece.number);
                if let Some(number) = lost.filter(|number| self.by_number.remove(number).is_some()) {
                    emit(&FlowEvent::Lost { number, by_timeout });
                }
            }
        }
        (self.lost, self.timeouts) = (counts.lost, counts.timeouts);
    }

    fn on_timers(&mut self, now: Time, connection: &Connection, emit: &mut impl FnMut(&FlowEvent<'_>)) {
        for (name, at) in connection.timers() {
            let index = self.timers.iter().position(|(known, _)| *known == name);
            let index = index.unwrap_or_else(|| {
                self.timers.push((name, Time::MAX));
                self.timers.len() - 1
            });
            let before = std::mem::replace(&mut self.timers[index].1, at);
            if before == at {
                continue;
            }
            let has_expired = before <= now;
            let after = (at < Time::MAX).then(|| at.since(now));
            emit(&FlowEvent::Timer(Timer { name, after, has_expired }));
        }
    }

    fn on_ecn(&mut self, connection: &Connection, emit: &mut impl FnMut(&FlowEvent<'_>)) {
        let state = connection.ecn_state();
        let before = std::mem::replace(&mut self.ecn, state);
        if before != state {
            emit(&FlowEvent::EcnState(Some(before), state));
        }
    }

    fn on_state(
        &mut self,
        connection: &Connection,
        controller: &impl Controller,
        latest: Option<Duration>,
        emit: &mut impl FnMut(&FlowEvent<'_>),
    ) {
        if connection.state() != State::Open {
            return;
        }
        let counts = connection.statistics();
        let known = |rtt: Duration| Some(rtt).filter(|&rtt| rtt > Duration::ZERO && rtt < Duration::MAX);
        let now = Metrics {
            window: Some(controller.window()),
            rate: Some(controller.rate()),
            in_flight: Some(connection.in_flight()),
            smoothed_rtt: known(counts.smoothed_rtt),
            latest_rtt: latest,
            min_rtt: known(counts.min_rtt),
            own: Vec::new(),
        };
        self.record.clear();
        controller.record(&mut self.record);
        let changed = now.changed(&mut self.metrics, self.record.values());
        if !changed.is_empty() {
            emit(&FlowEvent::Metrics(&changed));
        }
        let state = controller.state();
        if self.state != Some(state) {
            emit(&FlowEvent::State(self.state.replace(state), state));
        }
    }
}
