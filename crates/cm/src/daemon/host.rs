//! All flows of all processes of a host over one manager. No sockets, no clock, no shared memory: commands and time go
//! in, actions come out.
//!
//! Grants go to other processes, so many are under way at once. Each therefore counts as sent in full when it is given,
//! and when the answer comes what was not used is taken back. An answer that does not come within [`Limits::patience`]
//! takes all of it back; a flow that leaves too many in a row unanswered is closed. So is one that is silent for long.
//!
//! What becomes of packets says their process (`cm_update`) or, for those that were left here (`buffered`), the
//! receiver's Congestion Manager. Where nobody does, `silence` sees to it that nothing waits for ever.

mod buffered;
mod silence;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use rampmeter_control::AnyController;
use rampmeter_control::registry::Factory;
use rampmeter_manager::{Agent, AgentConfig, FlowId, Grouping, LossMode, Manager, Share, Sharing, Thresholds, Timers};
use rampmeter_units::{Bytes, Duration, Ecn, Stream, Time};
use rand::RngCore;

use super::flow::{Fed, Flow, Held};
use super::listeners::Listeners;
use super::options::Limits;
use super::paths::{self, destination, is_one_host};
use super::protocol::{Carriage, Protocol};
use crate::error::Error;
use crate::limits;
use crate::message::{Command, Feedback, Notice, PathState};

/// What the daemon has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Tell the process of a flow.
    Tell { client: u32, id: u32, notice: Notice },
    /// Send a datagram for a flow.
    Transmit { to: SocketAddr, data: Vec<u8> },
    /// Send a message to another Congestion Manager.
    Say { to: SocketAddr, message: Vec<u8>, ecn: Ecn },
    /// Hand a datagram on to a program of this host.
    Deliver { to: SocketAddr, data: Vec<u8> },
}

/// Why a client is no longer talked to: it did what no client of ours does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Misuse;

pub(crate) struct Host {
    manager: Manager<AnyController>,
    agent: Agent<SocketAddr>,
    carriage: Carriage,
    listeners: Listeners,
    /// First numbers of conversations come from it: nobody must foresee them.
    random: Box<dyn RngCore + Send>,
    /// What came in and was no message.
    garbage: u64,
    factory: Factory,
    seeds: u64,
    limits: Limits,
    /// Flows, by the manager's number.
    flows: Vec<Option<Flow>>,
    /// Each client's flows, by the low bits of its ids; one above the manager's number, zero for none.
    names: HashMap<u32, Vec<u32>>,
    /// When each flow must be looked after.
    timers: Timers,
    actions: VecDeque<Action>,
}

impl Host {
    pub(crate) fn new(
        factory: Factory,
        sharing: Sharing,
        limits: Limits,
        protocol: &Protocol,
        random: Box<dyn RngCore + Send>,
    ) -> Self {
        Self {
            manager: Manager::new(Sharing { grouping: Grouping::PerDestination, ..sharing }),
            agent: Agent::patient(AgentConfig::default(), limits.patience),
            carriage: protocol.carriage,
            listeners: Listeners::new(&protocol.deliver),
            random,
            garbage: 0,
            factory,
            seeds: 0,
            limits,
            flows: Vec::new(),
            names: HashMap::new(),
            timers: Timers::default(),
            actions: VecDeque::new(),
        }
    }

    /// What is to be done next.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Host::advance`] wants to be called.
    pub(crate) fn deadline(&self) -> Time {
        self.manager.deadline().min(self.timers.next()).min(self.agent.deadline())
    }

