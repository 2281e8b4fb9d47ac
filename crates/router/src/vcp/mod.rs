//! The VCP router (Xia, Subramanian, Stoica, Kalyanaraman, "One More Bit Is Enough", IEEE/ACM Transactions on
//! Networking 2008, section III-E). It has no per-flow state. Every 200 ms it measures the load factor of its link
//! (`load`) and writes the load region into the two ECN bits of all data packets: low, high or over.
//!
//! ```text
//!                  ┌─ acknowledgements ─┐ first
//!  count (R.1) ──► │                    ├──────► tag (R.4) ──► link
//!                  └─ data ─────────────┘
//!
//! R.4  a data packet leaves:   code = max(code of this link, code on arrival)
//! ```
//!
//! Packets without a code (`00`, no ECN) and acknowledgements are not changed. Both queues share the buffer. Options:
//! an adjusted target (equation 14, `target`), and probabilistic marking beside TCP (section VI-C, `marking`).

mod config;
mod load;
mod marking;
mod target;

use rampmeter_units::{Bytes, LoadCodes, LoadRegion, Rate, Stream, Time};

pub use self::config::Config;
use self::load::Load;
use self::marking::Marking;
use crate::buffer::Room;
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Tally, Verdict};

/// A VCP router.
#[derive(Debug)]
pub struct Vcp<P> {
    acknowledgements: DropTail<P>,
    data: DropTail<P>,
    room: Room,
    load: Load,
    codes: LoadCodes,
    /// Present with probabilistic marking in overload.
    marking: Option<Box<Marking>>,
    marked: u64,
}

impl<P: Parcel + Send> Vcp<P> {
    /// R.4
    fn tag(&mut self, packet: &mut P) {
        self.load.count_departure(packet.bytes());
        if packet.is_control() {
            return;
        }
        let Some(upstream) = self.codes.decode(packet.ecn()) else { return };
        let region = match (self.load.region(), &mut self.marking) {
            (LoadRegion::Over, Some(marking)) => marking.region(self.load.factor()),
            (region, _) => region,
        };
        if region > upstream {
            packet.set_ecn(self.codes.encode(region));
            self.marked += u64::from(region == LoadRegion::Over);
        }
    }
}

impl<P: Parcel + Send> Discipline<P> for Vcp<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Stream) -> Self {
        Self {
            acknowledgements: DropTail::with_room(None, None),
            data: DropTail::with_room(None, None),
            room: Room::new(config.packets, config.bytes),
            load: Load::new(config, environment.rate),
            codes: config.codes,
            marking: config.probabilistic_marking.then(|| Box::new(Marking::new(config, random))),
            marked: 0,
        }
    }
}

impl<P: Parcel + Send> Router<P> for Vcp<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        self.load.advance(now, self.backlog().bytes);
        self.load.count_arrival(packet.bytes());
        if !self.room.fits(self.backlog(), packet.bytes()) {
            return Verdict::Dropped(packet);
        }
        let queue = if packet.is_control() { &mut self.acknowledgements } else { &mut self.data };
        queue.enqueue(now, packet)
    }

    /// A packet that finds both queues empty bypasses them.
    fn pass(&mut self, now: Time, mut packet: P) -> (Option<P>, Verdict<P>) {
        if self.backlog().packets > 0 || !self.room.fits(self.backlog(), packet.bytes()) {
            let verdict = self.enqueue(now, packet);
            return (self.dequeue(now), verdict);
        }
        self.load.advance(now, Bytes::ZERO);
        self.load.count_arrival(packet.bytes());
        self.tag(&mut packet);
        (Some(packet), Verdict::Queued)
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.load.advance(now, self.backlog().bytes);
        let mut packet = self.acknowledgements.dequeue(now).or_else(|| self.data.dequeue(now))?;
        self.tag(&mut packet);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        let (first, second) = (self.acknowledgements.backlog(), self.data.backlog());
        Backlog { packets: first.packets + second.packets, bytes: first.bytes + second.bytes }
    }

    fn tally(&self) -> Tally {
        Tally { dropped_from_queue: 0, marked: self.marked }
    }

    fn on_rate(&mut self, now: Time, rate: Rate) {
        self.load.advance(now, self.backlog().bytes);
        self.load.set_rate(rate);
    }
}

#[cfg(test)]
mod tests;
