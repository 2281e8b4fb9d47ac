//! Web pages compared with theory, on a path with a round trip of 20 ms.
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
