//! VCP+: graded codes.

use super::*;
use crate::vcp_plus::{self, VcpPlus};

/// A sender with graded codes.
fn vcp_plus(rtt: Duration) -> VcpPlus {
    let mut vcp = VcpPlus::new(&vcp_plus::Config::default(), Random::from_seed(1));
    vcp.on_path(Time::ZERO, &Path::new(PACKET, rtt, None));
    vcp
}

/// A packet with the code of high load is acknowledged at `now`.
fn acknowledge(vcp: &mut VcpPlus, now: Time, rtt: Duration) {
    let arrivals = [Arrival { ecn: HIGH, bytes: PACKET, ..Arrival::default() }];
    vcp.on_ack(now, &Ack { arrivals: &arrivals, smoothed_rtt: rtt, min_rtt: rtt, app_limited: true, ..ack(1) });
}

#[test]
fn below_a_packet_a_pause_follows_each_acknowledgement() {
    let rtt = Duration::from_millis(80);
    let mut vcp = vcp_plus(rtt);
    vcp.window = 0.25;
    vcp.on_sent(ms(0), &Sent { number: 0, bytes: PACKET, in_flight: PACKET });
    // The packet waited 20 ms in a queue, which the smoothed round trip does not show yet.
    acknowledge(&mut vcp, ms(100), rtt);
    assert_eq!((vcp.window(), vcp.departure().at), (PACKET, ms(100) + rtt * 3));
}

/// Ten packets leave, each as soon as the pacer lets it.
fn send_ten(vcp: &mut VcpPlus) {
    for number in 0..10 {
        let at = vcp.departure().at.max(ms(0));
        vcp.on_sent(at, &Sent { number, bytes: PACKET, in_flight: PACKET });
    }
}

#[test]
fn a_graded_window_is_sent_in_half_of_a_round_trip() {
    let rtt = Duration::from_millis(80);
    let mut vcp = vcp_plus(rtt);
    send_ten(&mut vcp);
    assert_eq!(vcp.departure().at, ms(0) + rtt / 2);
}

// A flow that passes more queues has the same rate, so its window grows by the same part in a load interval.
#[test]
fn queues_count_as_part_of_a_graded_round_trip() {
    let (path, queued) = (Duration::from_millis(100), Duration::from_millis(200));
    let grown = |window: f64, smoothed_rtt| {
        let mut vcp = vcp_plus(path);
        vcp.window = window;
        let arrivals = [Arrival { ecn: HIGH, bytes: PACKET, ..Arrival::default() }];
        vcp.on_ack(ms(0), &Ack { arrivals: &arrivals, smoothed_rtt, min_rtt: path, ..ack(1) });
        vcp.window - window
    };
    assert_close(grown(16.0, queued), 2.0 * grown(8.0, path));
}
