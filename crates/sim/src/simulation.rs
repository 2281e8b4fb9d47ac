//! The event loop.
//!
//! A link that wakes up forwards each packet that has arrived to the next hop. A host that receives a packet, or whose
//! timer expires, puts its output on the first link at once, or at the end of its stall.

use rampmeter_run::{Entry, Flows, Network, Timetable, Watch, WatchFlows};
use rampmeter_scenario::{Outcome, Plan, RunProgress, Series, WorldError};
use rampmeter_units::{Duration, Time};
use rampmeter_workload::End;

use crate::agenda::{Actor, Agenda};
use crate::forwarding::Place;
use crate::island::Aggregate;
use crate::packet::{InTransit, Pool};
use crate::paths::{PathId, Paths};
use crate::presence::Presence;
use crate::world::SimulatedHost;

/// The number of progress reports of a run.
const PROGRESS_STEPS: u64 = 1000;

/// Processing time of each packet that arrived at a host during a stall.
const RECEIVE_TIME: Duration = Duration::from_micros(5);

/// The time of the last event. It is reported if that panics.
struct LastEvent<'a>(&'a RunProgress, Time);

impl Drop for LastEvent<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.report(self.1);
        }
    }
}

/// A network with its packets, hosts and flows.
pub(crate) struct Simulation<'a, H: SimulatedHost, W: Watch<InTransit> = (), F: WatchFlows = ()> {
    pub(crate) plan: &'a Plan,
    /// The order of actors: links, hosts, aggregates.
    pub(crate) agenda: Agenda,
    pub(crate) timetable: Timetable,
    pub(crate) network: Network<'a, InTransit, Place, W>,
    pub(crate) paths: Paths,
    pub(crate) flows: Flows<'a, H, F>,
    /// The path of each flow, from its sender to its receiver.
    pub(crate) path_of: Vec<PathId>,
    /// The hosts, in the order of the flows' list.
    pub(crate) presences: Vec<Presence>,
    /// Traffic across islands.
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) pool: Pool,
    /// Packets with payload that were delivered to hosts.
    pub(crate) data_packets: u64,
}

