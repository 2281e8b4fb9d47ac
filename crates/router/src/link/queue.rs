//! The queue of a link, with what it does to packets at the far end and what is measured of it.

use std::marker::PhantomData;

use rampmeter_units::{Bytes, Random, Rate, Time};

use super::line::Line;
use super::{EcnPassage, Offered};
use crate::link::departures::{Departing, Departures};
use crate::link::disorder::{Disorder, Disordering};
use crate::link::loss::{Loss, Losses};
use crate::link::transmitter::Transmitter;
use crate::link::waits::Waits;
use crate::{Backlog, Counts, Parcel, QueueMeter, Router, Verdict};

/// The counts at the start of the measurement, and the link's capacity since.
#[derive(Debug, Default)]
struct Baseline {
    counts: Counts,
    /// The integral of the rate up to `since`.
    capacity: Bytes,
    since: Time,
    /// The bytes of the transmitter's opportunities up to `since`.
    granted: Bytes,
}

/// What is measured of the queue.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) queue: QueueMeter,
    pub(super) waits: Waits,
}

#[derive(Debug)]
pub(super) struct Queue<P, R> {
    pub(super) router: R,
    /// The queue in place of the router's, if departures are foreseen: when a packet is queued, it is certain when it
    /// leaves and arrives.
    pub(super) departures: Option<Box<Departures>>,
    /// The router's next tick, kept here because every packet needs it.
    next_tick: Time,
    /// Whether packets are queued for the transmitter.
    waiting: bool,
    pub(super) is_settled: bool,
    pub(super) ecn: EcnPassage,
    /// Random loss, if there is any.
    pub(super) loss: Option<Box<Losses>>,
    /// What happens to the order and the number of packets, if anything.
    disorder: Option<Box<Disordering>>,
    pub(super) counts: Counts,
    baseline: Box<Baseline>,
    pub(super) meter: Option<Box<Meter>>,
    packets: PhantomData<fn(P)>,
}

impl<P: Parcel, R: Router<P>> Queue<P, R> {
    pub(super) fn new(router: R, loss: Loss, random: Random) -> Self {
        Self {
            next_tick: router.next_tick(),
            router,
            departures: None,
            waiting: false,
            is_settled: false,
            ecn: EcnPassage::Kept,
            loss: (loss != Loss::default()).then(|| Box::new(Losses::new(loss, random))),
            disorder: None,
            counts: Counts::default(),
            baseline: Box::default(),
            meter: None,
            packets: PhantomData,
        }
    }

    /// The same with what `wrap` makes of the router.
    pub(super) fn map_router(self, wrap: impl FnOnce(R) -> R) -> Self {
        Self { router: wrap(self.router), ..self }
    }

    /// See [`Link::offer`](super::Link::offer).
    pub(super) fn offer(&mut self, line: &mut Line<P>, now: Time, packet: &mut Option<P>, before: Time) -> Offered {
        self.advance(line, now);
        let Some(offered) = packet else { return Offered::Queued };
        self.counts.offered += 1;
        self.counts.offered_data += u64::from(!offered.is_control());
        if self.departures.is_some() {
            return self.foresee(line, now, packet, before);
        }
        if let Some(meter) = &mut self.meter {
            meter.waits.on_arrival(now);
        }
        packet.take().map_or(Offered::Queued, |offered| self.enqueue(line, now, offered, packet))
    }

    /// Gives a packet to the router. One that is dropped is in `dropped` then. The code of all routers is kept out of the
    /// way of packets that need none.
    #[inline(never)]
    fn enqueue(&mut self, line: &mut Line<P>, now: Time, packet: P, dropped: &mut Option<P>) -> Offered {
        let (next, verdict) = if line.free_at <= now && !line.awaits_opportunity(now) {
            self.router.pass(now, packet)
        } else {
            self.waiting = true;
            (None, self.router.enqueue(now, packet))
        };
        let is_sent = next.is_some();
        if let Some(packet) = next {
            self.transmit(line, now, packet);
        }
        self.next_tick = self.router.next_tick();
        if let (Some(meter), Verdict::Dropped(_)) = (&mut self.meter, &verdict) {
            meter.waits.on_refusal();
        }
        self.measure(now, is_sent);
        match verdict {
            Verdict::Queued => Offered::Queued,
            Verdict::Dropped(packet) | Verdict::Displaced(packet) => {
                self.counts.dropped += 1;
                *dropped = Some(packet);
                Offered::Dropped
            }
        }
    }

