//! The ECN codes that hosts write: the scheme's on what carries bytes, none on anything else, whatever arrives.

mod common;

use common::{Faults, Pair, pattern};
use proptest::prelude::*;
use rampmeter_transport::Config;
use rampmeter_units::{Duration, Ecn};

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn senders_of_vcp_write_low_load_on_data_and_nothing_on_the_rest(
        seed: u64,
        ect0_low: bool,
        lens in (1usize..100_000, 0usize..30_000),
        loss in 0.0..0.2f64,
        reordering in 0.0..0.2f64,
        // Which codes packets arrive with, in turn.
        arriving in prop::collection::vec(0..4u8, 1..20),
        own in 0..3u8,
    ) {
        let (settings, low) =
            if ect0_low { ("codes = 'ect0-low'", Ecn::Ect0) } else { ("codes = 'ect1-low'", Ecn::Ect1) };
        // What the flow would use by itself does not matter.
        let config = Config { most_timeouts: 40, ecn: Ecn::from_bits(own), ..Config::default() };
        let mut pair = Pair::with("vcp", settings, &config, seed);
        pair.faults = Faults { loss, reordering, hold: Duration::from_millis(30), ..Faults::default() };
        let mut turn = 0;
        pair.recode = Box::new(move |payload, ecn| {
            assert_eq!(ecn, if payload > 0 { low } else { Ecn::NotEct }, "{payload} bytes");
            turn += 1;
            Ecn::from_bits(arriving[turn % arriving.len()])
        });
        pair.send(0, &pattern(lens.0, 1));
        pair.send(1, &pattern(lens.1, 2));
        prop_assert!(pair.run(Duration::from_secs(3600)));
    }
}
