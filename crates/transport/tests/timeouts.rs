//! Retransmission timeouts: a path that becomes longer than the timer, and an outage.

use rampmeter_transport::{Config, Recovery, Statistics};
use rampmeter_units::{Bytes, Duration, Rate};

use crate::common::{Pair, pattern};

/// The share of the bottleneck's rate that one long stream gets from 20 to 40 seconds after the path's round trip has grown
/// from 40 ms to `to`, and the sender's counters. The receive window is a second more than
/// the longest path, and nothing is lost.
fn after_a_jump(config: &Config, to: Duration) -> (f64, Statistics) {
    let rate = Rate::from_bps(2_000_000);
    let mut pair = Pair::new("newreno", config, 1);
    (pair.delay, pair.bottleneck) = (Duration::from_millis(20), Some((rate, Duration::from_secs(60))));
    pair.send(0, &pattern(30_000_000, 1));
    assert!(!pair.run(Duration::from_millis(500)));
    pair.delay = to / 2;
    assert!(!pair.run(Duration::from_secs(20)));
    let before = pair.ends[1].read.len();
    assert!(!pair.run(Duration::from_secs(20)));
    let arrived = Bytes::new((pair.ends[1].read.len() - before) as u64);
    let opener = &pair.ends[0];
    let statistics = opener.endpoint.connection(opener.connection.unwrap()).unwrap().statistics();
    (arrived.as_f64() / rate.bytes_in(Duration::from_secs(20)).as_f64(), statistics)
}

#[test]
fn a_flow_recovers_when_the_path_becomes_longer_than_the_timer() {
    for recovery in [Recovery::Sack, Recovery::NewReno, Recovery::Reno] {
        for tail_loss_probe in [false, true] {
            for to in [300, 640, 1500, 3000] {
                let receive_window = Bytes::new(1_000_000);
                let config = Config { recovery, tail_loss_probe, receive_window, ..Config::default() };
                let (share, statistics) = after_a_jump(&config, Duration::from_millis(to));
                let of =
                    format!("{recovery:?}, tail loss probe {tail_loss_probe}, {to} ms: {share:.3}, {statistics:?}");
                assert!(share > 0.95, "{of}"); // payload is 0.957 of a packet
                assert!(statistics.timeouts <= 3 && statistics.retransmitted <= 4, "{of}");
            }
        }
    }
}
