//! The way of packets over links.
//!
//! *Lookahead*: if it is certain when a packet reaches the far end of a link, it may go on before that time, up to the
//! next entry of the timetable. A packet that so reaches a host is delivered after the host's own timers that expire
//! before its arrival, each at its own local time, which may be ahead of the simulation. [`ahead`] lists the links for
//! which this is invisible: to other actors, because packets of the host reach them later, over its own links; to the
//! timetable, because no packet is delivered ahead of its next entry. A host that is ahead sends over a plain link, too,
//! because both directions of its access link are alike (`planner` in `rampmeter-scenario`).

use std::collections::BTreeSet;

use rampmeter_router::{AnyRouter, Link, Offered};
use rampmeter_units::Time;

use crate::packet::InTransit;
use crate::paths::{Hop, Paths};
use crate::simulation::Simulation;

/// The links whose packets may go on before they have reached the far end: plain ones into a host that
/// `may_be_ahead`; and steady ones, if such plain links are the only ones that follow and get no packets from elsewhere.
pub(crate) fn ahead(
    paths: &Paths,
    links: &[Link<InTransit, AnyRouter<InTransit>>],
    may_be_ahead: impl Fn(u32) -> bool,
) -> Vec<bool> {
    let (mut into_host, mut leads) = (vec![false; links.len()], vec![true; links.len()]);
    let mut sources = vec![BTreeSet::new(); links.len()];
    for (before, hop) in paths.steps() {
        match (before, hop) {
            (before, Hop::Link(link)) => drop(sources[link as usize].insert(before)),
            (Some(link), Hop::Host(host)) => {
                into_host[link as usize] = links[link as usize].is_plain() && may_be_ahead(host)
            }
            _ => {}
        }
    }
    for (before, hop) in paths.steps() {
        let is_alone = matches!(hop, Hop::Link(next) if into_host[next as usize] && sources[next as usize].len() == 1);
        if let Some(link) = before {
            leads[link as usize] &= is_alone;
        }
    }
    let is_ahead = |n: usize| if links[n].is_plain() { into_host[n] } else { links[n].is_steady() && leads[n] };
    (0..links.len()).map(is_ahead).collect()
}

impl Simulation<'_> {
    /// Does what is due on a link. Returns its next wake-up.
    pub(crate) fn wake_link(&mut self, now: Time, link: u32) -> Time {
        loop {
            self.links[link as usize].advance(now);
            self.pass_on(now, link);
            let next = self.links[link as usize].next_event();
            if next > now {
                return next;
            }
        }
    }

    /// Forwards the packets that have reached the far end of a link, and those in transit that may go on before.
    fn pass_on(&mut self, now: Time, link: u32) {
        let by = now.max(Time::from_nanos(self.horizon(link).as_nanos().saturating_sub(1)));
        while let Some((at, mut packet)) = self.links[link as usize].next_arrival(by) {
            packet.advance();
            self.forward(at, packet);
        }
    }

    /// The time before which packets on a link may go on. After the measurement the run ends with the last transfer:
    /// packets in transit then do not arrive.
    fn horizon(&self, link: u32) -> Time {
        let is_ahead = self.ahead[link as usize] && !self.meters.over;
        if is_ahead { self.timetable.next() } else { Time::ZERO }
    }

    /// Forwards a packet that has reached the hop it names.
    pub(crate) fn forward(&mut self, now: Time, packet: InTransit) {
        match self.paths.hop(packet.hop()) {
            Hop::Link(link) => self.offer(now, link, packet),
            Hop::Host(host) => self.deliver(now, host, packet),
            Hop::Ingress(aggregate) => self.enter(now, aggregate, packet),
            Hop::Egress(aggregate) => self.leave(now, aggregate, packet),
            Hop::Answered(aggregate) => self.on_answer(now, aggregate, packet),
        }
    }

    fn offer(&mut self, now: Time, link: u32, packet: InTransit) {
        let before = self.horizon(link);
        match self.links[link as usize].offer(now, packet, before) {
            Offered::Dropped(packet) => self.pool.recycle(packet),
            Offered::Queued => {
                if self.ahead[link as usize] {
                    self.pass_on(now, link);
                }
                self.agenda.wake(link, self.links[link as usize].next_event());
            }
            Offered::Arrives(at, mut packet) => {
                packet.advance();
                self.forward(at, packet);
            }
        }
    }
}
