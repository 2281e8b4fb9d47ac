//! One host: its connections, its Congestion Manager, their timers.
//!
//! The loop of a world around it:
//!
//! ```text
//! packet in   ──► receive ──► the payload's place in the stream, for the world to store
//! time passes ──► on_deadline, at the time that `deadline` returns
//! then        ──► poll_transmit until it has no more; poll_event until it has no more
//! ```

mod calls;
mod size_search;

use std::collections::VecDeque;
use std::fmt::Debug;

use rampmeter_control::{Controller, Fault};
use rampmeter_manager::{FlowId, Grouping, Manager, Owner, Timers, Update};
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};
use rampmeter_wire::{Kind, Packet, RouterFeedback};
use rand::RngCore;

use crate::accepted::Accepted;
use crate::address::Address;
use crate::config::{Config, EndpointConfig};
use crate::connection::{CloseReason, Connection, Outcome, State};
use crate::connection_id::ConnectionId;
use crate::datagrams::Datagrams;
use crate::finished::Finished;
use crate::output::{Envelope, Event, Received, Transmit};
use crate::packet_size::PacketSizes;
use crate::resets::Resets;
use crate::sender::PacketFeedback;

/// The events of a connection: opened, degraded, closed. A host whose application has not read as many of all its
/// connections opens no further ones for peers, so that the number of events is bounded.
const EVENTS_A_CONNECTION: usize = 3;

#[derive(Debug)]
struct Slot<A> {
    id: ConnectionId,
    peer: A,
    connection: Connection,
    /// It is in the control queue.
    queued: bool,
    /// The last reported reason why its controller is degraded.
    degraded_reason: Option<&'static str>,
}

/// One host.
pub struct Endpoint<C, A> {
    config: EndpointConfig,
    pub(crate) make: Box<dyn FnMut() -> C + Send>,
    pub(crate) random: Box<dyn RngCore + Send>,
    pub(crate) manager: Manager<C>,
    pub(crate) datagrams: Datagrams<A>,
    slots: Vec<Option<Slot<A>>>,
    /// Closed connections whose slots are free.
    free: Vec<ConnectionId>,
    /// The connection of each of the manager's flows.
    by_flow: Vec<u32>,
    accepted: Accepted<A>,
    packet_sizes: PacketSizes<A>,
    timers: Timers,
    control: VecDeque<u32>,
    /// A connection in `control` has an acknowledgement that must leave before another packet is handled.
    must_acknowledge: bool,
    events: VecDeque<Event>,
    resets: Resets<A>,
    finished: Finished<A>,
}

impl<C: Debug, A: Debug> Debug for Endpoint<C, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("manager", &self.manager).field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl<C: Controller, A: Address> Endpoint<C, A> {
    /// An endpoint without connections. `make` creates a controller for each macroflow; `random` draws connection ids
    /// and first sequence numbers, which untrusted peers must not be able to predict.
    pub fn new(
        config: EndpointConfig,
        make: impl FnMut() -> C + Send + 'static,
        random: impl RngCore + Send + 'static,
    ) -> Self {
        Self {
            manager: Manager::new(config.sharing),
            datagrams: Datagrams::new(config.agent),
            config,
            make: Box::new(make),
            random: Box::new(random),
            slots: Vec::new(),
            free: Vec::new(),
            by_flow: Vec::new(),
            accepted: Accepted::new(),
            packet_sizes: PacketSizes::new(),
            timers: Timers::default(),
            control: VecDeque::new(),
            must_acknowledge: false,
            events: VecDeque::new(),
            resets: Resets::new(),
            finished: Finished::new(),
        }
    }

    /// See [`Manager::allow_bunches`].
    pub fn allow_bunches(&mut self, bunch: Duration) {
        self.manager.allow_bunches(bunch);
    }

    /// Opens a flow to `peer`.
    pub(crate) fn open_flow(&mut self, now: Time, peer: A) -> FlowId {
        let owner = match self.config.sharing.grouping {
            Grouping::PerFlow | Grouping::PerDestination => Owner::default(),
            Grouping::PerSession => peer.session(),
        };
        self.manager.open_for(now, peer.destination(), owner, &mut self.make)
    }

