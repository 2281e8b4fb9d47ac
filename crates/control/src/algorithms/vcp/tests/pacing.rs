//! Packets that are spread over the round trip.

use super::*;

/// Sends a hundred packets as soon as each is permitted, and returns the time that takes.
fn hundred_packets(vcp: &mut Vcp, rtt: Duration) -> Duration {
    vcp.on_path(ms(0), &Path::new(PACKET, rtt, None));
    for number in 0..100 {
        let at = vcp.departure().at.max(ms(0));
        vcp.on_sent(at, &Sent { number, bytes: PACKET, in_flight: PACKET });
    }
    vcp.departure().at.since(ms(0))
}

#[test]
fn packets_are_spread_over_long_round_trips() {
    let second = Duration::from_secs(1);
    assert_eq!(hundred_packets(&mut with_window(50), second), second * 2);
    for window in [1, 50] {
        assert_eq!(hundred_packets(&mut with_window(window), Duration::from_millis(200)), Duration::ZERO);
    }
    for (pacing, duration) in [(Pacing::Never, Duration::ZERO), (Pacing::Always, Duration::from_millis(200))] {
        let config = Config { initial_window: 50, pacing, ..Config::default() };
        assert_eq!(hundred_packets(&mut vcp(&config), Duration::from_millis(100)), duration);
    }
}

#[test]
fn a_window_of_half_a_packet_sends_one_every_second_round_trip() {
    let mut vcp = with_window(1);
    vcp.window = 0.5;
    let rtt = Duration::from_millis(10);
    assert_eq!(hundred_packets(&mut vcp, rtt), rtt * 200);
    assert_eq!(vcp.window(), PACKET);
}
