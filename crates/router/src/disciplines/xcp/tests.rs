//! One router and packets with given windows and round trips, against the formulas computed by hand.

use super::*;
use crate::router::tests::{ENVIRONMENT, TestParcel, ms};

/// The link rate of [`ENVIRONMENT`]: 1000 bytes a millisecond.
const CAPACITY: f64 = 1e6;
const PACKET: u64 = 1000;
const UNLIMITED: i64 = i64::MAX / 2;

fn header(window: u64, rtt_ms: u64, change: i64) -> RouterFeedback {
    RouterFeedback::Xcp { window: Bytes::new(window), rtt: Duration::from_millis(rtt_ms), change }
}

fn with_request(flow: u64, window: u64, rtt_ms: u64) -> TestParcel {
    TestParcel { feedback: header(window, rtt_ms, UNLIMITED), ..TestParcel::new(flow, PACKET) }
}

fn change(packet: &TestParcel) -> i64 {
    match packet.feedback {
        RouterFeedback::Xcp { change, .. } => change,
        other => panic!("{other:?}"),
    }
}

/// A flow as the router sees it: one packet every `every_ms`, with the window and round trip that correspond to it.
#[derive(Clone, Copy)]
struct Flow {
    every_ms: u64,
    rtt_ms: u64,
}

impl Flow {
    fn window(self) -> u64 {
        PACKET * self.rtt_ms / self.every_ms
    }
}

struct Bench {
    router: Xcp<TestParcel>,
    now_ms: u64,
}

impl Bench {
    fn new() -> Self {
        Self { router: Xcp::new(&Config::default(), ENVIRONMENT, Random::from_seed(1)), now_ms: 0 }
    }

    fn tick(&mut self, now: Time) {
        while Router::<TestParcel>::next_tick(&self.router) <= now {
            let due = Router::<TestParcel>::next_tick(&self.router);
            Router::<TestParcel>::tick(&mut self.router, due);
        }
    }

    /// Flows that send for `for_ms` over a link with an empty queue. Returns the sum of each flow's changes, in
    /// thousandths of a byte. Packets arrive half a millisecond after the timers.
    fn run(&mut self, flows: &[Flow], for_ms: u64) -> Vec<i64> {
        let mut changes = vec![0; flows.len()];
        for now in self.now_ms..self.now_ms + for_ms {
            let at = ms(now) + Duration::from_micros(500);
            self.tick(at);
            for (index, flow) in flows.iter().enumerate().filter(|(_, flow)| now % flow.every_ms == 0) {
                let packet = with_request(index as u64, flow.window(), flow.rtt_ms);
                assert_eq!(self.router.enqueue(at, packet), Verdict::Queued);
                changes[index] += change(&self.router.dequeue(at).unwrap());
            }
        }
        self.now_ms += for_ms;
        changes
    }
}

/// Sums differ from the formulas by rounding, half a thousandth of a byte a packet.
fn assert_near(changes: &[i64], bytes: &[f64]) {
    let near = |(change, bytes): (&i64, &f64)| (*change as f64 / 1000.0 - bytes).abs() < 0.1;
    assert!(changes.len() == bytes.len() && changes.iter().zip(bytes).all(near), "{changes:?} for {bytes:?}");
}

// A tenth of the link is used: S = 0.9 C, phi = 0.4 * 100 ms * 0.9 C. It exceeds 10% of the traffic, so nothing is
// shuffled.
#[test]
fn a_lone_flow_gets_two_fifths_of_the_spare_bandwidth_each_rtt() {
    let mut bench = Bench::new();
    let flow = Flow { every_ms: 10, rtt_ms: 100 };
    bench.run(&[flow], 450);
    assert_near(&bench.run(&[flow], 100), &[0.4 * 0.1 * 0.9 * CAPACITY]);
}

