//! The way of packets over links.
//!
//! *Lookahead*: a packet that enters a plain link has a certain arrival time. If the link leads into a host, the packet
//! is delivered when it enters the link, after the host's own timers that expire before the arrival, each at its own
//! local time, which may be ahead of the simulation. If such links are the only ones that follow a link and get no
//! packets from elsewhere, its packets enter them once they are in transit, at the link's next event or offer; and at
//! once, while they would still be queued, if the link foresees departures. It is invisible to other actors, because
//! packets of the host reach them later, over its own links, and to the timetable, because no packet is delivered ahead
//! of its next entry. A host that is ahead sends over a plain link, too, because both directions of its access link are
//! alike (`planner` in `rampmeter-scenario`).

use rampmeter_router::Parcel;
use rampmeter_units::Time;

use crate::link::SimulatedLink;
use crate::packet::InTransit;
use crate::paths::Hop;
use crate::simulation::Simulation;

impl Simulation<'_> {
    /// Does what is due on a link. Returns its next wake-up.
    pub(crate) fn wake_link(&mut self, now: Time, link: u32) -> Time {
        match &mut self.links[link as usize] {
            SimulatedLink::Plain(_) => self.wake_plain(now, link),
            SimulatedLink::Queueing(_) => self.wake_queueing(now, link),
        }
    }

    /// Forwards the packets that have reached the far end of a plain link.
    fn wake_plain(&mut self, now: Time, link: u32) -> Time {
        while let Some(mut packet) = self.links[link as usize].plain().arrive(now) {
            packet.advance();
            self.forward(now, packet);
        }
        self.links[link as usize].plain().next_event()
    }

    fn wake_queueing(&mut self, now: Time, link: u32) -> Time {
        loop {
            self.links[link as usize].queueing().advance(now);
            self.pass_on(now, link);
            let next = self.links[link as usize].queueing().next_event();
            if next > now {
                return next;
            }
        }
    }

    /// Forwards the packets that have reached the far end of a link; if only hosts follow, also those in transit.
    fn pass_on(&mut self, now: Time, link: u32) {
        let by = if self.leads_to_hosts[link as usize] { now.max(self.horizon()) } else { now };
        while let Some((at, mut packet)) = self.links[link as usize].queueing().next_arrival(by) {
            packet.advance();
            self.forward(at, packet);
        }
    }

    /// The time up to which hosts may run ahead. After the measurement the run ends with the last transfer: packets in
    /// transit then do not arrive.
    fn horizon(&self) -> Time {
        let next = if self.meters.over { Time::ZERO } else { self.timetable.next() };
        Time::from_nanos(next.as_nanos().saturating_sub(1))
    }

    /// Forwards a packet that has reached the hop it names.
    pub(crate) fn forward(&mut self, now: Time, packet: InTransit) {
        match self.paths.hop(packet.hop()) {
            Hop::Link(link) => self.offer(now, link, packet),
            Hop::Foreseen(link) => self.schedule(now, link, packet),
            Hop::Plain(link) => self.carry(now, link, packet),
            Hop::Last(link, host) => self.carry_into(now, link, host, packet),
            Hop::Host(host) => self.deliver(now, host, packet),
            Hop::Ingress(aggregate) => self.enter(now, aggregate, packet),
            Hop::Egress(aggregate) => self.leave(now, aggregate, packet),
            Hop::Answered(aggregate) => self.on_answer(now, aggregate, packet),
        }
    }

    fn offer(&mut self, now: Time, link: u32, packet: InTransit) {
        let offered = self.links[link as usize].queueing();
        if let Some(dropped) = offered.offer(now, packet) {
            self.pool.recycle(dropped);
        }
        if self.leads_to_hosts[link as usize] {
            self.pass_on(now, link);
        }
        self.agenda.wake(link, self.links[link as usize].queueing().next_event());
    }

    /// Offers a packet to a link that foresees departures; if only hosts follow, the packet goes on at once.
    fn schedule(&mut self, now: Time, link: u32, mut packet: InTransit) {
        let horizon = self.horizon();
        let leads_to_hosts = self.leads_to_hosts[link as usize];
        let scheduling = self.links[link as usize].queueing();
        let Some(at) = scheduling.schedule(now, &packet) else { return self.pool.recycle(packet) };
        if leads_to_hosts && at <= horizon && scheduling.is_empty() {
            packet.advance();
            return self.forward(at, packet);
        }
        scheduling.put(at, packet);
        if leads_to_hosts {
            self.pass_on(now, link);
        }
        self.agenda.wake(link, self.links[link as usize].queueing().next_event());
    }

    /// Carries a packet over a plain link, which it enters without a queue.
    fn carry(&mut self, now: Time, link: u32, packet: InTransit) {
        let carrying = self.links[link as usize].plain();
        let at = carrying.carry(now, packet.bytes());
        carrying.put(at, packet);
        self.agenda.wake(link, at);
    }

    /// Carries a packet over a plain link into a host, ahead of time.
    fn carry_into(&mut self, now: Time, link: u32, host: u32, mut packet: InTransit) {
        let horizon = self.horizon();
        let carrying = self.links[link as usize].plain();
        let at = carrying.carry(now, packet.bytes());
        if at > horizon || !carrying.is_empty() {
            carrying.put(at, packet);
            return self.agenda.wake(link, at);
        }
        while self.hosts[host as usize].due() < at {
            let due = self.hosts[host as usize].due();
            self.wake_host(due, host);
        }
        packet.advance();
        self.receive(at, host, packet);
    }
}
