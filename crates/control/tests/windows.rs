//! Properties of every window scheme, for any events in any order.

use proptest::collection::vec;
use proptest::prelude::*;
use rampmeter_control::testing::{self, PACKET, loss, mark};
use rampmeter_control::{Ack, AnyController, Controller, Loss, LossKind, Notice, Path, Registry, Sent};
use rampmeter_units::{Bytes, Duration, Random, Time};

/// The schemes that react once a window of data, with settings for their options.
const SCHEMES: [(&str, &str); 15] = [
    ("newreno", ""),
    ("hstcp", ""),
    ("hstcp", "max_ssthresh = 100"),
    ("scalable", ""),
    ("htcp", ""),
    ("htcp", "rtt_scaling = true"),
    ("bic", ""),
    ("cubic", ""),
    ("cubic", "slow_start = 'standard'"),
    ("cubic-2005", ""),
    ("fast", ""),
    ("fast", "alpha = 200"),
    ("vegas", ""),
    ("ledbat", ""),
    ("dctcp", ""),
];

fn started((name, settings): (&str, &str), first: u64) -> AnyController {
    let mut settings: toml::Table = settings.parse().unwrap();
    settings.insert("initial_window".into(), toml::Value::Integer(first as i64));
    let mut controller = Registry::default().factory(name, &settings).unwrap()(Random::from_seed(1));
    controller.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(80), None));
    controller
}

fn ack(bytes: u64, rtt: Duration, min_rtt: Duration) -> Ack<'static> {
    Ack { delivered: Bytes::new(bytes), rtt: Some(rtt), smoothed_rtt: rtt, min_rtt, ..testing::ack(1) }
}

#[test]
fn losses_and_marks_of_one_window_cause_one_reaction() {
    for scheme in SCHEMES {
        let mut controller = started(scheme, 100);
        controller.on_ack(Time::ZERO, &mark(3, 100));
        let reduced = controller.window();
        assert!(reduced < PACKET * 100 && reduced >= PACKET * 100 / 2, "{scheme:?}: {reduced}");
        controller.on_ack(Time::ZERO, &mark(4, 120));
        controller.on_loss(Time::ZERO, &loss(LossKind::Transient, 50, 120));
        controller.on_ack(Time::ZERO, &mark(100, 120));
        assert_eq!(controller.window(), reduced, "{scheme:?}");
        controller.on_loss(Time::ZERO, &loss(LossKind::Transient, 101, 150));
        assert!(controller.window() < reduced, "{scheme:?}");
    }
}

#[test]
fn a_mark_has_the_same_effect_as_a_loss() {
    for scheme in SCHEMES {
        let (mut marked, mut lost) = (started(scheme, 100), started(scheme, 100));
        marked.on_ack(Time::ZERO, &mark(3, 100));
        lost.on_loss(Time::ZERO, &loss(LossKind::Transient, 3, 100));
        assert_eq!(marked.window(), lost.window(), "{scheme:?}");
    }
}

#[test]
fn timeouts_and_long_idle_times_reset_the_window() {
    for scheme in SCHEMES {
        let mut controller = started(scheme, 10);
        for _ in 0..100 {
            controller.on_ack(Time::ZERO, &ack(1000, Duration::from_millis(80), Duration::from_millis(80)));
        }
        assert!(controller.window() > PACKET * 50, "{scheme:?}");
        controller.on_idle(Time::ZERO, Duration::from_secs(2), Duration::from_secs(1));
        assert_eq!(controller.window(), PACKET * 10, "{scheme:?}");
        controller.on_loss(Time::ZERO, &loss(LossKind::Persistent, 3, 100));
        assert_eq!(controller.window(), PACKET, "{scheme:?}");
    }
}

#[test]
fn a_pause_is_no_time_in_which_the_window_grows() {
    for name in ["cubic", "cubic-2005", "htcp"] {
        let windows = [0, 60].map(|pause| {
            let (mut controller, mut now) = (started((name, ""), 100), Time::ZERO);
            controller.on_loss(now, &loss(LossKind::Transient, 3, 100));
            for n in 0..400 {
                if n == 200 && pause > 0 {
                    let pause = Duration::from_secs(pause);
                    now += pause;
                    controller.on_idle(now, pause, pause);
                }
                now += Duration::from_millis(10);
                controller.on_ack(now, &ack(1000, Duration::from_millis(80), Duration::from_millis(80)));
            }
            controller.window()
        });
        assert_eq!(windows[0], windows[1], "{name}");
    }
}

