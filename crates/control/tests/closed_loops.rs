//! Schemes whose routers report to their senders, each with its router on one link: closed loops in virtual time, with
//! an acknowledgement for each packet. A dropped packet fails the test.
//!
//! ```text
//!  sender 1 ─┐                              ┌─ acknowledgements, round trip 1
//!            ├─► router ──► rate, one way ──┤
//!  sender 2 ─┘                              └─ acknowledgements, round trip 2
//! ```

use std::collections::BTreeMap;

use rampmeter_control::fair_share::{self, FairShare};
use rampmeter_control::testing::{arrived, ms};
use rampmeter_control::vcp::{self, Vcp};
use rampmeter_control::xcp::{self, Pacing, Xcp};
use rampmeter_control::{Ack, Algorithm, Arrival, Controller, Path, Sent};
use rampmeter_router::{AnyRouter, Environment, Hosts, Link, LinkConfig, Loss, Offered, Parcel, Registry, Router};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

const PACKET: Bytes = Bytes::new(1250);
const SYN: Bytes = Bytes::new(54);

#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: usize,
    /// `None` in the handshake.
    number: Option<u64>,
    sent_at: Time,
    ecn: Ecn,
    feedback: RouterFeedback,
}

impl Parcel for Packet {
    fn bytes(&self) -> Bytes {
        if self.number.is_some() { PACKET } else { SYN }
    }
    fn flow(&self) -> u64 {
        self.flow as u64
    }
    fn hosts(&self) -> Hosts {
        Hosts { source: self.flow(), destination: 0 }
    }
    fn is_control(&self) -> bool {
        self.number.is_none()
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }
    fn feedback(&self) -> RouterFeedback {
        self.feedback
    }
    fn set_feedback(&mut self, feedback: RouterFeedback) {
        self.feedback = feedback;
    }
}

/// A transfer of `packets` packets.
struct Flow<S> {
    /// When its handshake begins; [`Time::MAX`] once it has.
    start: Time,
    /// The round-trip time without queues.
    rtt: Duration,
    smoothed_rtt: Option<Duration>,
    packets: u64,
    sent: u64,
    delivered: u64,
    finished: Option<Time>,
    sender: S,
}

impl<S: Algorithm> Flow<S> {
    fn in_flight(&self) -> Bytes {
        PACKET * (self.sent - self.delivered)
    }

    /// When the next packet leaves, if no acknowledgement arrives before.
    fn departure(&self) -> Time {
        let may_send = self.smoothed_rtt.is_some() && self.sent < self.packets;
        let fits = self.in_flight() + PACKET <= self.sender.window();
        if may_send && fits { self.sender.departure().at } else { Time::MAX }
    }

    fn acknowledge(&mut self, now: Time, packet: Packet, received_at: Time) {
        let rtt = now.since(packet.sent_at);
        let smoothed_rtt = self.smoothed_rtt.map_or(rtt, |old| (old * 7 + rtt) / 8); // RFC 6298
        self.smoothed_rtt = Some(smoothed_rtt);
        let (feedback, min_rtt, sent_at, ecn) = (packet.feedback, self.rtt, packet.sent_at, packet.ecn);
        let Some(number) = packet.number else {
            return self.sender.on_path(now, &Path { feedback, ..Path::new(PACKET, rtt, None) });
        };
        self.delivered += 1;
        self.finished = (self.delivered == self.packets).then_some(now);
        let arrivals = [Arrival { number, bytes: PACKET, sent_at, received_at, ecn }];
        let (flight_size, last_sent) = (self.in_flight(), self.sent - 1);
        let ack = Ack { smoothed_rtt, min_rtt, feedback, flight_size, last_sent, ..arrived(&arrivals, rtt) };
        self.sender.on_ack(now, &ack);
    }
}

struct Network<S> {
    rate: Rate,
    one_way: Duration,
    link: Link<Packet, AnyRouter<Packet>>,
    flows: Vec<Flow<S>>,
    /// Packets whose acknowledgements are in transit and their arrival, by the time of the acknowledgement and order.
    returning: BTreeMap<(Time, u64), (Packet, Time)>,
    received: u64,
    /// The maximum queue so far, in packets.
    max_queue: u64,
    now: Time,
}

