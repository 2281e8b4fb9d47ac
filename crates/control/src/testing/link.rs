//! A sender of bulk data over one link, in virtual time, for tests of whole flows.
//!
//! ```text
//! sender --- FIFO of `buffer` bytes, `rate` --- rtt ---> receiver        acknowledgements: at once, no queue
//! ```
//!
//! A packet is lost if one that was sent later has arrived, or after four seconds without a packet that arrives.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};

use super::{PACKET, arrived, loss};
use crate::{Ack, Algorithm, Arrival, Loss, LossKind, Notice, Path, Sent};

/// How long a packet may be in flight.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A packet in flight.
#[derive(Debug)]
struct InFlight {
    number: u64,
    sent_at: Time,
    /// When its acknowledgement arrives; `None` if it was dropped.
    acknowledged_at: Option<Time>,
}

/// The sender, its link and its receiver.
#[derive(Debug)]
pub struct Link<S> {
    /// The controller.
    pub sender: S,
    /// The time of the last event.
    pub now: Time,
    /// The link's rate.
    pub rate: Rate,
    /// The maximum queue.
    pub buffer: Bytes,
    /// Bytes in flight.
    pub in_flight: Bytes,
    /// Bytes delivered so far.
    pub delivered: Bytes,
    /// Bytes found lost so far.
    pub lost: Bytes,
    /// One packet of so many is lost.
    pub lose_every: u64,
    /// Acknowledgements arrive at multiples of this time.
    pub slot: Duration,
    /// The application's rate, if it limits the flow.
    pub application: Option<Rate>,
    /// When the application has more data.
    pub application_at: Time,
    rtt: Duration,
    /// When the link will have sent its queue.
    busy_until: Time,
    packets: VecDeque<InFlight>,
    next: u64,
    /// Losses of packets with lower numbers are being repaired.
    recover: u64,
}

impl<S: Algorithm> Link<S> {
    /// A flow on a link of `rate`, with a round-trip time of `rtt` and a buffer of as many bandwidth-delay products.
    pub fn new(config: &S::Config, rate: Rate, rtt: Duration, buffer: f64) -> Self {
        let mut sender = S::new(config, Random::from_seed(1));
        sender.on_path(Time::ZERO, &Path::new(PACKET, rtt, None));
        Self {
            sender,
            now: Time::ZERO,
            rate,
            buffer: rate.bytes_in(rtt).scale(buffer),
            in_flight: Bytes::ZERO,
            delivered: Bytes::ZERO,
            lost: Bytes::ZERO,
            lose_every: u64::MAX,
            slot: Duration::from_nanos(1),
            application: None,
            application_at: Time::ZERO,
            rtt,
            busy_until: Time::ZERO,
            packets: VecDeque::new(),
            next: 0,
            recover: 0,
        }
    }

    /// From now on the link has `factor` times its rate, also for the packets in its queue.
    pub fn set_rate(&mut self, factor: f64) {
        self.rate = self.rate.scale(factor);
        let (now, rtt) = (self.now, self.rtt);
        let later = |at: Time, from: Time| from + at.since(from).scale(1.0 / factor);
        self.busy_until = later(self.busy_until, now);
        for at in self.packets.iter_mut().filter_map(|packet| packet.acknowledged_at.as_mut()) {
            if *at > now + rtt {
                *at = later(*at, now + rtt);
            }
        }
    }

    /// The share of the link that the flow uses in the next `span`.
    pub fn utilization(&mut self, span: Duration) -> f64 {
        let before = self.delivered;
        self.run(span);
        (self.delivered - before).as_f64() / self.rate.bytes_in(span).as_f64()
    }

    /// Runs for `span`.
    pub fn run(&mut self, span: Duration) {
        self.run_until(self.now + span, |_| false);
    }