/// The window in slow start after four round trips of 80 ms and eight of 160 ms.
fn window_as_delays_grow(scheme: (&str, &str)) -> Bytes {
    let mut controller = started(scheme, 10);
    let mut now = Time::ZERO;
    for rtt in [[80; 4].as_slice(), &[160; 8]].concat().into_iter().map(Duration::from_millis) {
        let packets = controller.window().as_u64() / PACKET.as_u64();
        for _ in 0..packets {
            now += rtt / packets;
            controller.on_ack(now, &ack(1000, rtt, Duration::from_millis(80)));
        }
    }
    controller.window()
}

#[test]
fn hystart_ends_the_slow_start_of_each_scheme_that_has_it() {
    for name in ["bic", "cubic", "cubic-2005", "dctcp", "hstcp", "htcp", "newreno", "scalable"] {
        let standard = window_as_delays_grow((name, "slow_start = 'standard'"));
        assert_eq!(standard, PACKET * (10 << 12), "{name} doubles it in each round trip");
        let hystart = window_as_delays_grow((name, "slow_start = 'hystart'"));
        assert!(hystart < PACKET * (10 << 7), "{name}: {hystart}"); // a quarter of that growth, five round trips long
    }
}

#[derive(Debug, Clone)]
enum Event {
    Acks { count: u64, bytes: u64, queue_ms: u64, recovering: bool, app_limited: bool },
    Loss { kind: LossKind, back: u64, recovering: bool, repeated_timeout: bool },
    Mark { back: u64, recovering: bool },
    Spurious,
    Pass { millis: u64 },
    Idle { millis: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    let kind = prop_oneof![Just(LossKind::Transient), Just(LossKind::Persistent)];
    prop_oneof![
        4 => (1..200u64, 1..9000u64, 0..300u64, any::<bool>(), any::<bool>()).prop_map(
            |(count, bytes, queue_ms, recovering, app_limited)| Event::Acks {
                count,
                bytes,
                queue_ms,
                recovering: recovering && app_limited,
                app_limited: app_limited && !recovering,
            }
        ),
        2 => (kind, 0..50u64, any::<bool>(), any::<bool>())
            .prop_map(|(kind, back, recovering, repeated_timeout)| Event::Loss { kind, back, recovering, repeated_timeout }),
        1 => (0..50u64, any::<bool>()).prop_map(|(back, recovering)| Event::Mark { back, recovering }),
        1 => Just(Event::Spurious),
        2 => (0..100_000u64).prop_map(|millis| Event::Pass { millis }),
        1 => (0..100_000u64).prop_map(|millis| Event::Idle { millis }),
    ]
}

proptest! {
    /// At least one packet, and at most the window of slow start, up to fractions of bytes.
    #[test]
    fn the_window_stays_in_bounds(scheme in 0..SCHEMES.len(), first in 1..200u64, events in vec(event(), 1..80)) {
        let mut controller = started(SCHEMES[scheme], first);
        let (mut now, mut number, mut acks, min_rtt) = (Time::ZERO, 0, 0, Duration::from_millis(80));
        for event in events {
            match event {
                Event::Acks { count, bytes, queue_ms, recovering, app_limited } => {
                    for _ in 0..count {
                        controller.on_sent(now, &Sent { number, bytes: PACKET, in_flight: PACKET });
                        number += 1;
                        now += Duration::from_micros(300);
                        let ack = ack(bytes, min_rtt + Duration::from_millis(queue_ms), min_rtt);
                        let before = controller.window();
                        controller.on_ack(now, &Ack { recovering, app_limited, ..ack });
                        prop_assert!(controller.window() <= before + PACKET + Bytes::new(1), "{:?}", SCHEMES[scheme]);
                        prop_assert!(controller.window() == before || !(recovering || app_limited));
                    }
                    acks += count;
                }
                Event::Loss { kind, back, recovering, repeated_timeout } => {
                    let before = controller.window();
                    let loss = loss(kind, number.saturating_sub(back), number);
                    controller.on_loss(now, &Loss { flight_size: before, recovering, repeated_timeout, ..loss });
                    prop_assert!(controller.window() <= before.max(PACKET * 2));
                }
                Event::Mark { back, recovering } => {
                    let before = controller.window();
                    let mark = mark(number.saturating_sub(back), number);
                    controller.on_ack(now, &Ack { flight_size: before, recovering, ..mark });
                    prop_assert!(controller.window() <= before.max(PACKET * 2));
                }
                Event::Spurious => controller.on_notice(now, Notice::SpuriousLoss),
                Event::Pass { millis } => now += Duration::from_millis(millis),
                Event::Idle { millis } => {
                    let idle = Duration::from_millis(millis);
                    now += idle;
                    controller.on_idle(now, idle, Duration::from_secs(1));
                }
            }
            let window = controller.window();
            prop_assert!(window >= PACKET && window <= PACKET * (first.max(2) + acks), "{window}");
        }
    }
}