impl<S: Algorithm> Network<S> {
    /// Flows on a link of `megabits` a second and `micros` behind the router `router`, by their start and their round
    /// trip in milliseconds and their number of packets.
    fn new(
        router: &str,
        megabits: u64,
        micros: u64,
        config: &S::Config,
        flows: impl IntoIterator<Item = (u64, u64, u64)>,
    ) -> Self {
        let (rate, one_way) = (Rate::from_bps(megabits * 1_000_000), Duration::from_micros(micros));
        let router = Registry::default().config(router, &toml::Table::new()).unwrap();
        let router = router.make(Environment { rate, delay: one_way }, Random::from_seed(1));
        let flow = |(start, rtt, packets)| Flow {
            start: ms(start),
            rtt: Duration::from_millis(rtt),
            smoothed_rtt: None,
            packets,
            sent: 0,
            delivered: 0,
            finished: None,
            sender: S::new(config, Random::from_seed(1)),
        };
        Self {
            rate,
            one_way,
            link: Link::new(LinkConfig { rate, delay: one_way, loss: Loss::default() }, router, Random::from_seed(1)),
            flows: flows.into_iter().map(flow).collect(),
            returning: BTreeMap::new(),
            received: 0,
            max_queue: 0,
            now: Time::ZERO,
        }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let back = self.returning.first_key_value().map_or(Time::MAX, |((at, _), _)| *at);
            let of_flow = |flow: &Flow<S>| flow.start.min(flow.departure()).min(flow.sender.deadline());
            let next = self.flows.iter().map(of_flow).fold(back.min(self.link.next_event()), Time::min);
            if next >= end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            self.link.advance(self.now);
            while let Some(packet) = self.link.arrive(self.now) {
                self.received += 1;
                let back = self.now + self.flows[packet.flow].rtt.saturating_sub(self.one_way);
                self.returning.insert((back, self.received), (packet, self.now));
            }
            while let Some(entry) = self.returning.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (packet, received_at) = entry.remove();
                self.flows[packet.flow].acknowledge(self.now, packet, received_at);
            }
            (0..self.flows.len()).for_each(|flow| self.send(flow));
        }
    }

    fn send(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        let mut packets = Vec::new();
        if flow.start <= now {
            flow.start = Time::MAX;
            let request = RouterFeedback::FairShare { share: Rate::MAX, queue: Bytes::ZERO };
            let feedback = if flow.sender.requests_feedback() { request } else { RouterFeedback::None };
            packets.push(Packet { flow: index, number: None, sent_at: now, ecn: Ecn::NotEct, feedback });
        }
        if flow.sender.deadline() <= now {
            flow.sender.on_deadline(now);
        }
        while flow.departure() <= now {
            let (number, feedback) = (flow.sent, flow.sender.departure().feedback);
            let ecn = flow.sender.ecn().unwrap_or(Ecn::NotEct);
            packets.push(Packet { flow: index, number: Some(number), sent_at: now, ecn, feedback });
            flow.sent += 1;
            let in_flight = flow.in_flight();
            flow.sender.on_sent(now, &Sent { number, bytes: PACKET, in_flight });
        }
        for packet in packets {
            assert!(matches!(self.link.offer(now, &mut Some(packet), Time::ZERO), Offered::Queued), "nothing is lost");
            self.max_queue = self.max_queue.max(self.queue());
        }
    }

    /// The packets of each flow that arrive from now until `end`.
    fn delivered_until(&mut self, end: Time) -> Vec<u64> {
        let before: Vec<_> = self.flows.iter().map(|flow| flow.delivered).collect();
        self.run_until(end);
        self.flows.iter().zip(before).map(|(flow, before)| flow.delivered - before).collect()
    }

    /// The share of the link that each flow gets from now until `end`.
    fn shares_until(&mut self, end: Time) -> Vec<f64> {
        let all = self.rate.bytes_in(end.since(self.now)).as_f64();
        self.delivered_until(end).into_iter().map(|packets| (PACKET * packets).as_f64() / all).collect()
    }

    fn rates(&self) -> Vec<Rate> {
        self.flows.iter().map(|flow| flow.sender.rate().unwrap()).collect()
    }

    fn queue(&self) -> u64 {
        self.link.router().unwrap().backlog().packets
    }
}

/// Jain's fairness index: 1 if all shares are equal.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

/// The round trip on 40 Mb/s and 12.5 ms, of flows with a start and a number of packets. A packet takes 0.25 ms.
const RTT: Duration = Duration::from_millis(25);

fn fair_share(transfers: impl IntoIterator<Item = (u64, u64)>) -> Network<FairShare> {
    let flows = transfers.into_iter().map(|(start, packets)| (start, 25, packets));
    Network::new("fair-share", 40, 12_500, &fair_share::Config::default(), flows)
}

