//! Any events in any order, for every controller: it does not panic, and it always has a next event.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rampmeter_control::registry::Factory;
use rampmeter_control::{Ack, Arrival, Controller, History, Loss, LossKind, MarkCount, Notice, Path, Registry, Sent};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

/// Settings that change the reaction to events, or that a controller requires.
const VARIANTS: [(&str, &str); 9] = [
    ("fixed-rate", "rate = '1 Mb/s'"),
    ("pcp", "round_trip = true"),
    ("pcp-paper", "round_trip = true"),
    ("vcp", "tcp_friendly = true"),
    ("cubic", "slow_start = 'standard'"),
    ("newreno", "initial_window = 1"),
    ("ledbat", "variant = 'ledbat'"),
    ("scream", "l4s = true"),
    ("stable", "initial_window = 1.0"),
];

/// The maximum base rate of PCP; a probe of `pcp-paper` tests up to twice that.
const MAX_RATE: Rate = Rate::from_bps(100_000_000_000);

#[derive(Debug, Clone)]
enum Event {
    Path {
        packet: u64,
        rtt: u64,
        past: Option<(u64, f64)>,
    },
    Sent {
        bytes: u64,
        skip: u64,
    },
    Unsent {
        bytes: u64,
    },
    Discarded,
    Ack {
        back: u64,
        count: u64,
        rtt: u64,
        delay: i64,
        growth: i64,
        codes: u64,
        has_receipts: bool,
        recovering: bool,
        app_limited: bool,
    },
    Loss {
        back: u64,
        kind: LossKind,
        recovering: bool,
        repeated_timeout: bool,
    },
    Spurious,
    Idle {
        idle: u64,
    },
    Stall {
        since: u64,
    },
    AppLimited,
    Deadline,
}

/// Mostly realistic times, sometimes any up to eleven days.
fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..100_000_000_u64, 1 => Just(0), 1 => 0..1_000_000_000_000_000_u64]
}

fn event() -> impl Strategy<Value = Event> {
    let past = proptest::option::of((any::<u64>(), prop_oneof![any::<f64>(), 0.0..1.0]));
    let delay = || prop_oneof![4 => -1_000_000..50_000_000_i64, 1 => any::<i64>()];
    let kind = prop_oneof![Just(LossKind::Persistent), Just(LossKind::Transient)];
    let size = || prop_oneof![9 => 0..1500_u64, 1 => 0..65_536_u64];
    prop_oneof![
        1 => (1..65_536_u64, nanos(), past)
            .prop_map(|(packet, rtt, past)| Event::Path { packet, rtt, past }),
        20 => (size(), prop_oneof![9 => Just(1), 1 => any::<u64>()])
            .prop_map(|(bytes, skip)| Event::Sent { bytes, skip }),
        1 => size().prop_map(|bytes| Event::Unsent { bytes }),
        1 => Just(Event::Discarded),
        20 => ((0..20_u64, 1..8_u64, nanos(), delay(), delay()), (any::<u64>(), any::<bool>(), any::<bool>(), any::<bool>()))
            .prop_map(|((back, count, rtt, delay, growth), (codes, has_receipts, recovering, app_limited))| {
                Event::Ack { back, count, rtt, delay, growth, codes, has_receipts, recovering, app_limited }
            }),
        2 => (0..20_u64, kind, any::<bool>(), any::<bool>())
            .prop_map(|(back, kind, recovering, repeated_timeout)| Event::Loss { back, kind, recovering, repeated_timeout }),
        1 => Just(Event::Spurious),
        1 => nanos().prop_map(|idle| Event::Idle { idle }),
        1 => nanos().prop_map(|since| Event::Stall { since }),
        1 => Just(Event::AppLimited),
        6 => Just(Event::Deadline),
    ]
}

