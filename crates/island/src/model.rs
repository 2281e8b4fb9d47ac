//! A model for tests: aggregates that share one VCP link. Answers are delayed and can be lost.
//!
//! ```text
//!   source ──► ingress ──┐                       ┌──► egress ──► out
//!      ...               ├══ VCP router, 20 ms ══┤      │ answers, 20 ms
//!   source ──► ingress ──┘                       └──► egress
//! ```

use std::collections::VecDeque;

use rampmeter_control::Settings;
use rampmeter_control::vcp::Config;
use rampmeter_router::{AnyConfig, AnyRouter, Environment, Hosts, Link, LinkConfig, Loss, Parcel, Registry};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};

use crate::{Egress, EgressFeedback, HEADER_BYTES, Ingress};

/// The one-way delay of the island.
pub(crate) const DELAY: Duration = Duration::from_millis(20);

/// The maximum packet size.
pub(crate) const PACKET: Bytes = Bytes::new(1000);

/// A packet, inside or outside of the island.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestPacket {
    pub(crate) name: u64,
    pub(crate) bytes: Bytes,
    pub(crate) ecn: Ecn,
}

impl Parcel for TestPacket {
    fn bytes(&self) -> Bytes {
        self.bytes
    }
    fn flow(&self) -> u64 {
        0
    }
    fn hosts(&self) -> Hosts {
        Hosts { source: self.flow(), destination: 0 }
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }
}

#[derive(Debug)]
pub(crate) struct Wrapped {
    aggregate: usize,
    number: u32,
    code: Ecn,
    inner: TestPacket,
}

impl Parcel for Wrapped {
    fn bytes(&self) -> Bytes {
        self.inner.bytes + Bytes::new(HEADER_BYTES)
    }
    fn flow(&self) -> u64 {
        self.aggregate as u64
    }
    fn hosts(&self) -> Hosts {
        Hosts { source: self.flow(), destination: 0 }
    }
    fn ecn(&self) -> Ecn {
        self.code
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.code = ecn;
    }
}

pub(crate) struct Aggregate {
    pub(crate) ingress: Ingress<TestPacket>,
    egress: Egress,
    /// The aggregate always has packets to send.
    pub(crate) is_greedy: bool,
    created: u64,
    pub(crate) out: Vec<TestPacket>,
}

pub(crate) struct Island {
    pub(crate) now: Time,
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) link: Link<Wrapped, AnyRouter<Wrapped>>,
    answers: VecDeque<(Time, usize, EgressFeedback)>,
    /// The number of answers to lose, from the next one on.
    pub(crate) lose_answers: usize,
}

fn router(name: &str, settings: &str) -> AnyConfig {
    Registry::default().config(name, &settings.parse().unwrap()).unwrap()
}

impl Island {
    /// One aggregate per weight. The core's buffer is 100 ms.
    pub(crate) fn new(rate: Rate, weights: &[f64], loss: Loss, propagate_overload: bool) -> Self {
        let environment = Environment { rate, delay: DELAY };
        let limit = rate.bytes_in(Duration::from_millis(100)).as_u64() / 1000;
        let core = router("vcp", &format!("packets = {limit}")).make(environment, Random::from_seed(1));
        let aggregate = |&weight: &f64| {
            let config = Config { weight, ..Config::default() };
            config.check().unwrap();
            let queue = router("drop-tail", "packets = 50");
            let ingress = Ingress::new(&config, &queue, environment, PACKET, Random::from_seed(2));
            Aggregate { ingress, egress: Egress::new(propagate_overload), is_greedy: true, created: 0, out: Vec::new() }
        };
        Self {
            now: Time::ZERO,
            aggregates: weights.iter().map(aggregate).collect(),
            link: Link::new(LinkConfig { rate, delay: DELAY, loss }, core, Random::from_seed(3)),
            answers: VecDeque::new(),
            lose_answers: 0,
        }
    }

    /// Offers a packet to an aggregate; false if it was dropped.
    pub(crate) fn offer(&mut self, aggregate: usize, packet: TestPacket) -> bool {
        let accepted = self.aggregates[aggregate].ingress.offer(self.now, packet).is_none();
        self.send_packets();
        accepted
    }

    /// Runs the model for `span`.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.send_packets();
            let timers = self.aggregates.iter().map(|aggregate| aggregate.ingress.deadline()).min().unwrap();
            let answer = self.answers.front().map_or(Time::MAX, |(at, ..)| *at);
            let next = self.link.next_event().min(answer).min(timers).max(self.now);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            self.link.advance(next);
            while let Some(mut packet) = self.link.arrive(next) {
                let aggregate = &mut self.aggregates[packet.aggregate];
                let answer = aggregate.egress.receive(packet.number, packet.code, &mut packet.inner);
                aggregate.out.push(packet.inner);
                if self.lose_answers > 0 {
                    self.lose_answers -= 1;
                } else {
                    self.answers.push_back((next + DELAY, packet.aggregate, answer));
                }
            }
            while self.answers.front().is_some_and(|(at, ..)| *at <= next) {
                let (_, aggregate, answer) = self.answers.pop_front().unwrap();
                self.aggregates[aggregate].ingress.on_feedback(next, &answer);
            }
            for aggregate in &mut self.aggregates {
                if aggregate.ingress.deadline() <= next {
                    aggregate.ingress.on_deadline(next);
                }
            }
        }
    }

    /// Fills the queues of greedy aggregates, and sends the packets that may enter.
    fn send_packets(&mut self) {
        for (index, aggregate) in self.aggregates.iter_mut().enumerate() {
            loop {
                while aggregate.is_greedy && aggregate.ingress.backlog().packets < 10 {
                    let packet = TestPacket { name: aggregate.created, bytes: PACKET, ecn: Ecn::Ect0 };
                    assert_eq!(aggregate.ingress.offer(self.now, packet), None);
                    aggregate.created += 1;
                }
                let Some(leaving) = aggregate.ingress.poll(self.now) else { break };
                let (number, code, inner) = (leaving.number, leaving.code, leaving.inner);
                let _ =
                    self.link.offer(self.now, &mut Some(Wrapped { aggregate: index, number, code, inner }), Time::ZERO);
            }
        }
    }

    /// The number of packets that leave each aggregate in the next `span`.
    pub(crate) fn carried(&mut self, span: Duration) -> Vec<usize> {
        let before: Vec<usize> = self.aggregates.iter().map(|aggregate| aggregate.out.len()).collect();
        self.run(span);
        self.aggregates.iter().zip(before).map(|(aggregate, before)| aggregate.out.len() - before).collect()
    }
}