// phi = 0 and h = 0.1 y: 10% of the traffic is taken in proportion to the rates, and given back in equal parts. With
// rates x1 + x2 = C and round trip T the rates change by (0.1 C / T) / 2 - 0.1 x / T each, the windows by T times that.
#[test]
fn a_full_link_shuffles_a_tenth_of_the_traffic() {
    let mut bench = Bench::new();
    let flows =
        [Flow { every_ms: 4, rtt_ms: 100 }, Flow { every_ms: 4, rtt_ms: 100 }, Flow { every_ms: 2, rtt_ms: 100 }];
    bench.run(&flows, 450);
    let third = 0.1 * CAPACITY * 0.1 / 3.0;
    let bytes = [third - 0.1 * 25_000.0, third - 0.1 * 25_000.0, third - 0.1 * 50_000.0];
    assert_near(&bench.run(&flows, 100), &bytes);
}

// d is the average of 40 ms and 120 ms, with equal weight for each flow. Two fifths of the link are used; windows are 8
// and 24 packets. In d the rates rise by phi / 2 / d each, windows by rtt times that.
#[test]
fn flows_with_different_round_trips_change_rates_equally() {
    let mut bench = Bench::new();
    let flows = [Flow { every_ms: 5, rtt_ms: 40 }, Flow { every_ms: 5, rtt_ms: 120 }];
    bench.run(&flows, 50 + 80 * 10);
    let d = 0.08;
    let spare = 0.4 * d * 0.6 * CAPACITY; // phi; 0.4 of the link is used
    let rate = spare / d / 2.0; // of each, per interval
    assert_near(&bench.run(&flows, 80), &[rate * 0.04, rate * 0.12]);
}

// The queue has 20 packets all the time while arrivals equal departures: phi = -0.226 * 20 packets, which is 4.5% of
// the arrivals in 100 ms, so h = 10% - 4.5% of them. Shuffling has no net effect on a lone flow.
#[test]
fn a_standing_queue_is_drained_by_beta_in_each_round_trip() {
    let mut bench = Bench::new();
    let packet = with_request(0, 100_000, 100);
    for _ in 0..20 {
        assert_eq!(bench.router.enqueue(Time::ZERO, packet), Verdict::Queued);
    }
    let mut changed = 0;
    for now in 0..650 {
        let at = ms(now) + Duration::from_micros(500);
        bench.tick(at);
        assert_eq!(bench.router.enqueue(at, packet), Verdict::Queued);
        let received = change(&bench.router.dequeue(at).unwrap());
        changed += if now < 550 { 0 } else { received };
    }
    assert_near(&[changed], &[-0.226 * 20_000.0]);
}

// 500 bytes a millisecond have no header. They are half the link's load, and none of it can be shuffled: with S = 0 the
// lone flow with requests gets back what is taken from it.
#[test]
fn packets_without_a_header_only_count_as_load() {
    let mut bench = Bench::new();
    let mut changed = 0;
    for now in 0..550 {
        let at = ms(now) + Duration::from_micros(500);
        bench.tick(at);
        let plain = TestParcel::new(9, 500);
        assert_eq!(bench.router.pass(at, plain), (Some(plain), Verdict::Queued));
        if now % 2 == 0 {
            let received = change(&bench.router.pass(at, with_request(0, 50_000, 100)).0.unwrap());
            changed += if now < 450 { 0 } else { received };
        }
    }
    assert_near(&[changed], &[0.0]);
}

#[test]
fn a_change_of_the_links_rate_acts_in_the_next_interval() {
    let mut bench = Bench::new();
    let flow = Flow { every_ms: 1, rtt_ms: 100 };
    bench.run(&[flow], 450);
    Router::<TestParcel>::on_rate(&mut bench.router, ms(450), ENVIRONMENT.rate.scale(0.5));
    bench.run(&[flow], 100);
    assert_near(&bench.run(&[flow], 100), &[-0.4 * 0.1 * 0.5 * CAPACITY]);
}
