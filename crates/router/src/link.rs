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
//! A link may *foresee* departures instead ([`Link::foresee`]): where nothing delays, drops or changes a packet after
//! it was queued, [`Link::schedule`] returns the time at which it reaches the far end, and it does not enter the queue.

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Stream, Time};

use crate::capacity::{Capacity, LinkStreams};
use crate::departures::Departures;
use crate::disorder::{Disorder, Disordering};
use crate::loss::{Loss, Losses};
use crate::transit::Transit;
use crate::transmitter::Transmitter;
use crate::waits::Waits;
use crate::{Backlog, Counts, DelaySummary, Parcel, QueueMeter, Router, Verdict, drop_tail};

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

/// One direction of a wire.
#[derive(Debug)]
pub struct Link<P, R> {
    transmitter: Transmitter,
    delay: Duration,
    ecn: EcnPassage,
    /// Random loss, if there is any.
    loss: Option<Box<Losses>>,
    /// What happens to the order and the number of packets, if anything.
    disorder: Option<Box<Disordering>>,
    router: R,
    /// The queue in place of the router's, if the link foresees departures.
    departures: Option<Box<Departures>>,
    /// The router's next tick, kept here because every packet needs it.
    next_tick: Time,
    /// The time at which the transmitter is free, and has sent the packets in `departures`; [`Time::MAX`] in an outage.
    free_at: Time,
    /// Whether packets are queued for the transmitter.
    waiting: bool,
    transit: Transit<P>,
    counts: Counts,
    baseline: Box<Baseline>,
    meter: Option<Box<Meter>>,
}

/// What is measured of the queue.
#[derive(Debug)]
struct Meter {
    queue: QueueMeter,
    waits: Waits,
}

impl<P: Parcel, R: Router<P>> Link<P, R> {
    /// A link fed by `router`; `random` decides the random losses.
    pub fn new(config: LinkConfig, router: R, random: Stream) -> Self {
        Self {
            transmitter: Transmitter::new(config.rate, Time::ZERO),
            delay: config.delay,
            ecn: EcnPassage::Kept,
            loss: (config.loss != Loss::default()).then(|| Box::new(Losses::new(config.loss, random))),
            disorder: None,
            next_tick: router.next_tick(),
            router,
            departures: None,
            free_at: if config.rate == Rate::ZERO { Time::MAX } else { Time::ZERO },
            waiting: false,
            transit: Transit::default(),
            counts: Counts::default(),
            baseline: Box::default(),
            meter: None,
        }
    }

    /// A packet reaches the link's near end. Returns the packet that was dropped for lack of room, if any.
    pub fn offer(&mut self, now: Time, packet: P) -> Option<P> {
        debug_assert!(self.departures.is_none());
        self.advance(now);
        self.on_arrival(now, &packet);
        let (next, verdict) = if self.free_at <= now && !self.awaits_opportunity(now) {
            self.router.pass(now, packet)
        } else {
            self.waiting = true;
            (None, self.router.enqueue(now, packet))
        };
        let is_sent = next.is_some();
        if let Some(packet) = next {
            self.transmit(now, packet);
        }
        self.next_tick = self.router.next_tick();
        if let (Some(meter), Verdict::Dropped(_)) = (&mut self.meter, &verdict) {
            meter.waits.on_refusal();
        }
        self.measure(now, is_sent);
        match verdict {
            Verdict::Queued => None,
            Verdict::Dropped(packet) | Verdict::Displaced(packet) => {
                self.counts.dropped += 1;
                Some(packet)
            }
        }
    }

    fn on_arrival(&mut self, now: Time, packet: &P) {
        self.counts.offered += 1;
        self.counts.offered_data += u64::from(!packet.is_control());
        if let Some(meter) = &mut self.meter {
            meter.waits.on_arrival(now);
        }
    }

    /// Offers a packet to a link that foresees departures. Returns the time at which it reaches the far end: the caller
    /// delivers it then, or puts it in transit ([`Link::put`]). `None`: it is dropped for lack of room.
    pub fn schedule(&mut self, now: Time, packet: &P) -> Option<Time> {
        self.advance(now);
        self.on_arrival(now, packet);
        let bytes = packet.bytes();
        let departures = self.departures.as_mut().filter(|departures| departures.has_room(bytes));
        let Some(departures) = departures else {
            self.counts.dropped += 1;
            if let Some(meter) = &mut self.meter {
                meter.waits.on_refusal();
            }
            self.measure(now, false);
            return None;
        };
        let leaves_at = self.free_at.max(now);
        self.free_at = self.transmitter.send(leaves_at, bytes).end;
        let is_sent = leaves_at == now;
        if is_sent {
            self.count(bytes);
        } else {
            departures.push(leaves_at, bytes);
        }
        self.measure(now, is_sent);
        Some(self.free_at + self.delay)
    }

