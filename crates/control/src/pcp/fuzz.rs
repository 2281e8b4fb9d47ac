//! Whatever happens in whatever order, PCP keeps its promises: no panic, a rate within bounds, something always to come.

use proptest::prelude::*;
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;

use super::{Config, Pcp};
use crate::{Ack, Algorithm, Arrival, Controller, History, Loss, LossKind, Path, Sent};

#[derive(Debug, Clone)]
enum Event {
    Path { packet: u64, rtt: u64, past: Option<(u64, f64)> },
    Sent { bytes: u64, skip: u64 },
    Ack { back: u64, count: u64, rtt: u64, delay: i64, jitter: i64 },
    Loss { back: u64, kind: u8 },
    Idle { idle: u64 },
    Stall { since: u64 },
    AppLimited,
    Deadline,
}

/// Mostly sensible, sometimes anything at all.
fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..100_000_000_u64, 1 => Just(0), 1 => any::<u64>()]
}

fn event() -> impl Strategy<Value = Event> {
    let past = proptest::option::of((any::<u64>(), prop_oneof![any::<f64>(), 0.0..1.0]));
    let delay = || prop_oneof![4 => -1_000_000..50_000_000_i64, 1 => any::<i64>()];
    prop_oneof![
        1 => (prop_oneof![0..2000_u64, any::<u64>()], nanos(), past)
            .prop_map(|(packet, rtt, past)| Event::Path { packet, rtt, past }),
        20 => (prop_oneof![9 => 0..1500_u64, 1 => any::<u64>()], prop_oneof![9 => Just(1), 1 => any::<u64>()])
            .prop_map(|(bytes, skip)| Event::Sent { bytes, skip }),
        20 => (0..20_u64, 1..8_u64, nanos(), delay(), delay())
            .prop_map(|(back, count, rtt, delay, jitter)| Event::Ack { back, count, rtt, delay, jitter }),
        2 => (0..20_u64, 0..3_u8).prop_map(|(back, kind)| Event::Loss { back, kind }),
        1 => nanos().prop_map(|idle| Event::Idle { idle }),
        1 => nanos().prop_map(|since| Event::Stall { since }),
        1 => Just(Event::AppLimited),
        6 => Just(Event::Deadline),
    ]
}

fn apply(pcp: &mut Pcp, now: Time, number: &mut u64, event: &Event) {
    match *event {
        Event::Path { packet, rtt, past } => {
            let history = past.map(|(rate, trust)| History {
                base_rate: Rate::from_bps(rate),
                capacity: Rate::ZERO,
                deviation: Rate::ZERO,
                trust,
                rivals: trust, // any number will do
                competed: Rate::from_bps(rate),
                lateness: Duration::from_nanos(rate),
                min_rtt: Duration::ZERO,
            });
            let rested = history.map(|past| past.lateness); // any number will do
            pcp.on_path(now, &Path { rested, ..Path::new(Bytes::new(packet), Duration::from_nanos(rtt), history) });
        }
        Event::Sent { bytes, skip } => {
            *number = number.wrapping_add(skip);
            pcp.on_sent(now, &Sent { number: *number, bytes: Bytes::new(bytes), outstanding: Bytes::MAX });
        }
        Event::Ack { back, count, rtt, delay, jitter } => {
            let arrivals: Vec<Arrival> = (0..count)
                .map(|i| {
                    let sent_at = now - Duration::from_nanos(rtt) + Duration::from_micros(i);
                    let delay = delay.wrapping_add(jitter.wrapping_mul(i as i64));
                    Arrival {
                        number: number.wrapping_sub(back).wrapping_add(i),
                        bytes: Bytes::new(1000),
                        sent_at,
                        received_at: Time::from_nanos(sent_at.as_nanos().wrapping_add_signed(delay)),
                        ecn: Ecn::NotEct,
                    }
                })
                .collect();
            let rtt = Duration::from_nanos(rtt);
            pcp.on_ack(
                now,
                &Ack {
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
                },
            );
        }
        Event::Loss { back, kind } => {
            let kind = [LossKind::Persistent, LossKind::Transient, LossKind::Ecn][usize::from(kind)];
            let number = number.wrapping_sub(back);
            let bytes = Bytes::new(1000);
            let loss =
                Loss { kind, bytes, flight: bytes, number, last_sent: number, recovering: false, repeated: false };
            pcp.on_loss(now, &loss);
        }
        Event::Idle { idle } => pcp.on_idle(now, Duration::from_nanos(idle), Duration::from_millis(200)),
        Event::Stall { since } => pcp.on_stall(now, now - Duration::from_nanos(since)),
        Event::AppLimited => pcp.on_app_limited(now),
        Event::Deadline => pcp.on_deadline(now),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_sequence_of_events_breaks_a_promise(
        seed in any::<u64>(),
        time_of_day in 0..86_400_000_000_000_u64,
        past in any::<bool>(),
        events in proptest::collection::vec((event(), nanos()), 1..120),
    ) {
        let config = Config::default();
        let mut pcp = Pcp::new(&config, Stream::from_seed(seed));
        let (mut now, mut number) = (Time::from_nanos(time_of_day), 0);
        let past = past.then(|| History { rivals: 1.0, ..History::new(Rate::from_bps(10_000_000), Duration::from_millis(2)) });
        pcp.on_path(now, &Path::new(Bytes::new(1250), Duration::from_millis(20), past));
        let mut history = None;
        for (event, step) in &events {
            now += Duration::from_nanos(*step % 1_000_000_000);
            apply(&mut pcp, now, &mut number, event);
            pcp.remember(now, &mut history);
            let rate = pcp.rate().unwrap();
            prop_assert!(rate >= Rate::from_bps(1) && rate <= config.fastest + config.fastest, "{rate}");
            prop_assert!(pcp.departure().at < Time::MAX || pcp.deadline() < Time::MAX);
            prop_assert!(pcp.departure().bytes > Bytes::ZERO);
            if let Some(past) = history {
                let past: History = past;
                prop_assert!((0.0..=1.0).contains(&past.trust) && past.base_rate <= config.fastest);
            }
        }
    }
}
