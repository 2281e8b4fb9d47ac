//! VCP's end hosts against VCP's router on one link: a closed loop in virtual time, with an acknowledgement for each
//! packet. Whatever is dropped fails the test.
//!
//! ```text
//!  sender 1 ─┐                                ┌─ answers at once
//!            ├─► router ──► 10 Mb/s, 40 ms ───┤
//!  sender 2 ─┘     ▲                          │
//!                  └────────── 40 ms ─────────┘
//! ```

use std::collections::VecDeque;

use rampmeter_control::testing::arrived;
use rampmeter_control::vcp::{Config, Fairness, Pacing, RoundTrip, Vcp};
use rampmeter_control::{Ack, Algorithm, Arrival, Controller, Path, Sent};
use rampmeter_router::{AnyRouter, Environment, Link, LinkConfig, Loss, Parcel, QueueSummary, Registry};
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;

const RATE: Rate = Rate::from_bps(10_000_000);
const TWICE: Rate = Rate::from_bps(20_000_000);
const RTT: Duration = Duration::from_millis(80);
const PACKET: Bytes = Bytes::new(1000); // 0.8 ms; 100 in a round trip
const BUFFER: &str = "packets = 100";

#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: usize,
    number: u64,
    sent_at: Time,
    ecn: Ecn,
}

impl Parcel for Packet {
    fn bytes(&self) -> Bytes {
        PACKET
    }
    fn flow(&self) -> u64 {
        self.flow as u64
    }
    fn is_control(&self) -> bool {
        false
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }
    fn feedback(&self) -> RouterFeedback {
        RouterFeedback::None
    }
    fn set_feedback(&mut self, _feedback: RouterFeedback) {}
}

/// A flow without end.
struct Flow {
    begins: Time,
    /// Its path is so much longer than the link, in both directions together.
    longer: Duration,
    sent: u64,
    delivered: u64,
    smoothed_rtt: Option<Duration>,
    sender: Vcp,
}

impl Flow {
    fn new(begins: u64, longer: u64, config: &Config) -> Self {
        let sender = Vcp::new(config, Stream::from_seed(1));
        let longer = Duration::from_millis(longer);
        Self { begins: second(begins), longer, sent: 0, delivered: 0, smoothed_rtt: None, sender }
    }

    /// When its next packet leaves, if that waits for nothing but its time.
    fn paced(&self) -> Option<Time> {
        let has_room = PACKET * (self.sent + 1 - self.delivered) <= self.sender.window();
        (self.sent > 0 && has_room).then(|| self.sender.departure().at)
    }

    fn acknowledge(&mut self, now: Time, packet: Packet) {
        self.delivered += 1;
        let rtt = now.since(packet.sent_at);
        let smoothed_rtt = self.smoothed_rtt.map_or(rtt, |old| (old * 7 + rtt) / 8);
        self.smoothed_rtt = Some(smoothed_rtt);
        let (number, sent_at, ecn) = (packet.number, packet.sent_at, packet.ecn);
        let arrivals = [Arrival { number, bytes: PACKET, sent_at, received_at: now, ecn }];
        let (flight_size, last_sent, min_rtt) =
            (PACKET * (self.sent - self.delivered), self.sent - 1, RTT + self.longer);
        let ack = Ack { smoothed_rtt, min_rtt, flight_size, last_sent, ..arrived(&arrivals, rtt) };
        self.sender.on_ack(now, &ack);
    }
}

struct Network {
    link: Link<Packet, AnyRouter<Packet>>,
    flows: Vec<Flow>,
    /// Acknowledgements on their way to each flow, with when they arrive.
    returning: Vec<VecDeque<(Time, Packet)>>,
    now: Time,
}