    /// Whether packets that arrive `now` at the idle link wait for an opportunity. The earlier ones are lost.
    #[inline]
    fn awaits_opportunity(&mut self, now: Time) -> bool {
        let Transmitter::Scheduled(schedule) = &mut self.transmitter else { return false };
        self.free_at = schedule.after(now);
        true
    }

    /// Whether no packet is in transit.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.transit.is_empty()
    }

    /// The time at which the link next needs a call of [`Link::advance`]; [`Time::MAX`] for never.
    pub fn next_event(&self) -> Time {
        // A queued packet cannot arrive before this. It overtakes packets in transit only after the delay was reduced.
        let overtaking = if self.waiting { self.free_at + self.delay } else { Time::MAX };
        self.transit.next().min(overtaking).min(self.next_tick)
    }

    /// Does all that is due by `now`, except delivering packets: call it before reading the router or changing the
    /// link.
    pub fn advance(&mut self, now: Time) {
        if self.departures.is_some() {
            return self.depart(now);
        }
        loop {
            let tick = self.next_tick;
            if self.waiting && self.free_at <= now.min(tick) {
                let at = self.free_at;
                let next = self.router.dequeue(at);
                let is_sent = next.is_some();
                match next {
                    Some(packet) => self.transmit(at, packet),
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
                    if !self.awaits_opportunity(tick) {
                        self.free_at = self.free_at.max(tick);
                    }
                }
            } else {
                return;
            }
        }
    }

    /// Counts and measures the foreseen departures up to `now`.
    fn depart(&mut self, now: Time) {
        while let Some((at, bytes)) = self.departures.as_mut().and_then(|departures| departures.pop(now)) {
            self.count(bytes);
            self.measure(at, true);
        }
    }

    /// A packet that has reached the far end by `now`.
    pub fn arrive(&mut self, now: Time) -> Option<P> {
        self.next_arrival(now).map(|(_, packet)| packet)
    }

    /// The next packet in transit that reaches the far end by this time, and its arrival time.
    #[inline]
    pub fn next_arrival(&mut self, by: Time) -> Option<(Time, P)> {
        loop {
            let (at, mut packet) = self.transit.pop(by)?;
            let loss = self.loss.as_deref_mut();
            let lost = loss.is_some_and(|losses| losses.loses(at, packet.bytes()));
            if !lost {
                if self.ecn != EcnPassage::Kept {
                    packet.set_ecn(self.ecn.arriving(packet.ecn()));
                }
                return Some((at, packet));
            }
            self.counts.lost += 1;
        }
    }

    /// `now` is when the transmitter became free: with a real clock, which calls late, packets still leave no gaps.
    fn transmit(&mut self, now: Time, packet: P) {
        let bytes = packet.bytes();
        let sent = self.transmitter.send(now, bytes);
        self.free_at = sent.next;
        self.waiting = self.router.backlog().packets > 0;
        self.count(bytes);
        let at = sent.end + self.delay + sent.delay;
        let Some(disorder) = &mut self.disorder else { return self.put(at, packet) };
        let copy = if disorder.duplicates() { packet.duplicate() } else { None };
        let arrivals = [disorder.arrival(at), copy.as_ref().map_or(at, |_| disorder.arrival(at))];
        self.put(arrivals[0], packet);
        if let Some(copy) = copy {
            self.put(arrivals[1], copy);
        }
    }

    /// The transmission of a packet starts.
    fn count(&mut self, bytes: Bytes) {
        self.counts.transmitted += 1;
        self.counts.transmitted_bytes += bytes;
    }

    /// Puts a packet in transit that reaches the far end `at` this time.
    pub fn put(&mut self, at: Time, packet: P) {
        self.transit.put(at, packet);
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
        let (backlog, own_wait) = match &self.departures {
            Some(departures) => (departures.backlog(), None),
            None => (self.router.backlog(), self.router.last_wait()),
        };
        meter.queue.on_change(now, backlog);
        meter.waits.on_change(now, backlog.packets, is_sent, own_wait);
    }

    /// Changes the rate from the next packet on. A rate of zero is an outage: packets wait in the queue.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        debug_assert!(self.departures.is_none(), "departures were foreseen at the earlier rate");
        (self.baseline.capacity, self.baseline.since) = (self.capacity(now), now);
        let busy_until = match &self.transmitter {
            Transmitter::Constant(_) | Transmitter::Shaped(_) => self.free_at,
            Transmitter::Off { busy_until } => *busy_until,
            Transmitter::Scheduled(schedule) => schedule.busy_until(),
        };
        self.free_at = if rate == Rate::ZERO { Time::MAX } else { busy_until.max(now) };
        self.transmitter = Transmitter::new(rate, busy_until);
        self.router.on_rate(now, rate);
        self.next_tick = self.router.next_tick();
    }

    /// Gives the link, before its first packet, the bursts in time of the link whose random losses `random` decides: the
    /// other direction of the same wire.
    pub fn share_bursts(&mut self, random: Stream) {
        if let Some(losses) = &mut self.loss {
            losses.share_bursts(random);
        }
    }

    /// Gives the link, before its first packet, a capacity that varies; `random` decides how it does. Its router gets no
    /// other rate than the link was made with.
    pub fn set_capacity(&mut self, capacity: &Capacity, random: LinkStreams) {
        self.transmitter = capacity.transmitter(random);
    }

    /// Makes the link, before its first packet, foresee departures. Its router must be [`DropTail`](drop_tail::DropTail)
    /// with this `config`, its rate must be constant and above zero, and nothing may lose, reorder or change packets.
    pub fn foresee(&mut self, config: &drop_tail::Config) {
        let is_constant = matches!(self.transmitter, Transmitter::Constant(_)) && self.loss.is_none();
        assert!(is_constant && self.disorder.is_none() && self.ecn == EcnPassage::Kept, "departures are not certain");
        self.departures = Some(Box::new(Departures::new(config)));
    }

    /// Changes the propagation delay from the next packet on (a route change).
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// Sets what the link does to the order and the number of packets; `stream` gives the random stream of a purpose.
    pub fn set_disorder(&mut self, disorder: Disorder, stream: impl FnMut(&str) -> Stream) {
        self.disorder = (disorder != Disorder::default()).then(|| Box::new(Disordering::new(disorder, stream)));
    }

    /// Changes what the link does to ECN codes, from the next arrival on.
    pub fn set_ecn(&mut self, ecn: EcnPassage) {
        self.ecn = ecn;
    }

    /// The transmission rate; the mean one if the capacity varies.
    pub fn rate(&self) -> Rate {
        self.transmitter.rate()
    }

    /// Bytes transmitted since the link was made.
    pub fn transmitted_bytes(&self) -> Bytes {
        self.counts.transmitted_bytes
    }

    /// The packets and bytes that wait for the transmitter.
    pub fn backlog(&self) -> Backlog {
        self.departures.as_ref().map_or_else(|| self.router.backlog(), |departures| departures.backlog())
    }

    /// The router that feeds it.
    pub fn router(&self) -> &R {
        &self.router
    }

    /// Restarts the counts and, if `queue` is true, measures the queue from now on.
    pub fn start_measuring(&mut self, now: Time, queue: bool) {
        *self.baseline = Baseline {
            counts: self.counted(),
            capacity: Bytes::ZERO,
            since: now,
            granted: self.transmitter.granted(now),
        };
        self.meter = queue.then(|| {
            let backlog = self.backlog();
            Box::new(Meter { queue: QueueMeter::new(now, backlog), waits: Waits::new(backlog.packets) })
        });
        if queue {
            self.router.measure_delays();
        }
    }

    /// The counts since [`Link::start_measuring`].
    pub fn counts(&self) -> Counts {
        self.counted().since(self.baseline.counts)
    }

    fn counted(&self) -> Counts {
        self.counts.with(self.router.tally())
    }

    /// Bytes transmitted over what the rate allowed since [`Link::start_measuring`]; 0 where the rate is unlimited or
    /// zero. A packet counts when its transmission starts, so the part of the last packet after `now` is included.
    pub fn utilization(&self, now: Time) -> f64 {
        let carried = self.counts.transmitted_bytes - self.baseline.counts.transmitted_bytes;
        match self.capacity(now) {
            Bytes::ZERO | Bytes::MAX => 0.0,
            capacity => (carried.as_f64() / capacity.as_f64()).min(1.0),
        }
    }

    /// The bytes that the rate allowed since [`Link::start_measuring`].
    fn capacity(&self, now: Time) -> Bytes {
        let Baseline { capacity, since, granted, .. } = *self.baseline;
        match &self.transmitter {
            Transmitter::Scheduled(schedule) => capacity + schedule.granted(now).saturating_sub(granted),
            _ => capacity + self.rate().bytes_in(now.since(since)),
        }
    }

    /// The queue's meter, if the queue is measured.
    pub fn queue(&self) -> Option<&QueueMeter> {
        self.meter.as_ref().map(|meter| &meter.queue)
    }

    /// How long the packets that were sent had waited in the queue, if it is measured.
    pub fn waits(&self) -> Option<DelaySummary> {
        self.meter.as_ref().map(|meter| meter.waits.summary())
    }
}
