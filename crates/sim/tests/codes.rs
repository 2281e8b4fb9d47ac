//! Paths that change ECN codes: utilization and reports of VCP, and which other senders stop ECN.
//!
//! Of VCP: the bandwidth-delay product of 10 Mb/s and 20 ms is 24 packets, and so is the buffer: NewReno fills it (see
//! `steady.rs`). The link with the VCP router also changes the codes.

mod common;

use common::Dumbbell;
use rampmeter_scenario::{Outcome, Plan};
use rampmeter_units::{Duration, Ecn, Time};

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

fn reasons(outcome: &Outcome) -> Vec<&str> {
    outcome.degraded.iter().map(|degraded| degraded.reason.as_str()).collect()
}

#[test]
fn cleared_codes_make_vcp_fill_the_link_as_newreno_does() {
    for codes in ["ect1-low", "ect0-low"] {
        let outcome = common::run(&plan("not-ect", codes));
        assert!(outcome.links[0].utilization > 0.95, "{codes}: {:?}", outcome.links[0]);
        let [reason] = reasons(&outcome)[..] else { panic!("{:?}", outcome.degraded) };
        assert!(reason.contains("clears ECN codes"), "{reason}");
    }
}

#[test]
fn losses_under_constant_codes_make_vcp_behave_as_tcp() {
    for (ecn, codes) in [("ect1", "ect1-low"), ("ect0", "ect0-low"), ("ect0", "ect1-low"), ("ect1", "ect0-low")] {
        let outcome = common::run(&plan(ecn, codes));
        assert!(outcome.links[0].utilization > 0.7, "{ecn}, {codes}: {:?}", outcome.links[0]);
        // Constant low load fills the buffer within seconds. Constant high load adds a packet every 2 s, so three
        // losses take minutes.
        let low = (ecn == "ect1") == (codes == "ect1-low");
        assert_eq!(reasons(&outcome).len(), usize::from(low), "{ecn}, {codes}: {:?}", outcome.degraded);
        assert!(reasons(&outcome).iter().all(|reason| reason.contains("no VCP router")), "{:?}", outcome.degraded);
    }
}

#[test]
fn both_code_assignments_work_alike_on_a_clean_path() {
    let [paper, swapped] = ["ect1-low", "ect0-low"].map(|codes| common::run(&plan("kept", codes)));
    assert_eq!(reasons(&paper), [""; 0]);
    let link = &paper.links[0];
    assert!(link.utilization > 0.85 && link.counts.dropped == 0 && link.queue.p90_packets <= 3, "{link:?}");
    assert_eq!(paper, swapped);
}

#[test]
fn vcp_resumes_when_codes_return() {
    let mut plan = plan("not-ect", "ect1-low");
    let kept = rampmeter_router::EcnPassage::Kept;
    let at = Time::ZERO + Duration::from_secs(10);
    plan.links[0].changes.push(rampmeter_scenario::Change { at, rate: None, delay: None, ecn: Some(kept) });
    let outcome = common::run(&plan);
    let link = &outcome.links[0]; // measured from 20 s on
    assert!(link.utilization > 0.85 && link.counts.dropped == 0 && link.queue.p90_packets <= 3, "{link:?}");
    assert_eq!(reasons(&outcome).len(), 1, "{:?}", outcome.degraded);
}

/// ECN-capable senders, and the codes of their packets.
const CAPABLE: [(&str, Ecn); 4] = [
    (r#"controller = "prague""#, Ecn::Ect1),
    (r#"controller = "scream", settings = { l4s = true }"#, Ecn::Ect1),
    (r#"controller = "dctcp""#, Ecn::Ect0),
    (r#"controller = "cubic", transport = { ecn = "ect0" }"#, Ecn::Ect0),
];

/// One flow over a CoDel whose link does this to codes behind it.
fn over_codel(scheme: &'static str, ecn: &str) -> Outcome {
    let bottleneck =
        format!(r#"rate = "10 Mb/s", delay = "8 ms", router = {{ kind = "codel", packets = 1000 }}, ecn = "{ecn}""#);
    common::run(&Dumbbell { duration: "20 s", bottleneck: bottleneck.leak(), scheme, ..Dumbbell::default() }.plan())
}

#[test]
fn senders_stop_ecn_where_the_path_changes_codes() {
    for (scheme, code) in CAPABLE {
        for ecn in ["not-ect", if code == Ecn::Ect0 { "ect1" } else { "ect0" }] {
            let outcome = over_codel(scheme, ecn);
            let counts = outcome.links[0].counts;
            // The packets of the first round trip do not fill the path.
            assert!(counts.marked == 0 && counts.dropped > 0, "{scheme}, {ecn}: {counts:?}");
            let [reason] = reasons(&outcome)[..] else { panic!("{:?}", outcome.degraded) };
            assert!(reason.contains("changes ECN codes"), "{reason}");
        }
    }
}

/// A mark that becomes ECT(0) is another code for senders of ECT(1), and none for senders of ECT(0).
#[test]
fn lost_marks_are_visible_to_senders_of_ect1_only() {
    for (scheme, code) in CAPABLE {
        let outcome = over_codel(scheme, "marks-lost");
        let counts = outcome.links[0].counts;
        assert_eq!(counts.marked < 100, code == Ecn::Ect1, "{scheme}: {counts:?}");
        assert_eq!(reasons(&outcome).len(), usize::from(code == Ecn::Ect1), "{scheme}: {:?}", outcome.degraded);
    }
}

#[test]
fn paths_that_mark_everything_do_not_stop_ecn() {
    for (scheme, _) in CAPABLE {
        let outcome = over_codel(scheme, "ce");
        assert!(reasons(&outcome).is_empty(), "{scheme}: {:?}", outcome.degraded);
    }
}
