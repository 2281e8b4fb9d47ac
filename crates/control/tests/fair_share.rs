//! The fair-share controller with the fair-share router on one link: a closed loop in virtual time, with an unlimited
//! buffer and an acknowledgement for each packet.
//!
//! ```text
//!  sender 1 ─┐                                   ┌─ acknowledgements
//!  sender 2 ─┼─► router ──► 40 Mb/s, 12.5 ms ────┤
//!  sender 3 ─┘     ▲                             │
//!                  └────────── 12.5 ms ──────────┘
//! ```

use std::collections::VecDeque;

use rampmeter_control::fair_share::{Config, FairShare};
use rampmeter_control::testing::arrived;
use rampmeter_control::{Ack, Algorithm, Arrival, Controller, Path, Sent};
use rampmeter_router::{AnyRouter, Environment, Hosts, Link, LinkConfig, Loss, Offered, Parcel, Registry, Router};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

const RATE: Rate = Rate::from_bps(40_000_000);
const ONE_WAY: Duration = Duration::from_micros(12_500);
const RTT: Duration = Duration::from_millis(25);
const PACKET: Bytes = Bytes::new(1250); // 0.25 ms
const SYN: Bytes = Bytes::new(54);

#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: usize,
    /// `None` in the handshake.
    number: Option<u64>,
    sent_at: Time,
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

/// A transfer of `packets` packets.
struct Flow {
    start: Time,
    packets: u64,
    sent: u64,
    delivered: u64,
    is_open: bool,
    sender: FairShare,
    finished: Option<Time>,
}

impl Flow {
    /// The time of its next event, other than acknowledgements.
    fn next_event(&self) -> Time {
        let departure = if self.is_open && self.sent < self.packets { self.sender.departure().at } else { Time::MAX };
        self.start.min(departure).min(self.sender.deadline())
    }
}

struct Network {
    link: Link<Packet, AnyRouter<Packet>>,
    flows: Vec<Flow>,
    /// Packets whose acknowledgements are in transit, with the times at the sender and at the receiver.
    returning: VecDeque<(Time, Time, Packet)>,
    now: Time,
}

impl Network {
    fn new(transfers: &[(u64, u64)]) -> Self {
        let router = Registry::default().config("fair-share", &toml::Table::new()).unwrap();
        let router = router.make(Environment { rate: RATE, delay: ONE_WAY }, Random::from_seed(1));
        let config = LinkConfig { rate: RATE, delay: ONE_WAY, loss: Loss::default() };
        let flow = |&(start, packets): &(u64, u64)| Flow {
            start: ms(start),
            packets,
            sent: 0,
            delivered: 0,
            is_open: false,
            sender: FairShare::new(&Config::default(), Random::from_seed(1)),
            finished: None,
        };
        let link = Link::new(config, router, Random::from_seed(1));
        Self { link, flows: transfers.iter().map(flow).collect(), returning: VecDeque::new(), now: Time::ZERO }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let back = self.returning.front().map_or(Time::MAX, |(at, ..)| *at);
            let next = self.flows.iter().map(Flow::next_event).fold(back.min(self.link.next_event()), Time::min);
            if next >= end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            self.link.advance(self.now);
            while let Some(packet) = self.link.arrive(self.now) {
                self.returning.push_back((self.now + ONE_WAY, self.now, packet));
            }
            while self.returning.front().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, received_at, packet) = self.returning.pop_front().unwrap();
                self.acknowledge(packet, received_at);
            }
            for flow in 0..self.flows.len() {
                self.run_due(flow);
            }
        }
    }

    fn acknowledge(&mut self, packet: Packet, received_at: Time) {
        let now = self.now;
        let flow = &mut self.flows[packet.flow];
        let rtt = now.since(packet.sent_at);
        let Some(number) = packet.number else {
            flow.is_open = true;
            flow.sender.on_path(now, &Path { feedback: packet.feedback, ..Path::new(PACKET, rtt, None) });
            return;
        };
        flow.delivered += 1;
        flow.finished = (flow.delivered == flow.packets).then_some(now);
        let sent_at = packet.sent_at;
        let arrivals = [Arrival { number, bytes: PACKET, sent_at, received_at, ecn: Ecn::NotEct }];
        let ack = Ack { min_rtt: RTT, feedback: packet.feedback, ..arrived(&arrivals, rtt) };
        flow.sender.on_ack(now, &ack);
    }

    fn run_due(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        if flow.start <= now {
            flow.start = Time::MAX;
            let feedback = RouterFeedback::FairShare { share: Rate::MAX, queue: Bytes::ZERO };
            assert!(flow.sender.requests_feedback());
            assert!(matches!(
                self.link.offer(
                    now,
                    &mut Some(Packet { flow: index, number: None, sent_at: now, feedback }),
                    Time::ZERO
                ),
                Offered::Queued
            ));
        }
        if flow.sender.deadline() <= now {
            flow.sender.on_deadline(now);
        }
        while flow.is_open && flow.sent < flow.packets && flow.sender.departure().at <= now {
            let packet = Packet {
                flow: index,
                number: Some(flow.sent),
                sent_at: now,
                feedback: flow.sender.departure().feedback,
            };
            let in_flight = PACKET * (flow.sent + 1 - flow.delivered);
            flow.sender.on_sent(now, &Sent { number: flow.sent, bytes: PACKET, in_flight });
            flow.sent += 1;
            assert!(matches!(self.link.offer(now, &mut Some(packet), Time::ZERO), Offered::Queued), "nothing is lost");
        }
    }

    fn rates(&self) -> Vec<Rate> {
        self.flows.iter().map(|flow| flow.sender.rate().unwrap()).collect()
    }

    fn queue(&self) -> u64 {
        self.link.router().unwrap().backlog().packets
    }
}

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

