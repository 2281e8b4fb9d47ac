//! What every controller promises to the world that runs it.

use rampmeter_control::testing::{PACKET, RTT, arrived, loss};
use rampmeter_control::{Ack, AnyController, Arrival, Controller, Loss, LossKind, Notice, Path, Registry, Sent};
use rampmeter_units::{Bytes, Ecn, Random, Rate, Time};

/// Controllers that space their packets from the first one on.
const PACED: [&str; 6] = ["bbr", "bbr1", "cm", "fixed-rate", "prague", "vivace"];

/// Each controller at the start of a path.
fn all() -> Vec<(String, AnyController)> {
    let registry = Registry::default();
    let start = |name: &str| {
        let settings = if name == "fixed-rate" { "rate = '4 Mb/s'" } else { "" };
        let mut controller = registry.factory(name, &settings.parse().unwrap()).unwrap()(Random::from_seed(1));
        controller.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
        (name.to_owned(), controller)
    };
    registry.list().map(|(name, _)| start(name)).collect()
}

#[test]
fn packets_have_the_size_that_the_path_carries() {
    for (name, mut controller) in all() {
        for bytes in [PACKET, Bytes::new(9000), Bytes::new(500)] {
            controller.on_packet_size(Time::ZERO, bytes);
            let size = controller.departure().bytes;
            assert!(size == bytes || size < bytes && name == "pcp-paper", "{name}: {size}"); // its first probe is small
            assert!(controller.window() >= bytes, "{name}");
        }
    }
}

#[test]
fn the_window_keeps_its_bytes_with_packets_of_another_size() {
    for (name, mut controller) in all() {
        let before = controller.window();
        for bytes in [PACKET / 2, PACKET] {
            controller.on_packet_size(Time::ZERO, bytes);
            let after = controller.window();
            // Windows of whole packets.
            assert!(before.as_u64().abs_diff(after.as_u64()) <= PACKET.as_u64(), "{name}: {before} became {after}");
        }
    }
}

/// The controllers whose window a loss reduces, with a window that 40 packets have increased.
fn grown() -> impl Iterator<Item = (String, AnyController)> {
    let others = ["bbr", "bbr1", "copa", "fair-share", "fixed-rate", "pcp", "pcp-paper", "scream", "vivace"];
    let windows = all().into_iter().filter(move |(name, _)| !others.contains(&name.as_str()));
    windows.map(|(name, mut controller)| {
        (0..40).for_each(|number| deliver(&mut controller, number, false, false));
        (name, controller)
    })
}

/// Sends packet `number` and acknowledges it, unmarked.
fn deliver(controller: &mut AnyController, number: u64, recovering: bool, app_limited: bool) {
    let now = Time::ZERO + RTT * number / 10;
    controller.on_sent(now, &Sent { number, bytes: PACKET, in_flight: PACKET });
    let ecn = controller.ecn().unwrap_or(Ecn::NotEct);
    let arrivals = [Arrival { number, bytes: PACKET, sent_at: now, received_at: now + RTT / 2, ecn }];
    controller.on_ack(now + RTT, &Ack { recovering, app_limited, last_sent: number, ..arrived(&arrivals, RTT) });
}

#[test]
fn a_window_does_not_grow_unused_or_in_recovery() {
    for (name, mut controller) in grown() {
        let before = controller.window();
        for (recovering, app_limited) in [(true, false), (false, true)] {
            (40..80).for_each(|number| deliver(&mut controller, number, recovering, app_limited));
            assert!(controller.window() <= before, "{name}: {before} became {}", controller.window());
        }
    }
}

#[test]
fn losses_of_one_window_reduce_it_once_and_may_be_undone() {
    for (name, mut controller) in grown() {
        let (before, now) = (controller.window(), Time::ZERO + RTT * 5);
        let mut lose = |number, last_sent| {
            let flight_size = Bytes::new(1_000_000);
            controller.on_loss(now, &Loss { flight_size, ..loss(LossKind::Transient, number, last_sent) });
            controller.window()
        };
        let reduced = lose(35, 39);
        assert!(reduced < before, "{name}: {before} became {reduced}");
        // Reno halves its window with each recovery.
        assert!(lose(39, 45) == reduced || name == "reno", "{name}");
        controller.on_notice(now, Notice::SpuriousLoss);
        assert!(controller.window() >= before || name == "reno", "{name}: {}, not {before}", controller.window());
    }
}

