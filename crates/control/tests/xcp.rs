//! XCP's sender with XCP's router on one link: a closed loop in virtual time, with an acknowledgement for every packet
//! and a buffer of one bandwidth-delay product of the longest path.
//!
//! ```text
//!  sender 1 ─┐                                  ┌─ acknowledgements, round trip 40 ms
//!            ├─► router ──► 40 Mb/s, 10 ms ─────┤
//!  sender 2 ─┘                                  └─ acknowledgements, round trip 120 ms
//! ```

use std::collections::BTreeMap;

use rampmeter_control::testing::arrived;
use rampmeter_control::xcp::{Config, Pacing, Xcp};
use rampmeter_control::{Ack, Algorithm, Arrival, Controller, Path, Sent};
use rampmeter_router::{AnyRouter, Environment, Hosts, Link, LinkConfig, Loss, Offered, Parcel, Registry, Router};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

const RATE: Rate = Rate::from_bps(40_000_000);
const ONE_WAY: Duration = Duration::from_millis(10);
const PACKET: Bytes = Bytes::new(1250); // 0.25 ms
const BUFFER: u64 = 480; // 120 ms

#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: usize,
    number: u64,
    sent_at: Time,
    feedback: RouterFeedback,
}

impl Parcel for Packet {
    fn bytes(&self) -> Bytes {
        PACKET
    }
    fn flow(&self) -> u64 {
        self.flow as u64
    }
    fn hosts(&self) -> Hosts {
        Hosts { source: self.flow(), destination: 0 }
    }
    fn is_control(&self) -> bool {
        false
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ecn(&mut self, _ecn: Ecn) {}
    fn feedback(&self) -> RouterFeedback {
        self.feedback
    }
    fn set_feedback(&mut self, feedback: RouterFeedback) {
        self.feedback = feedback;
    }
}

/// An unlimited transfer.
struct Flow {
    start: Time,
    rtt: Duration,
    smoothed_rtt: Duration,
    sent: u64,
    delivered: u64,
    sender: Xcp,
}

impl Flow {
    fn window_permits(&self) -> bool {
        PACKET * (self.sent + 1 - self.delivered) <= self.sender.window()
    }

    /// The time of its next packet, if only pacing delays it.
    fn paced(&self) -> Option<Time> {
        (self.sent > 0 && self.window_permits()).then(|| self.sender.departure().at)
    }
}

struct Network {
    link: Link<Packet, AnyRouter<Packet>>,
    flows: Vec<Flow>,
    /// Packets whose acknowledgements are in transit, by arrival time and order.
    returning: BTreeMap<(Time, u64), Packet>,
    received: u64,
    /// The maximum queue so far, in packets.
    max_queue: u64,
    now: Time,
}

impl Network {
    /// Creates flows from their start and their round trip, both in milliseconds.
    fn new(flows: &[(u64, u64)]) -> Self {
        Self::paced(flows, Pacing::default())
    }

    fn paced(flows: &[(u64, u64)], pacing: Pacing) -> Self {
        let router = Registry::default().config("xcp", &format!("packets = {BUFFER}").parse().unwrap()).unwrap();
        let router = router.make(Environment { rate: RATE, delay: ONE_WAY }, Random::from_seed(1));
        let config = LinkConfig { rate: RATE, delay: ONE_WAY, loss: Loss::default() };
        let flow = |&(start, rtt): &(u64, u64)| {
            let rtt = Duration::from_millis(rtt);
            let mut sender = Xcp::new(&Config { pacing, ..Config::default() }, Random::from_seed(1));
            sender.on_path(ms(start), &Path::new(PACKET, rtt, None));
            Flow { start: ms(start), rtt, smoothed_rtt: rtt, sent: 0, delivered: 0, sender }
        };
        Self {
            link: Link::new(config, router, Random::from_seed(1)),
            flows: flows.iter().map(flow).collect(),
            returning: BTreeMap::new(),
            received: 0,
            max_queue: 0,
            now: Time::ZERO,
        }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let back = self.returning.first_key_value().map_or(Time::MAX, |((at, _), _)| *at);
            let starts = self.flows.iter().filter(|flow| flow.sent == 0).map(|flow| flow.start);
            let paced = self.flows.iter().filter_map(Flow::paced);
            let next = starts.chain(paced).fold(back.min(self.link.next_event()), Time::min);
            if next >= end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            self.link.advance(self.now);
            while let Some(packet) = self.link.arrive(self.now) {
                self.received += 1;
                let return_delay = self.flows[packet.flow].rtt.saturating_sub(ONE_WAY);
                self.returning.insert((self.now + return_delay, self.received), packet);
            }
            while let Some(entry) = self.returning.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let packet = entry.remove();
                self.acknowledge(packet);
            }
            for flow in 0..self.flows.len() {
                self.fill(flow);
            }
        }
    }

    fn acknowledge(&mut self, packet: Packet) {
        let now = self.now;
        let flow = &mut self.flows[packet.flow];
        let rtt = now.since(packet.sent_at);
        flow.delivered += 1;
        flow.smoothed_rtt = flow.smoothed_rtt.scale(7.0 / 8.0) + rtt / 8; // RFC 6298
        let received_at = now - flow.rtt + ONE_WAY;
        let sent_at = packet.sent_at;
        let arrivals = [Arrival { number: packet.number, bytes: PACKET, sent_at, received_at, ecn: Ecn::NotEct }];
        let (smoothed_rtt, min_rtt, feedback) = (flow.smoothed_rtt, flow.rtt, packet.feedback);
        let ack = Ack { smoothed_rtt, min_rtt, feedback, ..arrived(&arrivals, rtt) };
        flow.sender.on_ack(now, &ack);
    }

    fn fill(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        while flow.start <= now && flow.window_permits() && flow.sender.departure().at <= now {
            let feedback = flow.sender.departure().feedback;
            let packet = Packet { flow: index, number: flow.sent, sent_at: now, feedback };
            let in_flight = PACKET * (flow.sent + 1 - flow.delivered);
            flow.sender.on_sent(now, &Sent { number: flow.sent, bytes: PACKET, in_flight });
            flow.sent += 1;
            assert!(matches!(self.link.offer(now, &mut Some(packet), Time::ZERO), Offered::Queued), "nothing is lost");
            self.max_queue = self.max_queue.max(self.link.router().unwrap().backlog().packets);
        }
    }

    /// The share of the link that each flow gets from now until `end`.
    fn shares_until(&mut self, end: Time) -> Vec<f64> {
        let before: Vec<_> = self.flows.iter().map(|flow| flow.delivered).collect();
        let all = RATE.bytes_in(end.since(self.now)).as_f64();
        self.run_until(end);
        let delivered = self.flows.iter().zip(before).map(|(flow, before)| PACKET * (flow.delivered - before));
        delivered.map(|bytes| bytes.as_f64() / all).collect()
    }

    fn queue(&self) -> u64 {
        self.link.router().unwrap().backlog().packets
    }
}

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

