//! BBR where the path, or what the application sends, changes: expected values from its window, two bandwidth-delay
//! products.

mod common;

use common::Dumbbell;

/// The draft's appendix, "Decreasing Bandwidth 10x": two cycles discard the old rate. Then at most two products of the new
/// one are in flight, half of them in the queue. A window of four packets is more where a product is one or two.
#[test]
fn after_a_fall_of_the_rate_the_queue_is_that_of_the_new_one() {
    for scheme in [r#"controller = "bbr""#, r#"controller = "bbr1""#] {
        for (bottleneck, bdp) in [
            (
                r#"rate = "20 Mb/s", delay = "18 ms", router = { kind = "drop-tail", packets = 10000 }, changes = [{ at = "10 s", rate = "5 Mb/s" }], reverse = { changes = [] }"#,
                24.0,
            ),
            (
                r#"rate = "20 Mb/s", delay = "18 ms", router = { kind = "drop-tail", packets = 10000 }, changes = [{ at = "10 s", rate = "1 Mb/s" }], reverse = { changes = [] }"#,
                4.7,
            ),
            (
                r#"rate = "20 Mb/s", delay = "18 ms", router = { kind = "drop-tail", packets = 400 }, changes = [{ at = "10 s", rate = "1 Mb/s" }], reverse = { changes = [] }"#,
                4.7,
            ),
        ] {
            let outcome =
                Dumbbell { duration: "65 s", warmup: "50 s", bottleneck, scheme, ..Dumbbell::default() }.run();
            let link = &outcome.links[0];
            assert!(link.queue.mean_packets <= f64::max(bdp, 4.0), "{scheme}, {bottleneck}: {link:?}");
            assert!(link.counts.dropped == 0 && link.utilization > 0.95, "{scheme}, {bottleneck}: {link:?}");
        }
    }
}

/// A frame each 100 ms, and an idle time after each. 20 Mb/s and 40 ms are 95 packets, so the window is two times as many
/// and a burst. Linux restarts the interval of a burst without its bytes after an idle time (`bbr_cwnd_event`).
#[test]
fn idle_times_do_not_add_up_to_a_window() {
    for scheme in [r#"controller = "bbr""#, r#"controller = "bbr1""#] {
        // The rate falls below the application's: what the window permits waits in the queue.
        let bottleneck = r#"rate = "20 Mb/s", delay = "18 ms", router = { kind = "drop-tail", packets = 4000 }, changes = [{ at = "20 s", rate = "1 Mb/s" }], reverse = { changes = [] }"#;
        let traffic = r#"media = { rate = "2 Mb/s", frames = 10 }, arrivals = { count = 1 }"#;
        let outcome =
            Dumbbell { duration: "30 s", warmup: "20 s", bottleneck, scheme, traffic, ..Dumbbell::default() }.run();
        let link = &outcome.links[0];
        assert!(link.queue.max_packets <= 190, "{scheme}: {link:?}");
    }
}
