//! The plan's network: its links, the paths over them, and what is measured of them.
//!
//! One table holds all paths one after the other; a packet's next hop is the next entry. The world owns the time: it
//! calls [`Network::forward`] for packets that enter, and at [`Network::next_event`] of a link [`Network::advance`],
//! then [`Network::leave`] until it returns nothing.
//!
//! *Lookahead* ([`Network::look_ahead`]): if it is certain when a packet reaches the far end of a link, it may go on
//! before that time. Only a world whose time is virtual can use this.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use rampmeter_router::{AnyRouter, Backlog, Link, Offered, Parcel};
use rampmeter_scenario::{LinkId, LinkOutcome, LinkSample, Plan};
use rampmeter_units::{Ecn, Time};

use crate::timetable::Entry;

/// An index in the table of hops, counted from one, so that an `Option` needs no space.
pub type HopId = NonZeroU32;

/// A packet that knows its position on its path.
pub trait Routed: Parcel {
    /// The hop that it has reached.
    fn hop(&self) -> HopId;
    /// Changes the hop.
    fn set_hop(&mut self, hop: HopId);
    /// Notes the ECN code with which the packet comes to a router, for [`Routed::noted_ecn`].
    fn note_ecn(&mut self);
    /// The code that was noted last.
    fn noted_ecn(&self) -> Ecn;
    /// Moves the packet forward by `hops` hops.
    #[inline]
    fn skip(&mut self, hops: u32) {
        self.set_hop(self.hop().saturating_add(hops));
    }
}

/// A hop of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop<E> {
    /// Over the link with this index in the plan.
    Link(u32),
    /// Out of the links, to this place of the world: the end of the path, or a place from which the world forwards the
    /// packet to the next hop.
    Out(E),
}

/// Where a packet is that was forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Step<E> {
    /// A link has dropped it, or another packet, which is now in its place.
    Dropped,
    /// It is on this link, whose next event may be earlier now.
    On(u32),
    /// It leaves the links at this time.
    Out(Time, E),
}

/// What sees the packets of links. `()` sees nothing, and costs nothing.
pub trait Watch<P> {
    /// Whether it sees anything. Then no packet goes on ahead of time, so that events come in the order of time.
    const IS_ON: bool = true;

    /// The router of a link, or another around it that does the same and sees what becomes of packets.
    fn router(&self, _link: u32, router: AnyRouter<P>) -> AnyRouter<P> {
        router
    }

    /// A packet reaches the near end of a link, where these wait.
    fn on_offered(&mut self, _now: Time, _link: u32, _packet: &P, _queue: impl FnOnce() -> Backlog) {}

    /// A link drops a packet for lack of room.
    fn on_dropped(&mut self, _now: Time, _link: u32, _packet: &P) {}

    /// A packet reaches the far end of a link.
    fn on_arrived(&mut self, _at: Time, _link: u32, _packet: &P) {}
}

impl<P> Watch<P> for () {
    const IS_ON: bool = false;
}

#[derive(Debug)]
struct Wire<P> {
    link: Link<P, AnyRouter<P>>,
    /// Its packets may go on ahead of time.
    is_ahead: bool,
}

impl<P, W: Watch<P>> Watch<P> for Option<W> {
    fn router(&self, link: u32, router: AnyRouter<P>) -> AnyRouter<P> {
        match self {
            Some(watch) => watch.router(link, router),
            None => router,
        }
    }

    fn on_offered(&mut self, now: Time, link: u32, packet: &P, queue: impl FnOnce() -> Backlog) {
        if let Some(watch) = self {
            watch.on_offered(now, link, packet, queue);
        }
    }

    fn on_dropped(&mut self, now: Time, link: u32, packet: &P) {
        if let Some(watch) = self {
            watch.on_dropped(now, link, packet);
        }
    }

    fn on_arrived(&mut self, at: Time, link: u32, packet: &P) {
        if let Some(watch) = self {
            watch.on_arrived(at, link, packet);
        }
    }
}

/// Links, paths and meters.
#[derive(Debug)]
pub struct Network<'a, P, E, W = ()> {
    plan: &'a Plan,
    wires: Vec<Wire<P>>,
    hops: Vec<Hop<E>>,
    /// Packets may go on ahead of time if they arrive before this.
    horizon: Time,
    measured: Vec<LinkId>,
    /// The measurements of links, once they have ended.
    pub outcomes: Vec<LinkOutcome>,
    /// The samples of links.
    pub samples: Vec<LinkSample>,
    watch: W,
}

