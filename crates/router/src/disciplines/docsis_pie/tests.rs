//! The numbers of RFC 8034, and which packets a cable modem drops.

use super::*;
use crate::router::tests::{ENVIRONMENT, TestParcel, ms};

// A millisecond at 8 Mb/s.
const PACKET: TestParcel = TestParcel::new(1, 1000);

fn modem(config: &Config) -> DocsisPie<TestParcel> {
    DocsisPie::new(config, ENVIRONMENT, Random::from_seed(1))
}

/// A queue of so many packets, each of a millisecond, that was as long at the last update; active.
fn congested(packets: u64, probability: f64) -> DocsisPie<TestParcel> {
    let mut modem = modem(&Config { bytes: Some(Bytes::new(1_000_000)), ..Config::default() });
    (0..packets).for_each(|_| modem.queue.push(ms(0), PACKET));
    modem.previous_delay = Duration::from_millis(packets);
    (modem.probability, modem.state) = (probability, State::Active);
    modem
}

#[test]
fn the_numbers_are_those_of_rfc_8034() {
    // Delays now and before in ms, p, and p after an update 16 ms later.
    for (delay, before, p, after) in [
        (30, 30, 0.05, 0.05 + 0.25 * 0.020 / 2.0),
        (20, 10, 0.05, 0.05 + (0.25 + 2.5) * 0.010 / 2.0),
        (10, 15, 0.05, 0.05 - 2.5 * 0.005 / 2.0),
        (12, 12, 0.005, 0.005 + 0.25 * 0.002 / 8.0),
        (12, 12, 0.000_5, 0.000_5 + 0.25 * 0.002 / 32.0),
        (12, 12, 0.000_05, 0.000_05 + 0.25 * 0.002 / 128.0),
        (12, 12, 0.000_005, 0.000_005 + 0.25 * 0.002 / 512.0),
        (12, 12, 0.0, 0.25 * 0.002 / 2048.0),
        (12, 12, 0.5, 0.5 + 0.25 * 0.002 * 2.0),
        (11, 11, 2.0, 2.0 + 0.25 * 0.001 * 8.0),
        (8, 8, 12.0, 12.0 - 0.25 * 0.002 * 32.0),
        (130, 10, 0.5, 0.52),
        (4, 4, 0.5, (0.5 - 0.25 * 0.006 * 2.0) * 0.98),
        (5, 4, 0.5, 0.5 + (-0.25 * 0.005 + 2.5 * 0.001) * 2.0),
        (201, 201, 0.5, 0.54),
        (200, 200, 0.5, 0.52),
        (900, 0, 13.59, 0.85 * 16.0),
    ] {
        let mut modem = congested(delay, p);
        modem.previous_delay = Duration::from_millis(before);
        modem.catch_up(ms(16));
        assert!((modem.probability - after).abs() < 1e-12, "{delay} {before} {p}: {}", modem.probability);
        assert_eq!(modem.update_at, ms(32));
    }
}

#[test]
fn drops_are_never_close_together_nor_far_apart() {
    let mut modem = congested(20, 0.1);
    let drops: Vec<u64> = (1..50_000).filter(|_| modem.chooses(Bytes::new(1024))).collect();
    let gaps: Vec<u64> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // 0.85 / 0.1 and 8.5 / 0.1 packets.
    assert!(gaps.iter().min() == Some(&9) && gaps.iter().max() <= Some(&86), "{gaps:?}");
}

#[test]
fn after_the_first_drop_142_ms_pass_without_drops() {
    let mut modem = congested(500, 5.0);
    modem.state = State::Quiescent(Duration::ZERO);
    while modem.enqueue(ms(0), PACKET) == Verdict::Queued {}
    // The time ends with the ninth update.
    for at in 0..144 {
        assert_eq!(modem.enqueue(ms(at), PACKET), Verdict::Queued, "{at} ms");
    }
    assert_eq!((modem.probability, modem.burst), (0.0, Duration::from_millis(14)));
    modem.catch_up(ms(144));
    assert_eq!((modem.probability, modem.burst), (0.0, Duration::ZERO));
    modem.catch_up(ms(160));
    assert!(modem.probability > 0.0);
}

#[test]
fn the_default_buffer_is_100_ms_at_the_rate() {
    let mut modem = modem(&Config::default());
    assert_eq!(modem.buffer(), Bytes::new(100_000));
    modem.on_rate(ms(1), Rate::from_bps(80_000_000));
    assert_eq!(modem.buffer(), Bytes::new(1_000_000));
    // An outage is no subscribed rate.
    modem.on_rate(ms(2), Rate::ZERO);
    assert_eq!(modem.buffer(), Bytes::new(1_000_000));
    modem.on_rate(ms(3), Rate::from_bps(64_000));
    assert_eq!(modem.buffer(), Bytes::new(3000));
    let buffer = Config { bytes: Some(Bytes::new(2500)), ..Config::default() };
    let mut small: DocsisPie<TestParcel> = DocsisPie::new(&buffer, ENVIRONMENT, Random::from_seed(1));
    let verdicts = [0; 3].map(|_| small.enqueue(ms(0), PACKET));
    assert_eq!(verdicts, [Verdict::Queued, Verdict::Queued, Verdict::Dropped(PACKET)]);
}
