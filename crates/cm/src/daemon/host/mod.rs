//! All flows of all processes of a host with one manager. No sockets, no clock, no shared memory: commands and time are
//! arguments, actions are results.
//!
//! Grants go to other processes, so many are pending at once. Each grant therefore counts as sent in full when it is
//! given, and the answer returns what was not used. A grant without an answer within [`Limits::grant_timeout`] is
//! revoked; a flow with too many revoked grants in a row is closed. A flow that makes no call for a long time is closed
//! too.
//!
//! Feedback comes from the flow's process (`cm_update`) or, for datagrams that the daemon sends (`buffered`), from the
//! receiver's Congestion Manager. If no feedback comes, `missing_feedback` removes the bytes in flight after a timeout.

mod buffered;
mod missing_feedback;
mod own_socket;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use rampmeter_control::AnyController;
use rampmeter_control::registry::Factory;
use rampmeter_manager::{
    Agent, AgentConfig, Destination, FlowId, Grant, Grouping, LossMode, MacroflowChoice, MacroflowError, Manager,
    Owner, Report, Share, Sharing, Thresholds, Timers,
};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Time};
use rand::RngCore;

use self::own_socket::OWN_HEADERS;
use super::clients::Clients;
use super::flow::{DaemonFlow, FeedbackSource, PendingGrant};
use super::listeners::Listeners;
use super::options::Limits;
use super::protocol::{Carriage, Protocol};
use crate::error::Error;
use crate::limits;
use crate::message::{Command, Feedback, Macroflow, Notice, PathState};

/// The minimum round-trip time, even within a host; shorter reports are raised to it.
const MIN_RTT: Duration = Duration::from_micros(10);

/// An action for the daemon.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send a notice to the process of a flow.
    Notify { client: u32, id: u32, notice: Notice },
    /// Send a flow's datagram.
    Transmit { to: SocketAddr, data: Vec<u8> },
    /// Send a message to another Congestion Manager.
    SendMessage { to: SocketAddr, message: Vec<u8>, ecn: Ecn },
    /// Forward a datagram to a program of this host.
    Deliver { to: SocketAddr, data: Vec<u8> },
}

/// A client did something that the client library never does; its connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Misuse;