    /// Puts a packet in transit whose departure is certain, or drops it for lack of room.
    fn foresee(&mut self, line: &mut Line<P>, now: Time, packet: &mut Option<P>, before: Time) -> Offered {
        let bytes = packet.as_ref().map_or(Bytes::ZERO, P::bytes);
        let departures = self.departures.as_mut().filter(|departures| departures.has_room(bytes));
        let Some(departures) = departures else {
            self.counts.dropped += 1;
            return Offered::Dropped;
        };
        let (leaves_at, arrives_at) = line.carry(now, bytes);
        let departing = Departing::new(now, leaves_at, bytes);
        if leaves_at == now {
            self.leave(departing);
        } else {
            departures.push(departing);
            let backlog = departures.backlog();
            if let Some(meter) = &mut self.meter {
                meter.queue.on_change(now, backlog);
            }
        }
        line.pass(arrives_at, packet, before)
    }

    /// See [`Link::advance`](super::Link::advance).
    pub(super) fn advance(&mut self, line: &mut Line<P>, now: Time) {
        if self.departures.is_some() {
            return self.depart(now);
        }
        loop {
            let tick = self.next_tick;
            if self.waiting && line.free_at <= now.min(tick) {
                let at = line.free_at;
                let next = self.router.dequeue(at);
                let is_sent = next.is_some();
                match next {
                    Some(packet) => self.transmit(line, at, packet),
                    None => self.waiting = false,
                }
                self.next_tick = self.router.next_tick();
                self.measure(at, is_sent);
            } else if tick <= now {
                self.router.tick(tick);
                self.next_tick = self.router.next_tick();
                // A router may release a packet that it has delayed.
                if !self.waiting && self.router.backlog().packets > 0 {
                    self.waiting = true;
                    if !line.awaits_opportunity(tick) {
                        line.free_at = line.free_at.max(tick);
                    }
                }
            } else {
                return;
            }
        }
    }

    /// Counts and measures the foreseen departures up to `now`.
    fn depart(&mut self, now: Time) {
        while let Some(departing) = self.departures.as_mut().and_then(|departures| departures.pop(now)) {
            self.leave(departing);
        }
    }

    /// A foreseen departure.
    fn leave(&mut self, departing: Departing) {
        self.count(departing.bytes());
        if let (Some(meter), Some(departures)) = (&mut self.meter, &self.departures) {
            meter.queue.on_change(departing.at, departures.backlog());
            meter.waits.on_departure(departing.at, departing.wait);
        }
    }

    /// `now` is when the transmitter became free: with a real clock, which calls late, packets still leave no gaps.
    fn transmit(&mut self, line: &mut Line<P>, now: Time, packet: P) {
        let bytes = packet.bytes();
        let sent = line.transmitter.send(now, bytes);
        line.free_at = sent.next;
        self.waiting = self.router.backlog().packets > 0;
        self.count(bytes);
        let at = sent.end + line.delay + sent.delay;
        let Some(disorder) = &mut self.disorder else { return line.transit.put(at, packet) };
        let copy = if disorder.duplicates() { packet.duplicate() } else { None };
        let arrivals = [disorder.arrival(at), copy.as_ref().map_or(at, |_| disorder.arrival(at))];
        line.transit.put(arrivals[0], packet);
        if let Some(copy) = copy {
            line.transit.put(arrivals[1], copy);
        }
    }

    /// The transmission of a packet starts.
    fn count(&mut self, bytes: Bytes) {
        self.counts.transmitted += 1;
        self.counts.transmitted_bytes += bytes;
    }

    /// A packet reaches the far end `at` this time. False if it is lost there.
    #[inline]
    pub(super) fn passes(&mut self, at: Time, packet: &mut P) -> bool {
        let loss = self.loss.as_deref_mut();
        let lost = loss.is_some_and(|losses| losses.loses(at, packet.bytes()));
        if lost {
            self.counts.lost += 1;
        } else if self.ecn != EcnPassage::Kept {
            packet.set_ecn(self.ecn.arriving(packet.ecn()));
        }
        !lost
    }

