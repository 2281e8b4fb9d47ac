//! Many PCP senders over one FIFO bottleneck, in virtual time, for tests.
//!
//! ```text
//! sender 1 --- rtt/4 ---.                       .--- rtt/4 ---> receiver 1
//! sender 2 --- rtt/4 --- FIFO, `buffer`, `link` --- rtt/4 ---> receiver 2     acknowledgements: rtt/2 back, no queue
//! ```
//!
//! The arithmetic is exact: timers are punctual, and every packet is acknowledged at once. A packet is lost if one that
//! was sent three packets later has arrived, or if no acknowledgement has arrived for a second.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Streams, Time};

use super::{Config, Pcp};
use crate::testing;
use crate::{Ack, Algorithm, Arrival, Controller, History, Loss, LossKind, Notice, Path, Sent};

pub(super) const PACKET: Bytes = Bytes::new(1250);

/// A sender and its transfer.
pub(super) struct ModelFlow {
    pcp: Pcp,
    /// How far the sender's clock is ahead.
    clock: Duration,
    rtt: Duration,
    started: Time,
    /// Bytes that are not sent yet, or to be retransmitted.
    unsent: u64,
    in_flight: BTreeMap<u64, (Time, Bytes)>,
    next: u64,
    smoothed: Duration,
    min_rtt: Duration,
    last_ack_at: Time,
    /// Consecutive timeouts, each of which doubles the timer (RFC 6298 section 5.5).
    timeouts: u32,
    wake: Time,
    pub(super) delivered: u64,
    /// From the start of its handshake to the last acknowledgement.
    pub(super) fct: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Open(usize),
    Wake(usize),
    Enqueue(usize, u64),
    Ack(usize, u64, Time),
}

pub(super) struct Model {
    config: Config,
    /// The clocks of senders that are added are ahead by a random part of this.
    pub(super) max_offset: Duration,
    link: Rate,
    buffer: Bytes,
    busy_until: Time,
    streams: Streams,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
    pub(super) now: Time,
    pub(super) flows: Vec<ModelFlow>,
    pub(super) packets: u64,
    pub(super) drops: u64,
    /// The sum of the queues, in packets, that arriving packets found.
    pub(super) queue: f64,
}

impl Model {
    pub(super) fn new(config: &Config, link: Rate, buffer: Bytes, seed: u64) -> Self {
        Self {
            config: config.clone(),
            max_offset: Duration::ZERO,
            link,
            buffer,
            busy_until: Time::ZERO,
            streams: Streams::new(seed),
            events: BinaryHeap::new(),
            count: 0,
            now: Time::ZERO,
            flows: Vec::new(),
            packets: 0,
            drops: 0,
            queue: 0.0,
        }
    }

    /// The network of the paper's Figure 4: 40 Mb/s, and a buffer of one bandwidth-delay product at 25 ms.
    pub(super) fn figure_4(config: &Config, seed: u64) -> Self {
        Self::new(config, Rate::from_bps(40_000_000), Bytes::new(125_000), seed)
    }

    pub(super) fn random(&self, purpose: &str) -> Random {
        self.streams.stream(purpose, 0)
    }

    /// A flow of `bytes` that starts its handshake at `at`.
    pub(super) fn add(&mut self, at: Time, rtt: Duration, bytes: u64, history: Option<History>) -> usize {
        let id = self.flows.len();
        let handshake = rtt + self.busy_until.since(at);
        let mut pcp = Pcp::new(&self.config, self.streams.stream("pcp", id as u64));
        let clock = self.max_offset.scale(self.streams.stream("clock", id as u64).uniform());
        pcp.on_path(at + handshake + clock, &Path::new(PACKET, handshake, history));
        self.flows.push(ModelFlow {
            pcp,
            clock,
            rtt,
            started: at,
            unsent: bytes,
            in_flight: BTreeMap::new(),
            next: 0,
            smoothed: handshake,
            min_rtt: handshake,
            last_ack_at: at + handshake,
            timeouts: 0,
            wake: Time::MAX,
            delivered: 0,
            fct: None,
        });
        self.at(at + handshake, Event::Open(id));
        id
    }

    pub(super) fn base(&self, id: usize) -> Rate {
        self.flows[id].pcp.base
    }

    pub(super) fn remember(&self, id: usize, history: &mut Option<History>) {
        self.flows[id].pcp.remember(self.now, history);
    }

    /// Runs until `end`, or until a transfer is complete, and returns that transfer.
    pub(super) fn run(&mut self, end: Time) -> Option<usize> {
        while let Some(Reverse((at, _, _))) = self.events.peek() {
            if *at > end {
                break;
            }
            let Reverse((at, _, event)) = self.events.pop().unwrap();
            self.now = at;
            match event {
                Event::Open(id) => self.serve(id),
                Event::Wake(id) if self.flows[id].wake <= at => self.serve(id),
                Event::Wake(_) => {}
                Event::Enqueue(id, number) => self.enqueue(id, number),
                Event::Ack(id, number, received) => {
                    if self.ack(id, number, received) {
                        return Some(id);
                    }
                }
            }
        }
        self.now = end;
        None
    }

