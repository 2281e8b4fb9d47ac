//! Common properties of all routers: no packet is lost unaccounted, and only ECN-capable packets are marked. Of those that
//! signal congestion before they are full: an unresponsive source cannot make the queue grow.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rampmeter_router::{AnyRouter, Environment, Hosts, Link, LinkConfig, Loss, Parcel, Registry, Router, Verdict};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};

const RATE: Rate = Rate::from_bps(8_000_000); // 1000 bytes a millisecond
const DELAY: Duration = Duration::from_millis(10);

/// The routers, with settings under which they act within a few packets.
const ROUTERS: [(&str, &str); 20] = [
    ("drop-tail", ""),
    ("fair-queueing", ""),
    ("fair-share", ""),
    ("policer", "rate = \"2 Mb/s\"\nburst = \"3 kB\""),
    ("vcp", "load_interval = \"10 ms\""),
    ("vcp-plus", "load_interval = \"10 ms\""),
    ("xcp", ""),
    ("red", "min_th = 0.5\nmax_th = 3\nweight = 0.5\nwait = false"),
    ("codel", "target = \"1 ms\"\ninterval = \"3 ms\""),
    ("fq-codel", "target = \"1 ms\"\ninterval = \"3 ms\"\nflows = 4\nbatch = 3"),
    ("fq-codel", "target = \"1 ms\"\ninterval = \"3 ms\"\nflows = 4\nisolation = \"hosts\""),
    ("pie", "target = \"1 ms\"\nupdate = \"1 ms\"\nalpha = 50\nbeta = 50\nburst = \"0 s\""),
    ("docsis-pie", "target = \"1 us\""),
    ("virtual-queue", "theta = 0.1\nphi = 2"),
    ("avq", "gamma = 0.5\nalpha = 5\nbound = 2"),
    ("avq", "marking = \"exponential\"\ngamma = 0.5\nalpha = 5\nphi = 2\nbound = 5"),
    ("step-marking", "threshold = 0"),
    ("codel", "target = \"1 ms\"\ninterval = \"3 ms\"\nce_threshold = \"1 ms\""),
    ("dualpi2", "target = \"1 ms\"\nupdate = \"1 ms\"\nalpha = 50\nbeta = 50"),
    ("dualpi2", "target = \"1 ms\"\nupdate = \"1 ms\"\nbeta = 50\nscheduler = \"time-shifted\""),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packet {
    flow: u64,
    number: u64,
    bytes: u64,
    ecn: Ecn,
    sent_at: Time,
}

impl Parcel for Packet {
    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes)
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    fn hosts(&self) -> Hosts {
        Hosts { source: self.flow % 3, destination: self.flow % 2 }
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }
}

fn router(name: &str, settings: &str) -> AnyRouter<Packet> {
    let config = Registry::default().config(name, &settings.parse().unwrap()).unwrap();
    config.make(Environment { rate: RATE, delay: DELAY }, Random::from_seed(1))
}

/// The next step, after some nanoseconds: a packet arrives, or one may leave.
#[derive(Debug, Clone, Copy)]
enum Step {
    Arrive { flow: u64, bytes: u64, capable: bool },
    Depart,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let arrive =
        (0u64..6, 40u64..1500, any::<bool>()).prop_map(|(flow, bytes, capable)| Step::Arrive { flow, bytes, capable });
    prop::collection::vec((0u64..2_000_000, prop_oneof![3 => arrive, 2 => Just(Step::Depart)]), 1..400)
}

/// The packets given to a router and those that it gave back.
#[derive(Debug, Default)]
struct Ledger {
    sent: u64,
    refused: u64,
    left: u64,
    marked: u64,
    /// The number of each flow's last packet.
    last: BTreeMap<u64, u64>,
}

impl Ledger {
    fn leave(&mut self, packet: Packet) {
        self.left += 1;
        self.marked += u64::from(packet.ecn == Ecn::Ce);
        assert!(packet.ecn != Ecn::Ce || packet.flow.is_multiple_of(2), "marked although not capable: {packet:?}");
        let last = self.last.insert(packet.flow, packet.number);
        assert!(last < Some(packet.number), "out of order: {packet:?} after {last:?}");
    }
}

proptest! {
    #[test]
    fn packets_leave_or_are_counted_as_dropped(
        steps in steps(),
        packets in 2u64..30,
        bytes in 1500u64..20_000,
        (name, settings) in prop::sample::select(&ROUTERS[..]),
    ) {
        let settings = format!("{settings}\npackets = {packets}\nbytes = \"{bytes} B\"");
        let (mut router, _passed) = (router(name, &settings), router(name, &settings));
        let (mut ledger, mut now) = (Ledger::default(), Time::ZERO);
        for (nanos, step) in steps {
            now += Duration::from_nanos(nanos);
            match step {
                Step::Arrive { flow, bytes, capable } => {
                    // Flows with even numbers are ECN-capable.
                    let (flow, ecn) = if capable { (2 * flow, Ecn::Ect0) } else { (2 * flow + 1, Ecn::NotEct) };
                    ledger.sent += 1;
                    let packet = Packet { flow, number: ledger.sent, bytes, ecn, sent_at: now };
                    ledger.refused += u64::from(router.enqueue(now, packet) != Verdict::Queued);
                }
                Step::Depart => router.dequeue(now).into_iter().for_each(|packet| ledger.leave(packet)),
            }
            let (waiting, tally) = (router.backlog(), router.tally());
            prop_assert!(waiting.packets <= packets && waiting.bytes <= Bytes::new(bytes), "{waiting:?}");
            prop_assert_eq!(ledger.sent, ledger.left + ledger.refused + tally.dropped_from_queue + waiting.packets);
        }
        while let Some(packet) = router.dequeue(now) {
            ledger.leave(packet);
        }
        prop_assert_eq!((router.backlog().packets, router.backlog().bytes), (0, Bytes::ZERO));
        prop_assert_eq!(router.tally().marked, ledger.marked);
    }
}

