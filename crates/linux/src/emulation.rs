//! The plan's network behind two devices. It owns no clock and no device.
//!
//! Calls of [`Emulation::run`] are always slightly late. Inside the network each event is processed at its due time, in
//! order, as in the simulator. So delays of the machine do not add up along a path, and rates, queues and meters are
//! exact on a busy machine too.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use rampmeter_manager::Timers;
use rampmeter_run::{Entry, Hop, HopId, Links, Network, Routed, Step, Timetable};
use rampmeter_scenario::{LinkOutcome, LinkSample, NodeId, Plan, WorldError};
use rampmeter_trace::Trace;
use rampmeter_units::Time;

use crate::datagram::Datagram;
use crate::sides::{Side, Sides};

/// A packet that has reached the end of its path.
#[derive(Debug)]
pub(crate) struct Exit {
    /// When it was due there, in the network's time.
    pub(crate) due: Time,
    pub(crate) side: Side,
    pub(crate) packet: Datagram,
}

#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) links: Vec<LinkOutcome>,
    pub(crate) samples: Vec<LinkSample>,
    /// Packets with payload that reached the end of their paths.
    pub(crate) data_packets: u64,
}

pub(crate) struct Emulation<'a> {
    network: Network<'a, Datagram, Side, Option<Links>>,
    /// The next event of each link.
    timers: Timers,
    timetable: Timetable,
    /// The first hop of the path between two addresses.
    paths: HashMap<(Ipv4Addr, Ipv4Addr), HopId>,
    exits: VecDeque<Exit>,
    /// Buffers for reuse.
    buffers: Vec<Vec<u8>>,
    data_packets: u64,
}

impl<'a> Emulation<'a> {
    /// The plan's network, with paths between the ends of its flows and between the hosts `between`.
    pub(crate) fn new(
        plan: &'a Plan,
        sides: &Sides,
        between: Option<(NodeId, NodeId)>,
        trace: Option<&Trace>,
    ) -> Result<Self, WorldError> {
        let watch = trace.cloned().map(Links);
        let (mut network, mut paths) = (Network::new(plan, watch), HashMap::new());
        let ends = between.into_iter().chain(plan.flows.iter().map(|flow| (flow.from, flow.to)));
        for (from, to) in ends.flat_map(|(from, to)| [(from, to), (to, from)]) {
            if let MapEntry::Vacant(path) = paths.entry((sides.address(from), sides.address(to))) {
                let links = plan.path(from, to)?.into_iter().map(|link| Hop::Link(link.0 as u32));
                path.insert(network.add_path(links.chain([Hop::Out(sides.side(to))])));
            }
        }
        let mut emulation = Self {
            network,
            timers: Timers::default(),
            timetable: Timetable::new(plan, |entry| !matches!(entry, Entry::Start(_) | Entry::Stop(_))),
            paths,
            exits: VecDeque::new(),
            buffers: Vec::new(),
            data_packets: 0,
        };
        // Starts the timers of routers.
        for link in 0..plan.links.len() {
            emulation.arm(link as u32);
        }
        Ok(emulation)
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
                    packet.set_hop(first_hop);
                    self.forward(now, &mut Some(packet));
                }
                None => self.recycle(packet.into_bytes()),
            },
            Err(bytes) => self.recycle(bytes),
        }
    }

    /// The time of the next event; [`Time::MAX`] for never.
    pub(crate) fn next_event(&self) -> Time {
        self.timers.next().min(self.timetable.next())
    }

    /// Processes all events that are due up to `now`, each at its due time.
    pub(crate) fn run(&mut self, now: Time) {
        while self.next_event() <= now {
            let at = self.next_event();
            if let Some((at, entry)) = self.timetable.due(at) {
                let changed = self.network.run(at, entry);
                if let Some(link) = changed {
                    self.arm(link);
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
        self.network.advance(now, link);
        let mut packet = None;
        while self.network.leave(now, link, &mut packet).is_some() {
            self.forward(now, &mut packet);
        }
        self.arm(link);
    }

    fn forward(&mut self, now: Time, packet: &mut Option<Datagram>) {
        match (self.network.forward(now, packet), packet.take()) {
            (Step::On(link), _) => self.arm(link),
            (Step::Out(due, side), Some(packet)) => {
                self.data_packets += u64::from(packet.has_payload());
                self.exits.push_back(Exit { due, side, packet });
            }
            (_, packet) => packet.into_iter().for_each(|packet| self.recycle(packet.into_bytes())),
        }
    }

    fn arm(&mut self, link: u32) {
        self.timers.arm(link, self.network.next_event(link));
    }

    pub(crate) fn finish(self) -> Measured {
        let Self { network, data_packets, .. } = self;
        Measured { links: network.outcomes, samples: network.samples, data_packets }
    }
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
        let mut network = Emulation::new(&plan, &sides, None, None).unwrap();
        let payload = (1000 - HEADER_BYTES - UDP_BYTES) as u16;
        let (from, to) = (sides.address(NodeId(0)), sides.address(NodeId(2)));
        for _ in 0..3 {
            network.enter(ms(0), ours(from, to, &Packet { payload, ..Packet::default() }));
        }
        network.enter(ms(0), ours(to, Ipv4Addr::LOCALHOST, &Packet::default()));
        network.run(ms(1500));
        let exits: Vec<_> = std::iter::from_fn(|| network.exit()).map(|exit| (exit.due, exit.side)).collect();
        assert_eq!(exits, [6, 7, 8].map(|at| (ms(at), Side::B)));
        let measured = network.finish();
        assert_eq!((measured.data_packets, measured.links.len()), (3, 1));
        assert!((measured.links[0].utilization - 0.003).abs() < 1e-9);
        assert!((measured.links[0].queue.mean_packets - 0.003).abs() < 1e-9);
    }
}
