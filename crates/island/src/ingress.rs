//! Where an aggregate enters its island: packets wait in a queue of any discipline, and leave as a VCP sender's would.
//!
//! Losses within the island are found as RFC 9002 section 6.1.1 does: three packets sent later have arrived; or, if nothing
//! is heard for a timeout (RFC 6298, at least 200 ms, doubled each time), by that. What is lost is not sent again.
//!
//! There is no handshake. The first packets leave by VCP's first window, and the answer to them is the first measurement of
//! the round trip, with which the controller begins.

use std::collections::VecDeque;

use rampmeter_control::vcp::{Config, Vcp};
use rampmeter_control::{Algorithm, Arrival, LossKind};
use rampmeter_manager::{Destination, FlowId, Manager, Sharing, Update, UpdateLoss};
use rampmeter_router::{AnyConfig, AnyRouter, Backlog, Counts, Environment, Parcel, QueueSummary, Router, Verdict};
use rampmeter_units::{Bytes, Duration, Ecn, Stream, Time};
use rampmeter_wire::{RouterFeedback, unwrap, wrap};

use crate::{Feedback, HEADER_BYTES, Watch};

/// A packet is lost when one that left so many later has arrived (RFC 9002, `kPacketThreshold`).
const REORDERING: u64 = 3;

/// The least timeout, and what stands for it before anything has been measured (RFC 6298 (2.1)).
const MIN_TIMEOUT: Duration = Duration::from_millis(200);
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

/// A packet on its way into the island.
#[derive(Debug)]
pub struct Leaving<P> {
    /// Its number, for the island's header.
    pub number: u32,
    /// The island's header's code.
    pub code: Ecn,
    /// The packet.
    pub inner: P,
}

/// A packet within the island.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    number: u64,
    bytes: Bytes,
    sent_at: Time,
}

/// The near end of an aggregate.
#[derive(Debug)]
pub struct Ingress<P> {
    manager: Manager<Vcp>,
    flow: FlowId,
    queue: AnyRouter<P>,
    /// The largest packet, all headers included.
    packet: Bytes,
    /// What is not known to have arrived or to be lost, in the order of numbers.
    under_way: VecDeque<UnderWay>,
    /// The highest number that left.
    sent: Option<u64>,
    /// The highest number known to have arrived.
    newest: Option<u64>,
    /// The round trip has been measured.
    measured: bool,
    /// When nothing will have been heard for too long.
    timer: Time,
    /// How often it has been too long since anything was heard.
    timeouts: u32,
    /// Of the answer that is being read: here so that its room is used again.
    arrivals: Vec<Arrival>,
    watch: Watch,
}

impl<P: Parcel + Send> Ingress<P> {
    /// An ingress with VCP's settings and a queue of its own, which is told to stand before a link like `environment`.
    /// `packet` is the largest that may be offered.
    pub fn new(config: &Config, queue: &AnyConfig, environment: Environment, packet: Bytes, random: Stream) -> Self {
        let mut manager = Manager::new(Sharing::default());
        let flow = manager.open(Time::ZERO, Destination(0), || Vcp::new(config, random.clone()));
        let packet = packet + Bytes::new(HEADER_BYTES);
        manager.assume_path(Time::ZERO, flow, packet);
        Self {
            manager,
            flow,
            queue: queue.make(environment, random),
            packet,
            under_way: VecDeque::new(),
            sent: None,
            newest: None,
            measured: false,
            timer: Time::MAX,
            timeouts: 0,
            arrivals: Vec::new(),
            watch: Watch::default(),
        }
    }

    /// A packet wants to cross. Returns the one that was dropped for want of room, if one was.
    pub fn offer(&mut self, now: Time, packet: P) -> Option<P> {
        self.watch.counts.offered += 1;
        self.watch.counts.offered_data += u64::from(!packet.is_control());
        let verdict = self.queue.enqueue(now, packet);
        self.watch.on_change(now, self.queue.backlog());
        match verdict {
            Verdict::Queued => None,
            Verdict::Dropped(packet) | Verdict::Displaced(packet) => {
                self.watch.counts.dropped += 1;
                Some(packet)
            }
        }
    }

    /// The next packet that may leave now.
    pub fn poll(&mut self, now: Time) -> Option<Leaving<P>> {
        if self.queue.backlog().packets > 0 {
            self.manager.request(now, self.flow, false);
        }
        let grant = self.manager.grant(now)?;
        let inner = self.queue.dequeue(now);
        self.watch.on_change(now, self.queue.backlog());
        let Some(inner) = inner else {
            // The queue threw away what waited.
            self.manager.notify(now, self.flow, Bytes::ZERO);
            return None;
        };
        let bytes = inner.bytes() + Bytes::new(HEADER_BYTES);
        self.manager.notify(now, self.flow, bytes);
        self.watch.transmitted(bytes);
        self.under_way.push_back(UnderWay { number: grant.number, bytes, sent_at: now });
        self.sent = Some(grant.number);
        if self.timer == Time::MAX {
            self.timer = now + self.timeout();
        }
        Some(Leaving { number: wrap(grant.number), code: grant.ecn.unwrap_or_default(), inner })
    }

