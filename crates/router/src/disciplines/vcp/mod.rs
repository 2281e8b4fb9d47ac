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
//! an adjusted target (equation 14, `target`), probabilistic marking beside TCP (section VI-C, `marking`), and codes that
//! report the degree of the load (`vcp_plus`).

mod config;
pub(crate) mod graded;
mod load;
mod marking;
pub(crate) mod target;

use rampmeter_units::{Bytes, LoadCodes, LoadRegion, Random, Rate, Time};

pub use self::config::Config;
use self::load::Load;
use self::marking::Probabilistic;
use crate::disciplines::buffer::Room;
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Tally, Verdict};

/// The choice of each packet's code.
#[derive(Debug)]
enum Marking {
    /// The region of the load, rule R.4.
    Region,
    /// The same, but overload with a probability.
    Probabilistic(Box<Probabilistic>),
    /// By the degree of the load, with the transition point.
    Graded(f64, Box<Random>),
}

impl Marking {
    fn new(config: &Config, graded: bool, random: Random) -> Self {
        if graded {
            Self::Graded(config.transition, Box::new(random))
        } else if config.probabilistic_marking {
            Self::Probabilistic(Box::new(Probabilistic::new(random)))
        } else {
            Self::Region
        }
    }
}

/// A VCP router; with `GRADED` codes that of VCP+.
#[derive(Debug)]
pub struct Vcp<P, const GRADED: bool = false> {
    acknowledgements: DropTail<P>,
    data: DropTail<P>,
    room: Room,
    load: Load,
    codes: LoadCodes,
    marking: Marking,
    marked: u64,
}

impl<P: Parcel + Send, const GRADED: bool> Vcp<P, GRADED> {
    pub(crate) fn with_config(config: &Config, environment: Environment, random: Random) -> Self {
        Self {
            acknowledgements: DropTail::with_room(None, None),
            data: DropTail::with_room(None, None),
            room: Room::new(config.packets, config.bytes),
            load: Load::new(config, GRADED, environment.rate),
            codes: config.codes,
            marking: Marking::new(config, GRADED, random),
            marked: 0,
        }
    }

    /// R.4
    fn tag(&mut self, packet: &mut P) {
        self.load.count_departure(packet.bytes());
        if packet.is_control() {
            return;
        }
        let Some(upstream) = self.codes.decode(packet.ecn()) else { return };
        let (load, region) = (self.load.factor(), self.load.region());
        let region = match &mut self.marking {
            Marking::Graded(transition, random) => {
                let draw = packet.label().map_or_else(|| random.uniform(), graded::draw);
                graded::region(load, *transition, draw)
            }
            Marking::Probabilistic(probabilistic) if region == LoadRegion::Over => probabilistic.region(load),
            _ => region,
        };
        if region > upstream {
            packet.set_ecn(self.codes.encode(region));
            self.marked += u64::from(region == LoadRegion::Over);
        }
    }
}

impl<P: Parcel + Send> Discipline<P> for Vcp<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Random) -> Self {
        Self::with_config(config, environment, random)
    }
}

impl<P: Parcel + Send, const GRADED: bool> Router<P> for Vcp<P, GRADED> {
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
