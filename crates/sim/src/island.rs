//! Islands: what crosses one from border to border enters and leaves as one VCP flow.
//!
//! ```text
//!   a packet's path   ... link ─► Ingress ─► [links within] ─► link ...        who brings no payload goes on as if nothing
//!                                    │                          ▲              were there; all others take the
//!   the aggregate's        queue ────┘                          │              aggregate's path, in its header
//!       path                 └─► links within ─► Egress ────────┘
//!       and its way back         Answered ◄─ links within ◄┘
//! ```

use rampmeter_island::{Egress, Ingress};
use rampmeter_router::Parcel;
use rampmeter_scenario::{LinkId, LinkOutcome, LinkSample, Plan, QueueId};
use rampmeter_units::{Streams, Time};

use crate::agenda::Actor;
use crate::packet::Travelling;
use crate::paths::{Hop, PathId, Paths, reverse};
use crate::simulation::Simulation;

/// What crosses an island from one border to another.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) ingress: Ingress<Travelling>,
    egress: Egress,
    /// From the one to the other.
    path: PathId,
    /// Its number among flows, behind the plan's.
    flow: u32,
    /// Hops from the ingress to behind the egress, on the paths of the packets that it carries.
    hops: u64,
}

impl Aggregate {
    /// The plan's aggregate number `n`.
    pub(crate) fn new(plan: &Plan, n: usize, paths: &mut Paths) -> Self {
        let planned = &plan.aggregates[n];
        let hops = |links: &[LinkId]| links.iter().map(|link| Hop::Link(link.0 as u32)).collect();
        let path =
            paths.add([(hops(&planned.way), Hop::Egress(n as u32)), (hops(&planned.back), Hop::Answered(n as u32))]);
        let random = Streams::new(plan.seed).stream("island", n as u64);
        Self {
            ingress: Ingress::new(&planned.settings, &planned.router, planned.environment, plan.packet, random),
            egress: Egress::new(planned.hand_on),
            path,
            flow: (plan.flows.len() + n) as u32,
            hops: 1 + planned.way.len() as u64,
        }
    }

    /// What its queue and what left it were like while it was measured; `n` is its number in the plan.
    pub(crate) fn outcome(&self, plan: &Plan, n: usize, now: Time) -> LinkOutcome {
        let (counts, queue) = self.ingress.measured(now);
        let planned = &plan.aggregates[n];
        let capacity = planned.environment.rate.bytes_in(plan.measured()).as_f64();
        let utilization = if capacity > 0.0 { (counts.transmitted_bytes.as_f64() / capacity).min(1.0) } else { 0.0 };
        LinkOutcome { id: QueueId::Ingress(n), name: planned.name.clone(), utilization, queue, counts }
    }

    /// Its queue at this instant; `n` is its number in the plan.
    pub(crate) fn sample(&self, n: usize, at: Time) -> LinkSample {
        let (queue, transmitted) = (self.ingress.backlog(), self.ingress.transmitted_bytes());
        LinkSample { at, id: QueueId::Ingress(n), queue, transmitted }
    }
}

impl Simulation<'_> {
    /// A packet has come to where it enters an island.
    pub(crate) fn enter(&mut self, now: Time, aggregate: u32, mut packet: Travelling) {
        if packet.is_control() {
            packet.advance();
            return self.hand_on(now, packet);
        }
        if let Some(dropped) = self.aggregates[aggregate as usize].ingress.offer(now, packet) {
            self.pool.take_back(dropped);
        }
        self.let_in(now, aggregate as usize);
    }

    /// A packet in an island's header has come to where it leaves.
    pub(crate) fn leave(&mut self, now: Time, aggregate: u32, mut packet: Travelling) {
        let leaving = &mut self.aggregates[aggregate as usize];
        let (path, flow) = (reverse(leaving.path), leaving.flow);
        if let Some((number, mut inner)) = packet.take_wrapped() {
            let answer = leaving.egress.receive(number, packet.ecn(), &mut inner);
            inner.skip(leaving.hops);
            let answer = self.pool.answer(answer, flow, path, self.paths.start(path));
            self.pool.take_back(packet);
            self.hand_on(now, answer);
            self.hand_on(now, inner);
        }
    }

    /// An egress's answer has come back.
    pub(crate) fn take_answer(&mut self, now: Time, aggregate: u32, mut packet: Travelling) {
        if let Some(answer) = packet.take_answer() {
            self.aggregates[aggregate as usize].ingress.on_feedback(now, &answer);
        }
        self.pool.take_back(packet);
        self.let_in(now, aggregate as usize);
    }

    /// An aggregate's time has come. Gives when it comes next.
    pub(crate) fn wake_aggregate(&mut self, now: Time, aggregate: usize) -> Time {
        if self.aggregates[aggregate].ingress.deadline() <= now {
            self.aggregates[aggregate].ingress.on_deadline(now);
            self.let_in(now, aggregate);
        }
        self.aggregates[aggregate].ingress.deadline().max(now)
    }

    /// Packets that wait enter the island, as many as may.
    fn let_in(&mut self, now: Time, aggregate: usize) {
        let Aggregate { path, flow, .. } = self.aggregates[aggregate];
        while let Some(leaving) = self.aggregates[aggregate].ingress.poll(now) {
            let packet = self.pool.wrapped(leaving, flow, path, self.paths.start(path));
            self.hand_on(now, packet);
        }
        let actor = self.links.len() + self.hosts.len() + aggregate;
        self.agenda.wake(actor as Actor, self.aggregates[aggregate].ingress.deadline().max(now));
    }
}