proptest! {
    #[test]
    fn pass_equals_enqueue_then_dequeue(
        steps in steps(),
        packets in 2u64..6,
        (name, settings) in prop::sample::select(&ROUTERS[..]),
    ) {
        let settings = format!("{settings}\npackets = {packets}\nbytes = \"1400 B\""); // some packets never fit
        let [mut passes, mut queues] = [0; 2].map(|_| router(name, &settings));
        let mut now = Time::ZERO;
        for (number, (nanos, step)) in (0..).zip(steps) {
            now += Duration::from_nanos(nanos);
            let Step::Arrive { flow, bytes, capable } = step else {
                prop_assert_eq!(passes.dequeue(now), queues.dequeue(now));
                continue;
            };
            let ecn = if capable { Ecn::Ect0 } else { Ecn::NotEct };
            let packet = Packet { flow, number, bytes, ecn, sent_at: now };
            let verdict = queues.enqueue(now, packet);
            if number % 3 == 0 {
                prop_assert_eq!(passes.enqueue(now, packet), verdict);
            } else {
                prop_assert_eq!(passes.pass(now, packet), (queues.dequeue(now), verdict));
            }
            prop_assert_eq!(passes.backlog(), queues.backlog());
        }
    }
}

/// The performance of a constant 8.8 Mb/s on a link of 8 Mb/s between 10 and 40 s.
struct Outcome {
    mean_wait: f64,
    max_wait: f64,
    dropped: u64,
    marked: u64,
    utilization: f64,
}

fn overload(name: &str) -> Outcome {
    let config = LinkConfig { rate: RATE, delay: DELAY, loss: Loss::default() };
    let mut link = Link::new(config, router(name, ""), Random::from_seed(2));
    let base_delay = DELAY + RATE.time_to_send(Bytes::new(1000));
    let mut waits = Vec::new();
    for number in 0..44_000 {
        let now = Time::ZERO + Duration::from_secs(number) / 1100;
        while link.next_event() <= now {
            let at = link.next_event();
            link.advance(at);
            while let Some(packet) = link.arrive(at) {
                waits.push((packet.sent_at, at.since(packet.sent_at + base_delay).as_secs_f64()));
            }
        }
        if number == 11_000 {
            link.advance(now);
            link.start_measuring(now, false);
        }
        let _ = link.offer(
            now,
            &mut Some(Packet { flow: 1, number, bytes: 1000, ecn: Ecn::NotEct, sent_at: now }),
            Time::ZERO,
        );
    }
    waits.retain(|(sent_at, _)| *sent_at > Time::ZERO + Duration::from_secs(10));
    let end = Time::ZERO + Duration::from_secs(40);
    link.advance(end);
    let counts = link.counts();
    Outcome {
        mean_wait: waits.iter().map(|(_, wait)| wait).sum::<f64>() / waits.len() as f64,
        max_wait: waits.iter().map(|(_, wait)| *wait).fold(0.0, f64::max),
        dropped: counts.dropped,
        marked: counts.marked,
        utilization: link.utilization(end),
    }
}

#[test]
fn an_unresponsive_source_cannot_make_the_queue_grow() {
    // One packet in eleven must be dropped: 3000 packets in 30 s. The buffer has no limit, or one of 100 ms, so only the
    // discipline drops them.
    //
    // red: gaps between drops are uniform from 1/p to 2/p, so a mean of 11 packets is p = 1.5/11 = 0.136, which gentle
    // RED has at an average of (1 + 0.036/0.9) max_th = 15.6 packets of 1 ms.
    //
    // pie, dualpi2: their target, 15 ms. docsis-pie: its target, 10 ms.
    //
    // codel: it stops dropping below 5 ms and resumes 100 ms later with few drops, and needs 100 a second: count = 100.
    // From 1, sqrt(count) grows by 5 a second, which takes 2 s, in which the queue grows by 100 packets. From the
    // remembered count of about 20 it takes 1.1 s and 30 packets, in addition to the initial queue: 45 ms at most, and
    // half of that on average.
    for (name, min, max, peak) in [
        ("red", 0.0140, 0.0170, 0.025),
        ("pie", 0.0135, 0.0165, 0.035),
        ("docsis-pie", 0.009, 0.011, 0.030),
        ("dualpi2", 0.0135, 0.0165, 0.035),
        ("codel", 0.010, 0.030, 0.050),
        ("fq-codel", 0.010, 0.030, 0.050),
    ] {
        let Outcome { mean_wait, max_wait, dropped, marked, utilization } = overload(name);
        assert!((min..max).contains(&mean_wait), "{name}: {mean_wait} s on average");
        assert!(max_wait < peak, "{name}: {max_wait} s at most");
        assert!((2850..3150).contains(&dropped) && marked == 0, "{name}: {dropped} dropped, {marked} marked");
        assert!(utilization > 0.999, "{name}: {utilization}");
    }
}
