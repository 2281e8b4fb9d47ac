//! VCP+: graded codes.

use super::*;
use crate::vcp_plus::{self, VcpPlus};

/// A sender with graded codes.
fn vcp_plus(rtt: Duration) -> VcpPlus {
    let mut vcp = VcpPlus::new(&vcp_plus::Config::default(), Stream::from_seed(1));
    vcp.on_path(Time::ZERO, &Path::new(PACKET, rtt, None));
    vcp
}

#[test]
fn overload_shrinks_an_application_limited_vcp_plus_window() {
    let mut vcp = vcp_plus(Duration::from_millis(80));
    for (code, shrinks) in [(HIGH, false), (Ecn::Ce, true)] {
        let arrivals = [Arrival { ecn: code, bytes: PACKET, ..Arrival::default() }];
        let rtt = Duration::from_millis(80);
        let before = vcp.window;
        vcp.on_ack(ms(0), &Ack { arrivals: &arrivals, smoothed_rtt: rtt, min_rtt: rtt, app_limited: true, ..ack(1) });
        assert_eq!(vcp.window < before, shrinks);
        assert!(vcp.window <= before);
    }
    assert_eq!(vcp.window(), PACKET * (vcp.window.ceil() as u64 + 1));
    assert!(vcp.rate().is_some(), "always paced");
}

// A packet adds 1 / (x + 8) with x = 8 packets in a load interval.
#[test]
fn with_graded_codes_half_a_packet_has_half_the_effect() {
    let rtt = Duration::from_millis(200);
    let mut vcp = vcp_plus(rtt);
    vcp.window = 8.0;
    let arrivals = [Arrival { ecn: HIGH, ..Arrival::default() }];
    let ack = Ack { arrivals: &arrivals, smoothed_rtt: rtt, min_rtt: rtt, delivered: PACKET / 2, ..ack(1) };
    vcp.on_ack(ms(0), &ack);
    assert_close(vcp.window, 8.0 + 0.5 / 16.0);
}

// The first overload comes before any report, and 16 more take 3.2 s.
#[test]
fn with_graded_codes_one_overload_an_interval_counts() {
    let rtt = Duration::from_millis(20);
    let mut vcp = vcp_plus(rtt);
    let arrivals = [Arrival { ecn: Ecn::Ce, ..Arrival::default() }];
    for tenth in 0..=32 {
        assert_eq!(vcp.fault(), None, "{tenth}");
        vcp.on_ack(ms(tenth * 100), &Ack { arrivals: &arrivals, smoothed_rtt: rtt, min_rtt: rtt, ..ack(1) });
    }
    assert_eq!(vcp.fault(), Some(PathFault::OnlyOverload));
}

// With VCP's two packets, flows whose windows are smaller would lose packets again as soon as they return.
#[test]
fn with_graded_codes_a_loss_halves_a_window_below_a_packet() {
    for kind in [LossKind::Transient, LossKind::Persistent] {
        let mut vcp = vcp_plus(Duration::from_millis(1));
        vcp.window = 0.8;
        vcp.on_loss(ms(0), &loss(kind));
        assert_close(vcp.window, 0.4);
        let mut vcp = with_window(10);
        vcp.window = 0.8;
        vcp.on_loss(ms(0), &loss(kind));
        assert_close(vcp.window, 0.8);
    }
}
