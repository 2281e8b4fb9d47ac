//! What limits a connection, of two endpoints.

use rampmeter_transport::Config;
use rampmeter_units::{Bytes, Duration};
use rampmeter_wire::Kind;

use crate::common::{Pair, pattern};

/// The peer acknowledges the 10 kB of its first window, and all its later windows are closed.
#[test]
fn a_window_that_never_opens_limits_a_connection() {
    let config = Config { receive_window: Bytes::new(10_000), ..Config::default() };
    let mut pair = Pair::new("newreno", &config, 1);
    pair.lie = Box::new(|_, from, packet| {
        if from == 1 && packet.kind == Kind::Data {
            packet.window = 0;
        }
    });
    pair.send(0, &pattern(100_000, 1));
    assert!(!pair.run(Duration::from_secs(60)));
    assert_eq!(pair.ends[1].read.len(), 10_000);
    let limits = pair.ends[0].endpoint.connection(pair.ends[0].connection.unwrap()).unwrap().statistics().limits;
    assert!(limits.busy > Duration::from_secs(58), "{limits:?}");
    assert!(limits.receive_window_share().unwrap() > 0.99, "{limits:?}");
}
