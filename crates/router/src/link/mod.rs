//! One direction of a wire: a router's queue, a transmitter of some rate or of varying [capacity](Capacity), a
//! propagation delay, perhaps random loss and [disorder](Disorder).
//!
//! ```text
//!  offer ──► router (queue) ──► transmitter (rate) ──► in transit (delay) ──► arrive
//! ```
//!
//! The caller calls [`Link::advance`] at [`Link::next_event`] and takes the packets that have arrived with
//! [`Link::arrive`]: one event a packet, queued or not. The transmitter needs no events: its work is not observable
//! before the next packet is offered or one arrives, and is replayed then, at the times at which it was due.
//!
//! If it is certain when a packet reaches the far end, a link need not keep it: see [`Link::offer`]. A link that is
//! [settled](Link::settle) then also takes a shorter way. Without limits, an access link for example is a *plain* link,
//! which is only a [`Line`]. A drop-tail queue is one of [`Departures`].

pub mod capacity;
pub(crate) mod counts;
pub(crate) mod delays;
mod departures;
pub(crate) mod disorder;
mod line;
pub(crate) mod loss;
pub(crate) mod meter;
pub(crate) mod prefetch;
mod queue;
pub(crate) mod schedule;
#[cfg(test)]
mod tests;
mod transit;
pub(crate) mod transmitter;
mod waits;

use line::Line;
use queue::Queue;
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};

use crate::capacity::{Capacity, LinkStreams};
use crate::link::departures::Departures;
use crate::link::disorder::Disorder;
use crate::link::loss::Loss;
use crate::link::transmitter::Transmitter;
use crate::{AnyRouter, Backlog, Counts, DelaySummary, Parcel, QueueMeter, Router};

/// What a link does to ECN codes: devices that overwrite the whole traffic class byte set them all to one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EcnPassage {
    /// Packets keep their code.
    #[default]
    Kept,
    /// All packets arrive with this code.
    SetTo(Ecn),
    /// Marked packets arrive with ECT(0), the others with their code: the exit of a tunnel ignores the marks of the outer
    /// header, against RFC 6040, and classic senders sent ECT(0).
    MarksLost,
}

impl EcnPassage {
    /// The code with which a packet arrives.
    pub(crate) fn arriving(self, code: Ecn) -> Ecn {
        match self {
            Self::SetTo(other) => other,
            Self::MarksLost if code == Ecn::Ce => Ecn::Ect0,
            Self::Kept | Self::MarksLost => code,
        }
    }
}

/// The physical properties of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkConfig {
    /// The transmission rate; the mean one if the link's capacity varies.
    pub rate: Rate,
    /// The propagation delay, from the last bit sent to the arrival.
    pub delay: Duration,
    /// Random loss, applied at the far end.
    pub loss: Loss,
}

/// The result of offering a packet to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Offered {
    /// The packet was dropped for lack of room, or another one that made room for it and is now in its place.
    Dropped,
    /// The link has taken the packet, until it [arrives](Link::arrive) or is dropped later.
    Queued,
    /// The link has not taken the packet: it is certain that it reaches the far end at this time, before all that are
    /// offered after it.
    Arrives(Time),
}

/// One direction of a wire.
#[derive(Debug)]
pub struct Link<P, R> {
    line: Line<P>,
    /// None if the link is plain.
    queue: Option<Box<Queue<P, R>>>,
}

impl<P: Parcel, R: Router<P>> Link<P, R> {
    /// A link fed by `router`; `random` decides the random losses.
    pub fn new(config: LinkConfig, router: R, random: Random) -> Self {
        let queue = Queue::new(router, config.loss, random);
        Self { line: Line::new(&config), queue: Some(Box::new(queue)) }
    }

    /// A packet reaches the link's near end, which takes it. If it is already certain that the packet reaches the far
    /// end earlier than `before`, it may be left to the caller, who delivers it; with [`Time::ZERO`] none is. Packets
    /// that stay where they are need not be copied.
    #[inline]
    pub fn offer(&mut self, now: Time, packet: &mut Option<P>, before: Time) -> Offered {
        let Some(offered) = packet else { return Offered::Queued };
        let Some(queue) = &mut self.queue else {
            let (_, at) = self.line.carry(now, offered.bytes());
            return self.line.pass(at, packet, before);
        };
        queue.offer(&mut self.line, now, packet, before)
    }

    /// The time at which the link next needs a call of [`Link::advance`]; [`Time::MAX`] for never.
    #[inline]
    pub fn next_event(&self) -> Time {
        let arrival = self.line.transit.next();
        self.queue.as_ref().map_or(arrival, |queue| arrival.min(queue.next_event(&self.line)))
    }

