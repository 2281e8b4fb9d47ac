//! The plan's network: links, paths and meters. It owns no clock and no device.
//!
//! Calls of [`Network::run`] are always slightly late. Inside the network each event is processed at its due time, in
//! order, as in the simulator. So delays of the machine do not add up along a path, and rates, queues and meters are
//! exact on a busy machine too.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use rampmeter_manager::Timers;
use rampmeter_router::{AnyRouter, Link, Offered};
use rampmeter_scenario::{LinkId, LinkOutcome, LinkSample, NodeId, Plan, WorldError};
use rampmeter_units::Time;

use crate::datagram::Datagram;
use crate::sides::{Side, Sides};

type RealLink = Link<Datagram, AnyRouter<Datagram>>;

#[derive(Debug, Clone, Copy)]
enum Hop {
    Link(u32),
    Out(Side),
}

/// A packet that has reached the end of its path.
#[derive(Debug)]
pub(crate) struct Exit {
    /// When it was due there, in the network's time.
    pub(crate) due: Time,
    pub(crate) side: Side,
    pub(crate) packet: Datagram,
}

#[derive(Debug, Default)]
pub(crate) struct Measurements {
    pub(crate) links: Vec<LinkOutcome>,
    pub(crate) samples: Vec<LinkSample>,
    /// Packets with payload that reached the end of their paths.
    pub(crate) data_packets: u64,
}

pub(crate) struct Network<'a> {
    plan: &'a Plan,
    links: Vec<RealLink>,
    /// The next event of each link.
    timers: Timers,
    /// All paths from end to end, one after the other: the next hop is the next entry.
    hops: Vec<Hop>,
    /// The index of the first hop of the path between two addresses.
    paths: HashMap<(Ipv4Addr, Ipv4Addr), u32>,
    actions: VecDeque<(Time, LinkAction)>,
    measured: Vec<LinkId>,
    exits: VecDeque<Exit>,
    /// Buffers for reuse.
    buffers: Vec<Vec<u8>>,
    pub(crate) measurements: Measurements,
}

impl<'a> Network<'a> {
    /// The plan's network, with paths between the ends of its flows and between the hosts `between`.
    pub(crate) fn new(plan: &'a Plan, sides: &Sides, between: Option<(NodeId, NodeId)>) -> Result<Self, WorldError> {
        let measured = plan.links.iter().enumerate().filter(|(_, link)| link.measured);
        let mut network = Self {
            links: plan.make_links(),
            timers: Timers::default(),
            hops: Vec::new(),
            paths: HashMap::new(),
            actions: actions(plan).into(),
            measured: measured.map(|(link, _)| LinkId(link)).collect(),
            exits: VecDeque::new(),
            buffers: Vec::new(),
            measurements: Measurements::default(),
            plan,
        };
        for (from, to) in between.into_iter().chain(plan.flows.iter().map(|flow| (flow.from, flow.to))) {
            network.add_path(sides, from, to)?;
            network.add_path(sides, to, from)?;
        }
        // Starts the timers of routers.
        for link in 0..network.links.len() {
            network.arm(link as u32);
        }
        Ok(network)
    }

    fn add_path(&mut self, sides: &Sides, from: NodeId, to: NodeId) -> Result<(), WorldError> {
        let ends = (sides.address(from), sides.address(to));
        if !self.paths.contains_key(&ends) {
            self.paths.insert(ends, self.hops.len() as u32);
            self.hops.extend(self.plan.path(from, to)?.into_iter().map(|link| Hop::Link(link.0 as u32)));
            self.hops.push(Hop::Out(sides.side(to)));
        }
        Ok(())
    }

    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    pub(crate) fn recycle(&mut self, bytes: Vec<u8>) {
        if self.buffers.len() < 1024 {
            self.buffers.push(bytes);
        }
    }

    /// A packet enters from a host at `now`. Packets that are not between two hosts of the plan, such as the kernel's
    /// own multicast packets, are discarded.
    pub(crate) fn enter(&mut self, now: Time, bytes: Vec<u8>) {
        self.run(now);
        match Datagram::new(bytes) {
            Ok(mut packet) => match self.paths.get(&(packet.source(), packet.destination())) {
                Some(&first_hop) => {
                    packet.hop = first_hop;
                    self.forward(now, packet);
                }
                None => self.recycle(packet.into_bytes()),
            },
            Err(bytes) => self.recycle(bytes),
        }
    }

    /// The time of the next event; [`Time::MAX`] for never.
    pub(crate) fn next_event(&self) -> Time {
        self.timers.next().min(self.next_action())
    }

    fn next_action(&self) -> Time {
        self.actions.front().map_or(Time::MAX, |(at, _)| *at)
    }

    /// Processes all events that are due up to `now`, each at its due time.
    pub(crate) fn run(&mut self, now: Time) {
        while self.next_event() <= now {
            let at = self.next_event();
            if self.next_action() <= at {
                if let Some((at, action)) = self.actions.pop_front() {
                    self.run_action(at, action);
                }
            } else if let Some(link) = self.timers.due(at) {
                self.wake(at, link);
            }
        }
    }

    pub(crate) fn exit(&mut self) -> Option<Exit> {
        self.exits.pop_front()
    }

    fn wake(&mut self, now: Time, link: u32) {
        self.links[link as usize].advance(now);
        while let Some(mut packet) = self.links[link as usize].arrive(now) {
            packet.hop += 1;
            self.forward(now, packet);
        }
        self.arm(link);
    }

