//! When a flow enters and exits competitive mode.

use super::*;
use crate::testing::ms;

const PACKET: Bytes = Bytes::new(1000);
const RTT: Duration = Duration::from_millis(20);
/// Twenty packets per round trip.
const BASE: Rate = Rate::from_bps(8_000_000);

/// A round trip at `at` milliseconds whose minimum wait is `wait` milliseconds. The target is 2 ms, and waits above
/// 10 ms are odd.
fn observe(competitive: &mut Competitive, at: u64, wait: f64) -> Change {
    observe_drain(competitive, at, wait, None)
}

/// The same in a drain, before which the minimum wait was `before` milliseconds.
fn observe_drain(competitive: &mut Competitive, at: u64, wait: f64, before: Option<u64>) -> Change {
    let carried = BASE.bytes_in(ms(at).since(competitive.round_started));
    competitive.delivered = competitive.delivered.max(carried);
    competitive.observe(
        ms(at),
        &QueueObservation { wait_before_drain: before.map(Duration::from_millis), ..observation(wait) },
    )
}

fn observation(wait: f64) -> QueueObservation {
    let min_wait = Duration::from_secs_f64(wait / 1e3);
    let (target, odd_wait) = (Duration::from_millis(2), Duration::from_millis(10));
    let capacity = Some(BASE.scale(10.0));
    let (wait_before_drain, drain_failed, is_lossy) = (None, false, false);
    let (base, rtt) = (BASE, RTT);
    QueueObservation { min_wait, target, odd_wait, base, capacity, rtt, wait_before_drain, drain_failed, is_lossy }
}

fn entered_after(waits: &[f64]) -> Option<usize> {
    let mut competitive = Competitive::new(Time::ZERO, PACKET);
    observe(&mut competitive, 0, 1.0);
    waits.iter().enumerate().find_map(|(round, wait)| {
        let change = observe(&mut competitive, 20 * (round as u64 + 1), *wait);
        (change == Change::Entered).then_some(round + 1)
    })
}

/// A flow that entered at 120 ms.
fn entered() -> Competitive {
    let mut competitive = Competitive::new(Time::ZERO, PACKET);
    observe(&mut competitive, 0, 1.0);
    (1..7).for_each(|round| assert_eq!(observe(&mut competitive, 20 * round, 11.0) == Change::Entered, round == 6));
    competitive
}

#[test]
fn an_odd_queue_starts_competitive_mode_sooner() {
    assert_eq!(entered_after(&[11.0; 9]), Some(6));
    assert_eq!(entered_after(&[9.0; 15]), Some(12));
    assert_eq!(entered_after(&[10.0; 15]), Some(12), "up to 10 ms none is odd");
    assert_eq!(
        entered_after(&[8.0, 7.76, 7.6, 7.6, 7.6, 7.6, 7.6, 7.6, 7.6, 7.6, 7.6, 7.6]),
        Some(12),
        "it fell by 3%"
    );
    assert_eq!(entered_after(&[2.0; 15]), None, "that is the target");
    assert_eq!(entered_after(&[19.0, 18.0, 17.0, 16.0, 15.0, 14.0, 13.0, 12.0]), None, "other flows drain it");
    assert_eq!(entered_after(&[11.0, 11.0, 11.0, 10.5, 11.0, 11.0, 11.0]), None, "it fell once");
}

// Its capacity fell: it sends 8 Mb/s, and 4 arrive.
#[test]
fn a_queue_of_the_flows_own_does_not_count() {
    let mut competitive = Competitive::new(Time::ZERO, PACKET);
    observe(&mut competitive, 0, 1.0);
    for round in 1..50 {
        competitive.delivered = BASE.bytes_in(RTT / 2);
        assert_eq!(competitive.observe(ms(20 * round), &observation(11.0)), Change::Nothing);
    }
}

#[test]
fn a_round_trip_counts_once() {
    let mut competitive = Competitive::new(Time::ZERO, PACKET);
    observe(&mut competitive, 0, 1.0);
    let entered = (1..100).find(|n| observe(&mut competitive, 5 * n, 11.0) == Change::Entered);
    assert_eq!(entered, Some(24), "after six round trips of 20 ms");
}

#[test]
fn an_idle_time_starts_the_count_again() {
    let mut competitive = Competitive::new(Time::ZERO, PACKET);
    observe(&mut competitive, 0, 1.0);
    (1..6).for_each(|round| assert_eq!(observe(&mut competitive, 20 * round, 11.0), Change::Nothing));
    competitive.on_idle(ms(1000), RTT, RTT, RTT);
    assert_eq!(observe(&mut competitive, 1020, 11.0), Change::Nothing);
}

#[test]
fn larger_packets_grow_the_window_by_more() {
    let mut competitive = entered();
    competitive.on_packet_size(ms(130), PACKET * 2);
    competitive.on_ack(ms(130), &crate::testing::ack(2), false);
    assert_eq!(competitive.window(), Some(PACKET * 22));
}

#[test]
fn a_failed_drain_starts_it_if_the_rate_halved() {
    let fails = |before: &[f64], wait, base: f64| {
        let mut competitive = Competitive::new(Time::ZERO, PACKET);
        before.iter().zip(0..).for_each(|(wait, at)| assert_eq!(observe(&mut competitive, at, *wait), Change::Nothing));
        let observation = QueueObservation { drain_failed: true, base: BASE.scale(base), ..observation(wait) };
        competitive.observe(ms(100), &observation) == Change::Entered
    };
    assert!(fails(&[], 8.0, 1.0), "it never saw a short queue");
    assert!(!fails(&[], 2.0, 1.0), "the queue is as short as the target");
    assert!(!fails(&[2.0], 8.0, 0.51) && fails(&[2.0], 8.0, 0.5), "half of its rate");
}

