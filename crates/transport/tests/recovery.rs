//! How fast losses are repaired, and that reordered packets do not count as lost.

use rampmeter_transport::{CloseReason, Config, Statistics};
use rampmeter_units::{Duration, Time};

use crate::common::{Faults, Pair, pattern};

/// Both directions have 10 ms of delay.
const RTT: Duration = Duration::from_millis(20);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Sends `bytes`, and returns the time of their delivery and the sender's counters.
fn transfer(mut pair: Pair, bytes: usize) -> (Duration, Statistics) {
    let data = pattern(bytes, 1);
    pair.send(0, &data);
    assert!(pair.run(Duration::from_secs(600)), "{:?}", pair.ends[0].endpoint);
    assert!(pair.ends[1].read == data);
    let (reason, statistics) = pair.ends[0].closed.unwrap();
    assert_eq!(reason, CloseReason::Finished);
    (statistics.delivered_at.unwrap().since(Time::ZERO), statistics)
}

#[test]
fn jitter_of_a_quarter_round_trip_costs_little() {
    for controller in ["newreno", "cubic"] {
        for seed in 1..4 {
            let run = |hold| {
                let mut pair = Pair::new(controller, &Config::default(), seed);
                pair.faults = Faults { reordering: 1.0, hold, ..Faults::default() };
                transfer(pair, 4_000_000)
            };
            let ((calm, _), (jittery, counts)) = (run(Duration::ZERO), run(ms(5)));
            // The window opens for ten round trips, which are 25 ms instead of 20. At most a few packets count as lost
            // before the reordering window fits, and the reaction to them is undone.
            assert!(jittery < calm * 5 / 2, "{controller}: {jittery} instead of {calm}");
            assert!(counts.retransmitted <= 6 && counts.timeouts == 0, "{controller}: {counts:?}");
        }
    }
}

#[test]
fn real_losses_are_repaired_under_jitter_without_the_timer() {
    for seed in 1..6 {
        let mut pair = Pair::new("newreno", &Config::default(), seed);
        pair.faults = Faults { reordering: 1.0, hold: ms(5), loss: 0.01, ..Faults::default() };
        let (_, counts) = transfer(pair, 1_000_000);
        assert!(counts.timeouts <= 1, "{counts:?}");
        assert!(counts.spurious <= 6 && counts.retransmitted <= 30, "{counts:?}");
    }
}

#[test]
fn duplicates_are_harmless() {
    let run = |duplication| {
        let mut pair = Pair::new("newreno", &Config::default(), 1);
        pair.faults = Faults { duplication, ..Faults::default() };
        transfer(pair, 4_000_000)
    };
    let ((once, _), (twice, counts)) = (run(0.0), run(0.5));
    assert_eq!((once, counts.retransmitted, counts.spurious), (twice, 0, 0));
}

/// The sender of 100 packets whose last `lost` ones are lost once.
fn without_tail(lost: u32, tail_loss_probe: bool) -> Pair {
    let mut pair = Pair::new("newreno", &Config { tail_loss_probe, ..Config::default() }, 1);
    let mut highest = 0;
    pair.filter = Box::new(move |from, packet| {
        let order = packet.number >> 8; // above the part that proves the arrival
        let is_new = from == 0 && packet.payload > 0 && order > highest;
        highest = if is_new { order } else { highest };
        !(is_new && (100 - lost..100).contains(&order))
    });
    pair
}

#[test]
fn a_lost_tail_is_repaired_without_the_timer() {
    // 54 bytes of each packet of 1250 are headers.
    let bytes = 100 * 1196;
    let calm = transfer(without_tail(0, true), bytes).0;
    for lost in 1..8 {
        let (time, counts) = transfer(without_tail(lost, true), bytes);
        assert_eq!((counts.timeouts, counts.lost, counts.spurious), (0, lost.into(), 0), "{lost} lost");
        // The probe leaves after two round trips and shows the loss after one more; the repair of seven packets takes
        // two windows at most.
        assert!(time <= calm + RTT * 5, "{lost} lost: {time} instead of {calm}");
        let (slow, counts) = transfer(without_tail(lost, false), bytes);
        assert_eq!(counts.timeouts, 1);
        assert!(slow >= calm + ms(200), "{lost} lost: {slow} instead of {calm}");
    }
}

#[test]
fn the_first_reply_of_the_accepting_side_is_sent_once() {
    // Its only round trip is the handshake's, and the receipt comes after another one. A probe leaves after two.
    let mut pair = without_tail(0, true);
    (0..2).for_each(|end| pair.send(end, &pattern(100, 1)));
    assert!(pair.run(Duration::from_secs(10)));
    for end in &pair.ends {
        let (reason, statistics) = end.closed.unwrap();
        assert_eq!((reason, statistics.retransmitted), (CloseReason::Finished, 0));
    }
}

#[test]
fn a_probe_that_repairs_a_loss_halves_the_window() {
    let window = |lost| {
        let mut pair = without_tail(lost, true);
        pair.send(0, &pattern(100 * 1196, 1));
        pair.run(ms(300));
        let sender = &pair.ends[0];
        let flow = sender.endpoint.flow(sender.connection.unwrap()).unwrap();
        sender.endpoint.manager().query(pair.now, flow).unwrap().window
    };
    let (calm, repaired) = (window(0), window(1));
    assert!(repaired <= calm / 2, "{repaired} instead of {calm}");
}