    /// The egress has answered.
    pub fn on_feedback(&mut self, now: Time, feedback: &Feedback) {
        let newest = unwrap(self.newest.unwrap_or_default(), feedback.newest());
        if self.sent.is_none_or(|sent| newest > sent) {
            return; // of a packet that never left
        }
        let is_news = self.newest.is_none_or(|known| newest > known);
        let highest = self.newest.map_or(newest, |known| known.max(newest));
        let flight_size = self.manager.in_flight(self.flow);
        let (mut acked, mut lost, mut lost_number, mut rtt) = (Bytes::ZERO, Bytes::ZERO, None, None);
        self.arrivals.clear();
        self.newest = Some(highest);
        // What is below and neither told nor lost stays: fewer than `REORDERING`.
        let mut place = 0;
        while let Some(&packet) = self.under_way.get(place).filter(|packet| packet.number <= highest) {
            let code = newest.checked_sub(packet.number).and_then(|back| feedback.code(back));
            if let Some(ecn) = code {
                let UnderWay { number, bytes, sent_at } = packet;
                acked += bytes;
                if number == newest && is_news {
                    rtt = Some(now.since(sent_at));
                }
                // Answers say nothing of times, which VCP does not ask for.
                self.arrivals.push(Arrival { number, bytes, sent_at, received_at: now, ecn });
            } else if packet.number + REORDERING <= highest {
                lost += packet.bytes;
                lost_number = Some(packet.number);
            } else {
                place += 1;
                continue;
            }
            self.under_way.remove(place);
        }
        if acked + lost == Bytes::ZERO {
            return;
        }
        if let Some(rtt) = rtt.filter(|_| !self.measured) {
            self.measured = true;
            self.manager.on_path(now, self.flow, self.packet, rtt, RouterFeedback::None);
        }
        let loss = |number| UpdateLoss { kind: LossKind::Transient, number, recovering: false, repeated: false };
        self.manager.update(
            now,
            self.flow,
            &Update {
                acked,
                lost,
                delivered: acked,
                arrivals: &self.arrivals,
                rtt,
                loss: lost_number.map(loss),
                flight_size,
                recovering: false,
                feedback: RouterFeedback::None,
            },
        );
        self.timeouts = 0;
        self.timer = if self.under_way.is_empty() { Time::MAX } else { now + self.timeout() }; // RFC 6298 (5.2), (5.3)
    }

    /// When [`Ingress::on_deadline`] wants to be called; [`Time::MAX`] for never.
    pub fn deadline(&self) -> Time {
        self.timer.min(self.manager.deadline()).min(self.queue.next_tick())
    }

    /// The time given by [`Ingress::deadline`] has come.
    pub fn on_deadline(&mut self, now: Time) {
        if self.queue.next_tick() <= now {
            self.queue.tick(now);
        }
        self.manager.on_deadline(now);
        if self.timer <= now {
            self.give_up(now);
        }
    }

    /// Nothing has been heard for too long: all that is under way is lost.
    fn give_up(&mut self, now: Time) {
        let (flight_size, number) =
            (self.manager.in_flight(self.flow), self.under_way.back().map_or(0, |packet| packet.number));
        let repeated = self.timeouts > 0;
        self.timeouts += 1;
        self.timer = Time::MAX; // the next packet sets it again
        self.under_way.clear();
        self.manager.update(
            now,
            self.flow,
            &Update {
                acked: Bytes::ZERO,
                lost: flight_size,
                delivered: Bytes::ZERO,
                arrivals: &[],
                rtt: None,
                loss: Some(UpdateLoss { kind: LossKind::Persistent, number, recovering: false, repeated }),
                flight_size,
                recovering: false,
                feedback: RouterFeedback::None,
            },
        );
    }

    fn timeout(&self) -> Duration {
        let measured = self.manager.round_trip(self.flow).filter(|_| self.measured);
        let timeout = measured.map_or(FIRST_TIMEOUT, |(_, timeout)| timeout.max(MIN_TIMEOUT));
        (timeout * (1 << self.timeouts.min(16))).min(Duration::from_secs(60)) // RFC 6298 (5.5)
    }

    /// The VCP sender that lets packets in.
    pub fn controller(&self) -> &Vcp {
        self.manager.controller(self.flow).expect("its flow is never closed")
    }

    /// What waits.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Bytes that have entered the island, its headers included.
    pub fn transmitted_bytes(&self) -> Bytes {
        self.watch.counts.transmitted_bytes
    }

    /// Counts, and watches the queue, from now on.
    pub fn start_measuring(&mut self, now: Time) {
        self.watch.start(now, self.queue.tally(), self.queue.backlog());
    }

    /// What was counted since, and what the queue was like up to `now`.
    pub fn measured(&self, now: Time) -> (Counts, QueueSummary) {
        (self.watch.since_start(self.queue.tally()), self.watch.queue(now))
    }
}
