//! The delivered bytes are the bytes sent, under all network faults, or the connection reports that the path is dead.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;
use rampmeter_transport::{CloseReason, Config, Recovery};
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::Kind;

use crate::common::{Faults, Pair, controller, pattern};

const HOUR: Duration = Duration::from_secs(3600);

fn config() -> Config {
    // Losses of 30% in each direction need many timeouts: half of all round trips fail.
    Config { max_timeouts: 40, ..Config::default() }
}

fn any_recovery() -> impl Strategy<Value = Recovery> {
    prop_oneof![Just(Recovery::Reno), Just(Recovery::NewReno), Just(Recovery::Sack)]
}

fn assert_delivered(pair: &Pair, forward: &[u8], backward: &[u8]) -> Result<(), TestCaseError> {
    for (end, expected) in [(1, forward), (0, backward)] {
        let got = &pair.ends[end].read;
        prop_assert_eq!(got.len(), expected.len(), "end {} closed {:?}", end, pair.ends[end].closed);
        prop_assert!(got == expected, "end {} got other bytes", end);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_bytes_sent_are_delivered_both_ways(
        seed: u64,
        controller in prop_oneof![Just("reno"), Just("newreno"), Just("fixed-rate")],
        recovery in any_recovery(),
        lens in (0usize..60_000, 0usize..60_000),
        loss in 0.0..0.3f64,
        duplication in 0.0..0.3f64,
        reordering in 0.0..0.3f64,
        corruption in prop_oneof![Just(0.0), 0.0..1e-4f64],
        delayed_ack in prop_oneof![Just(0u64), Just(200)],
        detect_lost_retransmissions: bool,
        receive_window in prop_oneof![Just(1_000_000u64), 1_250..20_000u64],
    ) {
        let config = Config {
            recovery,
            delayed_ack: Duration::from_millis(delayed_ack),
            detect_lost_retransmissions,
            receive_window: Bytes::new(receive_window),
            // The sequence numbers wrap around 2^32 during the transfer.
            first_sequence: Some(u32::MAX - 20_000),
            ..config()
        };
        let mut pair = Pair::new(controller, &config, seed);
        pair.faults = Faults { loss, duplication, reordering, hold: Duration::from_millis(30), corruption };
        let (forward, backward) = (pattern(lens.0, 1), pattern(lens.1, 2));
        pair.send(0, &forward);
        pair.send(1, &backward);
        let over = pair.run(HOUR * 20);
        prop_assert!(over, "not over: {:?} {:?}", pair.ends[0].endpoint, pair.ends[1].endpoint);
        assert_delivered(&pair, &forward, &backward)?;
    }
}

#[test]
fn any_single_packet_may_be_lost() {
    // First a run without losses, which counts the packets; then one run per packet, which loses it.
    let data = pattern(30_000, 3);
    let run = |lose: u64| {
        let mut pair = Pair::new("newreno", &config(), 7);
        pair.send(0, &data);
        pair.send(1, &data[..5_000]);
        let mut count = 0;
        pair.filter = Box::new(move |_, _| {
            count += 1;
            count != lose
        });
        assert!(pair.run(HOUR), "losing packet {lose}: {:?}", pair.ends[0].endpoint);
        let closed = pair.ends.each_ref().map(|e| e.closed);
        assert!(pair.ends[1].read == data, "losing packet {lose}: {closed:?}");
        assert!(pair.ends[0].read == data[..5_000], "losing packet {lose}: {closed:?}");
        pair.passed
    };
    let packets = run(0);
    assert!(packets > 30);
    for lose in 1..=packets {
        run(lose);
    }
}

#[test]
fn the_handshake_measures_the_round_trip_after_losses_too() {
    for lose in 0..4 {
        let mut pair = Pair::new("newreno", &config(), 7);
        pair.send(0, b"hello");
        let mut lost = 0;
        pair.filter = Box::new(move |_, packet| {
            let drop = packet.kind != Kind::Data && lost < lose;
            lost += u32::from(drop);
            !drop
        });
        assert!(pair.run(HOUR));
        assert_eq!(pair.ends[0].rtt, Some(Duration::from_millis(20)), "{lose} lost");
    }
}

#[test]
fn a_dead_path_ends_the_connection() {
    let mut pair = Pair::new("newreno", &Config { max_timeouts: 5, ..Config::default() }, 7);
    pair.send(0, &pattern(100_000, 1));
    pair.run(Duration::from_millis(50));
    pair.dead = true;
    assert!(!pair.run(Duration::from_secs(60)), "the accepter has nothing to send and may wait");
    assert_eq!(pair.ends[0].closed.map(|(reason, _)| reason), Some(CloseReason::TimedOut));
}

#[test]
fn a_new_controller_can_take_over_during_a_transfer() {
    let data = pattern(400_000, 4);
    for (first, second) in [("newreno", "pcp"), ("pcp", "newreno"), ("fixed-rate", "reno"), ("newreno", "fair-share")] {
        for loss in [0.0, 0.05] {
            let mut pair = Pair::new(first, &config(), 7);
            pair.faults.loss = loss;
            pair.send(0, &data);
            pair.run(Duration::from_millis(150));
            let (now, id) = (pair.now, pair.ends[0].connection.unwrap());
            let sender = &mut pair.ends[0].endpoint;
            let flow = sender.flow(id).unwrap();
            let in_flight = sender.manager().query(Time::ZERO, flow).unwrap().in_flight;
            sender.replace_controller(now, id, controller(second, 8));
            assert_eq!(sender.manager().query(Time::ZERO, flow).unwrap().in_flight, in_flight);
            assert!(pair.run(HOUR), "{first} to {second}: {:?}", pair.ends[0].endpoint);
            assert!(pair.ends[1].read == data, "{first} to {second}");
        }
    }
}

#[test]
fn an_abort_resets_the_peer() {
    let mut pair = Pair::new("newreno", &config(), 7);
    pair.send(0, &pattern(1_000_000, 1));
    pair.run(Duration::from_millis(100));
    let (now, id) = (pair.now, pair.ends[0].connection.unwrap());
    pair.ends[0].endpoint.abort(now, id);
    assert!(pair.run(HOUR));
    assert_eq!(pair.ends[0].closed.map(|(reason, _)| reason), Some(CloseReason::Aborted));
    assert_eq!(pair.ends[1].closed.map(|(reason, _)| reason), Some(CloseReason::Reset));
}

/// From the end of its stream on, one side loses all acknowledgements of the other, which has everything and ends.
#[test]
fn a_peer_that_has_ended_says_that_everything_arrived() {
    let data = pattern(30_000, 3);
    let mut pair = Pair::new("newreno", &config(), 7);
    let is_over = Rc::new(Cell::new(false));
    let (outage, over) = (Cell::new(false), Rc::clone(&is_over));
    pair.filter = Box::new(move |from, packet| {
        outage.set(outage.get() || from == 0 && packet.fin);
        from == 0 || !outage.get() || over.get()
    });
    pair.send(0, &data);
    pair.send(1, b"hello");
    pair.run(Duration::from_secs(20));
    let closed = pair.ends.each_ref().map(|e| e.closed.map(|(reason, _)| reason));
    assert_eq!(closed, [None, Some(CloseReason::Finished)], "the accepter lingers for a second");
    is_over.set(true);
    assert!(pair.run(Duration::from_secs(20)), "the next retransmission is answered");
    let (reason, statistics) = pair.ends[0].closed.unwrap();
    assert_eq!((reason, statistics.acknowledged), (CloseReason::Finished, 30_000));
    assert!(pair.ends[1].read == data && statistics.delivered_at.is_some());
}

#[test]
fn after_an_outage_a_retry_needs_no_timer() {
    let data = pattern(100_000, 1);
    let mut pair = Pair::new("newreno", &config(), 7);
    pair.send(0, &data);
    pair.run(Duration::from_millis(50));
    pair.dead = true;
    pair.run(Duration::from_secs(20));
    pair.dead = false;
    let (now, id) = (pair.now, pair.ends[0].connection.unwrap());
    pair.ends[0].endpoint.retry(now, id);
    assert!(pair.run(Duration::from_secs(2)) && pair.ends[1].read == data, "{:?}", pair.ends[0].endpoint);
}