    /// The time of the next event of the link, but for arrivals of packets in transit.
    #[inline]
    pub(super) fn next_event(&self, line: &Line<P>) -> Time {
        // A queued packet cannot arrive before this. It overtakes packets in transit only after the delay was reduced.
        let overtaking = if self.waiting { line.free_at + line.delay } else { Time::MAX };
        overtaking.min(self.next_tick)
    }

    /// The queue may have changed; if `is_sent`, a packet has left it for the transmitter.
    #[inline]
    fn measure(&mut self, now: Time, is_sent: bool) {
        if self.meter.is_some() {
            self.measure_queue(now, is_sent);
        }
    }

    fn measure_queue(&mut self, now: Time, is_sent: bool) {
        let Some(meter) = &mut self.meter else { return };
        let (backlog, own_wait) = (self.router.backlog(), self.router.last_wait());
        meter.queue.on_change(now, backlog);
        meter.waits.on_change(now, backlog.packets, is_sent, own_wait);
    }

    pub(super) fn set_rate(&mut self, line: &mut Line<P>, now: Time, rate: Rate) {
        debug_assert!(!self.is_settled, "arrivals were certain at the earlier rate");
        (self.baseline.capacity, self.baseline.since) = (self.capacity(line, now), now);
        line.set_rate(now, rate);
        self.router.on_rate(now, rate);
        self.next_tick = self.router.next_tick();
    }

    pub(super) fn set_disorder(&mut self, disorder: Disorder, stream: impl FnMut(&str) -> Random) {
        self.disorder = (disorder != Disorder::default()).then(|| Box::new(Disordering::new(disorder, stream)));
    }

    /// Whether nothing loses, reorders or changes packets at the far end.
    pub(super) fn keeps_packets(&self) -> bool {
        self.loss.is_none() && self.disorder.is_none() && self.ecn == EcnPassage::Kept
    }

    /// See [`Link::is_steady`](super::Link::is_steady).
    pub(super) fn is_steady(&self, line: &Line<P>) -> bool {
        let is_constant = matches!(line.transmitter, Transmitter::Constant(_) | Transmitter::Off { .. });
        self.is_settled && is_constant && self.disorder.is_none()
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.departures.as_ref().map_or_else(|| self.router.backlog(), |departures| departures.backlog())
    }

    pub(super) fn start_measuring(&mut self, line: &Line<P>, now: Time, queue: bool) {
        *self.baseline = Baseline {
            counts: self.counted(),
            capacity: Bytes::ZERO,
            since: now,
            granted: line.transmitter.granted(now),
        };
        self.meter = queue.then(|| {
            let backlog = self.backlog();
            Box::new(Meter { queue: QueueMeter::new(now, backlog), waits: Waits::new(now, backlog.packets) })
        });
        if queue {
            self.router.measure_delays();
        }
    }

    /// The counts since [`Queue::start_measuring`].
    pub(super) fn counts(&self) -> Counts {
        self.counted().since(self.baseline.counts)
    }

    fn counted(&self) -> Counts {
        self.counts.with(self.router.tally())
    }

    pub(super) fn utilization(&self, line: &Line<P>, now: Time) -> f64 {
        let carried = self.counts.transmitted_bytes - self.baseline.counts.transmitted_bytes;
        match self.capacity(line, now) {
            Bytes::ZERO | Bytes::MAX => 0.0,
            capacity => (carried.as_f64() / capacity.as_f64()).min(1.0),
        }
    }

    /// The bytes that the rate allowed since [`Queue::start_measuring`].
    fn capacity(&self, line: &Line<P>, now: Time) -> Bytes {
        let Baseline { capacity, since, granted, .. } = *self.baseline;
        match &line.transmitter {
            Transmitter::Scheduled(schedule) => capacity + schedule.granted(now).saturating_sub(granted),
            other => capacity + other.rate().bytes_in(now.since(since)),
        }
    }
}