#[test]
fn a_flow_that_enters_keeps_its_window_before_the_queue() {
    assert_eq!(entered().window(), Some(PACKET * 20));
    let mut competitive = Competitive::new(Time::ZERO, PACKET);
    observe(&mut competitive, 0, 1.0);
    for round in 1..=6 {
        competitive.delivered = BASE.bytes_in(RTT);
        let slower = QueueObservation { base: BASE.scale(0.6), ..observation(11.0) };
        competitive.observe(ms(20 * round), &slower);
    }
    assert_eq!(competitive.window(), Some(PACKET * 20), "its rate fell meanwhile");
}

#[test]
fn a_drain_to_a_third_of_the_queue_ends_competitive_mode() {
    let exits = |wait, before| observe_drain(&mut entered(), 140, wait, Some(before)) == Change::Exited;
    assert!(!exits(3.6, 20) && exits(3.5, 20), "of an odd wait");
    assert!(!exits(1.5, 4) && exits(1.4, 4), "of the wait before");
    assert_eq!(observe_drain(&mut entered(), 130, 3.5, Some(20)), Change::Exited, "within a round");
}

#[test]
fn without_a_drain_only_an_empty_queue_ends_the_mode() {
    assert_eq!(observe(&mut entered(), 140, 2.1), Change::Nothing);
    assert_eq!(observe(&mut entered(), 140, 2.0), Change::Exited);
}

#[test]
fn a_queue_that_is_empty_after_a_loss_does_not_end_the_mode() {
    let lost = |to_a_queue| {
        let mut competitive = entered();
        competitive.on_loss(ms(140), &crate::pcp::tests::loss(PACKET), to_a_queue);
        competitive
    };
    assert_eq!(observe(&mut lost(true), 199, 0.0), Change::Nothing, "other flows lost packets, too");
    assert_eq!(observe(&mut lost(true), 200, 0.0), Change::Exited, "three round trips are over");
    assert_eq!(observe_drain(&mut lost(true), 150, 0.0, Some(20)), Change::Exited, "a drain counts even then");
    assert_eq!(observe_drain(&mut lost(true), 150, 0.0, Some(2)), Change::Nothing, "unless the queue was empty before");
    assert_eq!(observe(&mut lost(false), 150, 0.0), Change::Exited, "lost by chance");
}

#[test]
fn losses_after_the_last_fall_count_within_a_recovery() {
    let mut competitive = entered();
    let mut window_after = |number, last_sent, recovering| {
        let loss = Loss { number, last_sent, recovering, ..crate::pcp::tests::loss(PACKET) };
        competitive.on_loss(ms(140), &loss, true);
        competitive.window().unwrap()
    };
    let first = window_after(10, 30, false);
    assert_eq!(window_after(30, 50, true), first, "left before the fall");
    assert!(window_after(31, 60, true) < first);
}

#[test]
fn a_flow_that_has_the_whole_link_exits() {
    let carried = |packets| {
        let mut competitive = entered();
        competitive.on_ack(ms(130), &crate::testing::ack(packets), false);
        observe(&mut competitive, 140, 15.0)
    };
    assert_eq!(carried(159), Change::Nothing);
    assert_eq!(carried(160), Change::Exited, "0.8 of 200 packets a round trip");
}

#[test]
fn the_window_does_not_grow_during_a_drain() {
    let mut competitive = entered();
    let window = competitive.window();
    (0..10).for_each(|_| competitive.on_ack(Time::ZERO + RTT, &crate::testing::ack(1), true));
    assert_eq!(competitive.window(), window);
}

#[test]
fn the_window_doubles_in_a_round_trip_unless_resumed() {
    let window = |mut competitive: Competitive| {
        (0..10).for_each(|_| competitive.on_ack(Time::ZERO + RTT, &crate::testing::ack(1), false));
        competitive.window()
    };
    assert!(window(entered()) > Some(PACKET * 25));
    let mut resumed = Competitive::new(Time::ZERO, PACKET);
    resumed.resume(Time::ZERO, PACKET * 30, RTT);
    assert!(window(resumed) < Some(PACKET * 32));
}

#[test]
fn growing_delays_end_slow_start_before_a_loss() {
    let ends = |longer: u64| {
        let mut cubic = new_cubic(Time::ZERO, PACKET, PACKET * 20, RTT);
        for at in 1..1000 {
            let rtt = Some(RTT + Duration::from_millis(if at > 100 { longer } else { 0 }));
            cubic.on_ack(ms(at), &Ack { rtt, ..crate::testing::ack(1) });
        }
        !cubic.window.in_slow_start()
    };
    assert!(ends(5) && !ends(3), "RFC 9406: from 4 ms on");
}

/// A lossy round trip each time, but for the one with number `without`. Returns the round trips until the flow exits.
fn exited_after(without: u64) -> Option<u64> {
    let mut competitive = entered();
    (1..=30).find(|&round| {
        let observation = QueueObservation { is_lossy: round != without, ..observation(11.0) };
        competitive.observe(ms(120 + 20 * round), &observation) == Change::Exited
    })
}

#[test]
fn lasting_excess_loss_ends_competitive_mode() {
    assert_eq!(exited_after(0), Some(12));
    assert_eq!(exited_after(12), Some(24), "a round trip without it starts the count again");
}