pub(crate) struct Host {
    pub(super) manager: Manager<AnyController>,
    pub(super) agent: Agent<SocketAddr>,
    carriage: Carriage,
    listeners: Listeners,
    /// The source of the first sequence numbers, which must be unpredictable.
    random: Box<dyn RngCore + Send>,
    /// The number of received packets that were not valid messages, or that had a wrong tag.
    pub(super) garbage: u64,
    factory: Factory,
    seeds: u64,
    limits: Limits,
    /// The flows by the manager's index.
    flows: Vec<Option<DaemonFlow>>,
    pub(super) clients: Clients,
    /// The timer of each flow.
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
            agent: Agent::with_min_timeout(AgentConfig::default(), limits.grant_timeout),
            carriage: protocol.carriage,
            listeners: Listeners::new(&protocol.deliver),
            random,
            garbage: 0,
            factory,
            seeds: 0,
            limits,
            flows: Vec::new(),
            clients: Clients::new(),
            timers: Timers::default(),
            actions: VecDeque::new(),
        }
    }

    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The time at which [`Host::advance`] has to be called.
    pub(crate) fn deadline(&self) -> Time {
        self.manager.deadline().min(self.timers.next()).min(self.agent.deadline())
    }

    /// A client of `owner` connects.
    pub(crate) fn add_client(&mut self, client: u32, owner: Owner) {
        self.clients.add(client, owner);
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
        if self.clients.flow(client, id).is_some() {
            return Err(Misuse); // the library closes a flow before it uses the slot again
        }
        if !self.clients.may_open(client) {
            self.notify_client(client, id, Notice::Ended(Error::TooManyFlows));
            return Ok(());
        }
        if !is_one_host(to.ip()) {
            self.notify_client(client, id, Notice::Ended(Error::Destination));
            return Ok(());
        }
        let destination = Destination::from(to.ip());
        // For a flow that can send datagrams here, the MTU excludes the headers of the messages.
        let overhead = if to.port() == 0 { 0 } else { self.carriage.overhead(to.ip()) };
        let mtu = mtu.saturating_sub(Bytes::new(overhead as u64));
        let owner = self.clients.owner(client);
        let (factory, seeds) = (&self.factory, &mut self.seeds);
        let manager_id = self.manager.open_for(now, destination, owner, || make(factory, seeds));
        let index = manager_id.index();
        self.clients.opened(client, id, index);
        self.manager.share(manager_id, share);
        // There was no handshake: the path's state comes from the history, or is assumed until it is measured.
        self.manager.assume_path(now, manager_id, mtu);
        self.manager.watch(now, manager_id, Thresholds::default());
        let mtu = mtu.min(self.manager.mtu(manager_id));
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, || None);
        }
        let flow = DaemonFlow {
            client,
            id,
            owner,
            manager_id,
            destination,
            to,
            mtu,
            requests: 0,
            grants: VecDeque::new(),
            unanswered: 0,
            feedback_source: FeedbackSource::Unknown,
            own_socket: false,
            in_flight: Bytes::ZERO,
            unreported_since: None,
            late_reports: Bytes::ZERO,
            agent_bytes: (0, 0),
            queue: VecDeque::new(),
            queued: 0,
            last_active: now,
            persistent_loss: false,
        };
        self.timers.arm(index as u32, flow.deadline(self.limits.idle_timeout, Duration::MAX));
        self.flows[index] = Some(flow);
        let state = self.path_state(now, manager_id);
        self.notify_client(client, id, Notice::Opened { mtu: mtu.as_u64() as u32, state });
        Ok(())
    }

    /// A command of `client` about its flow `id`. A command about a closed flow was sent before the client got the
    /// notice, and is ignored.
    pub(crate) fn command(&mut self, now: Time, client: u32, id: u32, command: Command, data: Vec<u8>) {
        let Some(index) = self.index(client, id) else { return };
        let Some(flow) = &mut self.flows[index] else { return };
        flow.last_active = now;
        let manager_id = flow.manager_id;
        match command {
            Command::Open { .. } | Command::Listen { .. } | Command::Hint { .. } => {}
            Command::Close => self.end(now, index, None),
            Command::Request => self.request(now, index),
            Command::Notify { sent, tag } => self.notify(now, index, sent, tag),
            Command::Update(feedback) => self.update(now, index, feedback),
            Command::Send { .. } => self.send(now, index, data),
            Command::Query { token } => {
                let state = self.path_state(now, manager_id);
                self.notify_client(client, id, Notice::State { token, state });
            }
            Command::Share(share) => self.manager.share(manager_id, share),
            Command::Watch(thresholds) => self.manager.watch(now, manager_id, thresholds),
            Command::SetMacroflow { token, to } => {
                let result = self.set_macroflow(now, client, manager_id, to);
                if let (Ok(()), Some(flow)) = (&result, &mut self.flows[index]) {
                    flow.late_reports = Bytes::ZERO; // they would count in the new macroflow
                }
                self.notify_client(client, id, Notice::Done { token, result });
            }
            Command::Header { token } => {
                let result = self.use_own_socket(now, index);
                self.notify_client(client, id, Notice::Done { token, result });
            }
        }
    }

    /// All flows of `client` end, without notices.
    pub(crate) fn remove_client(&mut self, now: Time, client: u32) {
        self.listeners.remove_client(client);
        for index in self.clients.remove(client) {
            self.end(now, index, None);
        }
    }

    /// Runs the timers that are due, and gives all grants that are permitted.
    pub(crate) fn advance(&mut self, now: Time) {
        if self.manager.deadline() <= now {
            self.manager.on_deadline(now);
        }
        while let Some(index) = self.timers.due(now) {
            self.on_flow_timer(now, index as usize);
        }
        if self.agent.deadline() <= now {
            self.agent.on_deadline(now, &mut self.manager);
            self.after_agent();
        }
        let (factory, seeds) = (&self.factory, &mut self.seeds);
        self.manager.segregate(now, || make(factory, seeds));
        while let Some(grant) = self.manager.grant(now) {
            self.forward_grant(now, &grant);
        }
        while let Some(change) = self.manager.poll_change() {
            let Some(Some(flow)) = self.flows.get(change.flow.index()) else { continue };
            let state = PathState { rate: change.share, srtt: change.smoothed_rtt };
            self.notify_client(flow.client, flow.id, Notice::Change(state));
        }
    }

    fn index(&self, client: u32, id: u32) -> Option<usize> {
        let index = self.clients.flow(client, id)?;
        self.flows.get(index)?.as_ref().filter(|flow| flow.id == id).map(|_| index)
    }

    fn notify_client(&mut self, client: u32, id: u32, notice: Notice) {
        self.actions.push_back(Action::Notify { client, id, notice });
    }

    fn request(&mut self, now: Time, index: usize) {
        let Some(flow) = &mut self.flows[index] else { return };
        // Requests beyond the limit of the client library are not counted.
        flow.requests = (flow.requests + 1).min(limits::MAX_REQUESTS);
        self.manager.request(now, flow.manager_id, false);
    }

    /// A grant for the flow: sends a queued datagram, or passes the grant to the process.
    fn forward_grant(&mut self, now: Time, grant: &Grant) {
        let &Grant { flow: manager_id, number, bytes, .. } = grant;
        let index = manager_id.index();
        let two_rtts = self.manager.round_trip(manager_id).map_or(Duration::ZERO, |(smoothed, _)| smoothed * 2);
        let Some(Some(flow)) = self.flows.get_mut(index) else { return };
        let (client, id) = (flow.client, flow.id);
        if let Some(data) = flow.queue.pop_front() {
            let length = data.len() as u64;
            flow.queued -= length;
            self.clients.dequeue(flow.owner, length);
            self.transmit(now, index, data);
            self.notify_client(client, id, Notice::Dequeued { bytes: length as u32 });
        } else if flow.requests > 0 {
            flow.requests -= 1;
            let bytes = bytes.min(flow.mtu);
            let headers = if flow.has_own_headers() { OWN_HEADERS } else { Bytes::ZERO };
            let charged = bytes + headers;
            flow.in_flight += charged;
            let revoked_at = now + two_rtts.max(self.limits.grant_timeout);
            flow.grants.push_back(PendingGrant { number, bytes: charged, revoked_at });
            self.manager.notify(now, manager_id, charged);
            self.timers.arm(index as u32, revoked_at);
            self.notify_client(client, id, Notice::Grant { bytes: bytes.as_u64() as u32 });
        } else {
            self.manager.notify(now, manager_id, Bytes::ZERO);
        }
        if self.flows[index].as_ref().is_some_and(DaemonFlow::wants_to_send) {
            self.manager.request(now, manager_id, false);
        }
    }

    /// The flow's process has sent `sent` bytes: with its oldest grant, or without one; with a header, which has this
    /// tag, or without one.
    fn notify(&mut self, now: Time, index: usize, sent: Bytes, tag: Option<u32>) {
        let sent = sent.min(Bytes::new(limits::MAX_PACKET_BYTES)); // the client library refuses more
        let counted_by_agent = self.count_own(now, index, sent, tag);
        let Some(flow) = &mut self.flows[index] else { return };
        let (number, counted) =
            flow.grants.pop_front().map_or_else(Default::default, |grant| (grant.number, grant.bytes));
        flow.unanswered = 0;
        let own = if counted_by_agent.is_some() { Bytes::ZERO } else { sent };
        flow.in_flight = (flow.in_flight + own).saturating_sub(counted);
        let sent = counted_by_agent.unwrap_or(sent);
        let manager_id = flow.manager_id;
        if sent > counted {
            self.manager.notify(now, manager_id, sent.saturating_sub(counted));
        } else {
            self.manager.unsent(now, manager_id, number, counted.saturating_sub(sent));
        }
        self.arm_feedback_timer(now, index);
    }

    fn update(&mut self, now: Time, index: usize, feedback: Feedback) {
        self.use_process_feedback(now, index);
        let Some(flow) = &mut self.flows[index] else { return };
        let has_sent = flow.in_flight > Bytes::ZERO;
        // No more can be delivered or lost than was sent.
        let received = feedback.received.min(flow.in_flight);
        let lost = feedback.lost.min(flow.in_flight.saturating_sub(received));
        flow.in_flight = flow.in_flight.saturating_sub(received + lost);
        let late = feedback.received.saturating_sub(received).min(flow.late_reports);
        flow.late_reports = flow.late_reports.saturating_sub(late);
        if late > Bytes::ZERO {
            self.manager.restore_in_flight(flow.manager_id, late);
        }
        // A flow without packets has lost none: its report would only lower the rate of others.
        let mode = feedback.mode.filter(|_| has_sent || late > Bytes::ZERO);
        let (received, rtt) = (received + late, feedback.rtt.map(|rtt| rtt.max(MIN_RTT)));
        let is_persistent = mode == Some(LossMode::Persistent);
        let repeated_timeout = flow.persistent_loss && is_persistent;
        let report = Report { received, lost, mode, repeated_timeout, rtt, sent_by: None };
        self.manager.report(now, flow.manager_id, &report);
        flow.persistent_loss = is_persistent || (flow.persistent_loss && received == Bytes::ZERO);
        flow.unreported_since = None;
        self.arm_feedback_timer(now, index);
    }

    fn send(&mut self, now: Time, index: usize, data: Vec<u8>) {
        let Some(flow) = &mut self.flows[index] else { return };
        let length = data.len() as u64;
        let is_sendable = flow.to.port() != 0 && length <= flow.mtu.as_u64();
        let fits = flow.queued + length <= limits::MAX_QUEUED && flow.queue.len() < limits::MAX_DATAGRAMS;
        if !(is_sendable && fits && self.clients.enqueue(flow.owner, length)) {
            // The client library checks the limits of a flow itself. Beyond those of its owner datagrams are dropped.
            let (client, id) = (flow.client, flow.id);
            self.notify_client(client, id, Notice::Dequeued { bytes: length as u32 });
            return;
        }
        flow.queued += length;
        flow.queue.push_back(data);
        self.use_agent_feedback(now, index);
        if let Some(flow) = &self.flows[index] {
            self.manager.request(now, flow.manager_id, false);
        }
    }

    /// A flow's share of its path and the round-trip time.
    fn path_state(&self, now: Time, flow: FlowId) -> PathState {
        let state = self.manager.query(now, flow);
        state.map_or_else(PathState::default, |state| PathState { rate: state.share, srtt: state.smoothed_rtt })
    }

    /// Puts a flow of `client` into another macroflow; the client can name its own flows only.
    fn set_macroflow(&mut self, now: Time, client: u32, flow: FlowId, to: Macroflow) -> Result<(), Error> {
        let choice = match to {
            Macroflow::New => MacroflowChoice::New,
            Macroflow::Default => MacroflowChoice::Default,
            Macroflow::Of(other) => {
                let index = self.index(client, other.to_c() as u32).ok_or(Error::Closed)?;
                MacroflowChoice::Of(self.flows[index].as_ref().ok_or(Error::Closed)?.manager_id)
            }
        };
        let (factory, seeds) = (&self.factory, &mut self.seeds);
        let placed = self.manager.set_macroflow(now, flow, choice, || make(factory, seeds));
        placed.map_err(|error| match error {
            MacroflowError::Closed => Error::Closed,
            MacroflowError::OtherDestination => Error::OtherDestination,
            MacroflowError::StillInFlight => Error::StillInFlight,
        })
    }

    /// The flow's timer is due: revokes grants without an answer, and closes the flow if it is idle or does not answer.
    fn on_flow_timer(&mut self, now: Time, index: usize) {
        self.remove_unreported(now, index);
        let feedback_timeout = self.feedback_timeout(index);
        let Some(Some(flow)) = self.flows.get_mut(index) else { return };
        while let Some(grant) = flow.grants.front().copied().filter(|grant| grant.revoked_at <= now) {
            flow.grants.pop_front();
            flow.unanswered += 1;
            flow.in_flight = flow.in_flight.saturating_sub(grant.bytes);
            self.manager.unsent(now, flow.manager_id, grant.number, grant.bytes);
        }
        if flow.unanswered >= self.limits.max_unanswered {
            return self.end(now, index, Some(Error::Unanswered));
        }
        // A flow that waits for its turn is not idle.
        if flow.wants_to_send() || !flow.grants.is_empty() {
            flow.last_active = now;
        }
        if flow.last_active + self.limits.idle_timeout <= now {
            return self.end(now, index, Some(Error::Silent));
        }
        let deadline = flow.deadline(self.limits.idle_timeout, feedback_timeout);
        self.timers.arm(index as u32, deadline.max(now + Duration::from_nanos(1)));
    }

    fn end(&mut self, now: Time, index: usize, error: Option<Error>) {
        let Some(flow) = self.flows.get_mut(index).and_then(Option::take) else { return };
        self.agent.close(flow.manager_id);
        self.after_agent();
        self.manager.close(now, flow.manager_id);
        self.clients.ended(flow.client, flow.id, flow.owner, flow.queue.len(), flow.queued);
        if let Some(error) = error {
            self.notify_client(flow.client, flow.id, Notice::Ended(error));
        }
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = &DaemonFlow> {
        self.flows.iter().flatten()
    }
}

/// Whether the address is a single host: the paper covers unicast only.
fn is_one_host(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || is_broadcast)
}

/// A new controller with its own random stream.
fn make(factory: &Factory, seeds: &mut u64) -> AnyController {
    *seeds += 1;
    factory(Random::from_seed(*seeds))
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("manager", &self.manager).field("flows", &self.flows).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