    fn forward(&mut self, now: Time, packet: Datagram) {
        match self.hops[packet.hop as usize] {
            Hop::Link(link) => {
                if let Offered::Dropped(dropped) = self.links[link as usize].offer(now, packet, Time::ZERO) {
                    self.recycle(dropped.into_bytes());
                }
                self.arm(link);
            }
            Hop::Out(side) => {
                self.measurements.data_packets += u64::from(packet.has_payload());
                self.exits.push_back(Exit { due: now, side, packet });
            }
        }
    }

    fn arm(&mut self, link: u32) {
        let next = self.links[link as usize].next_event();
        if next < Time::MAX {
            self.timers.arm(link, next);
        }
    }

    fn run_action(&mut self, now: Time, action: LinkAction) {
        match action {
            LinkAction::Change { link, change } => {
                self.plan.links[link].changes[change].make(now, &mut self.links[link]);
                self.arm(link as u32);
            }
            LinkAction::MeasureFrom => {
                for id in &self.measured {
                    let link = &mut self.links[id.0];
                    link.advance(now);
                    link.start_measuring(now, true);
                }
            }
            LinkAction::Sample => {
                for &id in &self.measured {
                    self.measurements.samples.push(LinkSample::of(id, &mut self.links[id.0], now));
                }
            }
            LinkAction::MeasureTo => {
                for &id in &self.measured {
                    self.measurements.links.push(LinkOutcome::of(self.plan, id, &mut self.links[id.0], now));
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LinkAction {
    Change { link: usize, change: usize },
    MeasureFrom,
    Sample,
    MeasureTo,
}

/// The planned changes and measurements of links by time. At the same time changes come first and the end of the
/// measurement last.
fn actions(plan: &Plan) -> Vec<(Time, LinkAction)> {
    let end = Time::ZERO + plan.duration;
    let mut actions = vec![(Time::ZERO + plan.warmup, LinkAction::MeasureFrom), (end, LinkAction::MeasureTo)];
    for (link, planned) in plan.links.iter().enumerate() {
        actions
            .extend(planned.changes.iter().enumerate().map(|(n, to)| (to.at, LinkAction::Change { link, change: n })));
    }
    actions.extend(plan.samples().map(|at| (at, LinkAction::Sample)));
    actions.sort();
    actions
}

#[cfg(test)]
pub(crate) mod tests {
    use rampmeter_router::{Disorder, EcnPassage, LinkConfig, Loss, Registry};
    use rampmeter_scenario::{FlowPlan, LinkPlan, Meters, Node, Routes};
    use rampmeter_transport::Clock;
    use rampmeter_units::{Bytes, Duration, Rate};
    use rampmeter_wire::{HEADER_BYTES, Packet, UDP_BYTES};

    use super::*;
    use crate::datagram::tests::ours;

    /// `0 ── 8 Mb/s, 5 ms ── 1 ── 2`, measured from 0 s to 1 s; a 1000-byte packet takes a millisecond.
    pub(crate) fn plan() -> Plan {
        let node = |name: &str, is_host| Node { name: name.into(), is_host, clock: Clock::default(), stalls: None };
        let nodes = vec![node("a", true), node("r", false), node("b", true)];
        let link = |from, to, rate, delay: u64| LinkPlan {
            name: format!("{from}-{to}"),
            from: NodeId(from),
            to: NodeId(to),
            reverse_of: None,
            config: LinkConfig { rate, delay: Duration::from_millis(delay), loss: Loss::default() },
            capacity: None,
            ecn: EcnPassage::Kept,
            disorder: Disorder::default(),
            router: Registry::default().config("drop-tail", &"".parse().unwrap()).unwrap(),
            room: None,
            changes: Vec::new(),
            measured: from == 0,
        };
        let slow = Rate::from_bps(8_000_000);
        let links = vec![link(0, 1, slow, 5), link(1, 0, slow, 5), link(1, 2, Rate::MAX, 0), link(2, 1, Rate::MAX, 0)];
        Plan {
            point: rampmeter_scenario::Point::default(),
            seed: 1,
            duration: Duration::from_secs(1),
            warmup: Duration::ZERO,
            drain: Duration::ZERO,
            packet: Bytes::new(1000),
            routes: Routes::new(&nodes, &links),
            aggregates: Vec::new(),
            nodes,
            links,
            schemes: Vec::new(),
            traffic: Vec::new(),
            flows: vec![FlowPlan {
                traffic: 0,
                scheme: 0,
                start: Time::ZERO,
                stop: None,
                from: NodeId(0),
                to: NodeId(2),
                bytes: None,
            }],
            meters: Meters::default(),
        }
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    #[test]
    fn a_late_caller_delays_only_the_exit() {
        let plan = plan();
        let sides = Sides::of(&plan, None).unwrap();
        let mut network = Network::new(&plan, &sides, None).unwrap();
        let payload = (1000 - HEADER_BYTES - UDP_BYTES) as u16;
        let (from, to) = (sides.address(NodeId(0)), sides.address(NodeId(2)));
        for _ in 0..3 {
            network.enter(ms(0), ours(from, to, &Packet { payload, ..Packet::default() }));
        }
        network.enter(ms(0), ours(to, Ipv4Addr::LOCALHOST, &Packet::default()));
        network.run(ms(1500));
        let exits: Vec<_> = std::iter::from_fn(|| network.exit()).map(|exit| (exit.due, exit.side)).collect();
        assert_eq!(exits, [6, 7, 8].map(|at| (ms(at), Side::B)));
        let measurements = network.measurements;
        assert_eq!(measurements.data_packets, 3);
        assert_eq!(measurements.links.len(), 1);
        assert!((measurements.links[0].utilization - 0.003).abs() < 1e-9);
        assert!((measurements.links[0].queue.mean_packets - 0.003).abs() < 1e-9);
    }
}
