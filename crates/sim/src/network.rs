//! Links and the ways through them.

use std::collections::BTreeMap;

use rampmeter_router::{AnyRouter, Environment, Link};
use rampmeter_scenario::{NoPath, NodeId, Plan};
use rampmeter_units::{Bytes, Rate, Streams, Time};

use crate::packet::SimPacket;

pub(crate) type SimLink = Link<SimPacket, AnyRouter<SimPacket>>;

/// The plan's links, in its order.
pub(crate) fn links(plan: &Plan) -> Vec<SimLink> {
    let streams = Streams::new(plan.seed);
    let link = |(index, link): (usize, &rampmeter_scenario::LinkPlan)| {
        let environment = Environment { rate: link.config.rate, delay: link.config.delay };
        let router = link.router.make(environment, streams.stream("router", index as u64));
        Link::new(link.config, router, streams.stream("loss", index as u64))
    };
    plan.links.iter().enumerate().map(link).collect()
}

/// Where a packet goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hop {
    Link(u32),
    Endpoint(u32),
}

/// Every way that packets take, laid end to end: the next hop is the next entry.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    hops: Vec<Hop>,
    known: BTreeMap<(u32, u32), u32>,
}

impl Paths {
    /// Where the way from one endpoint to another begins, given the hosts they stand on.
    pub(crate) fn start(&mut self, plan: &Plan, from: (u32, NodeId), to: (u32, NodeId)) -> Result<u32, NoPath> {
        if let Some(&start) = self.known.get(&(from.0, to.0)) {
            return Ok(start);
        }
        let start = self.hops.len() as u32;
        let links = plan.path(from.1, to.1)?;
        self.hops.extend(links.iter().map(|link| Hop::Link(link.0 as u32)));
        self.hops.push(Hop::Endpoint(to.0));
        self.known.insert((from.0, to.0), start);
        Ok(start)
    }

    pub(crate) fn hop(&self, place: u32) -> Hop {
        self.hops[place as usize]
    }
}

/// How much a link could have carried over a span in which its rate may have changed: the integral of its rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    since: Time,
    rate: Rate,
    bits: f64,
}

impl Capacity {
    pub(crate) fn new(now: Time, rate: Rate) -> Self {
        Self { since: now, rate, bits: 0.0 }
    }

    pub(crate) fn on_rate(&mut self, now: Time, rate: Rate) {
        self.bits += self.rate.as_bps_f64() * now.since(self.since).as_secs_f64();
        (self.since, self.rate) = (now, rate);
    }

    /// The share of it that `carried` is.
    pub(crate) fn utilization(mut self, now: Time, carried: Bytes) -> f64 {
        self.on_rate(now, self.rate);
        if self.bits > 0.0 { carried.as_f64() * 8.0 / self.bits } else { 0.0 }
    }
}
