//! A receiver that lies about what has arrived gets no more than an honest one. One that lies about arrival times and
//! ECN codes gets more, up to what real losses leave.
//!
//! ```text
//!  sender ──── 10 Mb/s, 10 ms, a queue of 20 ms ────► receiver, which acknowledges what it has not received
//!
//!  four senders ──── 10 Mb/s, 10 ms, a queue of 60 ms ────► four receivers, the first of which reports false times
//!                                                           or codes
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use rampmeter_transport::{CloseReason, Config};
use rampmeter_units::{Duration, Ecn, Rate, Time};
use rampmeter_wire::{Packet, Receipt};

use crate::common::{Faults, Pair, pattern, run_together};

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
    pair.lie = Box::new(move |_, from, packet| {
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

/// What the first of four receivers does to its receipts. It knows when each packet has left, which a real one can only
/// guess.
type FalseReceipt = fn(&mut Receipt, sent_at: Time);

fn is_true(_: &mut Receipt, _: Time) {}

/// Reports the delay of the path without a queue.
fn hides_the_queue(receipt: &mut Receipt, sent_at: Time) {
    receipt.received_at = sent_at + Duration::from_millis(10);
}

fn hides_marks(receipt: &mut Receipt, _: Time) {
    receipt.ecn = if receipt.ecn == Ecn::Ce { Ecn::Ect0 } else { receipt.ecn };
}

/// A flow's part of the path after five seconds, and the part of its packets that was lost.
type Parts = (f64, f64);

/// The first flow to a receiver that lies, and the three others, over one bottleneck. Its queue marks packets that have
/// a code and wait for more than 10 ms.
struct Four {
    first: &'static str,
    settings: &'static str,
    others: &'static str,
    ecn: Ecn,
}

impl Four {
    fn new(first: &'static str, others: &'static str) -> Self {
        Self { first, settings: "", others, ecn: Config::default().ecn }
    }

    fn run(&self, seed: u64, lie: FalseReceipt) -> [Parts; 4] {
        const RATE: f64 = 10e6;
        let idle_from: Rc<Cell<Time>> = Rc::default();
        let config = Config { ecn: self.ecn, ..Config::default() };
        let mut pairs = [0, 1, 2, 3].map(|index| {
            let (name, settings) = if index == 0 { (self.first, self.settings) } else { (self.others, "") };
            let mut pair = Pair::with(name, settings, &config, seed * 100 + index);
            pair.bottleneck = Some((Rate::from_bps(RATE as u64), Duration::from_millis(60)));
            (pair.idle_from, pair.marks_from) = (Rc::clone(&idle_from), Duration::from_millis(10));
            pair.delay = Duration::from_micros(9000 + (seed * 700 + index * 300) % 2000);
            pair.send(0, &pattern(30_000_000, 1));
            pair
        });
        let mut left: BTreeMap<u32, Time> = BTreeMap::new();
        pairs[0].lie = Box::new(move |now, from, packet| {
            if from == 0 {
                left.insert(packet.number, now);
                return;
            }
            let receipts: Vec<Receipt> = packet.receipts.iter().copied().collect();
            packet.receipts.clear();
            for mut receipt in receipts {
                let sent_at = left[&receipt.number];
                lie(&mut receipt, sent_at);
                packet.receipts.push(receipt);
            }
        });
        let arrived = |pairs: &[Pair; 4]| pairs.each_ref().map(|pair| pair.ends[1].read.len());
        run_together(&mut pairs, Duration::from_secs(5));
        let before = arrived(&pairs);
        run_together(&mut pairs, Duration::from_secs(10));
        let after = arrived(&pairs);
        std::array::from_fn(|index| {
            let sender = &pairs[index].ends[0];
            let statistics = sender.endpoint.connection(sender.connection.unwrap()).unwrap().statistics();
            let part = (after[index] - before[index]) as f64 * 8.0 / 10.0 / RATE;
            (part, statistics.retransmitted as f64 / statistics.data_packets as f64)
        })
    }
}

/// The lower bounds are those of `docs/security.md`, too: if a limit to the lie is found, that page changes.
#[test]
fn false_arrival_times_take_the_path_from_others_of_pcp() {
    for seed in 1..=3 {
        let four = Four::new("pcp", "pcp");
        let [(honest, _), ..] = four.run(seed, is_true);
        let [(part, lost), ..] = four.run(seed, hides_the_queue);
        assert!((0.2..0.3).contains(&honest) && (0.25..0.6).contains(&part), "{seed}: {part} instead of {honest}");
        assert!((0.05..0.2).contains(&lost), "{seed}: real losses limit it: {lost}");

        let four = Four::new("pcp", "cubic");
        let [(honest, _), ..] = four.run(seed, is_true);
        let [(part, _), ..] = four.run(seed, hides_the_queue);
        assert!(honest < 0.35 && part < 0.8, "{seed}: {part} instead of {honest}");
    }
}

/// A queue that arrival times hide still lengthens the round trip, which the sender's clock measures.
#[test]
fn by_round_trips_pcp_is_not_deceived() {
    let four = Four { settings: "round_trip = true", ..Four::new("pcp", "pcp") };
    for seed in 1..=3 {
        assert_eq!(four.run(seed, hides_the_queue), four.run(seed, is_true), "{seed}");
    }
}

/// These are all others that `rampmeter serve` lends to its clients.
#[test]
fn only_pcp_is_deceived_by_false_arrival_times() {
    for controller in ["bbr", "cm", "cubic", "hstcp", "ledbat", "newreno", "reno", "vegas"] {
        let four = Four::new(controller, "cubic");
        assert_eq!(four.run(1, hides_the_queue), four.run(1, is_true), "{controller}");
    }
}

/// The lower bound is that of `docs/security.md`, too.
#[test]
fn hidden_marks_gain_from_cubic_only_with_ecn() {
    for seed in 1..=3 {
        let four = Four { ecn: Ecn::Ect0, ..Four::new("cubic", "cubic") };
        let [(honest, _), ..] = four.run(seed, is_true);
        let [(part, _), others @ ..] = four.run(seed, hides_marks);
        assert!(honest < 0.25 && (0.8..0.9).contains(&part), "{seed}: {part} instead of {honest}");
        assert!(others.iter().all(|(part, _)| *part < 0.05), "{seed}: {others:?}");
        for four in [Four { ecn: Ecn::Ect0, ..Four::new("pcp", "pcp") }, Four::new("cubic", "cubic")] {
            assert_eq!(
                four.run(seed, hides_marks),
                four.run(seed, is_true),
                "{seed}: no reaction to marks, or no marks"
            );
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
