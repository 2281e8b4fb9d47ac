//! The way of packets over links.
//!
//! *Lookahead*: a packet may go on before its time, up to the next entry of the timetable, if it is certain when it
//! reaches a host ([`rampmeter_run::Network::look_ahead`]). It is delivered after the host's own timers that expire
//! before its arrival, each at its own local time, which may be ahead of the simulation. It is invisible to other actors,
//! because packets of the host reach them later, over its own links, and to the timetable, because no packet is
//! delivered ahead of its next entry. A host that is ahead sends over a plain link, too, because both directions of its
//! access link are alike (`planner` in `rampmeter-scenario`).

use rampmeter_run::{Step, Watch, WatchFlows};
use rampmeter_units::Time;

use crate::packet::InTransit;
use crate::simulation::Simulation;
use crate::world::SimulatedHost;

/// A place where packets leave the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// This host: the end of the path.
    Host(u32),
    /// The ingress of an island, for packets that this aggregate carries. For other packets the hops within the island
    /// follow.
    Ingress(u32),
    /// The egress of the island: the end of the aggregate's path.
    Egress(u32),
    /// Back at the ingress of this aggregate, for an egress's answer: the end of the path.
    Answered(u32),
}

impl<H: SimulatedHost, W: Watch<InTransit>, F: WatchFlows> Simulation<'_, H, W, F> {
    /// Does what is due on a link. Returns its next wake-up.
    pub(crate) fn wake_link(&mut self, now: Time, link: u32) -> Time {
        loop {
            self.network.advance(now, link);
            self.pass_on(now, link);
            let next = self.network.next_event(link);
            if next > now {
                return next;
            }
        }
    }

    /// Forwards the packets that leave a link.
    fn pass_on(&mut self, now: Time, link: u32) {
        let mut packet = None;
        while let Some(at) = self.network.leave(now, link, &mut packet) {
            self.forward(at, &mut packet);
        }
    }

    /// Forwards a packet that has reached the hop it names.
    #[allow(clippy::inline_always, reason = "each packet is forwarded from one of few places")]
    #[inline(always)]
    pub(crate) fn forward(&mut self, now: Time, packet: &mut Option<InTransit>) {
        let step = self.network.forward(now, packet);
        if let Step::On(link) = step {
            if self.network.is_ahead(link) {
                self.pass_on(now, link);
            }
            return self.agenda.wake(link, self.network.next_event(link));
        }
        let Some(packet) = packet.take() else { return };
        match step {
            Step::Dropped | Step::On(_) => self.pool.recycle(packet),
            Step::Out(at, Place::Host(host)) => self.deliver(at, host, packet),
            Step::Out(at, Place::Ingress(aggregate)) => self.enter(at, aggregate, packet),
            Step::Out(at, Place::Egress(aggregate)) => self.leave(at, aggregate, packet),
            Step::Out(at, Place::Answered(aggregate)) => self.on_answer(at, aggregate, packet),
        }
    }
}