#[test]
fn a_long_idle_time_ends_with_the_first_window() {
    let first: Vec<_> = all().into_iter().map(|(_, controller)| controller.window()).collect();
    let names: Vec<_> = all().into_iter().map(|(name, _)| name).collect();
    for (name, mut controller) in grown() {
        let first = first[names.iter().position(|known| *known == name).unwrap()];
        let before = controller.window();
        controller.on_idle(Time::ZERO + RTT * 9, RTT * 4, RTT * 4);
        assert_eq!(controller.window(), before, "{name}: as long as the timeout");
        controller.on_idle(Time::ZERO + RTT * 20, RTT * 15, RTT * 4);
        assert!(controller.window() <= first, "{name}: {}, not {first}", controller.window());
    }
}

#[test]
fn bytes_that_were_not_sent_take_no_time() {
    for (name, mut controller) in all() {
        if !PACED.contains(&name.as_str()) {
            continue;
        }
        for number in 0..10 {
            let now = controller.departure().at;
            controller.on_sent(now, &Sent { number, bytes: PACKET, in_flight: PACKET });
        }
        let next = controller.departure().at;
        assert!(next > Time::ZERO && next < Time::ZERO + RTT * 20, "{name}");
        controller.on_notice(next, Notice::Unsent(PACKET));
        let rate = controller.rate().unwrap();
        assert_eq!(controller.departure().at, next - rate.time_to_send(PACKET), "{name}");
    }
}

#[test]
fn packets_that_left_early_do_not_delay_the_next() {
    for name in ["bbr", "bbr1", "copa", "prague", "scream", "vcp-end-to-end", "vcp-plus"] {
        let (_, mut controller) = all().into_iter().find(|(known, _)| known == name).unwrap();
        (0..100).for_each(|number| controller.on_sent(Time::ZERO, &Sent { number, bytes: PACKET, in_flight: PACKET }));
        let now = Time::ZERO + RTT / 4;
        assert!(controller.departure().at > now, "{name}");
        controller.on_notice(now, Notice::Unpaced);
        assert_eq!(controller.departure().at, now, "{name}");
    }
}

#[test]
fn only_schemes_with_their_own_meaning_of_codes_choose_one() {
    for (name, controller) in all() {
        let expected = match name.as_str() {
            "bbr" | "bbr1" | "copa" | "vivace" => Some(Ecn::NotEct),
            "dctcp" | "stable" => Some(Ecn::Ect0),
            "prague" | "vcp" | "vcp-plus" => Some(Ecn::Ect1),
            _ => None,
        };
        assert_eq!(controller.ecn(), expected, "{name}");
        assert_eq!(controller.has_own_codes(), matches!(name.as_str(), "vcp" | "vcp-plus"), "{name}");
    }
}

#[test]
fn windows_have_no_rate_and_paced_schemes_have_one() {
    // CM, VCP and XCP are paced by their settings or on some paths only.
    let windows =
        ["bic", "cubic", "cubic-2005", "dctcp", "fast", "hstcp", "htcp", "ledbat", "newreno", "reno", "scalable"];
    let paced = ["bbr", "bbr1", "copa", "fixed-rate", "pcp", "pcp-paper", "prague", "scream", "vivace"];
    for (name, controller) in all() {
        match name.as_str() {
            name if windows.contains(&name) || name == "vegas" => assert_eq!(controller.rate(), None, "{name}"),
            name if paced.contains(&name) => assert!(controller.rate() > Some(Rate::ZERO), "{name}"),
            _ => {}
        }
    }
}

#[test]
fn only_pcp_and_cm_keep_a_history_of_paths() {
    for (name, controller) in all() {
        assert_eq!(controller.keeps_history(), ["cm", "pcp", "pcp-paper"].contains(&name.as_str()), "{name}");
    }
}

#[test]
fn first_states_are_words_that_the_page_for_operators_has() {
    let page = include_str!("../../../docs/operations.md");
    for (name, controller) in all() {
        let state = controller.state();
        assert!(!state.is_empty() && state.chars().all(|c| c == '_' || c.is_ascii_lowercase()), "{name}: {state}");
        assert!(page.contains(&format!("`{state}`")), "{name}: docs/operations.md does not have {state}");
    }
}

#[test]
fn only_fair_share_waits_for_routers_and_none_starts_degraded() {
    for (name, controller) in all() {
        assert_eq!(controller.requests_feedback(), name == "fair-share", "{name}");
        assert_eq!(controller.degraded_reason(), None, "{name}");
    }
}