impl<'a, P: Routed + Send, E: Copy, W: Watch<P>> Network<'a, P, E, W> {
    /// The links of `plan`, without paths.
    pub fn new(plan: &'a Plan, watch: W) -> Self {
        let measured = plan.links.iter().enumerate().filter(|(_, link)| link.measured);
        let wire = |(n, link): (usize, Link<P, AnyRouter<P>>)| {
            let link = if W::IS_ON { link.map_router(|router| watch.router(n as u32, router)) } else { link };
            Wire { link, is_ahead: false }
        };
        Self {
            wires: plan.make_links().into_iter().enumerate().map(wire).collect(),
            hops: Vec::new(),
            horizon: Time::ZERO,
            measured: measured.map(|(link, _)| LinkId(link)).collect(),
            outcomes: Vec::new(),
            samples: Vec::new(),
            watch,
            plan,
        }
    }

    /// Adds a path. Returns its first hop.
    pub fn add_path(&mut self, hops: impl IntoIterator<Item = Hop<E>>) -> HopId {
        let first = HopId::MIN.saturating_add(self.hops.len() as u32);
        self.hops.extend(hops);
        first
    }

    /// Allows packets to go on ahead of time wherever nobody but hosts that `may_be_ahead` can notice. These links are
    /// plain ones into such a host; and steady ones, if such plain links are the only ones that follow and get no packets
    /// from elsewhere. To be called when all paths are known.
    pub fn look_ahead(&mut self, may_be_ahead: impl Fn(E) -> bool) {
        if W::IS_ON {
            return;
        }
        let count = self.wires.len();
        let (mut into_host, mut leads) = (vec![false; count], vec![true; count]);
        let mut sources = vec![BTreeSet::new(); count];
        for (before, hop) in self.steps() {
            match (before, hop) {
                (before, Hop::Link(link)) => {
                    sources[link as usize].insert(before);
                }
                (Some(link), Hop::Out(place)) => {
                    into_host[link as usize] = self.wires[link as usize].link.is_plain() && may_be_ahead(place);
                }
                (None, Hop::Out(_)) => {}
            }
        }
        for (before, hop) in self.steps() {
            let is_alone =
                matches!(hop, Hop::Link(next) if into_host[next as usize] && sources[next as usize].len() == 1);
            if let Some(link) = before {
                leads[link as usize] &= is_alone;
            }
        }
        for (n, Wire { link, is_ahead }) in self.wires.iter_mut().enumerate() {
            let is_used = !sources[n].is_empty();
            *is_ahead = if link.is_plain() { into_host[n] } else { is_used && link.is_steady() && leads[n] };
        }
    }

    /// All hops, each with the link that comes before it on its path, if there is one.
    fn steps(&self) -> impl Iterator<Item = (Option<u32>, Hop<E>)> {
        self.hops.iter().scan(None, |last, &hop| {
            let link = if let Hop::Link(link) = hop { Some(link) } else { None };
            Some((std::mem::replace(last, link), hop))
        })
    }

    /// Sets the time before which packets may go on ahead of time; at first none may.
    pub fn set_horizon(&mut self, horizon: Time) {
        self.horizon = horizon;
    }

    /// Whether packets on `link` may go on ahead of time: when one has entered, [`Network::leave`] may have packets.
    #[inline]
    pub fn is_ahead(&self, link: u32) -> bool {
        self.wires[link as usize].is_ahead
    }

    /// Moves a packet that has reached the hop it names `now` as far as it can go. A packet that is on no link then
    /// is still, or again, in `packet`.
    #[inline]
    pub fn forward(&mut self, mut now: Time, packet: &mut Option<P>) -> Step<E> {
        while let Some(moving) = packet {
            let link = match self.hops[moving.hop().get() as usize - 1] {
                Hop::Link(link) => link,
                Hop::Out(place) => return Step::Out(now, place),
            };
            let Wire { link: wire, is_ahead } = &mut self.wires[link as usize];
            let before = if *is_ahead { self.horizon } else { Time::ZERO };
            self.watch.on_offered(now, link, moving, || wire.backlog());
            match wire.offer(now, packet, before) {
                Offered::Dropped => {
                    if let Some(dropped) = packet {
                        self.watch.on_dropped(now, link, dropped);
                    }
                    return Step::Dropped;
                }
                Offered::Queued => return Step::On(link),
                Offered::Arrives(at) => {
                    now = at;
                    if let Some(moved) = packet {
                        self.watch.on_arrived(at, link, moved);
                        moved.skip(1);
                    }
                }
            }
        }
        Step::Dropped
    }

    /// Does what is due on `link` by `now`; then [`Network::leave`] has the packets that have arrived.
    #[inline]
    pub fn advance(&mut self, now: Time, link: u32) {
        self.wires[link as usize].link.advance(now);
    }

