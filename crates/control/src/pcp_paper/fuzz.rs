//! Any events in any order: no panic, rates within bounds, and always a next event.

use proptest::prelude::*;
use rampmeter_units::Ecn;

use super::*;

#[derive(Debug, Clone)]
enum Event {
    Path { packet: u64, rtt: u64, past: Option<(u64, f64)> },
    Sent { bytes: u64, skip: u64 },
    Ack { back: u64, count: u64, rtt: u64, delay: i64, growth: i64 },
    Loss { back: u64, kind: LossKind },
    Idle { idle: u64 },
    Deadline,
}

/// Mostly sensible, sometimes any number.
fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..100_000_000_u64, 1 => Just(0), 1 => any::<u64>()]
}

fn event() -> impl Strategy<Value = Event> {
    let past = proptest::option::of((any::<u64>(), prop_oneof![any::<f64>(), 0.0..1.0]));
    let delay = || prop_oneof![4 => -1_000_000..50_000_000_i64, 1 => any::<i64>()];
    let kind = prop_oneof![Just(LossKind::Persistent), Just(LossKind::Transient), Just(LossKind::Ecn)];
    prop_oneof![
        1 => (prop_oneof![0..2000_u64, any::<u64>()], nanos(), past)
            .prop_map(|(packet, rtt, past)| Event::Path { packet, rtt, past }),
        20 => (prop_oneof![9 => 0..1500_u64, 1 => any::<u64>()], prop_oneof![9 => Just(1), 1 => any::<u64>()])
            .prop_map(|(bytes, skip)| Event::Sent { bytes, skip }),
        20 => (0..20_u64, 1..8_u64, nanos(), delay(), delay())
            .prop_map(|(back, count, rtt, delay, growth)| Event::Ack { back, count, rtt, delay, growth }),
        2 => (0..20_u64, kind).prop_map(|(back, kind)| Event::Loss { back, kind }),
        1 => nanos().prop_map(|idle| Event::Idle { idle }),
        6 => Just(Event::Deadline),
    ]
}

fn apply(pcp: &mut PcpPaper, now: Time, number: &mut u64, event: &Event) {
    match *event {
        Event::Path { packet, rtt, past } => {
            let history =
                past.map(|(rate, trust)| History { trust, ..History::new(Rate::from_bps(rate), Duration::ZERO) });
            pcp.on_path(now, &Path::new(Bytes::new(packet), Duration::from_nanos(rtt), history));
        }
        Event::Sent { bytes, skip } => {
            *number = number.wrapping_add(skip);
            pcp.on_sent(now, &Sent { number: *number, bytes: Bytes::new(bytes), outstanding: Bytes::MAX });
        }
        Event::Ack { back, count, rtt, delay, growth } => {
            let rtt = Duration::from_nanos(rtt);
            let arrival = |i: u64| {
                let sent_at = now - rtt + Duration::from_micros(i);
                let delay = delay.wrapping_add(growth.wrapping_mul(i as i64));
                let received_at = Time::from_nanos(sent_at.as_nanos().wrapping_add_signed(delay));
                let number = number.wrapping_sub(back).wrapping_add(i);
                Arrival { number, bytes: Bytes::new(1000), sent_at, received_at, ecn: Ecn::NotEct }
            };
            let arrivals: Vec<Arrival> = (0..count).map(arrival).collect();
            let ack = Ack {
                acked: Bytes::new(1000),
                outstanding: Bytes::ZERO,
                rtt: Some(rtt),
                smoothed_rtt: rtt,
                min_rtt: rtt.scale(0.9),
                arrivals: &arrivals,
                named: true,
                feedback: RouterFeedback::None,
                recovering: false,
                app_limited: false,
            };
            pcp.on_ack(now, &ack);
        }
        Event::Loss { back, kind } => {
            let (number, bytes) = (number.wrapping_sub(back), Bytes::new(1000));
            let loss =
                Loss { kind, bytes, flight: bytes, number, last_sent: number, recovering: false, repeated: false };
            pcp.on_loss(now, &loss);
        }
        Event::Idle { idle } => pcp.on_idle(now, Duration::from_nanos(idle), Duration::from_millis(200)),
        Event::Deadline => pcp.on_deadline(now),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_order_of_events_leaves_a_rate_and_a_next_event(
        seed in any::<u64>(),
        round_trip in any::<bool>(),
        events in proptest::collection::vec((event(), nanos()), 1..120),
    ) {
        let mut pcp = PcpPaper::new(&Config { round_trip, ..Config::default() }, Stream::from_seed(seed));
        let (mut now, mut number, mut history) = (Time::ZERO, 0, None);
        pcp.on_path(now, &Path::new(Bytes::new(1250), Duration::from_millis(20), None));
        for (event, step) in &events {
            now += Duration::from_nanos(*step % 1_000_000_000);
            apply(&mut pcp, now, &mut number, event);
            pcp.remember(now, &mut history);
            let rate = pcp.rate().unwrap();
            prop_assert!(rate >= Rate::from_bps(1) && rate <= MAX_RATE + MAX_RATE, "{rate}");
            prop_assert!(pcp.departure().at < Time::MAX || pcp.deadline() < Time::MAX);
            prop_assert!(pcp.departure().bytes > Bytes::ZERO);
            if let Some(past) = history {
                let past: History = past;
                prop_assert!((0.0..=1.0).contains(&past.trust) && past.base_rate <= MAX_RATE);
            }
        }
    }
}
