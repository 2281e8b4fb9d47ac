//! The contents of a history file, which another program may have written. The module is private to its crate, so its
//! file is compiled into this target.
//!
//! What was read is read again from its encoding; a decoded row is encoded as itself, and any controller that uses
//! histories starts with it.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use rampmeter_control::{Controller, Path, Registry, Sent};
use rampmeter_units::{Bytes, Duration, Random, Time};

#[allow(unreachable_pub)]
#[path = "../../crates/net/src/history/contents.rs"]
mod contents;

use contents::Row;

const PACKET: Bytes = Bytes::new(1250);

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    rates: [u64; 2],
    trust: f64,
    competing_traffic: f64,
    variation_ns: u64,
    min_rtt_ns: u64,
    learnt_s: u64,
    rtt_us: u32,
    is_paper: bool,
    destination: u128,
    text: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    if let Ok(histories) = contents::parse(input.text) {
        let encoded = contents::encode(&histories).expect("all values are numbers");
        assert_eq!(contents::parse(&encoded).map(|again| again.len()), Ok(histories.len()));
    }
    let Input { rates: [base_rate_bps, capacity_bps], rtt_us, is_paper, .. } = input;
    let row = Row {
        destination: format!("{:032x}", input.destination),
        base_rate_bps,
        capacity_bps,
        trust: input.trust,
        competing_traffic: input.competing_traffic,
        variation_ns: input.variation_ns,
        min_rtt_ns: input.min_rtt_ns,
        learnt_s: input.learnt_s,
    };
    let Some((destination, learnt)) = row.decode() else { return };
    assert_eq!(Row::encode(destination, &learnt), row);
    let (history, _) = learnt;

    let name = if is_paper { "pcp-paper" } else { "pcp" };
    let factory = Registry::default().factory(name, &toml::Table::new()).expect("it is in the registry");
    let mut controller = factory(Random::from_seed(1));
    let mut now = Time::from_nanos(1_000_000_000);
    controller.on_path(now, &Path::new(PACKET, Duration::from_micros(rtt_us.into()), Some(history)));
    let mut in_flight = Bytes::ZERO;
    for number in 0..64 {
        in_flight += PACKET;
        if in_flight <= controller.window() {
            controller.on_sent(now, &Sent { number, bytes: PACKET, in_flight });
        }
        let _ = (controller.departure(), controller.rate());
        now = now.max(controller.deadline().min(now + Duration::from_secs(1)));
        controller.on_deadline(now);
    }
    let mut remembered = None;
    controller.remember(now, &mut remembered);
    if let Some(history) = remembered {
        assert!((0.0..=1.0).contains(&history.trust), "{history:?}");
    }
});
