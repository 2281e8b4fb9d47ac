//! The kernel's TCP over an emulated path.

mod common;

use common::{path, run};

#[test]
fn cubic_fills_the_link() {
    let plan = path(
        r#"
        duration = "6 s"
        warmup = "2 s"

        [scheme.cubic]
        kernel = "cubic"

        [[traffic]]
        name = "long"
        scheme = "cubic"
        from = "source"
        to = "sink"
        arrivals = { count = 1 }
    "#,
    );
    let Some(outcome) = run("cubic_fills_the_link", &plan) else { return };
    eprintln!("{outcome:#?}");
    let goodput = outcome.flows[0].delivered_measured.as_f64() * 8.0 / plan.measured().as_secs_f64();
    assert!((36e6..39e6).contains(&goodput), "{goodput}");
    let link = &outcome.links[0];
    assert!(link.utilization > 0.95, "{}", link.utilization);
    assert!(link.counts.dropped > 0 && link.counts.dropped < link.counts.offered / 100, "{:?}", link.counts);
    assert!(outcome.flows[0].retransmitted_packets >= link.counts.dropped);
}
