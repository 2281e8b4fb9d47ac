//! Web pages, remote procedure calls and media compared with theory, on a path with a round trip of 20 ms.
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

/// 2 Mb/s in 50 frames a second, 5 packets each. On a link of 8 Mb/s each frame takes 5 packet times after its
/// propagation of 10 ms.
#[test]
fn frames_on_a_fast_link_are_in_time() {
    let outcome = Dumbbell {
        bottleneck: SLOW,
        traffic: r#"arrivals = { count = 1 }, media = { rate = "2 Mb/s", frames = 50 }"#,
        ..Dumbbell::default()
    }
    .run();
    let report = outcome.flows[0].report;
    assert_eq!(report.late_share, Some(0.0));
    let delay = 0.010 + 5.0 * 0.001_054;
    assert!((report.frame_delay_p50_s.unwrap() / delay - 1.0).abs() < 0.01, "{report:?} {delay}");
    // The first frames wait for slow start; all of 10 s except for the last deadline are counted.
    assert!((493..=500).contains(&report.frames.unwrap()), "{report:?}");
}

/// A link with 0.759 Mb/s of data for frames of 1 Mb/s: the source falls behind by a quarter of the time, and after
/// less than a second every frame is late.
#[test]
fn frames_on_a_slow_link_are_late() {
    let outcome = Dumbbell {
        duration: "60 s",
        bottleneck: r#"rate = "800 kb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 40 }"#,
        traffic: r#"arrivals = { count = 1 }, media = { rate = "1 Mb/s" }"#,
        ..Dumbbell::default()
    }
    .run();
    let report = outcome.flows[0].report;
    assert!(report.late_share.unwrap() > 0.97, "{report:?}");
    // The last frame that counts waits for its age: a quarter of 60 s.
    assert!((12.0..16.0).contains(&report.frame_delay_p99_s.unwrap()), "{report:?}");
}