/// Jain's fairness index: 1 if all shares are equal.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

// 60% of the spare capacity remains after each interval of 40 ms: 5% after six, 240 ms. The first answer comes after an
// interval, and each takes effect a round trip later, which at most doubles the time.
#[test]
fn a_lone_flow_fills_the_link_in_15_round_trips_without_a_queue() {
    let mut network = Network::new(&[(0, 40)]);
    network.run_until(ms(600));
    let shares = network.shares_until(ms(2600));
    assert!(shares[0] > 0.95, "{shares:?}");
    assert!(network.queue() < 16, "{}", network.queue()); // a tenth of its window
}

// Senders here have no access links: a burst arrives at the router unchanged.
#[test]
fn pacing_shortens_the_bursts_of_a_lone_flow() {
    let max_queue = |pacing| {
        let mut network = Network::paced(&[(0, 40)], pacing);
        network.run_until(ms(2000));
        network.max_queue
    };
    let queues = [Pacing::Never, Pacing::Increases, Pacing::Always].map(max_queue);
    let bound = (queues[0] * 2 / 3).min(40);
    assert!(queues[1] <= bound && queues[2] <= bound, "{queues:?}");
}

#[test]
fn flows_of_40_and_120_ms_share_the_link_equally() {
    let mut network = Network::new(&[(0, 40), (0, 120)]);
    network.run_until(ms(8000));
    let shares = network.shares_until(ms(16_000));
    assert!(jain(&shares) > 0.99, "{shares:?}");
    assert!(shares.iter().sum::<f64>() > 0.95, "{shares:?}");
}

// A tenth of the traffic is redistributed in every interval, 80 ms in the mean of both flows. The distance of a new
// flow from its half shrinks by a tenth each time, to 35% after ten intervals and 4% after thirty.
#[test]
fn a_new_flow_has_nine_tenths_of_its_share_after_30_intervals() {
    for (first, second) in [(40, 120), (120, 40)] {
        let mut network = Network::new(&[(0, first), (6000, second)]);
        network.run_until(ms(6000));
        let half = 0.5;
        network.run_until(ms(6000 + 800));
        let shares = network.shares_until(ms(6000 + 1200));
        assert!(shares[1] > half * 0.5, "{first} ms, then {second} ms: {shares:?}");
        network.run_until(ms(6000 + 2400));
        let shares = network.shares_until(ms(6000 + 3600));
        assert!(shares[1] > half * 0.9, "{first} ms, then {second} ms: {shares:?}");
        assert!(shares.iter().sum::<f64>() > 0.95, "{first} ms, then {second} ms: {shares:?}");
    }
}

// Nine flows start one after another, each before the others are equal. Thirty intervals later all are equal.
#[test]
fn nine_flows_of_different_round_trips_converge_to_equal_shares() {
    let flows: Vec<_> = (0..9).map(|n| (n * 300, 40 + 10 * n)).collect();
    let mut network = Network::new(&flows);
    network.run_until(ms(2400 + 30 * 80));
    let shares = network.shares_until(ms(10_000));
    assert!(jain(&shares) > 0.99, "{shares:?}");
    assert!(shares.iter().sum::<f64>() > 0.95, "{shares:?}");
}
