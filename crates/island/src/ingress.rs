//! The end of an aggregate at which packets enter the island: they wait in a queue of any discipline and are sent as by
//! a VCP sender.
//!
//! Losses within the island are detected as in RFC 9002 section 6.1.1: three packets sent later have arrived; or by a
//! timeout without feedback (RFC 6298, at least 200 ms, doubled each time). Lost packets are not retransmitted.
//!
//! There is no handshake. The first packets are sent with VCP's initial window, and the answer to them is the first
//! measurement of the round-trip time, with which the controller starts.

use std::collections::VecDeque;

use rampmeter_control::vcp::{Config, Vcp};
use rampmeter_control::{Algorithm, Arrival, LossKind};
use rampmeter_manager::{Destination, FlowId, Manager, Sharing, Update, UpdateLoss};
use rampmeter_router::{AnyConfig, AnyRouter, Backlog, Counts, Environment, Parcel, QueueSummary, Router, Verdict};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Time};
use rampmeter_wire::{RouterFeedback, unwrap, wrap};

use crate::{EgressFeedback, HEADER_BYTES, Watch};

/// The number of later packets, one of which has to arrive before a packet is lost (RFC 9002, `kPacketThreshold`).
const REORDERING: u64 = 3;

/// The minimum timeout, and the timeout before the first measurement (RFC 6298 (2.1)).
const MIN_TIMEOUT: Duration = Duration::from_millis(200);
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

/// A packet that enters the island.
#[derive(Debug)]
pub struct EnteringPacket<P> {
    /// Its number, for the island's header.
    pub number: u32,
    /// The code of the island's header.
    pub code: Ecn,
    /// The packet.
    pub inner: P,
}

/// A packet in transit through the island.
#[derive(Debug, Clone, Copy)]
struct InTransit {
    number: u64,
    bytes: Bytes,
    sent_at: Time,
}

/// The ingress of an aggregate.
#[derive(Debug)]
pub struct Ingress<P> {
    manager: Manager<Vcp>,
    flow: FlowId,
    queue: AnyRouter<P>,
    /// The maximum packet size, including all headers.
    packet: Bytes,
    /// The packets that are neither delivered nor lost, in the order of their numbers.
    in_transit: VecDeque<InTransit>,
    /// The highest number that was sent.
    sent: Option<u64>,
    /// The highest number that was delivered.
    newest: Option<u64>,
    /// The round-trip time has been measured.
    measured: bool,
    /// The time of the feedback timeout.
    timer: Time,
    /// The number of timeouts in a row.
    timeouts: u32,
    /// The receipts of the current answer, stored here to reuse the memory.
    arrivals: Vec<Arrival>,
    watch: Watch,
}

impl<P: Parcel + Send> Ingress<P> {
    /// An ingress with VCP's settings and its own queue, which is configured for a link like `environment`. `packet` is
    /// the maximum size of packets.
    pub fn new(config: &Config, queue: &AnyConfig, environment: Environment, packet: Bytes, random: Random) -> Self {
        let mut manager = Manager::new(Sharing::default());
        let flow = manager.open(Time::ZERO, Destination(0), || Vcp::new(config, random.clone()));
        let packet = packet + Bytes::new(HEADER_BYTES);
        manager.assume_path(Time::ZERO, flow, packet);
        Self {
            manager,
            flow,
            queue: queue.make(environment, random),
            packet,
            in_transit: VecDeque::new(),
            sent: None,
            newest: None,
            measured: false,
            timer: Time::MAX,
            timeouts: 0,
            arrivals: Vec::new(),
            watch: Watch::default(),
        }
    }

    /// Enqueues a packet. Returns the packet that was dropped because the queue was full, if any.
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

    /// The next packet that may be sent now.
    pub fn poll(&mut self, now: Time) -> Option<EnteringPacket<P>> {
        if self.queue.backlog().packets > 0 {
            self.manager.request(now, self.flow, false);
        }
        let grant = self.manager.grant(now)?;
        let inner = self.queue.dequeue(now);
        self.watch.on_change(now, self.queue.backlog());
        let Some(inner) = inner else {
            // The queue has dropped the packets that waited.
            self.manager.notify(now, self.flow, Bytes::ZERO);
            return None;
        };
        let bytes = inner.bytes() + Bytes::new(HEADER_BYTES);
        self.manager.notify(now, self.flow, bytes);
        self.watch.transmitted(bytes);
        self.in_transit.push_back(InTransit { number: grant.number, bytes, sent_at: now });
        self.sent = Some(grant.number);
        if self.timer == Time::MAX {
            self.timer = now + self.timeout();
        }
        Some(EnteringPacket { number: wrap(grant.number), code: grant.ecn.unwrap_or_default(), inner })
    }

