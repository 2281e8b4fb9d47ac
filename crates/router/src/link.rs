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

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Stream, Time};

use crate::capacity::{Capacity, LinkStreams};
use crate::disorder::{Disorder, Disordering};
use crate::loss::{Loss, Losses};
use crate::prefetch::{AHEAD, prefetch};
use crate::transmitter::Transmitter;
use crate::waits::Waits;
use crate::{Counts, DelaySummary, Parcel, QueueMeter, Router, Verdict};

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
    /// The router's next tick, kept here because every packet needs it.
    next_tick: Time,
    /// The time at which the transmitter is free; [`Time::MAX`] in an outage.
    free_at: Time,
    /// Whether packets are queued for the transmitter.
    waiting: bool,
    /// Packets in transit with their arrival times, in order of arrival.
    in_transit: VecDeque<(Time, P)>,
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
            free_at: if config.rate == Rate::ZERO { Time::MAX } else { Time::ZERO },
            waiting: false,
            in_transit: VecDeque::new(),
            counts: Counts::default(),
            baseline: Box::default(),
            meter: None,
        }
    }

    /// A packet reaches the link's near end. Returns the packet that was dropped for lack of room, if any.
    pub fn offer(&mut self, now: Time, packet: P) -> Option<P> {
        self.advance(now);
        self.counts.offered += 1;
        self.counts.offered_data += u64::from(!packet.is_control());
        if let Some(meter) = &mut self.meter {
            meter.waits.on_arrival(now);
        }
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

    /// Whether packets that arrive `now` at the idle link wait for an opportunity. The earlier ones are lost.
    #[inline]
    fn awaits_opportunity(&mut self, now: Time) -> bool {
        let Transmitter::Scheduled(schedule) = &mut self.transmitter else { return false };
        self.free_at = schedule.after(now);
        true
    }

    /// Transmits a packet of `bytes` that is offered now to a *plain* link: one that never drops, marks or changes, has a
    /// constant rate, keeps ECN codes and the order of packets, and is not measured. Returns the time at which the packet
    /// reaches the far end: the caller delivers it then, or puts it in transit ([`Link::put`]).
    #[inline]
    pub fn carry(&mut self, now: Time, bytes: Bytes) -> Time {
        debug_assert!(!self.waiting && self.next_tick == Time::MAX && self.disorder.is_none());
        self.free_at = self.transmitter.send(self.free_at.max(now), bytes).end;
        self.free_at + self.delay
    }

    /// Whether no packet is in transit.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.in_transit.is_empty()
    }

    /// The time at which the link next needs a call of [`Link::advance`]; [`Time::MAX`] for never.
    pub fn next_event(&self) -> Time {
        let arrival = self.in_transit.front().map_or(Time::MAX, |(at, _)| *at);
        // A queued packet cannot arrive before this. It overtakes packets in transit only after the delay was reduced.
        let overtaking = if self.waiting { self.free_at + self.delay } else { Time::MAX };
        arrival.min(overtaking).min(self.next_tick)
    }

    /// Does all that is due by `now`, except delivering packets: call it before reading the router or changing the
    /// link.
    pub fn advance(&mut self, now: Time) {
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
            } else {
                return;
            }
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
            if self.in_transit.front()?.0 > by {
                return None;
            }
            let (at, mut packet) = self.in_transit.pop_front()?;
            trim(&mut self.in_transit);
            // On long, fast paths packets have left the CPU caches before they arrive.
            self.in_transit.get(AHEAD).map(prefetch);
            if let Some((_, next)) = self.in_transit.front() {
                next.prefetch();
            }
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
        self.counts.transmitted += 1;
        self.counts.transmitted_bytes += bytes;
        let at = sent.end + self.delay + sent.delay;
        let Some(disorder) = &mut self.disorder else { return self.put(at, packet) };
        let copy = if disorder.duplicates() { packet.duplicate() } else { None };
        let arrivals = [disorder.arrival(at), copy.as_ref().map_or(at, |_| disorder.arrival(at))];
        self.put(arrivals[0], packet);
        if let Some(copy) = copy {
            self.put(arrivals[1], copy);
        }
    }

    /// Puts a packet in transit that reaches the far end `at` this time.
    pub fn put(&mut self, at: Time, packet: P) {
        if self.in_transit.back().is_none_or(|(last, _)| *last <= at) {
            self.in_transit.push_back((at, packet));
        } else {
            // The delay was reduced, or varies; `in_transit` stays sorted by arrival time.
            let place = self.in_transit.iter().rposition(|(earlier, _)| *earlier <= at).map_or(0, |last| last + 1);
            self.in_transit.insert(place, (at, packet));
        }
    }

    /// The queue may have changed; if `is_sent`, a packet has left it for the transmitter.
    fn measure(&mut self, now: Time, is_sent: bool) {
        if let Some(meter) = &mut self.meter {
            let backlog = self.router.backlog();
            meter.queue.on_change(now, backlog);
            meter.waits.on_change(now, backlog.packets, is_sent, self.router.last_wait());
        }
    }

    /// Changes the rate from the next packet on. A rate of zero is an outage: packets wait in the queue.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
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
            let backlog = self.router.backlog();
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

/// Returns memory after a burst: a small ring stays in the cache, and thousands of links share the memory.
pub(crate) fn trim<T>(ring: &mut VecDeque<T>) {
    const SMALL: usize = 16;
    if ring.capacity() > SMALL && ring.len() < ring.capacity() / 8 {
        ring.shrink_to(SMALL.max(ring.len() * 2));
    }
}