impl Network {
    fn new(rate: Rate, settings: &str, flows: Vec<Flow>) -> Self {
        let delay = RTT / 2;
        let router = Registry::default().config("vcp", &settings.parse().unwrap()).unwrap();
        let router = router.make(Environment { rate, delay }, Stream::from_seed(1));
        let link = Link::new(LinkConfig { rate, delay, loss: Loss::default() }, router, Stream::from_seed(1));
        let returning = flows.iter().map(|_| VecDeque::new()).collect();
        Self { link, flows, returning, now: Time::ZERO }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let back = self.returning.iter().filter_map(|ring| Some(ring.front()?.0));
            let begin = self.flows.iter().filter(|flow| flow.sent == 0).map(|flow| flow.begins);
            let paced = self.flows.iter().filter_map(Flow::paced);
            let next = back.chain(begin).chain(paced).fold(self.link.next_event(), Time::min);
            if next >= end {
                self.now = end;
                self.link.advance(end);
                return;
            }
            self.now = self.now.max(next);
            self.link.advance(self.now);
            while let Some(packet) = self.link.arrive(self.now) {
                let back = self.now + RTT / 2 + self.flows[packet.flow].longer;
                self.returning[packet.flow].push_back((back, packet));
            }
            for flow in 0..self.flows.len() {
                while self.returning[flow].front().is_some_and(|(at, _)| *at <= self.now) {
                    let (_, packet) = self.returning[flow].pop_front().unwrap();
                    self.flows[flow].acknowledge(self.now, packet);
                }
                self.send(flow);
            }
        }
    }

    fn send(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        if flow.begins > now {
            return;
        }
        if flow.sent == 0 {
            flow.sender.on_path(now, &Path::new(PACKET, RTT + flow.longer, None));
        }
        while PACKET * (flow.sent + 1 - flow.delivered) <= flow.sender.window() && flow.sender.departure().at <= now {
            let packet = Packet { flow: index, number: flow.sent, sent_at: now, ecn: flow.sender.ecn().unwrap() };
            flow.sent += 1;
            let in_flight = PACKET * (flow.sent - flow.delivered);
            flow.sender.on_sent(now, &Sent { number: packet.number, bytes: PACKET, in_flight });
            assert!(self.link.offer(now, packet).is_none(), "a packet was dropped at {now}");
        }
    }

    /// What share of the link was used, and how many packets each flow got through, from here to `end`.
    fn measure_until(&mut self, end: Time) -> (f64, Vec<f64>) {
        self.link.start_measuring(self.now, true);
        let before: Vec<_> = self.flows.iter().map(|flow| flow.delivered).collect();
        self.run_until(end);
        let got = self.flows.iter().zip(before).map(|(flow, before)| (flow.delivered - before) as f64);
        (self.link.utilization(end), got.collect())
    }

    fn mean_queue(&self) -> f64 {
        self.link.queue().unwrap().summary(self.now).mean_packets
    }
}

fn second(n: u64) -> Time {
    Time::ZERO + Duration::from_secs(n)
}

fn flow(begins: u64) -> Flow {
    Flow::new(begins, 0, &Config::default())
}

// From 10 packets to 80% of a link of 100 takes ln 8 / ln 1.0625 = 34 load intervals, 7 s, and two more for news.
#[test]
fn a_lone_flow_fills_the_link_exponentially() {
    let mut network = Network::new(RATE, BUFFER, vec![flow(0)]);
    network.run_until(second(3));
    let window = network.flows[0].sender.window().as_f64() / PACKET.as_f64();
    let expected = 10.0 * 1.0625_f64.powf(2.92 / 0.2); // a round trip passes before the first acknowledgement
    assert!((window / expected - 1.0).abs() < 0.05, "{window} {expected}");
    network.run_until(second(8));
    let (used, _) = network.measure_until(second(9));
    assert!(used > 0.8, "{used}");
}

// The second begins when the first has the link. In an epoch both lose an eighth and win back 12.5 packets together, 0.32
// a round trip: 3.3 s with the freeze, in which their difference shrinks by an eighth. At 150 s it has done so 39 times,
// from 85 packets to half of one. Utilization saws between 0.875 and 1 times 98%, so more than 90% on average (the paper:
// "high utilization (> 90%) and no packet drops", an average queue of mostly less than 2% of the buffer).
#[test]
fn two_flows_come_to_equal_shares_of_a_link_that_is_used_and_without_a_queue() {
    let mut network = Network::new(RATE, BUFFER, vec![flow(0), flow(20)]);
    network.run_until(second(150));
    let (used, got) = network.measure_until(second(200));
    assert!(used > 0.9, "{used}");
    assert!((got[0] / got[1] - 1.0).abs() < 0.05, "{got:?}");
    assert!(network.mean_queue() < 5.0, "{}", network.mean_queue());
    assert_eq!(network.flows.iter().filter_map(|flow| flow.sender.trouble()).count(), 0);
}

// Fig. 1. At half the rate the packets under way make a queue of 100 at most, and five cuts of an eighth halve the window:
// some 0.4 s each. At twice the rate 12 load intervals of low load double it: 2.4 s.
#[test]
fn two_flows_follow_a_link_that_loses_half_its_rate_and_gets_it_back() {
    let mut network = Network::new(TWICE, "packets = 200", vec![flow(0), flow(1)]);
    network.run_until(second(60));
    network.link.set_rate(second(60), RATE);
    network.run_until(second(65));
    let (used, _) = network.measure_until(second(90));
    assert!(used > 0.9, "{used}");
    assert!(network.mean_queue() < 10.0, "{}", network.mean_queue());
    network.link.set_rate(second(90), TWICE);
    network.run_until(second(95));
    let (used, _) = network.measure_until(second(120));
    assert!(used > 0.9, "{used}");
}

// Flows win in proportion to alpha (section III-D), so to their weights.
#[test]
fn a_flow_of_weight_three_gets_three_times_as_much() {
    let heavy = Flow::new(0, 0, &Config { weight: 3.0, ..Config::default() });
    let mut network = Network::new(RATE, BUFFER, vec![flow(0), heavy]);
    network.run_until(second(150));
    let (_, got) = network.measure_until(second(250));
    assert!((2.7..3.3).contains(&(got[1] / got[0])), "{got:?}");
}

