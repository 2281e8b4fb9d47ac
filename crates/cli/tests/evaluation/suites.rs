//! Conformance suites pass the controller of that name, and fail others exactly where these differ.

use super::{Study, failing};

/// CUBIC with one constant changed, and NewReno.
#[test]
fn the_suite_of_cubic_knows_it_from_others() {
    let expected: [(&str, &str, &[&str]); 3] = [
        ("window-100ms-10000", "path = '100ms'\nevery = 10000", &["halves", "newreno", "steeper"]),
        ("decrease", "path = '100ms'\nevery = 1000", &["halves", "newreno"]),
        ("beside-reno", "path = '20M-20ms'\nseed = [1]", &[]),
    ];
    let definitions = "
        [scheme.halves]
        controller = 'cubic'
        settings = { beta = 0.5 }
        [scheme.steeper]
        controller = 'cubic'
        settings = { c = 4.0 }
    ";
    let names = ["cubic", "halves", "newreno", "steeper"];
    let evaluation =
        Study::new("cubic", "cubic").evaluate(&expected.map(|(id, at, _)| (id, at)), &names, definitions, &[1]);
    for (id, _, expected) in expected {
        assert_eq!(failing(&evaluation, id), expected, "{id}");
    }
}

#[test]
fn the_suite_of_bbr_knows_it_from_others() {
    let expected: [(&str, &str, &[&str]); 3] = [
        ("one-percent", "loss = [0.0, 0.01]\nlate = 0.0", &["cubic"]),
        ("five-percent", "loss = [0.0, 0.05]\nlate = 0.0", &["bbr1"]),
        ("shallow-losses", "path = 'fifth'\nflows = 4", &["bbr1"]),
    ];
    let evaluation = Study::new("bbr", "bbr").evaluate(
        &expected.map(|(id, at, _)| (id, at)),
        &["bbr", "bbr1", "cubic"],
        "[scheme]",
        &[1],
    );
    for (id, _, expected) in expected {
        assert_eq!(failing(&evaluation, id), expected, "{id}");
    }
}

/// DCTCP sends ECT(0), so it waits in the classic queue. Neither it nor Prague detects a classic router.
#[test]
fn the_suite_of_l4s_knows_prague_from_others() {
    let expected: [(&str, &str, &[&str]); 7] = [
        ("steady-marks", "flows = 1\npath = ['dualpi2-slow', 'dualpi2-fast']", &["cubic"]),
        ("delay", "flows = 1\npath = 'dualpi2'", &["cubic", "dctcp"]),
        ("step-queue", "flows = 1\npath = 'reference'", &["cubic"]),
        ("beside-cubic-classic-marks", "path = 'codel'", &["dctcp", "prague"]),
        ("round-trips", "", &["cubic", "dctcp"]),
        ("near-flows", "flows = 10\npath = 'near'", &["cubic", "dctcp"]),
        ("classic-share", "path = 'dualpi2'", &["dctcp"]),
    ];
    let evaluation = Study::new("l4s", "l4s").evaluate(
        &expected.map(|(id, at, _)| (id, at)),
        &["prague", "dctcp", "cubic"],
        "[scheme]",
        &[1],
    );
    for (id, _, expected) in expected {
        assert_eq!(failing(&evaluation, id), expected, "{id}");
    }
}