    /// Puts the next packet that leaves `link` by `now`, or ahead of time, into `packet`. It has reached its next hop at
    /// the time returned.
    #[inline]
    pub fn leave(&mut self, now: Time, link: u32, packet: &mut Option<P>) -> Option<Time> {
        let Wire { link: wire, is_ahead } = &mut self.wires[link as usize];
        let before = if *is_ahead { self.horizon } else { Time::ZERO };
        let by = now.max(Time::from_nanos(before.as_nanos().saturating_sub(1)));
        let (at, left) = wire.next_arrival(by)?;
        let arrived = packet.insert(left);
        self.watch.on_arrived(at, link, arrived);
        arrived.skip(1);
        Some(at)
    }

    /// When `link` next needs [`Network::advance`]; [`Time::MAX`] for never.
    #[inline]
    pub fn next_event(&self, link: u32) -> Time {
        self.wires[link as usize].link.next_event()
    }

    /// Runs an entry of the timetable, if it concerns links. Returns the link that changes, whose next event may be
    /// another one.
    pub fn run(&mut self, now: Time, entry: Entry) -> Option<u32> {
        match entry {
            Entry::MeasureFrom => {
                for id in &self.measured {
                    let link = &mut self.wires[id.0].link;
                    link.advance(now);
                    link.start_measuring(now, true);
                }
            }
            Entry::MeasureTo => {
                let measure = |&id: &LinkId| LinkOutcome::of(self.plan, id, &mut self.wires[id.0].link, now);
                self.outcomes.extend(self.measured.iter().map(measure));
            }
            Entry::Sample => {
                let sample = |&id: &LinkId| LinkSample::of(id, &mut self.wires[id.0].link, now);
                self.samples.extend(self.measured.iter().map(sample));
            }
            Entry::Change(link, change) => {
                let changing = &mut self.wires[link as usize].link;
                self.plan.links[link as usize].changes[change as usize].make(now, changing);
                return Some(link);
            }
            Entry::Start(_) | Entry::Stop(_) => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rampmeter_router::Hosts;
    use rampmeter_units::{Bytes, Duration};

    use super::*;
    use crate::timetable::tests::plan;

    #[derive(Debug, Clone)]
    struct Packet {
        hop: HopId,
        number: usize,
        bytes: u64,
    }

    impl Parcel for Packet {
        fn bytes(&self) -> Bytes {
            Bytes::new(self.bytes)
        }
        fn flow(&self) -> u64 {
            0
        }
        fn hosts(&self) -> Hosts {
            Hosts { source: 0, destination: 1 }
        }
        fn ecn(&self) -> Ecn {
            Ecn::NotEct
        }
        fn set_ecn(&mut self, _: Ecn) {}
    }

    impl Routed for Packet {
        fn hop(&self) -> HopId {
            self.hop
        }
        fn set_hop(&mut self, hop: HopId) {
            self.hop = hop;
        }
        fn note_ecn(&mut self) {}
        fn noted_ecn(&self) -> Ecn {
            Ecn::NotEct
        }
    }

    /// The smallest world: packets that enter at planned times, and the events of links in the order of time.
    struct World<'a> {
        network: Network<'a, Packet, usize>,
        /// Packets that have left the network: their number, the time and the place.
        left: Vec<(usize, Time, usize)>,
        dropped: usize,
    }

    impl<'a> World<'a> {
        fn new(plan: &'a Plan) -> (Self, [HopId; 2]) {
            let mut network = Network::new(plan, ());
            let paths = [0, 1].map(|flow: usize| {
                let links = plan.path(plan.flows[flow].from, plan.flows[flow].to).unwrap();
                network.add_path(links.into_iter().map(|LinkId(link)| Hop::Link(link as u32)).chain([Hop::Out(flow)]))
            });
            (Self { network, left: Vec::new(), dropped: 0 }, paths)
        }

        fn forward(&mut self, now: Time, packet: &mut Option<Packet>) {
            match self.network.forward(now, packet) {
                Step::Dropped => self.dropped += 1,
                Step::On(link) => {
                    if self.network.is_ahead(link) {
                        self.pass_on(now, link);
                    }
                }
                Step::Out(at, place) => self.left.extend(packet.take().map(|packet| (packet.number, at, place))),
            }
        }

        fn pass_on(&mut self, now: Time, link: u32) {
            let mut packet = None;
            while let Some(at) = self.network.leave(now, link, &mut packet) {
                self.forward(at, &mut packet);
            }
        }

        /// Runs the events of links that are due before `end`.
        fn run(&mut self, end: Time) {
            while let Some((at, link)) = (0..self.network.wires.len() as u32)
                .map(|link| (self.network.next_event(link), link))
                .min()
                .filter(|(at, _)| *at < end)
            {
                self.network.advance(at, link);
                self.pass_on(at, link);
            }
        }
    }

    /// Sends packets of these flows and sizes after these gaps. `horizon`: how far packets may go on ahead of time.
    fn send(
        plan: &Plan,
        packets: &[(usize, u64, u64)],
        horizon: Option<Duration>,
    ) -> (BTreeMap<usize, (Time, usize)>, usize) {
        let (mut world, paths) = World::new(plan);
        if horizon.is_some() {
            world.network.look_ahead(|_| true);
        }
        let mut now = Time::ZERO;
        for (number, (flow, bytes, gap)) in packets.iter().enumerate() {
            now += Duration::from_micros(*gap);
            world.run(now);
            world.network.set_horizon(horizon.map_or(Time::ZERO, |ahead| now + ahead));
            world.forward(now, &mut Some(Packet { hop: paths[*flow], number, bytes: *bytes }));
        }
        world.run(Time::MAX);
        let left: BTreeMap<_, _> = world.left.iter().map(|&(number, at, place)| (number, (at, place))).collect();
        assert_eq!(left.len(), world.left.len(), "no packet leaves twice");
        (left, world.dropped)
    }

    fn packets() -> impl Strategy<Value = Vec<(usize, u64, u64)>> {
        prop::collection::vec((0..2_usize, 100..1000_u64, 0..1500_u64), 1..200)
    }

    proptest! {
        #[test]
        fn each_packet_leaves_at_its_own_end_in_order_or_is_dropped(packets in packets()) {
            let (left, dropped) = send(&plan(), &packets, None);
            prop_assert_eq!(left.len() + dropped, packets.len());
            let mut now = Time::ZERO;
            let mut last = [Time::ZERO; 2];
            for (number, (flow, bytes, gap)) in packets.iter().enumerate() {
                now += Duration::from_micros(*gap);
                let Some(&(at, place)) = left.get(&number) else { continue };
                // Its transmission times and the delays of three links; at most five packets are before it.
                let alone = Duration::from_micros(bytes + 2 * bytes.div_ceil(10)) + Duration::from_millis(12);
                let least = alone.saturating_sub(Duration::from_micros(2));
                let most = alone + Duration::from_millis(6) + Duration::from_micros(500);
                prop_assert!((least..most).contains(&at.since(now)), "{} after {}", at.since(now), alone);
                prop_assert!(place == *flow && at >= last[place]);
                last[place] = at;
            }
        }

        #[test]
        fn packets_that_go_on_ahead_of_time_arrive_at_the_same_time(packets in packets(), ahead in 0..40_000_u64) {
            let plan = plan();
            prop_assert_eq!(send(&plan, &packets, Some(Duration::from_micros(ahead))), send(&plan, &packets, None));
        }
    }

    #[test]
    fn packets_go_on_ahead_only_where_hosts_alone_can_notice() {
        let plan = plan();
        let (mut world, _) = World::new(&plan);
        let ahead = |world: &World<'_>| -> Vec<&str> {
            let links = plan.links.iter().zip(0..).filter(|(_, n)| world.network.is_ahead(*n));
            links.map(|(link, _)| link.name.as_str()).collect()
        };
        assert!(ahead(&world).is_empty());
        // From the bottleneck over the access links of both receivers.
        world.network.look_ahead(|_| true);
        let into: Vec<_> =
            plan.links.iter().filter(|link| [plan.flows[0].to, plan.flows[1].to].contains(&link.to)).collect();
        assert!(ahead(&world).contains(&"bottleneck") && ahead(&world).len() == 1 + into.len());
        // One of them must not be ahead, and shares the bottleneck.
        world.network.look_ahead(|place| place == 0);
        assert_eq!(ahead(&world), [into[0].name.as_str()]);
    }

    #[test]
    fn a_measured_link_has_an_outcome_and_samples() {
        let plan = plan();
        let (mut world, paths) = World::new(&plan);
        let mut timetable = crate::Timetable::new(&plan, |entry| entry.flow().is_none());
        // A packet every 2 ms, which takes 1 ms, for as long as the timetable has entries.
        let mut now = Time::ZERO;
        while timetable.next() < Time::MAX {
            while let Some((at, entry)) = timetable.due(now) {
                world.run(at);
                assert_eq!(world.network.run(at, entry), None);
            }
            world.run(now);
            world.forward(now, &mut Some(Packet { hop: paths[0], number: 0, bytes: 1000 }));
            now += Duration::from_millis(2);
        }
        let network = world.network;
        assert_eq!((network.outcomes.len(), network.samples.len()), (1, 9));
        assert!((network.outcomes[0].utilization - 0.5).abs() < 0.001, "{}", network.outcomes[0].utilization);
    }
}
