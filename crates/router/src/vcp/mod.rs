//! The VCP router (Xia, Subramanian, Stoica, Kalyanaraman, "One More Bit Is Enough", IEEE/ACM Transactions on Networking
//! 2008, section III-E). It knows no flows. Every 200 ms it measures how loaded its link is (`load`) and tells all data
//! packets, in the two ECN bits: low, high or over.
//!
//! ```text
//!                  ┌─ acknowledgements ─┐ first
//!  count (R.1) ──► │                    ├──────► tag (R.4) ──► link
//!                  └─ data ─────────────┘
//!
//! R.4  a data packet leaves:   code = max(code of this link, code it came with)
//! ```
//!
//! A packet without a code (`00`, its sender does not use ECN) is left alone, and so are acknowledgements. Both queues
//! share the buffer; a packet that finds it full is dropped, whichever kind it is.
//!
//! Options: a target that adjusts itself (equation 14, `target`), and marking by chance in overload for the sake of TCP
//! (section VI-C, `marking`).

mod config;
mod load;
mod marking;
mod target;

use rampmeter_units::{Bytes, LoadCodes, LoadRegion, Rate, Stream, Time};

pub use self::config::Config;
use self::load::Load;
use self::marking::Marking;
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Tally, Verdict, buffer};

/// A VCP router.
#[derive(Debug)]
pub struct Vcp<P> {
    acknowledgements: DropTail<P>,
    data: DropTail<P>,
    most_packets: u64,
    most_bytes: Bytes,
    load: Load,
    codes: LoadCodes,
    /// Where overload is told by chance.
    marking: Option<Box<Marking>>,
    marked: u64,
}

impl<P: Parcel + Send> Vcp<P> {
    fn has_room(&self, bytes: Bytes) -> bool {
        let waiting = self.backlog();
        waiting.packets < self.most_packets && waiting.bytes + bytes <= self.most_bytes
    }

    /// What the packet that leaves next is told of this link.
    fn region(&mut self) -> LoadRegion {
        let region = self.load.region();
        match &mut self.marking {
            Some(marking) if region == LoadRegion::Over => marking.tells(self.load.factor()),
            _ => region,
        }
    }

    /// R.4
    fn tag(&mut self, packet: &mut P) {
        self.load.count_departure(packet.bytes());
        if packet.is_control() {
            return;
        }
        let Some(upstream) = self.codes.decode(packet.ecn()) else { return };
        let region = self.region();
        if region > upstream {
            packet.set_ecn(self.codes.encode(region));
            self.marked += u64::from(region == LoadRegion::Over);
        }
    }
}

impl<P: Parcel + Send> Discipline<P> for Vcp<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Stream) -> Self {
        let room = buffer::Config { packets: config.packets, bytes: config.bytes };
        let queue = || DropTail::new(&buffer::Config::default(), environment, random.clone());
        Self {
            acknowledgements: queue(),
            data: queue(),
            most_packets: room.most_packets(),
            most_bytes: room.most_bytes(),
            load: Load::new(config, environment.rate),
            codes: config.codes,
            marking: config.mark_by_chance.then(|| Box::new(Marking::new(config, random.clone()))),
            marked: 0,
        }
    }
}

impl<P: Parcel + Send> Router<P> for Vcp<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        self.load.advance(now, self.backlog().bytes);
        self.load.count_arrival(packet.bytes());
        if !self.has_room(packet.bytes()) {
            return Verdict::Dropped(packet);
        }
        let queue = if packet.is_control() { &mut self.acknowledgements } else { &mut self.data };
        queue.enqueue(now, packet)
    }

    /// A packet that finds nothing before it never touches a queue.
    fn pass(&mut self, now: Time, mut packet: P) -> (Option<P>, Verdict<P>) {
        if self.backlog().packets > 0 || !self.has_room(packet.bytes()) {
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
        Tally { dropped_later: 0, marked: self.marked }
    }

    fn on_rate(&mut self, now: Time, rate: Rate) {
        self.load.advance(now, self.backlog().bytes);
        self.load.set_rate(rate);
    }
}

#[cfg(test)]
mod tests;
