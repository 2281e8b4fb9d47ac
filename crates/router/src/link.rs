//! One direction of a wire: a router's queue, a transmitter of some rate, a propagation delay, perhaps random loss
//! and [disorder](Disorder).
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
use serde::{Deserialize, Serialize};

use crate::disorder::{Disorder, Disordering};
use crate::prefetch::{AHEAD, prefetch};
use crate::transmitter::Transmitter;
use crate::{Counts, Parcel, QueueMeter, Router, Verdict};

/// Random losses, independent of queues.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Loss {
    /// Probability that a packet is lost.
    pub per_packet: f64,
    /// Probability that a bit is damaged; one damaged bit loses the packet.
    pub per_bit: f64,
}

impl Loss {
    fn of_packet(self, bytes: Bytes) -> f64 {
        if self.per_bit == 0.0 {
            return self.per_packet;
        }
        // P(lost) = 1 - (1 - p) (1 - b)^bits
        1.0 - (1.0 - self.per_packet) * (bytes.as_f64() * 8.0 * (-self.per_bit).ln_1p()).exp()
    }
}

/// What a link does to ECN codes: devices that overwrite the whole traffic class byte set them all to one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EcnPassage {
    /// Packets keep their code.
    #[default]
    Kept,
    /// All packets arrive with this code.
    SetTo(Ecn),
}

/// The physical properties of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkConfig {
    /// The transmission rate.
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
}

/// One direction of a wire.
#[derive(Debug)]
pub struct Link<P, R> {
    transmitter: Transmitter,
    delay: Duration,
    ecn: EcnPassage,
    /// Random loss and its random stream, if there is any.
    loss: Option<Box<(Loss, Stream)>>,
    /// What happens to the order and the number of packets, if anything.
    disorder: Option<Box<Disordering>>,
    router: R,
    /// The router's next tick, kept here because every packet needs it.
    next_tick: Time,
    /// The time at which the transmitter is free.
    free_at: Time,
    /// Whether packets are queued for the transmitter.
    waiting: bool,
    /// Packets in transit with their arrival times, in order of arrival.
    in_transit: VecDeque<(Time, P)>,
    counts: Counts,
    baseline: Box<Baseline>,
    meter: Option<Box<QueueMeter>>,
}