    /// Opens a connection; `None` if there are too many.
    pub fn open(&mut self, now: Time, peer: A, config: &Config) -> Option<ConnectionId> {
        let id = self.free_id()?;
        let flow = self.open_flow(now, peer);
        let requests = self.manager.controller(flow).is_some_and(Controller::requests_feedback);
        let feedback = if requests { feedback_request() } else { RouterFeedback::None };
        let connection = Connection::open(self.begin(config), flow, id.number(), feedback);
        self.insert(now, id, peer, flow, connection);
        Some(id)
    }

    /// `config` for one connection, with its first sequence number.
    fn begin(&mut self, config: &Config) -> Config {
        let first_sequence = config.first_sequence.unwrap_or_else(|| self.random.next_u32());
        Config { first_sequence: Some(first_sequence), ..config.clone() }
    }

    fn is_full(&self) -> bool {
        self.connections() >= self.config.max_connections.min(ConnectionId::MAX_CONNECTIONS)
    }

    fn free_id(&mut self) -> Option<ConnectionId> {
        if self.is_full() {
            return None;
        }
        if self.slots.is_empty() {
            self.slots.reserve_exact(1); // a host with one connection does not need memory for four
        }
        let draw = self.random.next_u32();
        let Some(last) = self.free.pop() else {
            self.slots.push(None);
            return Some(ConnectionId::first(self.slots.len() - 1, draw));
        };
        Some(last.next(draw))
    }

    fn insert(&mut self, now: Time, id: ConnectionId, peer: A, flow: FlowId, mut connection: Connection) {
        if connection.config.searches_packet_size() {
            let (base, max) = (connection.config.packet, connection.config.max_packet);
            connection.packet = self.packet_sizes.join(peer, base, max);
        }
        self.finished.discard(peer, id.number());
        let index = id.index();
        if self.by_flow.len() <= flow.index() {
            self.by_flow.resize(flow.index() + 1, 0);
        }
        self.by_flow[flow.index()] = index as u32;
        self.slots[index] = Some(Slot { id, peer, connection, queued: false, degraded_reason: None });
        self.update(now, index);
    }

    /// Handles a packet from `from`. `arrived_at` is the time at which it reached this host, by this host's clock:
    /// `now`, or the system's receive timestamp. Measurements of round trips and of one-way delays end at this time,
    /// even if the packet is read later.
    pub fn receive(&mut self, now: Time, from: A, packet: &Packet, ecn: Ecn, arrived_at: Time) -> Option<Received> {
        if packet.kind == Kind::Syn {
            self.on_syn(now, from, packet);
            return None;
        }
        let index = ConnectionId::from_number(packet.connection).index();
        let slot = self.slots.get_mut(index).and_then(Option::as_mut);
        let Some(slot) = slot.filter(|slot| slot.id.number() == packet.connection && slot.peer == from) else {
            if packet.kind == Kind::Data {
                match self.finished.answer(now, from, packet.connection) {
                    Some(answer) => self.resets.answer(answer),
                    None => self.resets.repeat(from, packet.connection),
                }
            }
            return None;
        };
        let id = slot.id;
        let connection = &mut slot.connection;
        let half_open = connection.state() == State::HalfOpen;
        let mut outcome = Outcome::default();
        connection.on_packet(now, packet, ecn, arrived_at, self.config.clock.read(arrived_at), &mut outcome);
        let flow = connection.flow;
        if let Some((rtt, feedback)) = outcome.opened {
            if half_open {
                self.accepted.on_opened(from, id);
            }
            self.events.push_back(if half_open { Event::Accepted(id, rtt) } else { Event::Opened(id, rtt) });
            self.manager.on_path(now, flow, connection.packet, rtt, feedback);
        }
        if connection.state() == State::Closed(CloseReason::FalseFeedback) {
            let reset = connection.reset();
            self.resets.send(now, (from, reset, id));
        }
        if let Some(packet_feedback) = &mut outcome.feedback {
            if !self.manager.controller(flow).is_some_and(Controller::has_own_codes) {
                connection.ecn.on_arrivals(now, &packet_feedback.change.arrivals);
            }
            if !connection.ecn.expects_marks() {
                packet_feedback.ignore_marks();
            }
            connection.limits.on_feedback(now, &packet_feedback.change);
            self.search_packet_size(now, index, Some(packet_feedback));
            self.report(now, index, flow, packet_feedback, packet.echoed_feedback);
        }
        self.update(now, index);
        outcome.fresh.map(|f| Received { connection: id, offset: f.offset, skip: f.skip, len: f.len })
    }

