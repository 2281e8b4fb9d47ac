//! VCP on paths that do something to ECN codes: what it gets there, and what it says of it.
//!
//! 10 Mb/s and 20 ms hold 24 packets, the buffer as many: NewReno fills it (see `steady.rs`). The link with the VCP router
//! is the one that spoils its codes.

mod common;

use common::Dumbbell;
use rampmeter_scenario::{Outcome, Plan};
use rampmeter_units::{Duration, Time};

fn plan(ecn: &str, codes: &str) -> Plan {
    let bottleneck = format!(
        r#"rate = "10 Mb/s", delay = "8 ms", router = {{ kind = "vcp", packets = 24, codes = "{codes}" }}, ecn = "{ecn}""#
    );
    let scheme = format!(r#"controller = "vcp", settings = {{ codes = "{codes}" }}"#);
    Dumbbell {
        duration: "60 s",
        warmup: "20 s",
        bottleneck: bottleneck.leak(),
        scheme: scheme.leak(),
        ..Dumbbell::default()
    }
    .plan()
}

fn told(outcome: &Outcome) -> Vec<&str> {
    outcome.degraded.iter().map(|degraded| degraded.reason.as_str()).collect()
}

#[test]
fn where_codes_are_cleared_it_fills_the_link_as_newreno_does_and_says_why_once() {
    for codes in ["ect1-low", "ect0-low"] {
        let outcome = common::run(&plan("not-ect", codes));
        assert!(outcome.links[0].utilization > 0.95, "{codes}: {:?}", outcome.links[0]);
        let [why] = told(&outcome)[..] else { panic!("{:?}", outcome.degraded) };
        assert!(why.contains("clears ECN codes"), "{why}");
    }
}

#[test]
fn where_all_codes_are_set_to_one_that_grows_losses_tell_it_to_do_as_tcp() {
    for (ecn, codes) in [("ect1", "ect1-low"), ("ect0", "ect0-low"), ("ect0", "ect1-low"), ("ect1", "ect0-low")] {
        let outcome = common::run(&plan(ecn, codes));
        assert!(outcome.links[0].utilization > 0.7, "{ecn}, {codes}: {:?}", outcome.links[0]);
        // Low for ever fills the buffer within seconds. High for ever adds a packet each 2 s: three losses take minutes.
        let low = (ecn == "ect1") == (codes == "ect1-low");
        assert_eq!(told(&outcome).len(), usize::from(low), "{ecn}, {codes}: {:?}", outcome.degraded);
        assert!(told(&outcome).iter().all(|why| why.contains("no VCP router")), "{:?}", outcome.degraded);
    }
}

#[test]
fn where_codes_come_through_nothing_is_said_and_either_meaning_of_them_does_the_same() {
    let [paper, swapped] = ["ect1-low", "ect0-low"].map(|codes| common::run(&plan("kept", codes)));
    assert_eq!(told(&paper), [""; 0]);
    let link = &paper.links[0];
    assert!(link.utilization > 0.85 && link.counts.dropped == 0 && link.queue.p90_packets <= 3, "{link:?}");
    assert_eq!(paper, swapped);
}

#[test]
fn when_codes_come_back_it_is_vcp_again() {
    let mut plan = plan("not-ect", "ect1-low");
    let kept = rampmeter_router::EcnPassage::Kept;
    let at = Time::ZERO + Duration::from_secs(10);
    plan.links[0].changes.push(rampmeter_scenario::Change { at, rate: None, delay: None, ecn: Some(kept) });
    let outcome = common::run(&plan);
    let link = &outcome.links[0]; // measured from 20 s on
    assert!(link.utilization > 0.85 && link.counts.dropped == 0 && link.queue.p90_packets <= 3, "{link:?}");
    assert_eq!(told(&outcome).len(), 1, "{:?}", outcome.degraded);
}
