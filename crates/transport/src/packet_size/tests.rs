use proptest::prelude::*;
use rampmeter_control::Arrival;

use super::*;

const BASE: u64 = 1228;

/// A search whose base is confirmed.
fn confirmed(max: u64) -> PacketSize {
    let mut size = PacketSize::new(Bytes::new(BASE), Bytes::new(max));
    size.on_feedback(Time::ZERO, &arrival(BASE, 0));
    size
}

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

fn arrival(bytes: u64, sent_at: u64) -> Change {
    let mut change = Change::default();
    change.arrivals.push(Arrival { bytes: Bytes::new(bytes), sent_at: ms(sent_at), ..Arrival::default() });
    change
}

fn loss(sent_at: u64) -> Change {
    let mut change = Change::default();
    change.large_lost = Some(ms(sent_at));
    change
}

/// Searches on a path that carries packets of up to `mtu` bytes. Returns the sizes of the probes.
fn search(size: &mut PacketSize, now: Time, mtu: u64) -> Vec<u64> {
    let mut probes = Vec::new();
    while let Some(probed) = size.due(now) {
        assert_eq!(size.due(now), None, "one at a time");
        size.on_probe(now, probed, probed.as_u64() <= mtu);
        probes.push(probed.as_u64());
    }
    probes
}

proptest! {
    #[test]
    fn a_search_ends_at_most_16_bytes_below_the_paths_size(mtu in BASE..=9500, max in 1000u64..=9216) {
        let mut size = confirmed(max);
        let probes = search(&mut size, Time::ZERO, mtu);
        let (found, max) = (size.size().as_u64(), max.max(BASE));
        prop_assert!(found <= mtu.min(max) && mtu.min(max) < found + STEP, "{} instead of {}", found, mtu);
        prop_assert!(probes.iter().all(|&probed| BASE < probed && probed <= max));
        // The maximum; the middle of at most ten common sizes, at most four times; then at most nine halvings of less
        // than 5000 bytes.
        prop_assert!(probes.len() <= (1 + 4 + 9) * usize::from(MAX_PROBES), "{} probes", probes.len());
    }

    #[test]
    fn whatever_happens_the_size_has_arrived_or_is_the_base(
        mtus in prop::collection::vec(BASE..=9216, 1..5),
        events in prop::collection::vec((0u8..4, 0u64..2_000, any::<bool>()), 1..300),
    ) {
        let mut size = PacketSize::new(Bytes::new(BASE), Bytes::new(9000));
        let (mut now, mut arrived, mut mtu) = (0, BASE, mtus.iter().cycle());
        for (event, pause, is_lost) in events {
            now += pause;
            match event {
                0 => {
                    let before = size.size();
                    let shrunk = size.on_feedback(ms(now), &loss(now.saturating_sub(100)));
                    prop_assert_eq!(shrunk, size.size() < before);
                    prop_assert!(!shrunk || size.size().as_u64() == BASE);
                }
                1 => drop(size.on_feedback(ms(now), &arrival(size.size().as_u64(), now.saturating_sub(50)))),
                _ => if let Some(probed) = size.due(ms(now)) {
                    let fits = !is_lost && probed.as_u64() <= *mtu.next().unwrap();
                    arrived = if fits { arrived.max(probed.as_u64()) } else { arrived };
                    prop_assert!(probed.as_u64() <= 9000 && probed > size.size());
                    size.on_probe(ms(now), probed, fits);
                },
            }
            prop_assert!((BASE..=arrived).contains(&size.size().as_u64()));
        }
    }
}

#[test]
fn the_maximum_and_common_sizes_are_tried_before_others() {
    assert_eq!(search(&mut confirmed(1500), Time::ZERO, 9000), [1500]);
    let mut size = confirmed(1500);
    assert_eq!(search(&mut size, Time::ZERO, 1492), [1500, 1500, 1500, 1452, 1480, 1492]);
    assert_eq!(size.size(), Bytes::new(1492));
}

#[test]
fn nothing_is_probed_before_a_full_packet_has_arrived() {
    let mut size = PacketSize::new(Bytes::new(BASE), Bytes::new(1500));
    assert_eq!(size.due(ms(1)), None);
    size.on_feedback(ms(1), &arrival(BASE - 1, 0));
    assert_eq!(size.due(ms(1)), None);
    size.on_feedback(ms(1), &arrival(BASE, 0));
    assert_eq!(size.due(ms(1)), Some(Bytes::new(1500)));
}

#[test]
fn a_larger_size_is_tried_again_after_ten_minutes() {
    let mut size = confirmed(1500);
    search(&mut size, ms(1), 1400);
    assert_eq!(search(&mut size, ms(600_000), 1500), []);
    assert_eq!(search(&mut size, ms(600_001), 1500), [1500]);
    assert_eq!(size.size(), Bytes::new(1500));
}

#[test]
fn the_interface_limits_the_search() {
    let mut size = confirmed(9000);
    size.limit(|| Bytes::new(1500));
    size.limit(|| unreachable!("once for a path"));
    assert_eq!(search(&mut size, ms(1), 9000), [1500]);
    size.on_new_path();
    size.limit(|| Bytes::new(4000));
    size.on_feedback(ms(2), &arrival(BASE, 1));
    assert_eq!(search(&mut size, ms(2), 9000), [4000]);
    for max in [100, 65_535] {
        let mut size = confirmed(1500);
        size.limit(|| Bytes::new(max));
        search(&mut size, ms(1), 9000);
        assert_eq!(size.size(), Bytes::new(if max == 100 { BASE } else { 1500 }));
    }
}

#[test]
fn two_losses_a_round_trip_apart_show_a_black_hole() {
    let mut size = confirmed(1500);
    search(&mut size, ms(1), 1500);
    assert!(!size.on_feedback(ms(120), &loss(50)));
    assert!(!size.on_feedback(ms(121), &loss(51)), "lost together with the first one");
    assert!(size.on_feedback(ms(240), &loss(130)));
    assert_eq!(size.size(), Bytes::new(BASE));
    assert_eq!(search(&mut size, ms(240), 1400), [], "the base is not confirmed yet");
    size.on_feedback(ms(300), &arrival(BASE, 250));
    search(&mut size, ms(300), 1400);
    assert_eq!(size.size(), Bytes::new(1400));
}

#[test]
fn a_probe_may_arrive_after_a_black_hole_was_seen() {
    let mut size = confirmed(1500);
    search(&mut size, ms(1), 1400);
    assert_eq!(size.due(ms(600_001)), Some(Bytes::new(1500)));
    size.on_feedback(ms(600_120), &loss(600_050));
    assert!(size.on_feedback(ms(600_240), &loss(600_130)));
    size.on_probe(ms(600_250), Bytes::new(1500), true);
    assert_eq!(size.size(), Bytes::new(1500));
}

#[test]
fn losses_between_arrivals_are_congestion() {
    let mut size = confirmed(1500);
    search(&mut size, ms(1), 1500);
    for round in 0..100 {
        let sent_at = round * 100;
        assert!(!size.on_feedback(ms(sent_at + 100), &loss(sent_at)));
        size.on_feedback(ms(sent_at + 101), &arrival(1500, sent_at + 1));
        assert!(!size.on_feedback(ms(sent_at + 102), &loss(sent_at + 1)), "sent before the last arrival");
    }
}