impl<P: Parcel, R: Router<P>> Link<P, R> {
    /// A link fed by `router`; `random` decides the random losses.
    pub fn new(config: LinkConfig, router: R, random: Stream) -> Self {
        Self {
            transmitter: Transmitter::new(config.rate),
            delay: config.delay,
            ecn: EcnPassage::Kept,
            loss: (config.loss != Loss::default()).then(|| Box::new((config.loss, random))),
            disorder: None,
            next_tick: router.next_tick(),
            router,
            free_at: Time::ZERO,
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
        let (next, verdict) = if self.free_at <= now {
            self.router.pass(now, packet)
        } else {
            self.waiting = true;
            (None, self.router.enqueue(now, packet))
        };
        if let Some(packet) = next {
            self.transmit(now, packet);
        }
        self.next_tick = self.router.next_tick();
        self.measure(now);
        match verdict {
            Verdict::Queued => None,
            Verdict::Dropped(packet) | Verdict::Displaced(packet) => {
                self.counts.dropped += 1;
                Some(packet)
            }
        }
    }

    /// The time at which a packet of `bytes`, offered now, reaches the far end of a link that never drops, marks or
    /// changes, keeps ECN codes and the order of packets, and is not measured; `None` while earlier packets are in transit.
    #[inline]
    pub fn arrival(&self, now: Time, bytes: Bytes) -> Option<Time> {
        let is_idle = !self.waiting && self.in_transit.is_empty();
        is_idle.then(|| self.free_at.max(now) + self.transmitter.time_to_send(bytes) + self.delay)
    }

    /// The caller itself delivers a packet `at` the time that [`Link::arrival`] returned.
    #[inline]
    pub fn carry(&mut self, at: Time) {
        self.free_at = Time::from_nanos(at.as_nanos() - self.delay.as_nanos());
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
                match self.router.dequeue(at) {
                    Some(packet) => self.transmit(at, packet),
                    None => self.waiting = false,
                }
                self.next_tick = self.router.next_tick();
                self.measure(at);
            } else if tick <= now {
                self.router.tick(tick);
                self.next_tick = self.router.next_tick();
            } else {
                return;
            }
        }
    }

    /// A packet that has reached the far end by `now`.
    #[inline]
    pub fn arrive(&mut self, now: Time) -> Option<P> {
        loop {
            if self.in_transit.front()?.0 > now {
                return None;
            }
            let (_, mut packet) = self.in_transit.pop_front()?;
            trim(&mut self.in_transit);
            // On long, fast paths packets have left the CPU caches before they arrive.
            self.in_transit.get(AHEAD).map(prefetch);
            if let Some((_, next)) = self.in_transit.front() {
                next.prefetch();
            }
            let loss = self.loss.as_deref_mut();
            let lost = loss.is_some_and(|(loss, random)| random.chance(loss.of_packet(packet.bytes())));
            if !lost {
                if let EcnPassage::SetTo(ecn) = self.ecn {
                    packet.set_ecn(ecn);
                }
                return Some(packet);
            }
            self.counts.lost += 1;
        }
    }

    /// `now` is when the transmitter became free: with a real clock, which calls late, packets still leave no gaps.
    fn transmit(&mut self, now: Time, packet: P) {
        let bytes = packet.bytes();
        self.free_at = now + self.transmitter.time_to_send(bytes);
        self.waiting = self.router.backlog().packets > 0;
        self.counts.transmitted += 1;
        self.counts.transmitted_bytes += bytes;
        let at = self.free_at + self.delay;
        let Some(disorder) = &mut self.disorder else { return self.put(at, packet) };
        let copy = if disorder.duplicates() { packet.duplicate() } else { None };
        let arrivals = [disorder.arrival(at), copy.as_ref().map_or(at, |_| disorder.arrival(at))];
        self.put(arrivals[0], packet);
        if let Some(copy) = copy {
            self.put(arrivals[1], copy);
        }
    }

    fn put(&mut self, at: Time, packet: P) {
        if self.in_transit.back().is_none_or(|(last, _)| *last <= at) {
            self.in_transit.push_back((at, packet));
        } else {
            // The delay was reduced, or varies; `in_transit` stays sorted by arrival time.
            let place = self.in_transit.iter().rposition(|(earlier, _)| *earlier <= at).map_or(0, |last| last + 1);
            self.in_transit.insert(place, (at, packet));
        }
    }

    fn measure(&mut self, now: Time) {
        if let Some(meter) = &mut self.meter {
            meter.on_change(now, self.router.backlog());
        }
    }

    /// Changes the rate from the next packet on.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        (self.baseline.capacity, self.baseline.since) = (self.capacity(now), now);
        self.transmitter = Transmitter::new(rate);
        self.router.on_rate(now, rate);
        self.next_tick = self.router.next_tick();
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

    /// The transmission rate.
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
        *self.baseline = Baseline { counts: self.counted(), capacity: Bytes::ZERO, since: now };
        self.meter = queue.then(|| Box::new(QueueMeter::new(now, self.router.backlog())));
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
        self.baseline.capacity + self.rate().bytes_in(now.since(self.baseline.since))
    }

    /// The queue's meter, if the queue is measured.
    pub fn queue(&self) -> Option<&QueueMeter> {
        self.meter.as_deref()
    }
}

