//! Web pages and remote procedure calls compared with theory, on a path with a round trip of 20 ms.
//!
//! The bottleneck carries 1000 bytes of data in a packet of 1054. Access links are unlimited.

mod common;

use common::Dumbbell;

/// 8 Mb/s: a packet takes 1.054 ms.
const SLOW: &str = r#"rate = "8 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 1000 }"#;

/// A page that is a document of about 100 kB: a handshake, and half a round trip until the server knows that it is open
/// at the browser; a request; the document.
#[test]
fn a_document_takes_three_round_trips_and_its_bytes() {
    let outcome = Dumbbell {
        bottleneck: SLOW,
        scheme: r#"controller = "newreno", settings = { initial_window = 1000 }"#,
        traffic: r#"arrivals = { count = 1 }, web = { objects = 0, document = "100 kB" }"#,
        ..Dumbbell::default()
    }
    .run();
    let flow = &outcome.flows[0];
    let packets = flow.delivered.as_f64() / 1000.0;
    let load_time = flow.fct.unwrap().as_secs_f64();
    let bytes = (flow.delivered.as_f64() + packets.ceil() * 54.0) * 8.0 / 8e6;
    // A round trip for the handshake, half of one until the browser sends, and a round trip for request and response.
    let expected = 0.020 + 0.010 + 0.020 + bytes;
    assert!((load_time / expected - 1.0).abs() < 0.03, "{load_time} {expected}");
}

/// On a fast path with large windows only round trips count: those of the handshake, and one for each object in the
/// longest chain.
#[test]
fn a_deep_page_takes_a_round_trip_for_each_level() {
    for (depth, traffic) in [
        (1.0, "arrivals = { count = 1 }, web = { objects = 60, depth = 1 }"),
        (2.0, "arrivals = { count = 1 }, web = { objects = 60, depth = 2 }"),
        (3.0, "arrivals = { count = 1 }, web = { objects = 60, depth = 3 }"),
    ] {
        let scheme = r#"controller = "newreno", settings = { initial_window = 20000 }"#;
        let outcome = Dumbbell { scheme, traffic, ..Dumbbell::default() }.run();
        let load_time = outcome.flows[0].fct.unwrap().as_secs_f64();
        let expected = 0.020 + 0.010 + 0.020 * (depth + 1.0);
        assert!((load_time - expected).abs() < 0.002, "{depth}: {load_time} {expected}");
    }
}

/// The slowdown of a transfer that is alone, with a window that is large enough, is 1.
#[test]
fn a_transfer_on_an_idle_path_has_no_slowdown() {
    for traffic in [
        r#"arrivals = { count = 1 }, size = "500 B""#,
        r#"arrivals = { count = 1 }, size = "10 kB""#,
        r#"arrivals = { count = 1 }, size = "1 MB""#,
    ] {
        let scheme = r#"controller = "newreno", settings = { initial_window = 2000 }"#;
        let plan = Dumbbell { bottleneck: SLOW, scheme, traffic, ..Dumbbell::default() }.plan();
        let outcome = common::run(&plan);
        let run = rampmeter_scenario::Run { plan, outcome, world: "simulated", wall_s: 0.0 };
        let summary = rampmeter_scenario::Summary::of(&rampmeter_scenario::Schema::default(), &run);
        let slowdown = summary.flows.number("slowdown_mean").unwrap();
        // The packets of the handshake take 0.1 ms.
        assert!((1.0..1.006).contains(&slowdown), "{traffic}: {slowdown}");
    }
}

/// Arrivals with a `load` of a published distribution offer that part of the link. A few large flows dominate: within a tenth.
#[test]
fn published_sizes_offer_their_load() {
    let outcome = Dumbbell {
        duration: "400 s",
        bottleneck: r#"rate = "100 Mb/s", delay = "8 ms", router = { kind = "drop-tail" }"#,
        traffic: r#"size = { distribution = "hadoop" }, arrivals = { load = 0.4, of = "bottleneck" }"#,
        ..Dumbbell::default()
    }
    .run();
    let utilization = outcome.links[0].utilization;
    assert!((utilization / 0.4 - 1.0).abs() < 0.1, "{utilization}");
}
