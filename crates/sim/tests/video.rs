//! A video player compared with theory: all video that arrived was played or is in the buffer.
//!
//! The bottleneck carries 1000 bytes of video in a packet of 1054. A request and its answer take a round trip of 20 ms
//! in which no video arrives.

mod common;

use common::Dumbbell;
use rampmeter_scenario::FlowOutcome;

/// Netflix's ladder, roughly, in kb/s.
const LADDER: [f64; 8] = [235.0, 375.0, 560.0, 750.0, 1050.0, 1750.0, 2350.0, 4300.0];

/// Segments of 4 s, a buffer of 120 s. The map rises from 45 s to 108 s.
fn play(bottleneck: &'static str, duration: &'static str) -> FlowOutcome {
    let outcome = Dumbbell {
        duration,
        bottleneck,
        traffic: r#"arrivals = { count = 1 }, video = { ladder = ["235 kb/s", "375 kb/s", "560 kb/s", "750 kb/s", "1050 kb/s", "1750 kb/s", "2350 kb/s", "4300 kb/s"], segment = "4 s", buffer = "120 s" }"#,
        ..Dumbbell::default()
    }
    .run();
    outcome.flows[0]
}

/// The buffer level at which the map has this bitrate.
fn level(kbps: f64) -> f64 {
    45.0 + (kbps - LADDER[0]) / (LADDER[7] - LADDER[0]) * 63.0
}

/// 3 Mb/s are 2.846 Mb/s of video, between 2.35 and 4.3 Mb/s. The buffer fills at the lower bitrate and drains at the
/// higher one: it stays between the levels at which the map has these two bitrates, within one segment. The video that
/// arrived is `mean bitrate * (time played + level)`.
#[test]
fn between_two_rungs_the_mean_bitrate_is_the_goodput() {
    let flow = play(r#"rate = "3 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 24 }"#, "2000 s");
    let report = flow.report;
    assert_eq!((report.stalls, report.stalled_s), (Some(0), Some(0.0)));
    let goodput = flow.delivered.as_f64() * 8.0 / 2000.0;
    assert!((0.97 * 2.846e6..2.847e6).contains(&goodput), "{goodput}");
    let played = 2000.0 - report.startup_s.unwrap();
    let mean = |level: f64| goodput * 2000.0 / (played + level);
    // The delivered bytes include a part of the current segment: 4 s at most.
    let bounds = mean(level(4300.0) + 8.0)..mean(level(2350.0) - 4.0);
    assert!(bounds.contains(&report.bitrate_mean_bps.unwrap()), "{report:?} {bounds:?}");
}

/// 20 Mb/s are much more than the highest bitrate. The buffer is full after less than a minute, and the player pauses.
/// The 27 segments that fill the buffer to the end of the map, and two that are played meanwhile, have lower bitrates.
/// The other segments of 330 have the highest bitrate.
#[test]
fn a_fast_path_plays_the_highest_bitrate() {
    let flow = play(r#"rate = "20 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 40 }"#, "1200 s");
    let report = flow.report;
    assert_eq!(report.stalls, Some(0));
    let mean = report.bitrate_mean_bps.unwrap();
    assert!(mean > 4300e3 * (1.0 - 29.0 / 330.0) && mean < 4300e3, "{report:?}");
    // 4 s at 235 kb/s are 118 packets: after slow start's round trips, well within a second.
    assert!(report.startup_s.unwrap() < 0.5, "{report:?}");
    // Each second of playing time asks for a second of video, and the buffer holds 116 to 120 s of it.
    let arrived = flow.delivered.as_f64() * 8.0 / mean;
    assert!((1200.0 + 112.0..1200.0 + 124.0).contains(&arrived), "{arrived}");
}

/// 200 kb/s are 189.8 kb/s of video. A segment of 4 s at the lowest bitrate takes 4.95 s plus a round trip for its
/// request. Playback stalls in every segment for the time beyond 4 s.
#[test]
fn below_the_lowest_rung_playback_stalls() {
    let flow = play(r#"rate = "200 kb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 24 }"#, "1000 s");
    let report = flow.report;
    let took = 4.0 * 235.0 / (200.0 / 1.054) + 0.02;
    let segments = 1000.0 / took;
    assert_eq!((report.bitrate_mean_bps, report.switches), (Some(235e3), Some(0)));
    let (stalls, stalled) = (report.stalls.unwrap() as f64, report.stalled_s.unwrap());
    assert!((stalls / segments - 1.0).abs() < 0.03, "{stalls} of {segments}");
    assert!((stalled / (1000.0 - report.startup_s.unwrap()) - (1.0 - 4.0 / took)).abs() < 0.015, "{report:?} {took}");
}

/// A stopped player sends no more requests. Data that was already sent arrives.
#[test]
fn a_stopped_player_leaves_the_link() {
    let outcome = Dumbbell {
        duration: "60 s",
        bottleneck: r#"rate = "1 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 24 }"#,
        traffic: r#"arrivals = { count = 1 }, duration = "30 s", video = { ladder = ["500 kb/s", "2 Mb/s"], buffer = "60 s" }"#,
        ..Dumbbell::default()
    }
    .run();
    let (flow, link) = (&outcome.flows[0], &outcome.links[0]);
    assert!((0.45..0.52).contains(&link.utilization), "{link:?}");
    assert!(flow.delivered.as_f64() * 8.0 < 30.5e6 && flow.report.stalls == Some(0), "{flow:?}");
}