// Handshake 25 ms, 200 packets of 0.25 ms, 25 ms until the last acknowledgement, and 11 us for the handshake's 54
// bytes.
#[test]
fn a_lone_transfer_takes_two_rtts_and_its_transmission_time() {
    let mut network = fair_share([(0, 200)]);
    network.run_until(ms(200));
    let duration = network.flows[0].finished.unwrap().since(Time::ZERO);
    let min = RTT + network.rate.time_to_send(PACKET) * 200 + RTT;
    assert!(duration >= min && duration <= min + Duration::from_micros(11), "{duration}");
}

// A third flow has its handshake at time 0 and sends a third of the link rate from 25 ms on. The others send a third
// from 50 ms on at the latest. Until then the excess is a third of the link rate, 33 packets. The requests that arrive
// at the start of that queue are answered too early. The next ones are sent by 75 ms and answered by 100 ms, the
// answers take effect by 125 ms, and an RTT later, at 150 ms, at most two packets a flow remain in the queue. Meanwhile
// the link is never idle, at any start of the third flow relative to the requests.
#[test]
fn a_third_flow_gets_a_third_without_idle_time_or_lasting_queue() {
    let mut overall_max_queue = 0;
    for start in (300..325).step_by(3) {
        let mut network = fair_share([(0, 10_000), (1, 10_000), (start, 10_000)]);
        let part = |flows: u64| Rate::from_bps(40_000_000 / flows);
        network.run_until(ms(start));
        assert_eq!(network.rates()[..2], [part(2); 2]);
        let transmitted = network.link.counts().transmitted;

        let mut max_queue = 0;
        while network.now < ms(start + 150) {
            network.run_until(network.now + Duration::from_micros(100));
            max_queue = max_queue.max(network.queue());
        }
        assert!(max_queue <= 33, "{max_queue}");
        overall_max_queue = overall_max_queue.max(max_queue);
        assert!(network.queue() <= 6, "{}", network.queue());
        assert!(network.link.counts().transmitted - transmitted >= 600, "150 ms");

        network.run_until(ms(600));
        assert_eq!(network.rates(), [part(3); 3]);
    }
    assert!(overall_max_queue >= 25, "{overall_max_queue}");
}

// Two flows send half each. One sends its last packet. Four of its packet times (2 ms) later the router removes it,
// within an RTT the other flow sends a request, and an RTT later its new rate is effective at the router.
#[test]
fn a_flow_takes_over_within_two_rtts_when_the_other_ends() {
    let mut network = fair_share([(0, 10_000), (1, 200)]);
    let mut ended = Time::MAX;
    while network.rates()[0] < network.rate || network.now < ms(100) {
        network.run_until(network.now + Duration::from_micros(100));
        if network.flows[1].sent == 200 {
            ended = ended.min(network.now);
        }
        assert!(network.now < ms(400));
    }
    let duration = network.now.since(ended);
    assert!(duration <= RTT * 2 + Duration::from_millis(4), "{duration}");
}

// Each starts 30 ms after the previous one, faster than queues are compensated for. Compensation takes RTTs, which the
// queue increases. 300 ms after the last start all shares are equal (1000 packets in 250 ms, 100 a flow), and at most
// two packets a flow remain in the queue.
#[test]
fn ten_flows_that_start_one_by_one_converge_to_equal_shares() {
    let mut network = fair_share((0..10).map(|n| (30 * n, 10_000)));
    network.run_until(ms(300 + 300));
    assert!(network.queue() <= 20, "{}", network.queue());
    let delivered = network.delivered_until(ms(300 + 300 + 250));
    assert!(delivered.iter().all(|packets| (99..=101).contains(packets)), "{delivered:?}");
    assert!(network.queue() <= 20, "{}", network.queue());
}

/// Unlimited flows on 40 Mb/s and 10 ms, by their start and their round trip.
fn xcp(flows: &[(u64, u64)], pacing: Pacing) -> Network<Xcp> {
    let flows = flows.iter().map(|&(start, rtt)| (start, rtt, u64::MAX));
    Network::new("xcp", 40, 10_000, &xcp::Config { pacing, ..xcp::Config::default() }, flows)
}