impl<H: SimulatedHost, W: Watch<InTransit>, F: WatchFlows> Simulation<'_, H, W, F> {
    pub(crate) fn run(mut self, reached: &RunProgress) -> Result<Outcome, WorldError> {
        let end = self.plan.end();
        let step = end.since(Time::ZERO) / PROGRESS_STEPS;
        // Of the next progress report, or the end.
        let mut next_report = Time::ZERO;
        let mut last = LastEvent(reached, Time::ZERO);
        self.set_horizon();
        while self.flows.failure.is_none() && !(self.flows.is_over() && self.flows.pending() == 0) {
            let planned = self.timetable.next();
            let (now, actor) = self.agenda.next();
            let next = now.min(planned);
            last.1 = next;
            if next > next_report {
                if next > end {
                    break;
                }
                reached.report(next);
                next_report = end.min(next + step);
            }
            if now < planned {
                self.wake(now, actor);
            } else if let Some((now, entry)) = self.timetable.due(next) {
                self.run_entry(now, entry);
                self.set_horizon();
            }
        }
        let now = last.1;
        match self.flows.failure.take() {
            Some(error) => Err(error),
            None => Ok(self.outcome(now)),
        }
    }

    /// Packets go on ahead of time up to the next entry of the timetable. After the measurement the run ends with the
    /// last transfer: packets in transit then do not arrive.
    fn set_horizon(&mut self) {
        let horizon = if self.flows.is_over() { Time::ZERO } else { self.timetable.next() };
        self.network.set_horizon(horizon);
    }

    fn wake(&mut self, now: Time, actor: Actor) {
        let next = match (actor as usize).checked_sub(self.plan.links.len()) {
            None => self.wake_link(now, actor),
            Some(host) if host < self.presences.len() => self.wake_host(now, host as u32),
            Some(aggregate) => self.on_aggregate_timer(now, aggregate - self.presences.len()),
        };
        self.agenda.set(actor, next);
    }

    /// The actor of a host.
    fn actor(&self, host: u32) -> Actor {
        self.plan.links.len() as Actor + host
    }

    /// Looks up the deadline of a host.
    fn update_deadline(&mut self, host: u32) -> Time {
        let deadline = self.flows.sites[host as usize].deadline();
        self.presences[host as usize].deadline = deadline;
        deadline
    }

    fn wake_host(&mut self, now: Time, host: u32) -> Time {
        let this = &mut self.presences[host as usize];
        if now < this.local_time {
            return this.due(); // its local time is ahead
        }
        this.local_time = now;
        let mut ready_at = Time::MAX;
        if this.stalled.is_some() {
            if let Some(end) = this.stalled_until(now) {
                return end;
            }
            ready_at = self.after_stall(now, host);
        }
        if self.update_deadline(host) <= now {
            self.flows.sites[host as usize].host.on_deadline(now);
            self.collect_output(now, host);
        }
        self.update_deadline(host).min(ready_at).max(now)
    }

    /// Sends and receives what waited for the end of a stall. Returns when the next packet is processed.
    fn after_stall(&mut self, now: Time, host: u32) -> Time {
        let Some(stalled) = &mut self.presences[host as usize].stalled else { return Time::MAX };
        if std::mem::take(&mut stalled.output_pending) {
            self.collect_output(now, host);
        }
        let Some(stalled) = &mut self.presences[host as usize].stalled else { return Time::MAX };
        let packet = if stalled.ready_at <= now { stalled.backlog.pop_front() } else { None };
        if let Some(packet) = packet {
            stalled.ready_at = now + RECEIVE_TIME;
            self.receive(now, host, packet);
        }
        let stalled = self.presences[host as usize].stalled.as_ref().filter(|stalled| !stalled.backlog.is_empty());
        stalled.map_or(Time::MAX, |stalled| stalled.ready_at)
    }

    fn run_entry(&mut self, now: Time, entry: Entry) {
        if let Some(link) = self.network.run(now, entry) {
            self.agenda.wake(link, self.network.next_event(link));
        }
        self.run_aggregates(now, entry);
        self.flows.run(now, entry);
        let (Entry::Start(flow) | Entry::Stop(flow)) = entry else { return };
        match entry {
            Entry::Start(_) => self.flows.start(now, flow, self.path_of[flow as usize]),
            _ => self.flows.stop(now, flow),
        }
        self.collect_output(now, self.flows.place(flow, End::Sender));
    }

    /// A packet has reached its host, perhaps ahead of time: what is due there before comes first.
    pub(crate) fn deliver(&mut self, now: Time, host: u32, packet: InTransit) {
        let receiving = &mut self.presences[host as usize];
        if receiving.stalled.is_none() {
            while let Some(due) = Some(self.presences[host as usize].due()).filter(|due| *due < now) {
                self.wake_host(due, host);
            }
            return self.receive(now, host, packet);
        }
        let end = receiving.stalled_until(now);
        let Some(stalled) = &mut receiving.stalled else { return };
        if end.is_none() && stalled.backlog.is_empty() {
            return self.receive(now, host, packet);
        }
        stalled.backlog.push_back(packet);
        if let Some(end) = end {
            self.agenda.wake(self.actor(host), end);
        }
    }

    fn receive(&mut self, now: Time, host: u32, packet: InTransit) {
        self.data_packets += u64::from(packet.has_payload());
        self.flows.sites[host as usize].host.receive(now, packet, &mut self.pool);
        self.collect_output(now, host);
    }

    /// Collects the events and packets of a host.
    fn collect_output(&mut self, now: Time, host: u32) {
        self.flows.poll(now, host);
        let this = &mut self.presences[host as usize];
        this.local_time = now;
        if let Some(end) = this.stalled_until(now) {
            this.stalled.as_mut().expect("it is stalled").output_pending = true;
            return self.agenda.wake(self.actor(host), end);
        }
        loop {
            let mut output = self.flows.sites[host as usize].host.transmit(now, &mut self.pool);
            let Some(packet) = &mut output else { break };
            packet.depart(self.paths.start(packet.path));
            self.forward(now, &mut output);
        }
        // A deadline in the past is due now: time never goes back.
        let deadline = self.update_deadline(host).max(now);
        self.agenda.wake(self.actor(host), deadline);
    }

    fn outcome(self, now: Time) -> Outcome {
        let results = self.flows.finish(now);
        Outcome {
            flows: results.flows,
            links: self.network.outcomes,
            series: Series { links: self.network.samples, flows: results.samples },
            data_packets: self.data_packets,
            degraded: results.degraded,
            host_jitter: None,
        }
    }
}
