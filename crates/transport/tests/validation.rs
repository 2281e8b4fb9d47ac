//! Validation of ECN: senders stop to write codes where the path changes them, or loses packets that have one.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;
use rampmeter_transport::{Config, Connection, EcnState};
use rampmeter_units::{Duration, Ecn};

use crate::common::{Faults, Pair, pattern};

/// A controller, its settings, and the code of the flow.
type Scheme = (&'static str, &'static str, Ecn);

/// Schemes whose packets have a code.
const CAPABLE: &[Scheme] = &[
    ("prague", "", Ecn::NotEct),
    ("dctcp", "", Ecn::NotEct),
    ("stable", "", Ecn::NotEct),
    ("scream", "l4s = true", Ecn::NotEct),
    ("cubic", "", Ecn::Ect0),
    ("newreno", "", Ecn::Ect1),
];

fn pair((name, settings, ecn): Scheme, seed: u64) -> Pair {
    let mut pair = Pair::with(name, settings, &Config { max_timeouts: 40, ecn, ..Config::default() }, seed);
    pair.send(0, &pattern(300_000, 1));
    pair.send(1, &[]);
    pair
}

/// Runs to the end. Returns the last known state of the first side, and the ECN-capable packets that it sent in `Failed`.
/// `capable` counts all of them.
fn run(pair: &mut Pair, capable: &Cell<u64>) -> (EcnState, u64) {
    let (mut last, mut before) = (EcnState::Testing, 0);
    for _ in 0..1_000_000 {
        if pair.run(Duration::from_millis(5)) {
            let late = if last == EcnState::Failed { capable.get() - before } else { 0 };
            return (last, late);
        }
        let sender = &pair.ends[0];
        let state = sender.connection.and_then(|id| sender.endpoint.connection(id)).map(Connection::ecn_state);
        if last != EcnState::Failed {
            before = capable.get();
        }
        last = state.unwrap_or(last);
    }
    panic!("no end");
}

fn count(capable: &Rc<Cell<u64>>, mut recode: impl FnMut(Ecn) -> Option<Ecn> + 'static) -> crate::common::Recoder {
    let capable = Rc::clone(capable);
    Box::new(move |payload, code| {
        capable.set(capable.get() + u64::from(payload > 0 && code.is_capable())); // only the first side has payload
        recode(code)
    })
}

#[test]
fn a_path_that_loses_packets_with_a_code_carries_those_without() {
    for &scheme in CAPABLE {
        let (mut pair, capable) = (pair(scheme, 1), Rc::default());
        pair.recode = count(&capable, |code| Some(code).filter(|code| !code.is_capable()));
        assert_eq!(run(&mut pair, &capable), (EcnState::Failed, 0), "{scheme:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_sender_stays_capable_where_codes_are_changed(
        seed: u64,
        scheme in prop::sample::select(CAPABLE),
        // The first packet with a code that arrives with another one, and this code, or the other of the two.
        kept in 0..100u64,
        cleared: bool,
        loss in 0.0..0.2f64,
        reordering in 0.0..0.2f64,
    ) {
        let (mut pair, capable) = (pair(scheme, seed), Rc::<Cell<u64>>::default());
        pair.faults = Faults { loss, reordering, hold: Duration::from_millis(30), ..Faults::default() };
        let sent = Rc::clone(&capable);
        pair.recode = count(&capable, move |code| Some(match code {
            _ if sent.get() <= kept => code,
            Ecn::Ect0 if !cleared => Ecn::Ect1,
            Ecn::Ect1 if !cleared => Ecn::Ect0,
            _ => Ecn::NotEct,
        }));
        prop_assert_eq!(run(&mut pair, &capable), (EcnState::Failed, 0));
    }

    #[test]
    fn senders_stay_capable_where_codes_are_kept_or_marked(
        seed: u64,
        scheme in prop::sample::select(CAPABLE),
        marks in prop::collection::vec(any::<bool>(), 1..20),
        duplication in 0.0..0.2f64,
        reordering in 0.0..0.2f64,
    ) {
        let (mut pair, capable) = (pair(scheme, seed), Rc::<Cell<u64>>::default());
        pair.faults = Faults { duplication, reordering, hold: Duration::from_millis(30), ..Faults::default() };
        let mut turn = 0;
        pair.recode = count(&capable, move |code| {
            turn += 1;
            Some(if code.is_capable() && marks[turn % marks.len()] { Ecn::Ce } else { code })
        });
        prop_assert_eq!(run(&mut pair, &capable), (EcnState::Capable, 0));
    }
}