// 60% of the spare capacity remains after each interval of 40 ms: 5% after six, 240 ms. The first answer comes after an
// interval, and each takes effect a round trip later, which at most doubles the time.
#[test]
fn a_lone_flow_fills_the_link_in_15_round_trips_without_a_queue() {
    let mut network = xcp(&[(0, 40)], Pacing::default());
    network.run_until(ms(600));
    let shares = network.shares_until(ms(2600));
    assert!(shares[0] > 0.95, "{shares:?}");
    assert!(network.queue() < 16, "{}", network.queue()); // a tenth of its window
}

// Senders here have no access links: a burst arrives at the router unchanged.
#[test]
fn pacing_shortens_the_bursts_of_a_lone_flow() {
    let queues = [Pacing::Never, Pacing::Increases, Pacing::Always].map(|pacing| {
        let mut network = xcp(&[(0, 40)], pacing);
        network.run_until(ms(2000));
        network.max_queue
    });
    let bound = (queues[0] * 2 / 3).min(40);
    assert!(queues[1] <= bound && queues[2] <= bound, "{queues:?}");
}

// A tenth of the traffic is redistributed in every interval, 80 ms in the mean of both flows. The distance of a new
// flow from its half shrinks by a tenth each time, to 35% after ten intervals and 4% after thirty.
#[test]
fn a_new_flow_has_nine_tenths_of_its_share_after_30_intervals() {
    for (first, second) in [(40, 120), (120, 40)] {
        let mut network = xcp(&[(0, first), (6000, second)], Pacing::default());
        network.run_until(ms(6000 + 800));
        let shares = network.shares_until(ms(6000 + 1200));
        assert!(shares[1] > 0.5 * 0.5, "{first} ms, then {second} ms: {shares:?}");
        network.run_until(ms(6000 + 2400));
        let shares = network.shares_until(ms(6000 + 3600));
        assert!(shares[1] > 0.5 * 0.9, "{first} ms, then {second} ms: {shares:?}");
        network.run_until(ms(8000 + 6000));
        let shares = network.shares_until(ms(16_000 + 6000));
        assert!(jain(&shares) > 0.99 && shares.iter().sum::<f64>() > 0.95, "{shares:?}");
    }
}

/// Unlimited flows with a round trip of 80 ms, in which 12 Mb/s carry 96 packets, by their start.
fn vcp(config: &vcp::Config, megabits: u64, starts: impl IntoIterator<Item = u64>) -> Network<Vcp> {
    Network::new("vcp", megabits, 40_000, config, starts.into_iter().map(|start| (start, 80, u64::MAX)))
}

// From 10 packets to 80% of 96 takes ln 7.7 / ln 1.0625 = 34 load intervals, 7 s, and two more for feedback.
#[test]
fn a_lone_vcp_flow_fills_the_link_exponentially() {
    let mut network = vcp(&vcp::Config::default(), 12, [0]);
    network.run_until(ms(3080));
    let window = network.flows[0].sender.window().as_f64() / PACKET.as_f64();
    let expected = 10.0 * 1.0625_f64.powf(2.92 / 0.2); // a round trip passes before the first acknowledgement
    assert!((window / expected - 1.0).abs() < 0.05, "{window} {expected}");
    network.run_until(ms(8500));
    let shares = network.shares_until(ms(9500));
    assert!(shares[0] > 0.8, "{shares:?}");
}

// The tenth flow and later ones start while other flows overload the router, and receive only overload at first.
#[test]
fn twenty_flows_that_start_one_by_one_find_no_path_fault() {
    let mut network = vcp(&vcp::Config::default(), 12, (0..20).map(|n| n * 250));
    for tenth in 0..200 {
        network.run_until(ms(100 * tenth));
        assert!(network.flows.iter().all(|flow| flow.sender.fault().is_none()));
    }
}

// Eight packets fit on the path, a quarter of one for each of thirty flows. With one packet each, 22 are in the queue.
#[test]
fn thirty_flows_share_a_path_of_eight_packets() {
    let queues = [0.05, 1.0].map(|min_window| {
        let config = vcp::Config { min_window, initial_window: 1, ..vcp::Config::default() };
        let mut network = vcp(&config, 1, [0; 30]);
        network.run_until(ms(60_000));
        network.link.start_measuring(network.now, true);
        let shares = network.shares_until(ms(180_000));
        assert!(shares.iter().sum::<f64>() > 0.85, "{min_window}: {shares:?}");
        network.link.queue().unwrap().summary(network.now).mean_packets
    });
    assert!(queues[0] < 8.0 && queues[1] > 15.0, "{queues:?}");
}
