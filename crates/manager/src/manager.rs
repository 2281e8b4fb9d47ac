//! The manager: takes flows, returns grants.

use std::collections::VecDeque;

use rampmeter_control::{Controller, Departure, History, Notice, Path};
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::RouterFeedback;

use crate::choice::Earlier;
use crate::destinations::{Destination, Destinations, Owner, Place};
use crate::flow::{Change, Flow, FlowId, Grant, Grouping, Share, Sharing};
use crate::macroflow::{Attempt, Macroflow};
use crate::timers::Timers;
use crate::treatment::Counts;

/// The Congestion Manager of one host.
#[derive(Debug)]
pub struct Manager<C> {
    pub(crate) sharing: Sharing,
    pub(crate) flows: Vec<Option<Flow>>,
    free_flows: Vec<u32>,
    pub(crate) macroflows: Vec<Option<Macroflow<C>>>,
    pub(crate) free_macroflows: Vec<u32>,
    pub(crate) destinations: Destinations,
    /// Macroflows that may be able to grant permission.
    ready: VecDeque<u32>,
    /// The number of macroflows with full windows.
    full: u32,
    /// The time of each macroflow's next departure or of its controller's deadline.
    pub(crate) timers: Timers,
    /// Changes of shares that have not been reported yet.
    pub(crate) changes: VecDeque<Change>,
    /// Flows to be moved into a separate macroflow.
    pub(crate) splits: VecDeque<Vec<FlowId>>,
}

impl<C: Controller> Manager<C> {
    /// A manager without flows.
    pub fn new(sharing: Sharing) -> Self {
        Self {
            sharing,
            flows: Vec::new(),
            free_flows: Vec::new(),
            macroflows: Vec::new(),
            free_macroflows: Vec::new(),
            destinations: Destinations::default(),
            ready: VecDeque::new(),
            full: 0,
            timers: Timers::default(),
            changes: VecDeque::new(),
            splits: VecDeque::new(),
        }
    }

    /// Controllers of macroflows that are opened from now on may send the packets of each `bunch` of time together.
    pub fn allow_bunches(&mut self, bunch: Duration) {
        self.sharing.bunch = bunch;
    }

    /// Opens a flow to `destination` (`cm_open`). `make` creates the controller if the flow starts a macroflow.
    pub fn open(&mut self, now: Time, destination: Destination, make: impl FnOnce() -> C) -> FlowId {
        self.open_for(now, destination, Owner::default(), make)
    }

    /// Opens a flow of `owner`, which shares no macroflow and no history with flows of other owners.
    pub fn open_for(&mut self, now: Time, destination: Destination, owner: Owner, make: impl FnOnce() -> C) -> FlowId {
        let place = Place { owner, destination };
        let known = self.destinations.enter(now, place);
        let shared = known.macroflow.filter(|_| self.sharing.grouping.is_shared());
        let macroflow = shared.unwrap_or_else(|| {
            let new = Macroflow::new(place, make(), self.sharing);
            insert(&mut self.macroflows, &mut self.free_macroflows, new)
        });
        known.macroflow = Some(macroflow);
        let flow = Flow {
            macroflow,
            in_flight: Bytes::ZERO,
            earlier: None,
            requested: false,
            retransmission: false,
            custom_share: None,
            watch: None,
            counts: self.sharing.segregation.then(|| Box::new(Counts::since(now))),
        };
        let flow = insert(&mut self.flows, &mut self.free_flows, flow);
        if let Some(m) = &mut self.macroflows[macroflow as usize] {
            m.join(flow);
        }
        FlowId(flow)
    }