fn parts_of_the_link(flows: u64) -> Rate {
    Rate::from_bps(RATE.as_bps() / flows)
}

// Handshake 25 ms, 200 packets of 0.25 ms, 25 ms until the last acknowledgement, and 11 us for the handshake's 54
// bytes.
#[test]
fn a_lone_transfer_takes_two_rtts_and_its_transmission_time() {
    let mut network = Network::new(&[(0, 200)]);
    network.run_until(ms(200));
    let duration = network.flows[0].finished.unwrap().since(Time::ZERO);
    let min = RTT + RATE.time_to_send(PACKET) * 200 + RTT;
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
        let mut network = Network::new(&[(0, 10_000), (1, 10_000), (start, 10_000)]);
        network.run_until(ms(start));
        assert_eq!(network.rates()[..2], [parts_of_the_link(2); 2]);
        let transmitted = network.link.counts().transmitted;

        let mut max_queue = 0;
        while network.now < ms(start + 150) {
            network.run_until(network.now + Duration::from_micros(100));
            max_queue = max_queue.max(network.queue());
        }
        assert!(max_queue <= 33, "{max_queue}");
        overall_max_queue = overall_max_queue.max(max_queue);
        assert!(network.queue() <= 6, "{}", network.queue());
        let full = RATE.bytes_in(Duration::from_millis(150)).as_u64() / PACKET.as_u64();
        assert!(network.link.counts().transmitted - transmitted >= full);

        network.run_until(ms(600));
        assert_eq!(network.rates(), [parts_of_the_link(3); 3]);
    }
    assert!(overall_max_queue >= 25, "{overall_max_queue}");
}

// Two flows send half each. One sends its last packet. Four of its packet times (2 ms) later the router removes it,
// within an RTT the other flow sends a request, and an RTT later its new rate is effective at the router.
#[test]
fn a_flow_takes_over_within_two_rtts_when_the_other_ends() {
    let mut network = Network::new(&[(0, 10_000), (1, 200)]);
    let mut ended = Time::MAX;
    while network.rates()[0] < RATE || network.now < ms(100) {
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
    let transfers: Vec<_> = (0..10).map(|n| (30 * n, 10_000)).collect();
    let mut network = Network::new(&transfers);
    network.run_until(ms(300 + 300));
    assert!(network.queue() <= 20, "{}", network.queue());
    let before: Vec<_> = network.flows.iter().map(|flow| flow.delivered).collect();
    network.run_until(ms(300 + 300 + 250));
    let delivered = network.flows.iter().zip(before).map(|(flow, before)| flow.delivered - before);
    assert!(delivered.clone().all(|packets| (99..=101).contains(&packets)), "{:?}", delivered.collect::<Vec<_>>());
    assert!(network.queue() <= 20, "{}", network.queue());
}