    /// Runs until `end`, or until `done` after an event.
    pub fn run_until(&mut self, end: Time, mut done: impl FnMut(&Self) -> bool) {
        while self.now < end && !done(self) {
            let fits = self.in_flight + PACKET <= self.sender.window() || self.in_flight == Bytes::ZERO;
            let departure = self.sender.departure().at.max(self.application_at);
            let send_at = if fits { departure } else { Time::MAX };
            let ack_at = self.packets.iter().find_map(|packet| packet.acknowledged_at).unwrap_or(Time::MAX);
            let timer = self.packets.front().map_or(Time::MAX, |packet| packet.sent_at + TIMEOUT);
            let deadline = self.sender.deadline();
            self.now = send_at.min(ack_at).min(timer).min(deadline).min(end).max(self.now);
            if ack_at <= self.now {
                self.acknowledge();
            } else if timer <= self.now {
                self.expire();
            } else if deadline <= self.now {
                self.sender.on_deadline(self.now);
            } else if send_at <= self.now {
                self.send();
            }
        }
    }

    fn send(&mut self) {
        if self.in_flight == Bytes::ZERO && self.next > 0 {
            self.sender.on_idle(self.now, self.rtt, Duration::from_secs(1));
        }
        let queue = self.rate.bytes_in(self.busy_until.since(self.now));
        let is_lost = queue + PACKET > self.buffer || self.next % self.lose_every == self.lose_every - 1;
        let mut acknowledged_at = None;
        if !is_lost {
            self.busy_until = self.busy_until.max(self.now) + self.rate.time_to_send(PACKET);
            let arrives_at = (self.busy_until + self.rtt).as_nanos();
            acknowledged_at = Some(Time::from_nanos(arrives_at.next_multiple_of(self.slot.as_nanos())));
        }
        self.packets.push_back(InFlight { number: self.next, sent_at: self.now, acknowledged_at });
        self.in_flight += PACKET;
        self.sender.on_sent(self.now, &Sent { number: self.next, bytes: PACKET, in_flight: self.in_flight });
        self.next += 1;
        if let Some(rate) = self.application {
            self.application_at = self.now + rate.time_to_send(PACKET);
            self.sender.on_notice(self.now, Notice::AppLimited);
        }
    }

    /// Reports the packets before those that have arrived as lost, and those that have.
    fn acknowledge(&mut self) {
        let mut arrivals = Vec::new();
        let has_arrived = |packet: &InFlight, now| packet.acknowledged_at.is_some_and(|at| at <= now);
        while let Some(at) = self.packets.iter().position(|packet| has_arrived(packet, self.now)) {
            for _ in 0..at {
                let Some(InFlight { number, .. }) = self.packets.pop_front() else { break };
                let recovering = number < self.recover;
                if !recovering {
                    self.recover = self.next;
                }
                self.in_flight -= PACKET;
                self.lost += PACKET;
                let lost = loss(LossKind::Transient, number, self.next - 1);
                self.sender.on_loss(self.now, &Loss { recovering, ..lost });
            }
            let Some(InFlight { number, sent_at, .. }) = self.packets.pop_front() else { break };
            self.in_flight -= PACKET;
            arrivals.push(Arrival { number, bytes: PACKET, sent_at, received_at: self.now, ..Arrival::default() });
        }
        let Some(newest) = arrivals.last() else { return };
        let (rtt, recovering) = (self.now.since(newest.sent_at), newest.number < self.recover);
        let acknowledged = arrived(&arrivals, rtt);
        self.delivered += acknowledged.delivered;
        let (in_flight, app_limited) = (self.in_flight, self.application.is_some());
        let ack = Ack {
            in_flight,
            recovering,
            app_limited,
            nothing_to_send: app_limited,
            min_rtt: self.rtt,
            last_sent: self.next - 1,
            ..acknowledged
        };
        self.sender.on_ack(self.now, &ack);
    }

    fn expire(&mut self) {
        let bytes = PACKET * self.packets.len() as u64;
        self.packets.clear();
        (self.in_flight, self.recover) = (Bytes::ZERO, self.next);
        self.lost += bytes;
        let lost = loss(LossKind::Persistent, self.next - 1, self.next - 1);
        self.sender.on_loss(self.now, &Loss { bytes, ..lost });
    }
}