    /// Does all that is due by `now`, except delivering packets: call it before reading the router or changing the
    /// link.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        if let Some(queue) = &mut self.queue {
            queue.advance(&mut self.line, now);
        }
    }

    /// A packet that has reached the far end by `now`.
    #[inline]
    pub fn arrive(&mut self, now: Time) -> Option<P> {
        self.next_arrival(now).map(|(_, packet)| packet)
    }

    /// The next packet in transit that reaches the far end by this time, and its arrival time.
    #[inline]
    pub fn next_arrival(&mut self, by: Time) -> Option<(Time, P)> {
        loop {
            let (at, mut packet) = self.line.transit.pop(by)?;
            if self.queue.as_mut().is_none_or(|queue| queue.passes(at, &mut packet)) {
                return Some((at, packet));
            }
        }
    }

    /// Changes the rate from the next packet on. A rate of zero is an outage: packets wait in the queue.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        if let Some(queue) = &mut self.queue {
            queue.set_rate(&mut self.line, now, rate);
        }
    }

    /// Gives the link, before its first packet, the bursts in time of the link whose random losses `random` decides: the
    /// other direction of the same wire.
    pub fn share_bursts(&mut self, random: Random) {
        if let Some(losses) = self.queue.as_mut().and_then(|queue| queue.loss.as_mut()) {
            losses.share_bursts(random);
        }
    }

    /// Gives the link, before its first packet, a capacity that varies; `random` decides how it does. Its router gets no
    /// other rate than the link was made with.
    pub fn set_capacity(&mut self, capacity: &Capacity, random: LinkStreams) {
        self.line.transmitter = capacity.transmitter(random);
    }

    /// Changes the propagation delay from the next packet on (a route change).
    pub fn set_delay(&mut self, delay: Duration) {
        self.line.delay = delay;
    }

    /// Sets what the link does to the order and the number of packets; `stream` gives the random stream of a purpose.
    pub fn set_disorder(&mut self, disorder: Disorder, stream: impl FnMut(&str) -> Random) {
        if let Some(queue) = &mut self.queue {
            queue.set_disorder(disorder, stream);
        }
    }

    /// Changes what the link does to ECN codes, from the next arrival on.
    pub fn set_ecn(&mut self, ecn: EcnPassage) {
        if let Some(queue) = &mut self.queue {
            queue.ecn = ecn;
        }
    }

    /// The transmission rate; the mean one if the capacity varies.
    pub fn rate(&self) -> Rate {
        self.line.transmitter.rate()
    }

    /// Whether it is plain: it has no queue that could be measured, and its packets reach the far end in their order.
    pub fn is_plain(&self) -> bool {
        self.queue.is_none()
    }

    /// Whether packets reach the far end in the order in which they are transmitted, and when they do is certain from
    /// then on: the link is [settled](Link::settle), its capacity does not vary, and nothing reorders them.
    pub fn is_steady(&self) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.is_steady(&self.line))
    }

    /// Bytes transmitted since the link was made; a plain link counts none.
    pub fn transmitted_bytes(&self) -> Bytes {
        self.queue.as_ref().map_or(Bytes::ZERO, |queue| queue.counts.transmitted_bytes)
    }

    /// The packets and bytes that wait for the transmitter.
    pub fn backlog(&self) -> Backlog {
        self.queue.as_ref().map_or_else(Backlog::default, |queue| queue.backlog())
    }

    /// The router that feeds it; none if the link is plain.
    pub fn router(&self) -> Option<&R> {
        self.queue.as_ref().map(|queue| &queue.router)
    }

    /// The same link with what `wrap` makes of its router, if it has one. The router must do the same as before.
    #[must_use]
    pub fn map_router(self, wrap: impl FnOnce(R) -> R) -> Self {
        Self { queue: self.queue.map(|queue| Box::new(queue.map_router(wrap))), ..self }
    }

    /// Restarts the counts and, if `queue` is true, measures the queue from now on. Nothing of a plain link is measured.
    pub fn start_measuring(&mut self, now: Time, queue: bool) {
        if let Some(measured) = &mut self.queue {
            measured.start_measuring(&self.line, now, queue);
        }
    }

    /// The counts since [`Link::start_measuring`].
    pub fn counts(&self) -> Counts {
        self.queue.as_ref().map_or_else(Counts::default, |queue| queue.counts())
    }

    /// Bytes transmitted over what the rate allowed since [`Link::start_measuring`]; 0 where the rate is unlimited or
    /// zero. A packet counts when its transmission starts, so the part of the last packet after `now` is included.
    pub fn utilization(&self, now: Time) -> f64 {
        self.queue.as_ref().map_or(0.0, |queue| queue.utilization(&self.line, now))
    }

    /// The queue's meter, if the queue is measured.
    pub fn queue(&self) -> Option<&QueueMeter> {
        self.queue.as_ref()?.meter.as_ref().map(|meter| &meter.queue)
    }

    /// How long the packets that were sent had waited in the queue, if it is measured.
    pub fn waits(&self) -> Option<DelaySummary> {
        self.queue.as_ref()?.meter.as_ref().map(|meter| meter.waits.summary())
    }
}

impl<P: Parcel + Send> Link<P, AnyRouter<P>> {
    /// The same link before its first packet, if nothing changes it from now on, and its queue is measured only if
    /// `is_measured`. Where the rate is constant and nothing loses or changes packets, it takes the shortest way.
    #[must_use]
    pub fn settle(mut self, is_measured: bool) -> Self {
        let Some(queue) = &mut self.queue else { return self };
        queue.is_settled = true;
        let is_certain = matches!(self.line.transmitter, Transmitter::Constant(_)) && queue.keeps_packets();
        if let (AnyRouter::DropTail(drop_tail), true) = (&queue.router, is_certain) {
            if drop_tail.room().is_unlimited() && !is_measured {
                self.queue = None;
            } else {
                queue.departures = Some(Box::new(Departures::new(drop_tail.room())));
            }
        }
        self
    }
}