    /// Sets the flow's share of its macroflow. Weights must be positive and finite; a share with any other weight is
    /// ignored.
    pub fn share(&mut self, flow: FlowId, share: Share) {
        let is_weight = |weight: f64| weight.is_finite() && weight > 0.0;
        if is_weight(share.weight) && share.class.is_none_or(|(_, weight)| is_weight(weight)) {
            if let Some((macroflow, _)) = self.macroflow(flow) {
                macroflow.share(flow.0, share);
            }
            if let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) {
                f.custom_share = (share != Share::default()).then(|| Box::new(share));
            }
        }
    }

    /// Sets the flow's weight among its siblings; the rest of its share does not change.
    pub fn set_weight(&mut self, flow: FlowId, weight: f64) {
        if let Some(share) = self.of_flow(flow).map(|(f, _)| f.share()) {
            self.share(flow, Share { weight, ..share });
        }
    }

    /// Completes the flow's handshake: its path has this round-trip time and carries packets of up to `packet` bytes.
    pub fn on_path(&mut self, now: Time, flow: FlowId, packet: Bytes, rtt: Duration, feedback: RouterFeedback) {
        let Some(index) = self.macroflow_of(flow) else { return };
        let Some(macroflow) = &mut self.macroflows[index as usize] else { return };
        let of_all = Place::from(macroflow.place.destination);
        let is_session = self.sharing.grouping == Grouping::PerSession;
        let of_all = self.destinations.0.get(&of_all).filter(|_| is_session).and_then(|known| known.history);
        let mut known = self.destinations.0.get_mut(&macroflow.place);
        if let Some(known) = known.as_mut().filter(|_| !macroflow.started) {
            macroflow.offer(known.saved.take());
        }
        let history = known.as_ref().and_then(|known| known.history).or(of_all);
        macroflow.start(now, &Path { feedback, ..Path::new(packet, rtt, history) });
        self.wake(index);
    }

    /// Permits the flow to send before its path has been measured. Packets have up to `packet` bytes. The round-trip
    /// time is taken from history; without history it is one second. The first measurement restarts the controller.
    pub fn assume_path(&mut self, now: Time, flow: FlowId, packet: Bytes) {
        let Some(index) = self.macroflow_of(flow) else { return };
        let Some(macroflow) = &mut self.macroflows[index as usize] else { return };
        let known = self.destinations.0.get(&macroflow.place);
        let (history, last) = known.map_or((None, None), |known| (known.history, known.round_trip));
        macroflow.assume(now, packet, history, last);
        self.wake(index);
    }

    /// The maximum size of the flow's packets, headers included (`cm_mtu`); zero before the path is established.
    pub fn mtu(&self, flow: FlowId) -> Bytes {
        self.of_flow(flow).map_or(Bytes::ZERO, |(_, macroflow)| macroflow.packet)
    }

    /// The flow's path carries packets of up to `packet` bytes from now on.
    pub fn set_packet_size(&mut self, now: Time, flow: FlowId, packet: Bytes) {
        let Some((macroflow, index)) = self.macroflow(flow) else { return };
        macroflow.set_packet_size(now, packet);
        let deadline = macroflow.controller.deadline();
        self.timers.arm(index, deadline);
        self.wake(index);
    }

    /// The smoothed round-trip time of the flow's path and its retransmission timeout; none before the path is
    /// established.
    pub fn round_trip(&self, flow: FlowId) -> Option<(Duration, Duration)> {
        self.of_flow(flow).and_then(|(_, macroflow)| macroflow.round_trip())
    }

    /// Replaces the controller of the flow's macroflow, for all flows that share it. After the handshake the new
    /// controller starts at once, as on a new path with the measured round-trip time. The old controller's history is
    /// stored as at the end of a macroflow. Router feedback of the handshake is not repeated.
    pub fn replace(&mut self, now: Time, flow: FlowId, controller: C) {
        let Some(index) = self.macroflow_of(flow) else { return };
        let Some(macroflow) = &mut self.macroflows[index as usize] else { return };
        let known = self.destinations.0.entry(macroflow.place).or_default();
        if !macroflow.is_chosen {
            macroflow.remember(now, &mut known.history);
        }
        macroflow.controller = controller;
        macroflow.restart(now, known.history);
        self.timers.arm(index, macroflow.controller.deadline());
        self.wake(index);
    }

    /// The flow has a packet to send (`cm_request`). `retransmission`: the packet repairs a loss and may leave although
    /// the window is full.
    pub fn request(&mut self, now: Time, flow: FlowId, retransmission: bool) {
        let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) else { return };
        let was_active = f.is_active();
        let requested = if retransmission { &mut f.retransmission } else { &mut f.requested };
        if std::mem::replace(requested, true) {
            return;
        }
        let index = f.macroflow;
        if let Some(macroflow) = &mut self.macroflows[index as usize] {
            macroflow.request(now, flow.0, retransmission);
            if let Some(max) = macroflow.first_windows_limit().filter(|_| !was_active) {
                let members = macroflow.members.iter().filter_map(|&member| self.flows[member as usize].as_ref());
                let active = members.filter(|flow| flow.is_active()).take(max).count();
                macroflow.on_active_flows(now, active);
            }
            self.wake(index);
        }
    }

    /// The next permission to send at `now` (`cmapp_send`). The flow must call [`Manager::notify`] before the next
    /// call.
    pub fn grant(&mut self, now: Time) -> Option<Grant> {
        while let Some(&index) = self.ready.front() {
            if let Some(macroflow) = &mut self.macroflows[index as usize] {
                let attempt = if macroflow.started { macroflow.attempt(now) } else { Attempt::NothingToSend };
                let is_full = matches!(attempt, Attempt::WindowFull(_));
                let was_full = std::mem::replace(&mut macroflow.is_full, is_full);
                self.full = self.full + u32::from(is_full) - u32::from(was_full);
                if let Attempt::Granted { flow, number, departure: Departure { bytes, feedback, .. } } = attempt {
                    let ecn = macroflow.controller.ecn();
                    if self.ready.len() > 1 {
                        self.ready.rotate_left(1); // macroflows take turns
                    }
                    let Some(f) = &mut self.flows[flow as usize] else { continue };
                    let request = if f.retransmission { &mut f.retransmission } else { &mut f.requested };
                    *request = false;
                    return Some(Grant { flow: FlowId(flow), number, bytes, feedback, ecn });
                }
                macroflow.ready = false;
                if let Attempt::TooEarly(at) | Attempt::WindowFull(at) = attempt {
                    self.timers.arm(index, at);
                }
            }
            self.ready.pop_front();
        }
        None
    }

    /// Whether a flow with something to send waits for space in a window. If so, reading feedback sooner lets it send
    /// sooner.
    pub fn awaits_feedback(&self) -> bool {
        self.full > 0
    }

    /// The flow used its grant for a packet of `bytes`, headers included; zero if it had nothing to send (`cm_notify`).
    pub fn notify(&mut self, now: Time, flow: FlowId, bytes: Bytes) {
        if let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) {
            f.count_time(now);
            f.in_flight += bytes;
        }
        if let Some((macroflow, index)) = self.macroflow(flow) {
            macroflow.sent(now, bytes);
            let deadline = macroflow.controller.deadline();
            self.timers.arm(index, deadline);
        }
    }

    /// The macroflow of a flow. The number serves only to find out which flows share a macroflow.
    pub fn macroflow_of(&self, flow: FlowId) -> Option<u32> {
        self.flows.get(flow.0 as usize)?.as_ref().map(|flow| flow.macroflow)
    }

    pub(crate) fn of_flow(&self, flow: FlowId) -> Option<(&Flow, &Macroflow<C>)> {
        let f = self.flows.get(flow.0 as usize)?.as_ref()?;
        Some((f, self.macroflows[f.macroflow as usize].as_ref()?))
    }

    /// The flow's controller, for meters and tests.
    pub fn controller(&self, flow: FlowId) -> Option<&C> {
        self.of_flow(flow).map(|(_, macroflow)| &macroflow.controller)
    }

    /// Stores a history of `destination` that another host or an earlier run measured, unless there is one already.
    pub fn import_history(&mut self, destination: Destination, history: History) {
        self.destinations.import_history(destination, history);
    }

    /// What an owner's flows have shown of a destination until now.
    pub fn history_of(&self, now: Time, owner: Owner, destination: Destination) -> Option<History> {
        let known = self.destinations.0.get(&Place { owner, destination })?;
        let macroflow = known.macroflow.and_then(|index| self.macroflows[index as usize].as_ref());
        let mut history = known.history;
        if let Some(macroflow) = macroflow.filter(|macroflow| !macroflow.is_chosen) {
            macroflow.remember(now, &mut history);
        }
        history
    }

    /// Sessions to this destination begin with this history from now on ([`Grouping::PerSession`]).
    pub fn keep_history(&mut self, now: Time, destination: Destination, history: History) {
        self.destinations.enter(now, destination.into()).history = Some(history);
    }

    /// The history of a destination, of flows without a particular owner.
    pub fn history(&self, destination: Destination) -> Option<History> {
        self.destinations.0.get(&destination.into()).and_then(|known| known.history)
    }

    /// Closes the flow (`cm_close`). A macroflow that other flows may join remains for a retransmission timeout after
    /// its last flow; its history remains longer.
    pub fn close(&mut self, now: Time, flow: FlowId) {
        let Some(f) = self.flows.get_mut(flow.0 as usize).and_then(Option::take) else { return };
        self.free_flows.push(flow.0);
        self.changes.retain(|change| change.flow != flow);
        if let Some(Earlier { macroflow, bytes, .. }) = f.earlier.as_deref().copied() {
            self.discard_of(now, macroflow, bytes);
        }
        let Some(macroflow) = &mut self.macroflows[f.macroflow as usize] else { return };
        macroflow.close(now, flow.0, f.in_flight);
        macroflow.watchers -= u32::from(f.watch.is_some());
        self.on_leave(now, f.macroflow);
    }

    /// A flow has left the macroflow. After the last one the macroflow's history is stored, but not that of a macroflow
    /// of choice: new flows to the destination are not treated like its flows.
    pub(crate) fn on_leave(&mut self, now: Time, index: u32) {
        let Some(macroflow) = &mut self.macroflows[index as usize] else { return };
        if !macroflow.members.is_empty() {
            return self.wake(index);
        }
        if let Some(known) = self.destinations.0.get_mut(&macroflow.place).filter(|_| !macroflow.is_chosen) {
            macroflow.remember(now, &mut known.history);
            known.saved = macroflow.saved(now).or(known.saved);
            known.last_used = now;
            known.round_trip = macroflow.measured().or(known.round_trip);
        }
        let may_be_joined = self.sharing.grouping.is_shared() && !macroflow.is_chosen;
        let lingers = may_be_joined && macroflow.started;
        self.retire(now, index, lingers);
    }

    /// Ends a macroflow without flows; later if it `lingers`, or while flows that have left have bytes in flight there.
    pub(crate) fn retire(&mut self, now: Time, index: u32, lingers: bool) {
        let Some(macroflow) = &mut self.macroflows[index as usize] else { return };
        if lingers || macroflow.has_in_flight() {
            macroflow.ends_at = now + macroflow.linger_time();
            self.timers.arm(index, macroflow.ends_at);
        } else {
            self.end(index);
        }
    }

    fn end(&mut self, index: u32) {
        let Some(macroflow) = self.macroflows[index as usize].take() else { return };
        self.full -= u32::from(macroflow.is_full);
        let successor = self.remove_origin(index, &macroflow);
        let known = self.destinations.0.get_mut(&macroflow.place);
        if let Some(known) = known.filter(|known| known.macroflow == Some(index)) {
            known.macroflow = successor;
            if self.sharing.grouping == Grouping::PerSession && successor.is_none() {
                self.destinations.0.remove(&macroflow.place);
            }
        }
        self.free_macroflows.push(index);
        self.ready.retain(|&ready| ready != index);
    }

    /// This host was stalled from `since` until now ([`Notice::Stall`]).
    pub fn on_stall(&mut self, now: Time, since: Time) {
        for macroflow in self.macroflows.iter_mut().flatten().filter(|macroflow| macroflow.started) {
            macroflow.controller.on_notice(now, Notice::Stall { since });
        }
    }

    /// The time at which [`Manager::on_deadline`] must be called; [`Time::MAX`] for never.
    pub fn deadline(&self) -> Time {
        self.timers.next()
    }

    /// Handles all deadlines up to `now`: departures, controllers' deadlines, aging, the end of macroflows.
    pub fn on_deadline(&mut self, now: Time) {
        while let Some(index) = self.timers.due(now) {
            let Some(Some(macroflow)) = self.macroflows.get_mut(index as usize) else { continue };
            if macroflow.ends_at <= now {
                self.retire(now, index, false);
                continue;
            }
            if macroflow.controller.deadline() <= now {
                macroflow.controller.on_deadline(now);
            }
            macroflow.on_aging_timer(now);
            let aging = macroflow.next_halving(now);
            let deadline = macroflow.controller.deadline().min(macroflow.ends_at).min(aging);
            if aging < Time::MAX {
                self.compare_shares(now, index);
            }
            // A deadline in the past would cause endless wake-ups at the same instant.
            self.timers.arm(index, deadline.max(now + Duration::from_nanos(1)));
            self.wake(index);
        }
    }

    pub(crate) fn macroflow(&mut self, flow: FlowId) -> Option<(&mut Macroflow<C>, u32)> {
        let index = self.flows.get(flow.0 as usize)?.as_ref()?.macroflow;
        self.macroflows[index as usize].as_mut().map(|macroflow| (macroflow, index))
    }

    pub(crate) fn wake(&mut self, index: u32) {
        if let Some(macroflow) = &mut self.macroflows[index as usize]
            && !std::mem::replace(&mut macroflow.ready, true)
        {
            self.ready.push_back(index);
        }
    }
}

/// Puts `item` into a free slot.
pub(crate) fn insert<T>(slots: &mut Vec<Option<T>>, free: &mut Vec<u32>, item: T) -> u32 {
    if let Some(index) = free.pop() {
        slots[index as usize] = Some(item);
        return index;
    }
    if slots.is_empty() {
        slots.reserve_exact(1); // a host with one flow does not need memory for four
    }
    slots.push(Some(item));
    (slots.len() - 1) as u32
}
