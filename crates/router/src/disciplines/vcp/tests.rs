//! How the router treats packets; `load` has the tests of the load factor.

use rampmeter_units::Ecn;

use super::*;
use crate::router::tests::{ENVIRONMENT, TestParcel, ms};

// 8 Mb/s: 196 kB in 200 ms at the target.
fn router(config: &Config) -> Vcp<TestParcel> {
    Vcp::new(config, ENVIRONMENT, Random::from_seed(1))
}

fn data(ecn: Ecn) -> TestParcel {
    TestParcel { ecn, ..TestParcel::new(1, 1000) }
}

fn acknowledgement(ecn: Ecn) -> TestParcel {
    TestParcel { ecn, ..TestParcel::new(2, 40) }
}

/// A router that received `packets` packets of 1000 bytes in its first interval, and whose queue is empty.
fn loaded(config: &Config, packets: u64) -> Vcp<TestParcel> {
    let mut router = router(config);
    for n in 0..packets {
        assert!(router.pass(Time::from_nanos(n), data(Ecn::NotEct)).0.is_some());
    }
    router
}

/// The code with which a packet leaves in the second interval.
fn code_on_departure(router: &mut Vcp<TestParcel>, packet: TestParcel) -> Ecn {
    router.pass(ms(210), packet).0.unwrap().ecn
}

#[test]
fn data_leave_with_the_region_of_the_last_interval() {
    for (packets, code) in [(0, Ecn::Ect1), (156, Ecn::Ect1), (157, Ecn::Ect0), (195, Ecn::Ect0), (196, Ecn::Ce)] {
        let mut router = loaded(&Config::default(), packets);
        assert_eq!(code_on_departure(&mut router, data(Ecn::Ect1)), code, "{packets}");
    }
}

#[test]
fn ect0_low_swaps_the_codes_of_low_and_high() {
    let config = Config { codes: LoadCodes::Ect0Low, ..Config::default() };
    for (packets, code) in [(156, Ecn::Ect0), (157, Ecn::Ect1), (196, Ecn::Ce)] {
        assert_eq!(code_on_departure(&mut loaded(&config, packets), data(Ecn::Ect0)), code, "{packets}");
    }
}

#[test]
fn a_packet_keeps_the_highest_load_of_its_path() {
    let mut router = loaded(&Config::default(), 160);
    for (arrived, expected) in [(Ecn::Ect1, Ecn::Ect0), (Ecn::Ect0, Ecn::Ect0), (Ecn::Ce, Ecn::Ce)] {
        assert_eq!(code_on_departure(&mut router, data(arrived)), expected);
    }
    assert_eq!(router.tally().marked, 0); // high load is no congestion
}

#[test]
fn a_mark_is_counted_where_it_is_made() {
    let mut router = loaded(&Config::default(), 200);
    code_on_departure(&mut router, data(Ecn::Ect1));
    code_on_departure(&mut router, data(Ecn::Ce));
    assert_eq!(router.tally().marked, 1);
}

#[test]
fn packets_without_ecn_and_acknowledgements_are_not_changed() {
    let mut router = loaded(&Config::default(), 300);
    assert_eq!(code_on_departure(&mut router, data(Ecn::NotEct)), Ecn::NotEct);
    assert_eq!(code_on_departure(&mut router, acknowledgement(Ecn::Ect1)), Ecn::Ect1);
}

#[test]
fn acknowledgements_go_first_and_count_as_load() {
    let mut router = router(&Config::default());
    for packet in [data(Ecn::Ect1), acknowledgement(Ecn::NotEct), data(Ecn::Ect1), acknowledgement(Ecn::NotEct)] {
        assert_eq!(router.enqueue(ms(0), packet), Verdict::Queued);
    }
    let order: Vec<_> = std::iter::from_fn(|| router.dequeue(ms(0))).map(|packet| packet.flow).collect();
    assert_eq!(order, [2, 2, 1, 1]);
    for _ in 0..196_000 / 40 {
        let _ = router.pass(ms(1), acknowledgement(Ecn::NotEct));
    }
    assert_eq!(code_on_departure(&mut router, data(Ecn::Ect1)), Ecn::Ce);
}

#[test]
fn both_queues_share_the_buffer() {
    let mut router = router(&Config { packets: Some(2), ..Config::default() });
    assert_eq!(router.enqueue(ms(0), data(Ecn::Ect1)), Verdict::Queued);
    assert_eq!(router.enqueue(ms(0), acknowledgement(Ecn::NotEct)), Verdict::Queued);
    assert!(matches!(router.enqueue(ms(0), acknowledgement(Ecn::NotEct)), Verdict::Dropped(_)));
    assert!(matches!(router.enqueue(ms(0), data(Ecn::Ect1)), Verdict::Dropped(_)));
    assert_eq!(router.backlog(), Backlog { packets: 2, bytes: Bytes::new(1040) });
}

// rho = 206 / 196 = 1.05: 1 in 200 marked, gaps of at most 200; the rest carry high load.
#[test]
fn probabilistic_marking_marks_few_and_the_rest_carry_high_load() {
    let mut router = loaded(&Config { probabilistic_marking: true, ..Config::default() }, 206);
    let codes: Vec<_> = (0..2000).map(|_| code_on_departure(&mut router, data(Ecn::Ect1))).collect();
    let marked = codes.iter().filter(|&&code| code == Ecn::Ce).count();
    assert!((10..=40).contains(&marked), "{marked}");
    assert_eq!(codes.iter().filter(|&&code| code == Ecn::Ect0).count(), 2000 - marked);
}

// Load 1.5: VCP+ routers overload a third of the packets, and all routers of a path the same third.
#[test]
fn routers_with_graded_codes_choose_the_same_packets() {
    let mut routers = [1, 2].map(|seed| {
        let mut router: Vcp<TestParcel, true> =
            Vcp::with_config(&Config::default(), ENVIRONMENT, Random::from_seed(seed));
        for n in 0..294 {
            assert!(router.pass(Time::from_nanos(n), data(Ecn::NotEct)).0.is_some());
        }
        router
    });
    let mut overloaded = 0;
    for flow in 0..3000 {
        let packet = TestParcel { ecn: Ecn::Ect1, ..TestParcel::new(flow, 1000) };
        let [first, second] = routers.each_mut().map(|router| router.pass(ms(210), packet).0.unwrap().ecn);
        assert_eq!(first, second);
        overloaded += u64::from(first == Ecn::Ce);
    }
    assert!((996..=1004).contains(&overloaded), "{overloaded}"); // draws are spread evenly
}