    /// An answer of the egress.
    pub fn on_feedback(&mut self, now: Time, feedback: &EgressFeedback) {
        let newest = unwrap(self.newest.unwrap_or_default(), feedback.newest());
        if self.sent.is_none_or(|sent| newest > sent) {
            return; // about a packet that was never sent
        }
        let is_newest = self.newest.is_none_or(|known| newest > known);
        let highest = self.newest.map_or(newest, |known| known.max(newest));
        let flight_size = self.manager.in_flight(self.flow);
        let (mut arrived_in_flight, mut lost, mut lost_number, mut rtt) = (Bytes::ZERO, Bytes::ZERO, None, None);
        self.arrivals.clear();
        self.newest = Some(highest);
        // Packets below that are neither delivered nor lost stay: fewer than `REORDERING`.
        let mut index = 0;
        while let Some(&packet) = self.in_transit.get(index).filter(|packet| packet.number <= highest) {
            let code = newest.checked_sub(packet.number).and_then(|back| feedback.code(back));
            if let Some(ecn) = code {
                let InTransit { number, bytes, sent_at } = packet;
                arrived_in_flight += bytes;
                if number == newest && is_newest {
                    rtt = Some(now.since(sent_at));
                }
                // Answers have no arrival times, and VCP does not need them.
                self.arrivals.push(Arrival { number, bytes, sent_at, received_at: now, ecn });
            } else if packet.number + REORDERING <= highest {
                lost += packet.bytes;
                lost_number = Some(packet.number);
            } else {
                index += 1;
                continue;
            }
            self.in_transit.remove(index);
        }
        if arrived_in_flight + lost == Bytes::ZERO {
            return;
        }
        if let Some(rtt) = rtt.filter(|_| !self.measured) {
            self.measured = true;
            self.manager.on_path(now, self.flow, self.packet, rtt, RouterFeedback::None);
        }
        let loss =
            |number| UpdateLoss { kind: LossKind::Transient, number, recovering: false, repeated_timeout: false };
        let update = Update {
            arrived_in_flight,
            lost,
            delivered: arrived_in_flight,
            arrivals: &self.arrivals,
            rtt,
            loss: lost_number.map(loss),
            flight_size,
            ..Update::default()
        };
        self.manager.update(now, self.flow, &update);
        self.timeouts = 0;
        self.timer = if self.in_transit.is_empty() { Time::MAX } else { now + self.timeout() }; // RFC 6298 (5.2), (5.3)
    }

    /// The time at which [`Ingress::on_deadline`] has to be called; [`Time::MAX`] for never.
    pub fn deadline(&self) -> Time {
        self.timer.min(self.manager.deadline()).min(self.queue.next_tick())
    }

    /// Has to be called at the time of [`Ingress::deadline`].
    pub fn on_deadline(&mut self, now: Time) {
        if self.queue.next_tick() <= now {
            self.queue.tick(now);
        }
        self.manager.on_deadline(now);
        if self.timer <= now {
            self.on_timeout(now);
        }
    }

    /// After the feedback timeout, all packets in flight are lost.
    fn on_timeout(&mut self, now: Time) {
        let (flight_size, number) =
            (self.manager.in_flight(self.flow), self.in_transit.back().map_or(0, |packet| packet.number));
        let repeated_timeout = self.timeouts > 0;
        self.timeouts += 1;
        self.timer = Time::MAX; // the next packet sets it again
        self.in_transit.clear();
        let update = Update {
            lost: flight_size,
            loss: Some(UpdateLoss { kind: LossKind::Persistent, number, recovering: false, repeated_timeout }),
            flight_size,
            ..Update::default()
        };
        self.manager.update(now, self.flow, &update);
    }

    fn timeout(&self) -> Duration {
        let measured = self.manager.round_trip(self.flow).filter(|_| self.measured);
        let timeout = measured.map_or(FIRST_TIMEOUT, |(_, timeout)| timeout.max(MIN_TIMEOUT));
        (timeout * (1 << self.timeouts.min(16))).min(Duration::from_secs(60)) // RFC 6298 (5.5)
    }

    /// The VCP controller.
    pub fn controller(&self) -> &Vcp {
        self.manager.controller(self.flow).expect("its flow is never closed")
    }

    /// The queued packets and bytes.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// The number of bytes that have entered the island, including its headers.
    pub fn transmitted_bytes(&self) -> Bytes {
        self.watch.counts.transmitted_bytes
    }

    /// Starts to count and to measure the queue.
    pub fn start_measuring(&mut self, now: Time) {
        self.watch.start(now, self.queue.tally(), self.queue.backlog());
    }

    /// The counts since then, and the summary of the queue up to `now`.
    pub fn measured(&self, now: Time) -> (Counts, QueueSummary) {
        (self.watch.since_start(self.queue.tally()), self.watch.queue(now))
    }
}
