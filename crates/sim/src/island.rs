//! Islands: the traffic from one border to another crosses the island as one VCP flow.
//!
//! ```text
//!   a packet's path   ... link ─► Ingress ─► [links within] ─► link ...        packets without payload stay on their
//!                                    │                          ▲              path; all others take the aggregate's
//!   the aggregate's        queue ────┘                          │              path, in its header
//!       path                 └─► links within ─► Egress ────────┘
//!       and its reverse          Answered ◄─ links within ◄┘
//! ```

use rampmeter_island::{Egress, Ingress};
use rampmeter_router::Parcel;
use rampmeter_run::{Entry, Hop, Network, Routed, Watch, WatchFlows};
use rampmeter_scenario::{LinkId, LinkOutcome, LinkSample, Plan, QueueId};
use rampmeter_units::{Streams, Time};

use crate::agenda::Actor;
use crate::forwarding::Place;
use crate::packet::InTransit;
use crate::paths::{PathId, Paths, reverse};
use crate::simulation::Simulation;
use crate::world::SimulatedHost;

/// The traffic across an island from one border to another.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) ingress: Ingress<InTransit>,
    egress: Egress,
    /// The path from the ingress to the egress.
    path: PathId,
    /// The aggregate's flow number, after the numbers of the plan's flows.
    flow: u32,
    /// Hops from the ingress to the first hop after the egress, on the paths of the packets that it carries.
    hops: u32,
}

impl Aggregate {
    /// The aggregate `n` of the plan.
    pub(crate) fn new(
        plan: &Plan,
        n: usize,
        network: &mut Network<'_, InTransit, Place, impl Watch<InTransit>>,
        paths: &mut Paths,
    ) -> Self {
        let planned = &plan.aggregates[n];
        let hops = |links: &[LinkId]| links.iter().map(|link| Hop::Link(link.0 as u32)).collect();
        let ends = [Place::Egress(n as u32), Place::Answered(n as u32)];
        let directions = [(hops(&planned.way), ends[0]), (hops(&planned.back), ends[1])];
        let path = paths.add(network, directions, [planned.from, planned.to]);
        let random = Streams::new(plan.seed).stream("island", n as u64);
        Self {
            ingress: Ingress::new(&planned.settings, &planned.router, planned.environment, plan.packet, random),
            egress: Egress::new(planned.propagate_overload),
            path,
            flow: (plan.flows.len() + n) as u32,
            hops: 1 + planned.way.len() as u32,
        }
    }

    /// The measured queue and traffic of the ingress; `n` is the aggregate's number in the plan.
    pub(crate) fn outcome(&self, plan: &Plan, n: usize, now: Time) -> LinkOutcome {
        let (counts, queue) = self.ingress.measured(now);
        let planned = &plan.aggregates[n];
        let capacity = planned.environment.rate.bytes_in(plan.measured()).as_f64();
        let utilization = if capacity > 0.0 { (counts.transmitted_bytes.as_f64() / capacity).min(1.0) } else { 0.0 };
        LinkOutcome {
            id: QueueId::Ingress(n),
            name: planned.name.clone(),
            utilization,
            queue,
            counts,
            waits: None,
            delays: None,
        }
    }

    /// A sample of the ingress queue; `n` is the aggregate's number in the plan.
    pub(crate) fn sample(&self, n: usize, at: Time) -> LinkSample {
        let (queue, transmitted) = (self.ingress.backlog(), self.ingress.transmitted_bytes());
        LinkSample { at, id: QueueId::Ingress(n), queue, transmitted }
    }
}

impl<H: SimulatedHost, W: Watch<InTransit>, F: WatchFlows> Simulation<'_, H, W, F> {
    /// Runs an entry of the timetable, if it measures the queues of ingresses.
    pub(crate) fn run_aggregates(&mut self, now: Time, entry: Entry) {
        for (n, aggregate) in self.aggregates.iter_mut().enumerate() {
            match entry {
                _ if !self.plan.aggregates[n].measured => {}
                Entry::MeasureFrom => aggregate.ingress.start_measuring(now),
                Entry::MeasureTo => self.network.outcomes.push(aggregate.outcome(self.plan, n, now)),
                Entry::Sample => self.network.samples.push(aggregate.sample(n, now)),
                _ => {}
            }
        }
    }

    /// A packet has arrived at the ingress of an island.
    pub(crate) fn enter(&mut self, now: Time, aggregate: u32, mut packet: InTransit) {
        if packet.is_control() {
            packet.skip(1);
            return self.forward(now, &mut Some(packet));
        }
        if let Some(dropped) = self.aggregates[aggregate as usize].ingress.offer(now, packet) {
            self.pool.recycle(dropped);
        }
        self.admit(now, aggregate as usize);
    }

    /// A packet in an island's header has arrived at the egress.
    pub(crate) fn leave(&mut self, now: Time, aggregate: u32, mut packet: InTransit) {
        let leaving = &mut self.aggregates[aggregate as usize];
        let (path, flow) = (reverse(leaving.path), leaving.flow);
        if let Some((number, mut inner)) = packet.take_wrapped() {
            let answer = leaving.egress.receive(number, packet.ecn(), &mut inner);
            inner.skip(leaving.hops);
            let mut answer = self.pool.answer(answer, flow, path);
            answer.depart(self.paths.start(path));
            self.pool.recycle(packet);
            self.forward(now, &mut Some(answer));
            self.forward(now, &mut Some(inner));
        }
    }

    /// An egress's answer has arrived at the ingress.
    pub(crate) fn on_answer(&mut self, now: Time, aggregate: u32, mut packet: InTransit) {
        if let Some(answer) = packet.take_answer() {
            self.aggregates[aggregate as usize].ingress.on_feedback(now, &answer);
        }
        self.pool.recycle(packet);
        self.admit(now, aggregate as usize);
    }

    /// Runs the timer of an aggregate, and returns its next deadline.
    pub(crate) fn on_aggregate_timer(&mut self, now: Time, aggregate: usize) -> Time {
        if self.aggregates[aggregate].ingress.deadline() <= now {
            self.aggregates[aggregate].ingress.on_deadline(now);
            self.admit(now, aggregate);
        }
        self.aggregates[aggregate].ingress.deadline().max(now)
    }

    /// Sends waiting packets into the island, as many as the ingress permits.
    fn admit(&mut self, now: Time, aggregate: usize) {
        let Aggregate { path, flow, .. } = self.aggregates[aggregate];
        while let Some(leaving) = self.aggregates[aggregate].ingress.poll(now) {
            let mut packet = self.pool.wrapped(leaving, flow, path);
            packet.depart(self.paths.start(path));
            self.forward(now, &mut Some(packet));
        }
        let actor = self.plan.links.len() + self.presences.len() + aggregate;
        self.agenda.wake(actor as Actor, self.aggregates[aggregate].ingress.deadline().max(now));
    }
}