    fn on_syn(&mut self, now: Time, from: A, syn: &Packet) {
        if let Some(id) = self.accepted.find(from, syn.number) {
            let index = id.index();
            if let Some(slot) = &mut self.slots[index] {
                slot.connection.on_packet(now, syn, Ecn::NotEct, now, now, &mut Outcome::default());
                self.update(now, index);
            }
            return;
        }
        let Some(config) = self.config.accept.clone().filter(|_| !self.has_unread_events()) else { return };
        if self.accepted.half_open() >= self.config.max_half_open || self.is_full() {
            let Some(replaced) = self.accepted.to_replace() else { return };
            self.remove(now, replaced.index(), CloseReason::Aborted);
        }
        let Some(id) = self.free_id() else { return };
        let flow = self.open_flow(now, from);
        let connection = Connection::accept(self.begin(&config), flow, id.number(), syn);
        self.accepted.insert(from, syn.number, id);
        self.insert(now, id, from, flow, connection);
    }

    fn has_unread_events(&self) -> bool {
        self.events.len() >= self.config.max_connections.saturating_mul(EVENTS_A_CONNECTION)
    }

    fn report(
        &mut self,
        now: Time,
        index: usize,
        flow: FlowId,
        packet_feedback: &PacketFeedback,
        feedback: RouterFeedback,
    ) {
        if packet_feedback.is_undone {
            self.manager.restore_lost(flow, packet_feedback.change.restored);
            self.manager.undo(now, flow);
        }
        if packet_feedback.is_new() {
            self.report_new(now, index, flow, packet_feedback, feedback);
        }
        if packet_feedback.is_urgent && self.slots[index].as_mut().is_some_and(|slot| slot.connection.wants_to_send()) {
            self.manager.request(now, flow, true);
        }
    }

    fn report_new(
        &mut self,
        now: Time,
        index: usize,
        flow: FlowId,
        packet_feedback: &PacketFeedback,
        feedback: RouterFeedback,
    ) {
        let update = Update {
            arrived_in_flight: packet_feedback.change.arrived_in_flight,
            lost: packet_feedback.change.lost,
            delivered: packet_feedback.change.delivered,
            arrivals: &packet_feedback.change.arrivals,
            rtt: packet_feedback.rtt,
            loss: packet_feedback.loss,
            is_combined: packet_feedback.is_combined,
            flight_size: packet_feedback.flight_size,
            recovering: packet_feedback.recovering,
            feedback,
        };
        self.manager.update(now, flow, &update);
        let controller = self.manager.controller(flow);
        let ecn = self.slots[index].as_ref().and_then(|slot| slot.connection.ecn.degraded_reason());
        let mut degraded_reason = ecn.or(controller.and_then(Controller::degraded_reason));
        // A window or a rate that is too small keeps packets from being in flight.
        let idle = self.slots[index].as_ref().filter(|slot| slot.connection.in_flight() == Bytes::ZERO);
        if let (Some(controller), Some(slot)) = (controller, idle) {
            let fault = Fault::of(controller, slot.connection.config.packet);
            degraded_reason = fault.as_ref().map(Fault::reason).or(degraded_reason);
        }
        let is_read = !self.has_unread_events();
        if let (Some(reason), Some(slot), true) = (degraded_reason, &mut self.slots[index], is_read)
            && slot.degraded_reason.replace(reason) != degraded_reason
        {
            self.events.push_back(Event::Degraded(slot.id, reason));
        }
        self.manager.segregate(now, &mut self.make);
    }