// 80 and 160 ms: equal rates by equation (8), equal windows and so rates of two to one by equation (7).
#[test]
fn round_trips_make_no_difference_to_rates_or_to_windows_as_asked() {
    for (fairness, expected) in [(Fairness::Rate, 1.0), (Fairness::Window, 2.0)] {
        let config = Config { fairness, ..Config::default() };
        let flows = vec![Flow::new(0, 0, &config), Flow::new(0, 80, &config)];
        let mut network = Network::new(RATE, "packets = 200", flows);
        network.run_until(second(200));
        let (used, got) = network.measure_until(second(300));
        assert!(used > 0.9, "{used}");
        let ratio = got[0] / got[1] / expected;
        assert!((0.8..1.25).contains(&ratio), "{fairness:?} {got:?}");
    }
}

// With the target at 98% two flows use 92%; less is reached a step of 1% at a time, every 10 s (equation 14).
#[test]
fn a_target_that_adjusts_itself_finds_the_utilization_that_is_asked_for() {
    let mut network = Network::new(RATE, "packets = 100\ngoal = 0.85", vec![flow(0), flow(0)]);
    network.run_until(second(250));
    let (used, _) = network.measure_until(second(400));
    assert!((0.83..0.87).contains(&used), "{used}");
}

// 600 packets at once for a link of 100. The paper (section IV-A): with no more than 3 packets a flow 90% of the time less
// than 20% of a buffer of 100, and less than 5% on average. And whoever took the router for a classic one, because all that
// it said at first was overload, knows better by now.
#[test]
fn sixty_flows_that_begin_at_once_leave_no_queue() {
    let (queue, in_trouble) = crowd(&Config::default());
    assert!(queue.p90_packets < 20 && queue.mean_packets < 5.0, "{queue:?}");
    assert_eq!(in_trouble, 0);
}

// A queue of q packets makes round trips of 80 + 0.8 q ms. A cut takes an eighth of W = (100 + q) / 60, and S.2 then gives
// (rtt / 200 ms)^2, which is more from q = 30 on. What stops it is the limit of 10 packets: W = 80 at most.
#[test]
fn with_the_papers_round_trip_the_queue_they_make_stays() {
    let (queue, _) = crowd(&Config { round_trip: RoundTrip::Smoothed, min_window: 1.0, ..Config::default() });
    assert!(queue.mean_packets > 1000.0, "{queue:?}");
}

fn staggered(millis: u64) -> Flow {
    Flow { begins: Time::ZERO + Duration::from_millis(millis), ..flow(0) }
}

/// The queue that 60 flows leave from 20 to 40 s after they began, and how many of them do not do as VCP does.
fn crowd(config: &Config) -> (QueueSummary, usize) {
    let mut network = Network::new(RATE, "", (0..60).map(|_| Flow::new(0, 0, config)).collect());
    network.run_until(second(20));
    network.measure_until(second(40));
    let in_trouble = network.flows.iter().filter(|flow| flow.sender.trouble().is_some()).count();
    (network.link.queue().unwrap().summary(network.now), in_trouble)
}

// The tenth flow and those after it begin where others have overloaded the router, and hear of nothing else at first.
#[test]
fn twenty_flows_that_begin_one_by_one_take_the_router_for_what_it_is() {
    let mut network = Network::new(RATE, BUFFER, (0..20).map(|n| staggered(n * 250)).collect());
    let mut told = 0;
    for tenth in 0..200 {
        network.run_until(Time::ZERO + Duration::from_millis(100 * tenth));
        told += network.flows.iter().filter(|flow| flow.sender.trouble().is_some()).count();
    }
    assert_eq!(told, 0);
}

// Five packets fit on the path, so each of thirty flows may have a sixth of one. With one each there are 25 in the queue.
#[test]
fn thirty_flows_share_a_path_of_five_packets() {
    let rate = Rate::from_bps(500_000);
    let queues = [0.05, 1.0].map(|min_window| {
        let config = Config { min_window, initial_window: 1, ..Config::default() };
        let flows = (0..30).map(|_| Flow::new(0, 0, &config)).collect();
        let mut network = Network::new(rate, "packets = 100", flows);
        network.run_until(second(60));
        let (utilization, _) = network.measure_until(second(180));
        assert!(utilization > 0.85, "{min_window}: {utilization}");
        network.mean_queue()
    });
    assert!(queues[0] < 8.0 && queues[1] > 20.0, "{queues:?}");
}

// A round trip of 1.08 s is five load intervals. Two packets at first, so that all a window is in one clump.
#[test]
fn windows_are_spread_over_long_round_trips() {
    let used = [Pacing::LongPaths, Pacing::Never].map(|pacing| {
        let config = Config { pacing, initial_window: 2, ..Config::default() };
        let flows = (0..3).map(|n| Flow::new(n, 1000, &config)).collect();
        let mut network = Network::new(RATE, "packets = 2000", flows);
        network.run_until(second(150));
        network.measure_until(second(400)).0
    });
    assert!(used[0] > 0.88 && used[0] > used[1] + 0.05, "{used:?}");
}
