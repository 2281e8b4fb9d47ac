//! VCP+: graded codes.

use super::*;
use crate::vcp_plus::{self, VcpPlus};

/// A sender with graded codes.
fn vcp_plus(rtt: Duration) -> VcpPlus {
    let mut vcp = VcpPlus::new(&vcp_plus::Config::default(), Random::from_seed(1));
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
    assert!(vcp.rate().is_some(), "always paced");
}

/// A packet with the code of high load is acknowledged at `now`.
fn acknowledge(vcp: &mut VcpPlus, now: Time, rtt: Duration) {
    let arrivals = [Arrival { ecn: HIGH, bytes: PACKET, ..Arrival::default() }];
    vcp.on_ack(now, &Ack { arrivals: &arrivals, smoothed_rtt: rtt, min_rtt: rtt, app_limited: true, ..ack(1) });
}

#[test]
fn a_graded_window_is_rounded_anew_every_ten_intervals() {
    let mut vcp = vcp_plus(Duration::from_millis(80));
    vcp.window = 6.3;
    let mut windows = Vec::new();
    for rounding in 0..1000 {
        for interval in 0..10 {
            acknowledge(&mut vcp, ms(2000 * rounding + 200 * interval), Duration::from_millis(80));
            windows.push(vcp.window().as_u64() / PACKET.as_u64());
        }
    }
    let mean = windows.iter().sum::<u64>() as f64 / windows.len() as f64;
    assert!((6.25..6.35).contains(&mean), "{mean}");
    assert!(windows.chunks(10).all(|kept| kept.iter().all(|window| window == &kept[0])));
    let kept: Vec<u64> = windows.chunks(10).map(|kept| kept[0]).collect();
    let changes = kept.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((370..470).contains(&changes), "{changes} of 999"); // 2 * 0.3 * 0.7; a standard deviation is about 16
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

// At 1.5 s, 7.5 load intervals, one interval is without packets.
#[test]
fn a_graded_windows_long_round_trip_has_one_empty_interval() {
    let rtt = Duration::from_millis(1500);
    let mut vcp = vcp_plus(rtt);
    send_ten(&mut vcp);
    let silent = rtt - vcp.departure().at.since(ms(0));
    assert!(silent.as_nanos().abs_diff(200_000_000) < 100_000, "{silent}"); // rates are whole bits per second
}

#[test]
fn below_a_packet_a_pause_follows_a_timeout_but_not_the_next() {
    let rtt = Duration::from_millis(80);
    let mut vcp = vcp_plus(rtt);
    vcp.window = 0.4;
    vcp.on_loss(ms(1000), &loss(LossKind::Persistent));
    let next = ms(1000) + rtt * 4; // the window is 0.2
    assert_eq!(vcp.departure().at, next);
    vcp.on_loss(ms(3000), &Loss { repeated_timeout: true, ..loss(LossKind::Persistent) });
    assert_eq!(vcp.departure().at, next);
}

#[test]
fn without_codes_the_graded_window_limits_too() {
    let rtt = Duration::from_millis(80);
    let mut vcp = vcp_plus(rtt);
    let arrivals = [Arrival { ecn: Ecn::NotEct, bytes: PACKET, ..Arrival::default() }];
    for _ in 0..20 {
        vcp.on_ack(ms(0), &Ack { arrivals: &arrivals, smoothed_rtt: rtt, min_rtt: rtt, ..ack(1) });
    }
    assert_eq!(vcp.fault(), Some(PathFault::ClearsCodes));
    let packets = vcp.window().as_f64() / PACKET.as_f64();
    assert!((packets - vcp.window).abs() <= 1.0, "{packets} {}", vcp.window);
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

#[test]
fn graded_codes_replace_slow_start_after_a_timeout() {
    let mut vcp = vcp_plus(Duration::from_millis(80));
    vcp.on_loss(ms(0), &loss(LossKind::Persistent));
    assert!(vcp.window < vcp.threshold);
    assert_eq!(vcp.state(), "router_feedback");
}