    /// Updates queues and timers after a change of a connection.
    fn update(&mut self, now: Time, index: usize) {
        let Some(slot) = &mut self.slots[index] else { return };
        if let State::Closed(reason) = slot.connection.state() {
            if reason == CloseReason::Finished {
                let (remote, first_sequence) = (slot.connection.remote, slot.connection.sender.sequence(0));
                self.finished.keep(now, slot.peer, slot.id, remote, first_sequence);
            }
            self.remove(now, index, reason);
            return;
        }
        self.must_acknowledge |= slot.connection.receiver.must_acknowledge();
        if !slot.queued && slot.connection.wants_control(now) {
            slot.queued = true;
            self.control.push_back(index as u32);
        }
        let wants_to_send = slot.connection.wants_to_send();
        slot.connection.measure(now, wants_to_send);
        if wants_to_send {
            self.manager.request(now, slot.connection.flow, false);
        }
        self.timers.arm(index as u32, slot.connection.deadline());
    }

    fn remove(&mut self, now: Time, index: usize, reason: CloseReason) {
        let Some(slot) = self.slots[index].take() else { return };
        if slot.connection.config.searches_packet_size() {
            if let (Some(_), Some(size)) = (&slot.connection.size_probe, self.packet_sizes.get_mut(slot.peer)) {
                size.on_dropped();
            }
            self.packet_sizes.leave(slot.peer);
        }
        if slot.connection.accepted {
            self.accepted.remove(slot.peer, slot.connection.remote, slot.id, slot.connection.opened);
        }
        if slot.queued {
            self.control.retain(|&queued| queued as usize != index);
        }
        self.manager.close(now, slot.connection.flow);
        self.events.push_back(Event::Closed(slot.id, reason, slot.connection.statistics()));
        self.free.push(slot.id);
    }

    /// The next packet to send at `now` that needs no grant, if there is one: of a handshake, an acknowledgement, a
    /// reset. [`Endpoint::poll_transmit`] returns these, too.
    pub fn poll_control(&mut self, now: Time) -> Option<Transmit<A>> {
        let mut packet = Packet::default();
        self.write_control(now, &mut packet).map(|envelope| envelope.with(&packet))
    }

    fn write_control(&mut self, now: Time, packet: &mut Packet) -> Option<Envelope<A>> {
        if let Some((to, reset, connection)) = self.resets.poll() {
            *packet = reset;
            return Some(Envelope::new(to, connection, Ecn::NotEct));
        }
        while let Some(&index) = self.control.front() {
            if let Some(slot) = &mut self.slots[index as usize] {
                packet.reset();
                if slot.connection.transmit_control(now, packet) {
                    self.timers.arm(index, slot.connection.deadline());
                    let padding = slot.connection.padding(packet);
                    slot.queued = slot.connection.wants_control(now);
                    if !slot.queued {
                        self.control.pop_front();
                    }
                    return Some(Envelope { padding, ..Envelope::new(slot.peer, slot.id, Ecn::NotEct) });
                }
                slot.queued = false;
            }
            self.control.pop_front();
        }
        self.must_acknowledge = false;
        None
    }

    /// Whether an acknowledgement has to leave before another packet is handled: call [`Endpoint::poll_control`] then.
    /// Others may wait until all packets that were read together are handled, and report up to
    /// [`rampmeter_wire::MAX_RECEIPTS`] of them.
    pub fn must_acknowledge(&self) -> bool {
        self.must_acknowledge
    }

