//! The ECN codes that hosts write: the scheme's code on packets with payload, none on other packets, whatever arrives.
//! And the codes that senders receive: for each packet the code with which it arrived.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use rampmeter_control::AnyController;
use rampmeter_control::testing::Recorder;
use rampmeter_transport::Config;
use rampmeter_units::{Duration, Ecn};

use crate::common::{Faults, Pair, controller, pattern};

type Codes = Vec<(u32, Ecn)>;

/// The first side sends `lens.0` bytes and the other `lens.1`; packets of the first are marked according to `marks`.
/// Returns the codes with which these packets arrived, and the codes that were reported to their sender.
fn codes_under_delay(
    scheme: &str,
    delayed_ack: Duration,
    lens: (usize, usize),
    marks: Vec<bool>,
    faults: Faults,
    seed: u64,
) -> [Codes; 2] {
    let min_rto = Duration::from_secs(1); // longer than an acknowledgement is delayed
    // Without proofs, packets have the same numbers on the wire as at the manager.
    let config = Config { delayed_ack, min_rto, max_timeouts: 40, proofs: false, ..Config::default() };
    let mut pair = Pair::new(scheme, &config, seed);
    pair.faults = faults;
    let reported = Arc::<Mutex<Vec<_>>>::default();
    let recorder = Recorder { controller: controller(scheme, seed), arrivals: Arc::clone(&reported), rtt: None };
    let connection = pair.ends[0].connection.unwrap();
    pair.ends[0].endpoint.replace_controller(pair.now, connection, AnyController::External(Box::new(recorder)));
    // The number of the departing packet, if it takes sequence numbers of the first side's stream.
    let departing = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&departing);
    pair.filter = Box::new(move |from, packet| {
        let data = packet.payload > 0 || packet.fin;
        *seen.borrow_mut() = (from == 0 && data).then_some(packet.number);
        true
    });
    let arrived = Rc::new(RefCell::new(Codes::new()));
    let (log, mut turn) = (Rc::clone(&arrived), 0);
    pair.recode = Box::new(move |_, ecn| {
        let Some(number) = departing.borrow_mut().take() else { return Some(ecn) };
        turn += 1;
        let code = if marks[turn % marks.len()] { Ecn::Ce } else { ecn };
        log.borrow_mut().push((number, code));
        Some(code)
    });
    pair.send(0, &pattern(lens.0, 1));
    pair.send(1, &pattern(lens.1, 2));
    assert!(pair.run(Duration::from_secs(36_000)));
    let reported = reported.lock().unwrap().iter().map(|arrival| (arrival.number as u32, arrival.ecn)).collect();
    [arrived.take(), reported]
}

#[test]
fn marks_on_packets_that_left_as_not_ect_are_not_reported() {
    let [arrived, reported] =
        codes_under_delay("newreno", Duration::ZERO, (300_000, 0), vec![true, false], Faults::default(), 1);
    assert!(arrived.iter().any(|(_, code)| *code == Ecn::Ce));
    assert!(reported.len() == arrived.len() && reported.iter().all(|(_, code)| *code == Ecn::NotEct), "{reported:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn vcp_senders_write_low_load_on_data_and_no_code_otherwise(
        seed: u64,
        ect0_low: bool,
        // The end of a stream without data is a packet without payload that carries the code.
        lens in (1usize..100_000, 1usize..30_000),
        loss in 0.0..0.2f64,
        reordering in 0.0..0.2f64,
        // The codes with which packets arrive, in turn.
        arriving in prop::collection::vec(0..4u8, 1..20),
        own in 0..3u8,
    ) {
        let (settings, low) =
            if ect0_low { ("codes = 'ect0-low'", Ecn::Ect0) } else { ("codes = 'ect1-low'", Ecn::Ect1) };
        // The flow's own code has no effect.
        let config = Config { max_timeouts: 40, ecn: Ecn::from_bits(own), ..Config::default() };
        let mut pair = Pair::with("vcp", settings, &config, seed);
        pair.faults = Faults { loss, reordering, hold: Duration::from_millis(30), ..Faults::default() };
        let mut turn = 0;
        pair.recode = Box::new(move |payload, ecn| {
            assert_eq!(ecn, if payload > 0 { low } else { Ecn::NotEct }, "{payload} bytes");
            turn += 1;
            Some(Ecn::from_bits(arriving[turn % arriving.len()]))
        });
        pair.send(0, &pattern(lens.0, 1));
        pair.send(1, &pattern(lens.1, 2));
        prop_assert!(pair.run(Duration::from_secs(3600)));
    }

    #[test]
    fn each_code_is_reported_once_under_delayed_acknowledgements(
        seed: u64,
        delayed_ack in 0..500u64,
        lens in (1usize..200_000, 0usize..100_000),
        marks in prop::collection::vec(any::<bool>(), 1..20),
    ) {
        let delayed_ack = Duration::from_millis(delayed_ack);
        let [arrived, reported] = codes_under_delay("stable", delayed_ack, lens, marks, Faults::default(), seed);
        prop_assert_eq!(reported, arrived);
    }

    #[test]
    fn lost_acknowledgements_cause_no_wrong_reports(
        seed: u64,
        delayed_ack in 0..500u64,
        lens in (1usize..100_000, 0usize..30_000),
        marks in prop::collection::vec(any::<bool>(), 1..20),
        loss in 0.0..0.2f64,
        reordering in 0.0..0.2f64,
    ) {
        let faults = Faults { loss, reordering, hold: Duration::from_millis(30), ..Faults::default() };
        let delayed_ack = Duration::from_millis(delayed_ack);
        let [arrived, reported] = codes_under_delay("stable", delayed_ack, lens, marks, faults, seed);
        let mut numbers: Vec<u32> = reported.iter().map(|&(number, _)| number).collect();
        for code in reported {
            prop_assert!(arrived.contains(&code), "{:?}", code);
        }
        numbers.sort_unstable();
        prop_assert!(numbers.windows(2).all(|two| two[0] != two[1]), "twice: {:?}", numbers);
    }
}