    /// The share of the link that new data used in `span`, if `before` bytes were delivered before.
    pub(super) fn utilization(&self, before: u64, span: Duration) -> f64 {
        (self.delivered() - before) as f64 / self.link.bytes_in(span).as_f64()
    }

    pub(super) fn delivered(&self) -> u64 {
        self.flows.iter().map(|flow| flow.delivered).sum()
    }

    pub(super) fn mean_queue(&self) -> f64 {
        self.queue / self.packets as f64
    }

    pub(super) fn loss(&self) -> f64 {
        self.drops as f64 / self.packets as f64
    }

    fn at(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    /// Sends what may be sent now, and schedules the next wake-up.
    fn serve(&mut self, id: usize) {
        let now = self.now;
        loop {
            let flow = &mut self.flows[id];
            if flow.fct.is_some() {
                return;
            }
            let local = now + flow.clock;
            if flow.pcp.deadline() <= local {
                flow.pcp.on_deadline(local);
            }
            let timeout_at =
                flow.last_ack_at + Duration::from_secs(1).max(flow.smoothed * 3) * (1 << flow.timeouts.min(6));
            if !flow.in_flight.is_empty() && now >= timeout_at {
                let lost = std::mem::take(&mut flow.in_flight);
                let bytes = lost.values().map(|(_, bytes)| *bytes).sum();
                flow.lose(now, LossKind::Persistent, bytes, flow.next - 1);
                flow.last_ack_at = now;
                flow.timeouts += 1;
            }
            let departure = flow.pcp.departure();
            if flow.unsent > 0 && departure.at <= local {
                let bytes = departure.bytes.min(Bytes::new(flow.unsent));
                let number = flow.next;
                flow.next += 1;
                flow.unsent -= bytes.as_u64();
                if flow.in_flight.is_empty() {
                    flow.last_ack_at = now;
                }
                flow.in_flight.insert(number, (now, bytes));
                flow.pcp.on_sent(local, &Sent { number, bytes, in_flight: bytes });
                let access = flow.rtt / 4;
                self.at(now + access, Event::Enqueue(id, number));
                continue;
            }
            if flow.unsent == 0 {
                flow.pcp.on_notice(local, Notice::AppLimited);
            }
            let departs_at = if flow.unsent > 0 { flow.pcp.departure().at } else { Time::MAX };
            let timeout_at = if flow.in_flight.is_empty() { Time::MAX } else { timeout_at };
            let next = departs_at.min(flow.pcp.deadline());
            let next = if next < Time::MAX { Time::ZERO + next.since(Time::ZERO + flow.clock) } else { next };
            flow.wake = next.min(timeout_at);
            let wake = flow.wake;
            if wake < Time::MAX {
                self.at(wake.max(now), Event::Wake(id));
            }
            return;
        }
    }

    fn enqueue(&mut self, id: usize, number: u64) {
        let Some(&(_, bytes)) = self.flows[id].in_flight.get(&number) else { return };
        let queue = self.link.bytes_in(self.busy_until.since(self.now));
        self.packets += 1;
        self.queue += queue.as_f64() / PACKET.as_f64();
        if queue + bytes > self.buffer {
            self.drops += 1;
            return;
        }
        self.busy_until = self.busy_until.max(self.now) + self.link.time_to_send(bytes);
        let received = self.busy_until + self.flows[id].rtt / 4;
        self.at(received + self.flows[id].rtt / 2, Event::Ack(id, number, received));
    }

    /// Returns whether the transfer is complete.
    fn ack(&mut self, id: usize, number: u64, received_at: Time) -> bool {
        let now = self.now;
        let flow = &mut self.flows[id];
        let Some((sent_at, bytes)) = flow.in_flight.remove(&number) else { return false };
        let rtt = now.since(sent_at);
        flow.last_ack_at = now;
        flow.timeouts = 0;
        flow.smoothed = flow.smoothed * 7 / 8 + rtt / 8;
        flow.min_rtt = flow.min_rtt.min(rtt);
        flow.delivered += bytes.as_u64();
        let local = now + flow.clock;
        let arrivals = [Arrival { number, bytes, sent_at: sent_at + flow.clock, received_at, ecn: Ecn::NotEct }];
        let (smoothed_rtt, min_rtt, app_limited) = (flow.smoothed, flow.min_rtt, flow.unsent == 0);
        let ack = Ack { smoothed_rtt, min_rtt, app_limited, ..testing::arrived(&arrivals, rtt) };
        flow.pcp.on_ack(local, &ack);
        while let Some((&lost, &(_, bytes))) = flow.in_flight.first_key_value() {
            if lost + 3 > number {
                break;
            }
            flow.in_flight.remove(&lost);
            flow.lose(now, LossKind::Transient, bytes, lost);
        }
        if flow.unsent == 0 && flow.in_flight.is_empty() {
            flow.fct = Some(now.since(flow.started));
            return true;
        }
        self.serve(id);
        false
    }
}

impl ModelFlow {
    fn lose(&mut self, now: Time, kind: LossKind, bytes: Bytes, number: u64) {
        self.unsent += bytes.as_u64();
        self.pcp.on_loss(now + self.clock, &Loss { bytes, ..testing::loss(kind, number, self.next - 1) });
    }
}
