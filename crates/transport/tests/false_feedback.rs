//! A receiver that lies gets no more than an honest one.
//!
//! ```text
//!  sender ──── 10 Mb/s, 10 ms, a queue of 20 ms ────► receiver, which acknowledges what it has not received
//! ```

mod common;

use std::cell::Cell;
use std::rc::Rc;

use common::{Faults, Pair, pattern};
use proptest::prelude::*;
use rampmeter_transport::{CloseReason, Config};
use rampmeter_units::{Duration, Rate};
use rampmeter_wire::{Packet, Receipt};

const SECONDS: u64 = 3;

/// What a receiver does to its acknowledgements. It knows the end of what has been sent, and the number of the last
/// packet.
type Liar = fn(&mut Packet, end: u32, number: u32);

/// The data sent in three seconds to a receiver that lies, and how the connection has ended.
fn sent(controller: &str, proofs: bool, lie: Liar) -> (u64, Option<CloseReason>) {
    let mut pair = Pair::new(controller, &Config { proofs, ..Config::default() }, 1);
    pair.bottleneck = Some((Rate::from_bps(10_000_000), Duration::from_millis(20)));
    let latest: Rc<Cell<(u32, u32, u64)>> = Rc::default();
    let seen = Rc::clone(&latest);
    pair.lie = Box::new(move |from, packet| {
        let (end, number, bytes) = seen.get();
        if from == 0 && packet.payload > 0 {
            let sent = packet.sequence.wrapping_add(packet.payload.into());
            let is_new = bytes == 0 || sent.wrapping_sub(end) as i32 > 0;
            seen.set((if is_new { sent } else { end }, packet.number, bytes + u64::from(packet.payload)));
        } else if from == 1 && bytes > 0 {
            lie(packet, end, number);
        }
    });
    pair.send(0, &pattern(20_000_000, 1));
    pair.run(Duration::from_secs(SECONDS));
    (latest.get().2, pair.ends[0].closed.map(|(reason, _)| reason))
}

fn is_honest(_: &mut Packet, _: u32, _: u32) {}

/// Acknowledges everything that has been sent, which conceals losses, too.
fn acknowledges_all(packet: &mut Packet, end: u32, _: u32) {
    packet.acknowledgement = end;
    packet.sacks.clear();
}

fn acknowledges_all_without_receipts(packet: &mut Packet, end: u32, number: u32) {
    acknowledges_all(packet, end, number);
    packet.receipts.clear();
    packet.proof = None;
}

/// Names the last packet that has been sent, with a guess of its secret: the one of another packet.
fn forges_receipts(packet: &mut Packet, end: u32, number: u32) {
    acknowledges_all(packet, end, number);
    let Some(&receipt) = packet.receipts.first() else { return };
    packet.receipts.clear();
    packet.receipts.push(Receipt { number: number & !0xff | receipt.number & 0xff, ..receipt });
}

/// Conceals losses: its proof says that all packets before the last one have arrived.
fn forges_proofs(packet: &mut Packet, end: u32, number: u32) {
    acknowledges_all(packet, end, number);
    if let Some(proof) = packet.proof.as_mut().filter(|proof| proof.number > 64 << 8) {
        proof.arrived = u64::MAX;
    }
}

/// Names packets that will be sent.
fn names_the_future(packet: &mut Packet, _: u32, number: u32) {
    if let Some(proof) = &mut packet.proof {
        proof.number = number.wrapping_add(1 << 8);
    }
}

#[test]
fn a_receiver_that_lies_gets_no_more_than_an_honest_one() {
    for controller in ["newreno", "cubic", "pcp"] {
        let (honest, _) = sent(controller, true, is_honest);
        let capacity = 10_000_000 / 8 * SECONDS;
        assert!((capacity * 7 / 10..capacity * 11 / 10).contains(&honest), "{controller}: {honest}");
        for lie in [acknowledges_all, acknowledges_all_without_receipts] as [Liar; 2] {
            let (got, _) = sent(controller, true, lie);
            // PCP's honest receiver gets 93% of the path, the one that lies all of it.
            assert!(got <= honest.max(capacity) * 21 / 20, "{controller}: {got} instead of {honest}");
        }
    }
}

#[test]
fn without_proofs_a_receiver_that_lies_gets_much_more() {
    for controller in ["newreno", "cubic"] {
        let (honest, _) = sent(controller, false, is_honest);
        let (got, _) = sent(controller, false, acknowledges_all);
        assert!(got > honest * 3, "{controller}: {got} instead of {honest}");
    }
}

#[test]
fn forged_receipts_and_proofs_close_the_connection() {
    for lie in [forges_receipts, forges_proofs, names_the_future] as [Liar; 3] {
        for controller in ["newreno", "cubic"] {
            let (_, closed) = sent(controller, true, lie);
            assert_eq!(closed, Some(CloseReason::FalseFeedback), "{controller}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn an_honest_receiver_is_never_closed(
        seed: u64,
        controller in prop_oneof![Just("newreno"), Just("cubic"), Just("pcp")],
        lens in (0usize..300_000, 0usize..100_000),
        loss in 0.0..0.3f64,
        duplication in 0.0..0.3f64,
        reordering in 0.0..1.0f64,
        delayed_ack in prop_oneof![Just(0u64), Just(40)],
    ) {
        let config = Config { max_timeouts: 40, delayed_ack: Duration::from_millis(delayed_ack), ..Config::default() };
        let mut pair = Pair::new(controller, &config, seed);
        pair.faults =
            Faults { loss, duplication, reordering, hold: Duration::from_millis(30), ..Faults::default() };
        let data = [pattern(lens.0, 1), pattern(lens.1, 2)];
        pair.send(0, &data[0]);
        pair.send(1, &data[1]);
        prop_assert!(pair.run(Duration::from_secs(72_000)));
        for (end, data) in pair.ends.iter().zip(data.iter().rev()) {
            prop_assert_ne!(end.closed.map(|(reason, _)| reason), Some(CloseReason::FalseFeedback));
            prop_assert!(end.read == *data);
        }
    }
}

#[test]
fn proofs_need_no_acknowledgement_to_arrive() {
    // A proof repeats what the acknowledgements of the last 64 packets have reported.
    let run = |proofs, lose: f64| {
        let mut pair = Pair::new("newreno", &Config { proofs, ..Config::default() }, 1);
        pair.bottleneck = Some((Rate::from_bps(10_000_000), Duration::from_millis(20)));
        let mut count = 0u32;
        pair.filter = Box::new(move |from, _| {
            count = if from == 1 { count.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) } else { count };
            from == 0 || f64::from(count >> 8) / f64::from(1 << 24) >= lose
        });
        pair.send(0, &pattern(2_000_000, 1));
        while pair.ends[1].read.len() < 2_000_000 {
            pair.run(Duration::from_millis(10));
            assert!(pair.now.as_nanos() < 60_000_000_000);
        }
        let sender = &pair.ends[0];
        let timeouts = sender.endpoint.connection(sender.connection.unwrap()).unwrap().statistics().timeouts;
        (pair.now.as_nanos(), timeouts)
    };
    for lose in [0.1, 0.3, 0.5] {
        let (without, with) = (run(false, lose), run(true, lose));
        assert!(with.0 <= without.0 * 21 / 20 && with.1 <= without.1, "{lose} lost: {with:?} instead of {without:?}");
    }
}