    /// The next packet to send at `now`, if there is one.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<A>> {
        let mut packet = Packet::default();
        self.write_next(now, &mut packet).map(|envelope| envelope.with(&packet))
    }

    /// The same, but the header replaces what is in `packet`: it is not copied.
    #[inline]
    pub fn write_next(&mut self, now: Time, packet: &mut Packet) -> Option<Envelope<A>> {
        if let Some(envelope) = self.write_control(now, packet) {
            return Some(envelope);
        }
        while let Some(grant) = self.manager.grant(now) {
            if self.datagrams.on_grant(now, grant.flow, &mut self.manager) {
                continue;
            }
            let index = self.by_flow[grant.flow.index()];
            let Some(slot) = &mut self.slots[index as usize] else { continue };
            packet.reset();
            let Some((offset, bytes)) = slot.connection.transmit(now, &grant, &mut self.random, packet) else {
                self.manager.notify(now, grant.flow, Bytes::ZERO);
                continue;
            };
            self.manager.notify(now, grant.flow, bytes);
            if slot.connection.wants_to_send() {
                self.manager.request(now, grant.flow, slot.connection.sender.is_urgent());
            } else {
                slot.connection.measure(now, false);
            }
            self.timers.arm(index, slot.connection.deadline());
            let ecn = slot.connection.ecn.on_sent(now, grant.ecn.unwrap_or(slot.connection.config.ecn));
            return Some(Envelope { offset, ..Envelope::new(slot.peer, slot.id, ecn) });
        }
        None
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// This host was stalled from `since` until now ([`Notice::Stall`](rampmeter_control::Notice::Stall)). To be called before the packets that
    /// have arrived since are handled.
    pub fn on_stall(&mut self, now: Time, since: Time) {
        self.manager.on_stall(now, since);
    }

    /// The time at which [`Endpoint::on_deadline`] must be called; [`Time::MAX`] for never.
    pub fn deadline(&self) -> Time {
        let others = self.datagrams.deadline().min(self.resets.deadline());
        self.timers.next().min(self.manager.deadline()).min(others)
    }

    /// Handles all deadlines up to `now`.
    pub fn on_deadline(&mut self, now: Time) {
        self.manager.on_deadline(now);
        self.datagrams.on_deadline(now, &mut self.manager);
        self.resets.on_deadline(now);
        while let Some(index) = self.timers.due(now) {
            let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::as_mut) else { continue };
            let (flow, feedback) = (slot.connection.flow, slot.connection.on_deadline(now));
            if feedback.is_some() && !self.manager.controller(flow).is_some_and(Controller::has_own_codes) {
                slot.connection.ecn.on_timeout(now, slot.connection.sender.timeouts);
            }
            self.search_packet_size(now, index as usize, feedback.as_ref());
            if let Some(packet_feedback) = feedback {
                self.report(now, index as usize, flow, &packet_feedback, RouterFeedback::None);
            }
            if self.slots[index as usize].as_ref().is_some_and(|slot| slot.connection.wants_to_probe()) {
                self.manager.request(now, flow, true);
            }
            self.update(now, index as usize);
        }
    }

    /// A connection, for inspection.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.slot(id).map(|slot| &slot.connection)
    }

    /// The peer's address.
    pub fn peer(&self, id: ConnectionId) -> Option<A> {
        self.slot(id).map(|slot| slot.peer)
    }

    fn slot(&self, id: ConnectionId) -> Option<&Slot<A>> {
        self.slots.get(id.index())?.as_ref().filter(|slot| slot.id == id)
    }

    fn slot_mut(&mut self, id: ConnectionId) -> Option<&mut Slot<A>> {
        self.slots.get_mut(id.index())?.as_mut().filter(|slot| slot.id == id)
    }

    /// The manager, for queries.
    pub fn manager(&self) -> &Manager<C> {
        &self.manager
    }

    /// The connection's flow at the manager.
    pub fn flow(&self, id: ConnectionId) -> Option<FlowId> {
        self.connection(id).map(|connection| connection.flow)
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// The header field of a `Syn` that requests a share from routers.
fn feedback_request() -> RouterFeedback {
    RouterFeedback::FairShare { share: Rate::MAX, queue: Bytes::ZERO }
}
