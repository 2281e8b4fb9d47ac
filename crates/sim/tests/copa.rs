//! Copa's modes, on whole flows.

mod common;

use common::Dumbbell;

/// Section 3 of the paper: the queue of a flow is between 0 and `2.5 / delta` packets, 5, and half as many on average. Where
/// a bandwidth-delay product is a few packets it is never empty, as two packets are always in flight.
#[test]
fn a_lone_flow_has_a_short_queue_on_any_path() {
    for bottleneck in [
        r#"rate = "1 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 1000 }"#,
        r#"rate = "256 kb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 1000 }"#,
        r#"rate = "2 Mb/s", delay = "1 ms", router = { kind = "drop-tail", packets = 1000 }"#,
        r#"rate = "5 Mb/s", delay = "1 ms", router = { kind = "drop-tail", packets = 1000 }"#,
        r#"rate = "10 Mb/s", delay = "0 ms", router = { kind = "drop-tail", packets = 1000 }"#,
        r#"rate = "50 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 1000 }"#,
    ] {
        let scheme = r#"controller = "copa""#;
        let outcome = Dumbbell { duration: "40 s", warmup: "10 s", bottleneck, scheme, ..Dumbbell::default() }.run();
        let link = &outcome.links[0];
        assert!((1.0..=5.0).contains(&link.queue.mean_packets), "{bottleneck}: {link:?}");
        assert!(link.counts.dropped == 0 && link.utilization > 0.98, "{bottleneck}: {link:?}");
    }
}

/// Two equal flows have 5 Mb/s each. Section 5.4 of the paper finds that Copa's share beside CUBIC is close to that.
#[test]
fn beside_cubic_a_flow_competes() {
    let bottleneck = r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 48 }"#;
    let more = r#"
[scheme.cubic]
controller = "cubic"
[[traffic]]
name = "cubic"
scheme = "cubic"
from = "source"
to = "sink"
arrivals = { count = 1 }
"#;
    let scheme = r#"controller = "copa""#;
    let outcome = Dumbbell { duration: "60 s", warmup: "20 s", bottleneck, scheme, more, ..Dumbbell::default() }.run();
    let copa = outcome.flows[0].delivered_measured.as_f64() * 8.0 / 40.0;
    assert!((3e6..7e6).contains(&copa), "{copa} b/s");
}
