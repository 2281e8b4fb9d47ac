//! Completion times that follow from the topology, to the nanosecond. A header is 54 bytes, so a full packet carries
//! 1000.

mod common;

use common::Dumbbell;
use rampmeter_units::{Bytes, Duration};

const RTT: Duration = Duration::from_millis(20);

fn fct(dumbbell: &Dumbbell<'_>) -> Duration {
    let outcome = dumbbell.run();
    outcome.flows[0].fct.expect("the transfer ends")
}

/// At 8 Mb/s a byte takes a microsecond. `Syn`, `SynAck` and the acknowledgement that completes the handshake are
/// headers; the data packet waits for the last of them.
#[test]
fn one_packet_takes_a_round_trip_and_a_half() {
    let fct = fct(&Dumbbell {
        bottleneck: r#"rate = "8 Mb/s", delay = "8 ms", router = { kind = "drop-tail" }"#,
        traffic: r#"size = "1000 B", arrivals = { count = 1 }"#,
        ..Dumbbell::default()
    });
    let serializations = Duration::from_micros(54 + 54 + 54 + 1054);
    assert_eq!(fct, RTT + RTT / 2 + serializations);
}

/// Windows of 1, 2, 4, ... packets, one per round trip: after `k` round trips `2^k - 1` packets were sent, and one more
/// packet needs another round trip.
#[test]
fn slow_start_doubles_every_round_trip() {
    let of_packets = |traffic| {
        fct(&Dumbbell {
            scheme: r#"controller = "newreno", settings = { initial_window = 1 }"#,
            traffic,
            ..Dumbbell::default()
        })
    };
    let rounds = |k: u64| RTT + RTT * (k - 1) + RTT / 2;
    assert_eq!(of_packets("size = { packets = 1 }, arrivals = { count = 1 }"), rounds(1));
    assert_eq!(of_packets("size = { packets = 3 }, arrivals = { count = 1 }"), rounds(2));
    assert_eq!(of_packets("size = { packets = 63 }, arrivals = { count = 1 }"), rounds(6));
    assert_eq!(of_packets("size = { packets = 64 }, arrivals = { count = 1 }"), rounds(7));
}

/// 1054 bytes at 1 Mb/s: a packet every 8.432 ms.
#[test]
fn a_fixed_rate_spaces_its_packets_evenly() {
    let fct = fct(&Dumbbell {
        scheme: r#"controller = "fixed-rate", settings = { rate = "1 Mb/s" }"#,
        traffic: "size = { packets = 100 }, arrivals = { count = 1 }",
        ..Dumbbell::default()
    });
    assert_eq!(fct, RTT + Duration::from_micros(8432) * 99 + RTT / 2);
}

/// The bottleneck's delay increases from 8 to 18 ms after the first packet of a window of one. The second packet
/// arrives 10 ms later, and so does the acknowledgement of the first one.
#[test]
fn a_delay_change_applies_to_the_next_packet() {
    let fct = fct(&Dumbbell {
        bottleneck: r#"rate = "unlimited", delay = "8 ms", router = { kind = "drop-tail" }, changes = [{ at = "25 ms", delay = "18 ms" }]"#,
        scheme: r#"controller = "newreno", settings = { initial_window = 1 }"#,
        traffic: "size = { packets = 2 }, arrivals = { count = 1 }",
        more: "",
        ..Dumbbell::default()
    });
    // The first packet enters the bottleneck at 21 ms; its acknowledgement at 31 ms; the second packet at 41 ms or
    // later.
    let (reverse, forward) = (Duration::from_millis(20), Duration::from_millis(20));
    assert_eq!(fct, RTT + RTT / 2 + reverse + forward);
}

#[test]
fn the_whole_transfer_arrives_and_is_counted_once() {
    let outcome = Dumbbell {
        bottleneck: r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 10 }, loss = { per_packet = 0.02 }"#,
        hosts: 4,
        traffic: r#"size = "300 kB", arrivals = { count = 20, spread = "5 s" }"#,
        ..Dumbbell::default()
    }
    .run();
    assert_eq!(outcome.flows.len(), 20);
    for flow in &outcome.flows {
        assert!(flow.fct.is_some(), "{flow:?}");
        assert_eq!(flow.delivered, Bytes::new(300_000));
        assert_eq!(flow.sent_packets - flow.retransmitted_packets, 300);
    }
    assert!(outcome.flows.iter().any(|flow| flow.retransmitted_packets > 0));
}

/// Changes apply to both directions. The `SynAck` waits at the bottleneck for the end of an outage; the data packet arrives
/// half a round trip after it.
#[test]
fn a_packet_that_meets_an_outage_leaves_at_its_end() {
    let fct = fct(&Dumbbell {
        bottleneck: r#"rate = "unlimited", delay = "8 ms", router = { kind = "drop-tail" },
            changes = [{ at = "10 ms", rate = "0 b/s" }, { at = "500 ms", rate = "unlimited" }]"#,
        traffic: r#"size = "1000 B", arrivals = { count = 1 }"#,
        ..Dumbbell::default()
    });
    assert_eq!(fct, Duration::from_millis(500 + 8 + 1) + RTT / 2);
}