fn apply(controller: &mut impl Controller, now: Time, number: &mut u64, event: &Event) {
    match *event {
        Event::Path { packet, rtt, past } => {
            let history = past.map(|(rate, trust)| History {
                trust,
                competing_traffic: trust, // any number, also below
                competitive_rate: Rate::from_bps(rate),
                variation: Duration::from_nanos(rate),
                ..History::new(Rate::from_bps(rate), Duration::ZERO)
            });
            controller.on_path(now, &Path::new(Bytes::new(packet), Duration::from_nanos(rtt), history));
        }
        Event::Sent { bytes, skip } => {
            *number = number.wrapping_add(skip);
            controller.on_sent(now, &Sent { number: *number, bytes: Bytes::new(bytes), in_flight: Bytes::MAX });
        }
        Event::Unsent { bytes } => controller.on_notice(now, Notice::Unsent(Bytes::new(bytes))),
        Event::Discarded => controller.on_notice(now, Notice::Discarded),
        Event::Ack { back, count, rtt, delay, growth, codes, has_receipts, recovering, app_limited } => {
            let rtt = Duration::from_nanos(rtt);
            let arrival = |i: u64| {
                let sent_at = now - rtt + Duration::from_micros(i);
                let delay = delay.wrapping_add(growth.wrapping_mul(i as i64));
                let received_at = Time::from_nanos(sent_at.as_nanos().wrapping_add_signed(delay));
                let number = number.wrapping_sub(back).wrapping_add(i);
                let ecn = Ecn::from_bits((codes >> (2 * i)) as u8 & 0b11);
                Arrival { number, bytes: Bytes::new(1000), sent_at, received_at, ecn }
            };
            let feedback = match codes % 3 {
                0 => RouterFeedback::None,
                1 => RouterFeedback::FairShare { share: Rate::from_bps(codes), queue: Bytes::new(codes % 99_999) },
                _ => RouterFeedback::Xcp { window: Bytes::new(codes % 99_999), rtt, change: growth },
            };
            let arrivals: Vec<Arrival> = (0..count).map(arrival).collect();
            let ack = Ack {
                delivered: Bytes::new(1000),
                in_flight: Bytes::ZERO,
                rtt: has_receipts.then_some(rtt),
                smoothed_rtt: rtt,
                min_rtt: rtt.scale(0.9),
                arrivals: if has_receipts { &arrivals } else { &[] },
                mark_count: (!has_receipts)
                    .then_some(MarkCount { marks: codes % 4, number: number.wrapping_sub(back) }),
                feedback,
                flight_size: Bytes::new(1000 * count),
                last_sent: *number,
                recovering,
                app_limited,
                nothing_to_send: app_limited,
            };
            controller.on_ack(now, &ack);
        }
        Event::Loss { back, kind, recovering, repeated_timeout } => {
            let (number, last_sent, bytes) = (number.wrapping_sub(back), *number, Bytes::new(1000));
            controller.on_loss(
                now,
                &Loss { kind, bytes, flight_size: bytes, number, last_sent, recovering, repeated_timeout },
            );
        }
        Event::Spurious => controller.on_notice(now, Notice::SpuriousLoss),
        Event::Idle { idle } => controller.on_idle(now, Duration::from_nanos(idle), Duration::from_millis(200)),
        Event::Stall { since } => controller.on_notice(now, Notice::Stall { since: now - Duration::from_nanos(since) }),
        Event::AppLimited => controller.on_notice(now, Notice::AppLimited),
        Event::Deadline => controller.on_deadline(now),
    }
}

/// Checks the invariants of a controller of `factory`. The rates of PCP are always within bounds. The rates of others
/// follow from a window, and are unlimited where the round trip is zero.
fn check_invariants(factory: &Factory, is_pcp: bool) -> Result<(), String> {
    let past = proptest::option::of(Just(History {
        competing_traffic: 1.0,
        ..History::new(Rate::from_bps(10_000_000), Duration::from_millis(2))
    }));
    let events = proptest::collection::vec((event(), nanos()), 1..120);
    let inputs = (any::<u64>(), 0..86_400_000_000_000_u64, past, events);
    let config = ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&inputs, |(seed, time_of_day, past, events)| {
        let mut controller = factory(Random::from_seed(seed));
        let (mut now, mut number, mut history) = (Time::from_nanos(time_of_day), 0, None);
        controller.on_path(now, &Path::new(Bytes::new(1250), Duration::from_millis(20), past));
        for (event, step) in &events {
            now += Duration::from_nanos(*step % 1_000_000_000);
            apply(&mut controller, now, &mut number, event);
            controller.remember(now, &mut history);
            if is_pcp {
                let rate = controller.rate().unwrap();
                prop_assert!(rate >= Rate::from_bps(1) && rate <= MAX_RATE + MAX_RATE, "{rate}");
            }
            let departure = controller.departure();
            prop_assert!(departure.at < Time::MAX || controller.deadline() < Time::MAX, "no packet would ever be sent");
            prop_assert!(departure.bytes > Bytes::ZERO && controller.window() > Bytes::ZERO);
            if let Some(History { trust, base_rate, .. }) = history {
                prop_assert!((0.0..=1.0).contains(&trust) && (!is_pcp || base_rate <= MAX_RATE), "{history:?}");
            }
        }
        Ok(())
    });
    outcome.map_err(|violation| violation.to_string())
}

#[test]
fn any_events_in_any_order_leave_a_next_event() {
    let registry = Registry::default();
    let defaults = registry.list().map(|(name, _)| (name, "")).filter(|(name, _)| *name != "fixed-rate");
    for (name, settings) in defaults.chain(VARIANTS) {
        let factory = registry.factory(name, &settings.parse().unwrap()).unwrap();
        if let Err(violation) = check_invariants(&factory, name.starts_with("pcp")) {
            panic!("{name} with {settings:?}: {violation}");
        }
    }
}