/// Returns memory after a burst: a small ring stays in the cache, and thousands of links share the memory.
fn trim<T>(ring: &mut VecDeque<T>) {
    const SMALL: usize = 16;
    if ring.capacity() > SMALL && ring.len() < ring.capacity() / 8 {
        ring.shrink_to(SMALL.max(ring.len() * 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disorder::Jitter;
    use crate::drop_tail::{Config, DropTail};
    use crate::router::Discipline;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    // 8 Mb/s: 1000 bytes a millisecond; 10 ms of delay.
    fn link(loss: Loss) -> Link<TestParcel, DropTail<TestParcel>> {
        let router = DropTail::new(&Config::default(), ENVIRONMENT, Stream::from_seed(1));
        let config = LinkConfig { rate: ENVIRONMENT.rate, delay: ENVIRONMENT.delay, loss };
        Link::new(config, router, Stream::from_seed(2))
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    fn drain(link: &mut Link<TestParcel, DropTail<TestParcel>>) -> Vec<(Time, u64)> {
        let mut arrivals = Vec::new();
        while link.next_event() < Time::MAX {
            let now = link.next_event();
            link.advance(now);
            while let Some(packet) = link.arrive(now) {
                arrivals.push((now, packet.flow));
            }
        }
        arrivals
    }

    #[test]
    fn ecn_codes_are_kept_or_all_set_to_one() {
        let mut link = link(Loss::default());
        let mut arriving = |passage, at| {
            link.set_ecn(passage);
            let mut packet = TestParcel::new(0, 1000);
            packet.set_ecn(Ecn::Ect1);
            assert_eq!(link.offer(at, packet), None);
            let now = link.next_event();
            link.advance(now);
            link.arrive(now).unwrap().ecn()
        };
        for (n, (passage, arrives)) in [
            (EcnPassage::Kept, Ecn::Ect1),
            (EcnPassage::SetTo(Ecn::NotEct), Ecn::NotEct),
            (EcnPassage::SetTo(Ecn::Ce), Ecn::Ce),
            (EcnPassage::Kept, Ecn::Ect1),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(arriving(passage, ms(20 * n as u64)), arrives);
        }
    }

    #[test]
    fn arrivals_are_spaced_by_the_rate_and_shifted_by_the_delay() {
        let mut link = link(Loss::default());
        for flow in 0..3 {
            assert_eq!(link.offer(ms(0), TestParcel::new(flow, 1000)), None);
        }
        assert_eq!(link.router().backlog().packets, 2);
        assert_eq!(drain(&mut link), vec![(ms(11), 0), (ms(12), 1), (ms(13), 2)]);
        assert_eq!(link.counts().transmitted_bytes, Bytes::new(3000));
    }

    #[test]
    fn a_packet_takes_one_event_queued_or_not() {
        let mut link = link(Loss::default());
        for flow in 0..3 {
            link.offer(ms(5), TestParcel::new(flow, 1000));
        }
        for arrival in [16, 17, 18].map(ms) {
            assert_eq!(link.next_event(), arrival);
            link.advance(arrival);
            assert!(link.arrive(arrival).is_some());
        }
        assert_eq!(link.next_event(), Time::MAX);
    }

    #[test]
    fn a_packet_offered_finds_the_queue_advanced_to_now() {
        let mut link = link(Loss::default());
        for (n, waiting) in [(0, 0), (0, 1), (0, 2), (1, 2), (4, 0)] {
            link.offer(ms(n), TestParcel::new(1, 1000));
            assert_eq!(link.router().backlog().packets, waiting);
        }
    }

    #[test]
    fn a_late_caller_does_not_slow_the_link() {
        let mut link = link(Loss::default());
        for flow in 0..3 {
            link.offer(ms(0), TestParcel::new(flow, 1000));
        }
        let late = ms(1) + Duration::from_micros(300);
        link.advance(late);
        link.advance(ms(2));
        let mut times = Vec::new();
        for now in [11, 12, 13].map(ms) {
            assert!(link.arrive(now).is_some());
            times.push(now);
        }
        assert!(link.arrive(ms(99)).is_none());
    }

    #[test]
    fn a_shorter_route_lets_packets_overtake() {
        let mut link = link(Loss::default());
        link.offer(ms(0), TestParcel::new(1, 1000));
        link.set_delay(Duration::from_millis(2));
        link.offer(ms(1), TestParcel::new(2, 1000));
        assert_eq!(drain(&mut link), vec![(ms(4), 2), (ms(11), 1)]);
    }

    #[test]
    fn a_link_with_jitter_loses_nothing_and_reorders() {
        let mut link = link(Loss::default());
        let jitter = Jitter { max: Duration::from_millis(5), in_order: false };
        link.set_disorder(Disorder { jitter, duplication: 0.1, ..Disorder::default() }, |purpose| {
            Stream::from_seed(purpose.len() as u64)
        });
        for flow in 0..1000 {
            link.offer(ms(flow), TestParcel::new(flow, 1000));
        }
        let arrivals = drain(&mut link);
        assert!(arrivals.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert!(arrivals.windows(2).any(|pair| pair[0].1 > pair[1].1), "in order");
        let late = |(at, flow): &(Time, u64)| at.since(ms(*flow));
        assert!(arrivals.iter().map(late).all(|late| (11..16).contains(&(late.as_nanos() / 1_000_000))));
        let flows: std::collections::BTreeSet<u64> = arrivals.iter().map(|(_, flow)| *flow).collect();
        assert_eq!(flows.len(), 1000);
        assert!((1070..1130).contains(&arrivals.len()), "{}", arrivals.len());
    }

    #[test]
    fn utilization_counts_each_rate_for_as_long_as_it_held() {
        let mut link = link(Loss::default());
        link.offer(ms(0), TestParcel::new(1, 1000));
        link.start_measuring(ms(1), false);
        link.set_rate(ms(3), Rate::from_bps(16_000_000));
        link.offer(ms(4), TestParcel::new(1, 1000));
        // 2 ms at 1 kB/ms, 4 ms at 2 kB/ms; the first packet was sent before the measurement.
        assert_eq!(link.utilization(ms(7)), 1000.0 / 10_000.0);
    }

    #[test]
    fn random_loss_has_its_rate() {
        for loss in [Loss { per_packet: 0.1, per_bit: 0.0 }, Loss { per_packet: 0.0, per_bit: 1.317e-5 }] {
            let mut link = link(loss);
            for n in 0..20_000 {
                link.offer(ms(n), TestParcel::new(1, 1000));
            }
            let arrived = drain(&mut link).len();
            assert!((17_700..18_300).contains(&arrived), "{arrived}");
            assert_eq!(link.counts().lost + arrived as u64, 20_000);
        }
    }
}