    /// `client` opens a flow; packets to its destination carry up to `mtu` bytes.
    pub(crate) fn open(
        &mut self,
        now: Time,
        client: u32,
        id: u32,
        to: SocketAddr,
        share: Share,
        mtu: Bytes,
    ) -> Result<(), Misuse> {
        let place = limits::place(id);
        let names = self.names.entry(client).or_default();
        if names.len() <= place {
            names.resize(place + 1, 0);
        }
        if names[place] != 0 {
            return Err(Misuse); // clients don't use a place again before they close it
        }
        if !is_one_host(to.ip()) {
            self.tell(client, id, Notice::Over(Error::Destination));
            return Ok(());
        }
        let destination = destination(to.ip());
        // Who may leave datagrams here is to know how large they may be.
        let overhead = if to.port() == 0 { 0 } else { self.carriage.overhead(to.ip()) };
        let mtu = mtu.saturating_sub(Bytes::new(overhead as u64));
        let (factory, seeds) = (&self.factory, &mut self.seeds);
        let manager_id = self.manager.open(now, destination, || make(factory, seeds));
        let index = manager_id.index();
        if let Some(names) = self.names.get_mut(&client) {
            names[place] = index as u32 + 1;
        }
        self.manager.share(manager_id, share);
        paths::begin(&mut self.manager, now, manager_id, mtu);
        self.manager.watch(now, manager_id, Thresholds::default());
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, || None);
        }
        let flow = Flow {
            client,
            id,
            manager_id,
            destination,
            to,
            wanted: 0,
            held: VecDeque::new(),
            ignored: 0,
            fed: Fed::Undecided,
            in_flight: Bytes::ZERO,
            unreported: None,
            late: Bytes::ZERO,
            by_agent: (0, 0),
            queue: VecDeque::new(),
            queued: 0,
            last_heard: now,
            silent: false,
        };
        self.timers.arm(index as u32, flow.deadline(self.limits.silence, Duration::MAX));
        self.flows[index] = Some(flow);
        let (mtu, state) = (self.manager.mtu(manager_id).min(mtu), paths::state(&self.manager, now, manager_id));
        self.tell(client, id, Notice::Opened { mtu: mtu.as_u64() as u32, state });
        Ok(())
    }

    /// `client` says something of its flow `id`. What is said of a flow that is over already crossed that news on its
    /// way.
    pub(crate) fn command(&mut self, now: Time, client: u32, id: u32, command: Command, data: Vec<u8>) {
        let Some(index) = self.index(client, id) else { return };
        if let Some(flow) = &mut self.flows[index] {
            flow.last_heard = now;
        }
        match command {
            Command::Open { .. } | Command::Listen { .. } | Command::Hint { .. } => {}
            Command::Close => self.end(now, index, None),
            Command::Request => self.request(now, index),
            Command::Notify { sent } => self.notify(now, index, sent),
            Command::Update(feedback) => self.update(now, index, feedback),
            Command::Send { .. } => self.send(now, index, data),
            Command::Query { token } => self.query(now, index, token),
            Command::Share(share) => {
                if let Some(flow) = &self.flows[index] {
                    self.manager.share(flow.manager_id, share);
                }
            }
            Command::Watch(thresholds) => {
                if let Some(flow) = &self.flows[index] {
                    self.manager.watch(now, flow.manager_id, thresholds);
                }
            }
        }
    }

    /// All flows of `client` end; nobody is left to be told.
    pub(crate) fn forget(&mut self, now: Time, client: u32) {
        self.listeners.forget(client);
        for name in self.names.remove(&client).unwrap_or_default() {
            if let Some(index) = name.checked_sub(1) {
                self.end(now, index as usize, None);
            }
        }
    }

    /// Does what is due, and gives the grants that can be given.
    pub(crate) fn advance(&mut self, now: Time) {
        if self.manager.deadline() <= now {
            self.manager.on_deadline(now);
        }
        while let Some(index) = self.timers.due(now) {
            self.look_after(now, index as usize);
        }
        if self.agent.deadline() <= now {
            self.agent.on_deadline(now, &mut self.manager);
            self.speak();
        }
        let (factory, seeds) = (&self.factory, &mut self.seeds);
        self.manager.segregate(now, || make(factory, seeds));
        while let Some(grant) = self.manager.grant(now) {
            self.pass_on(now, grant.flow, grant.bytes);
        }
        while let Some(change) = self.manager.poll_change() {
            let Some(Some(flow)) = self.flows.get(change.flow.index()) else { continue };
            let state = PathState { rate: change.share, srtt: change.smoothed_rtt };
            self.tell(flow.client, flow.id, Notice::Change(state));
        }
    }

    fn index(&self, client: u32, id: u32) -> Option<usize> {
        let name = *self.names.get(&client)?.get(limits::place(id))?;
        let index = name.checked_sub(1)? as usize;
        self.flows.get(index)?.as_ref().filter(|flow| flow.id == id).map(|_| index)
    }

    fn tell(&mut self, client: u32, id: u32, notice: Notice) {
        self.actions.push_back(Action::Tell { client, id, notice });
    }

    fn request(&mut self, now: Time, index: usize) {
        let Some(flow) = &mut self.flows[index] else { return };
        // More than clients of ours ask for at once are not counted.
        flow.wanted = (flow.wanted + 1).min(limits::MAX_REQUESTS);
        self.manager.request(now, flow.manager_id, false);
    }

    /// The flow may send: a datagram that it left here, or its process.
    fn pass_on(&mut self, now: Time, manager_id: FlowId, bytes: Bytes) {
        let index = manager_id.index();
        let patience = self.manager.round_trip(manager_id).map_or(Duration::ZERO, |(smoothed, _)| smoothed * 2);
        let Some(Some(flow)) = self.flows.get_mut(index) else { return };
        let (client, id) = (flow.client, flow.id);
        if let Some(data) = flow.queue.pop_front() {
            let length = data.len() as u64;
            flow.queued -= length;
            self.transmit(now, index, data);
            self.tell(client, id, Notice::Left { bytes: length as u32 });
        } else if flow.wanted > 0 {
            flow.wanted -= 1;
            flow.in_flight += bytes;
            let until = now + patience.max(self.limits.patience);
            flow.held.push_back(Held { bytes, until });
            self.manager.notify(now, manager_id, bytes);
            self.timers.arm(index as u32, until);
            self.actions.push_back(Action::Tell { client, id, notice: Notice::Grant { bytes: bytes.as_u64() as u32 } });
        } else {
            self.manager.notify(now, manager_id, Bytes::ZERO);
        }
        if self.flows[index].as_ref().is_some_and(Flow::asks) {
            self.manager.request(now, manager_id, false);
        }
    }

    /// The flow's process has sent so much: on the oldest grant, or on its own account.
    fn notify(&mut self, now: Time, index: usize, sent: Bytes) {
        let Some(flow) = &mut self.flows[index] else { return };
        let sent = sent.min(Bytes::new(limits::MAX_PACKET_BYTES)); // clients of ours refuse more
        let counted = flow.held.pop_front().map_or(Bytes::ZERO, |held| held.bytes);
        flow.ignored = 0;
        flow.in_flight = (flow.in_flight + sent).saturating_sub(counted);
        let manager_id = flow.manager_id;
        if sent > counted {
            self.manager.notify(now, manager_id, sent.saturating_sub(counted));
        } else {
            self.manager.unsent(now, manager_id, counted.saturating_sub(sent));
        }
        self.await_news(now, index);
    }

    fn update(&mut self, now: Time, index: usize, feedback: Feedback) {
        self.feed_by_itself(now, index);
        let Some(flow) = &mut self.flows[index] else { return };
        // Nobody has received, or lost, more than was sent.
        let received = feedback.received.min(flow.in_flight);
        let lost = feedback.lost.min(flow.in_flight.saturating_sub(received));
        flow.in_flight = flow.in_flight.saturating_sub(received + lost);
        let late = feedback.received.saturating_sub(received).min(flow.late);
        flow.late = flow.late.saturating_sub(late);
        if late > Bytes::ZERO {
            self.manager.give_again(flow.manager_id, late);
        }
        let feedback = Feedback { received: received + late, lost, ..feedback };
        paths::report(&mut self.manager, now, flow.manager_id, &feedback, flow.silent);
        let is_persistent = feedback.mode == Some(LossMode::Persistent);
        flow.silent = is_persistent || (flow.silent && feedback.received == Bytes::ZERO);
        flow.unreported = None;
        self.await_news(now, index);
    }

    fn send(&mut self, now: Time, index: usize, data: Vec<u8>) {
        let Some(flow) = &mut self.flows[index] else { return };
        let length = data.len() as u64;
        if flow.queued + length > limits::MAX_QUEUED || flow.queue.len() >= limits::MAX_DATAGRAMS {
            // Clients of ours count for themselves and don't come here.
            let (client, id) = (flow.client, flow.id);
            self.tell(client, id, Notice::Left { bytes: length as u32 });
            return;
        }
        flow.queued += length;
        flow.queue.push_back(data);
        self.feed_by_agent(now, index);
        if let Some(flow) = &self.flows[index] {
            self.manager.request(now, flow.manager_id, false);
        }
    }

    fn query(&mut self, now: Time, index: usize, token: u64) {
        let Some(flow) = &self.flows[index] else { return };
        let state = paths::state(&self.manager, now, flow.manager_id);
        self.tell(flow.client, flow.id, Notice::State { token, state });
    }

    /// Takes back grants that nobody answered, and ends flows that nobody cares for.
    fn look_after(&mut self, now: Time, index: usize) {
        self.give_back(now, index);
        let patience = self.patience(index);
        let Some(Some(flow)) = self.flows.get_mut(index) else { return };
        while let Some(held) = flow.held.front().copied().filter(|held| held.until <= now) {
            flow.held.pop_front();
            flow.ignored += 1;
            flow.in_flight = flow.in_flight.saturating_sub(held.bytes);
            self.manager.unsent(now, flow.manager_id, held.bytes);
        }
        if flow.ignored >= self.limits.ignored {
            return self.end(now, index, Some(Error::Unanswered));
        }
        // A flow that waits for its turn has said all that it can.
        if flow.asks() || !flow.held.is_empty() {
            flow.last_heard = now;
        }
        if flow.last_heard + self.limits.silence <= now {
            return self.end(now, index, Some(Error::Silent));
        }
        let deadline = flow.deadline(self.limits.silence, patience);
        self.timers.arm(index as u32, deadline.max(now + Duration::from_nanos(1)));
    }

    fn end(&mut self, now: Time, index: usize, why: Option<Error>) {
        let Some(flow) = self.flows.get_mut(index).and_then(Option::take) else { return };
        self.agent.close(flow.manager_id);
        self.manager.close(now, flow.manager_id);
        if let Some(name) = self.names.get_mut(&flow.client).and_then(|names| names.get_mut(limits::place(flow.id))) {
            *name = 0;
        }
        if let Some(error) = why {
            self.tell(flow.client, flow.id, Notice::Over(error));
        }
    }

    pub(super) fn manager(&self) -> &Manager<AnyController> {
        &self.manager
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter().flatten()
    }
}

/// A controller with chances of its own.
fn make(factory: &Factory, seeds: &mut u64) -> AnyController {
    *seeds += 1;
    factory(Stream::from_seed(*seeds))
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("manager", &self.manager).field("flows", &self.flows).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
