//! Packets are conserved, and the same plan gives the same outcome.

mod common;

use std::thread;

use common::{Dumbbell, run};
use rampmeter_scenario::{Plan, Registries, SchemePlan, Sender, Stalls, World, WorldError};
use rampmeter_sim::Simulated;
use rampmeter_units::Duration;

/// A scenario of short transfers, losses of both kinds, both directions and samples.
fn busy() -> Dumbbell<'static> {
    Dumbbell {
        duration: "20 s",
        warmup: "0 s",
        drain: "20 s",
        bottleneck: r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 20 }, loss = { per_packet = 0.005 }, reverse = { measure = true }"#,
        hosts: 5,
        traffic: r#"size = { mean = "50 kB", pareto = 1.5 }, arrivals = { load = 0.5, of = "bottleneck" }"#,
        more: r#"
[[traffic]]
name = "back"
scheme = "it"
from = "sink"
to = "source"
arrivals = { count = 3, spread = "1 s" }
[meters]
series = "100 ms"
"#,
        ..Dumbbell::default()
    }
}

#[test]
fn offered_packets_are_transmitted_dropped_or_queued() {
    let outcome = busy().run();
    assert_eq!(outcome.links.len(), 2);
    for link in &outcome.links {
        let last = outcome.series.links.iter().rfind(|sample| sample.id == link.id).unwrap();
        let counts = link.counts;
        assert_eq!(counts.offered, counts.transmitted + counts.dropped + last.queue.packets, "{counts:?}");
        assert!(counts.dropped > 0 && counts.lost > 0 && counts.lost < counts.transmitted, "{counts:?}");
        assert_eq!(last.transmitted, counts.transmitted_bytes);
    }
}

#[test]
fn the_same_plan_gives_the_same_outcome_on_any_thread() {
    let plan = busy().plan();
    let (one, other) = thread::scope(|scope| {
        let threads = [scope.spawn(|| run(&plan)), scope.spawn(|| run(&plan))];
        let [one, other] = threads.map(|thread| thread.join().unwrap());
        (one, other)
    });
    assert_eq!(one, other);
    let mut reseeded = plan.clone();
    reseeded.seed += 1;
    assert_ne!(run(&reseeded), one, "another seed must lose other packets");
}

#[test]
fn samples_cover_the_run_and_each_flow_from_its_start() {
    let outcome = busy().run();
    assert_eq!(outcome.series.links.len(), 2 * 201);
    assert!(outcome.series.links.is_sorted_by_key(|sample| sample.at));
    let transfer = outcome.flows.iter().position(|flow| flow.traffic == 0 && flow.fct.is_some()).unwrap();
    for sample in outcome.series.flows.iter().filter(|sample| sample.flow == transfer) {
        assert!(sample.at >= outcome.flows[transfer].start);
        let sender = sample.sender;
        assert!(sender.window.is_some() && sender.rate.is_none() && sender.in_flight.is_some());
    }
    let counts: Vec<_> = outcome.series.flows.iter().filter(|sample| sample.flow == transfer).collect();
    assert!(counts.is_sorted_by_key(|sample| (sample.sender.lost, sample.sender.timeouts)));
    let end = counts.last().unwrap().sender;
    assert!(end.smoothed_rtt.is_some_and(|rtt| rtt > Duration::ZERO), "{end:?}");
    let end = outcome.series.flows.last().unwrap().at;
    let long_lived = |flow: usize| outcome.flows[flow].traffic == 1;
    assert_eq!(outcome.series.flows.iter().filter(|sample| sample.at == end && long_lived(sample.flow)).count(), 3);
}

#[test]
fn transfers_on_a_dead_path_stay_unfinished() {
    let outcome = Dumbbell {
        duration: "5 s",
        drain: "10 s",
        bottleneck: r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail" }, loss = { per_packet = 0.999 }"#,
        traffic: r#"size = "10 kB", arrivals = { count = 1 }"#,
        ..Dumbbell::default()
    }
    .run();
    assert_eq!(outcome.flows[0].fct, None);
    assert_eq!(outcome.data_packets, 0);
}

#[test]
fn kernel_tcp_is_refused() {
    let mut plan = Dumbbell::default().plan();
    plan.schemes[0] = SchemePlan { name: "it".into(), sender: Sender::Kernel { algorithm: "cubic".into() } };
    let error = Simulated.run(&plan).unwrap_err();
    assert!(matches!(error, WorldError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("emulated"), "{error}");
}

#[test]
fn stalled_hosts_take_longer_and_lose_nothing() {
    let mut plan = Dumbbell {
        scheme: r#"controller = "fixed-rate", settings = { rate = "4 Mb/s" }"#,
        traffic: r#"size = "20 kB", arrivals = { count = 1, every = "100 ms" }"#,
        ..Dumbbell::default()
    }
    .plan();
    let fcts = |plan: &Plan| -> Vec<_> {
        let outcome = run(plan);
        assert!(outcome.flows.iter().all(|flow| flow.retransmitted_packets == 0));
        outcome.flows.iter().map(|flow| flow.fct.expect("the transfer ends")).collect()
    };
    let undisturbed = fcts(&plan);
    let stalls = Stalls { every: Duration::from_millis(20), duration: Duration::from_millis(5) };
    plan.nodes.iter_mut().filter(|node| node.is_host).for_each(|node| node.stalls = Some(stalls));
    let stalled = fcts(&plan);
    assert!(undisturbed.iter().zip(&stalled).all(|(undisturbed, stalled)| stalled >= undisturbed));
    let seconds = |fcts: &[Duration]| fcts.iter().map(|fct| fct.as_secs_f64()).sum::<f64>();
    assert!(seconds(&stalled) > seconds(&undisturbed) + 0.5);
    assert_eq!(stalled, fcts(&plan));
}

/// An access link with a buffer of a billion packets behaves like an unlimited one but is not plain, so there is no
/// lookahead. Hosts of the last kind share the links into the sinks with the left side's.
#[test]
fn lookahead_does_not_change_the_outcome() {
    let other = "[scheme.other]\ncontroller = \"cm\"\nmacroflow = \"destination\"\n[[traffic]]\nname = \"others\"\n\
                 scheme = \"other\"\nfrom = \"source\"\nto = \"sink\"\npairs = \"any\"\narrivals = { count = 6, spread = \"2 s\" }";
    let near = "[[hosts]]\nname = \"near\"\nat = \"right\"\nrate = \"1 Gb/s\"\ndelay = \"1 ms\"\n[[traffic]]\nname = \"nears\"\n\
                scheme = \"it\"\nfrom = \"near\"\nto = \"sink\"\npairs = \"any\"\narrivals = { count = 3, spread = \"2 s\" }";
    let bulk =
        "[[traffic]]\nname = \"bulk\"\nscheme = \"it\"\nfrom = \"source\"\nto = \"sink\"\narrivals = { count = 5 }";
    let with = |others: &str| format!("{}\n{others}", busy().more);
    let without_samples = busy().more.split("[meters]").next().unwrap();
    for more in [with(""), with(other), with(near), format!("{without_samples}\n{bulk}")] {
        let ahead = Dumbbell { more: &more, ..busy() }.plan();
        let mut without = ahead.clone();
        let large =
            Registries::default().routers.config("drop-tail", &"packets = 1_000_000_000".parse().unwrap()).unwrap();
        for link in without.links.iter_mut().filter(|link| !link.measured) {
            link.router = large.clone();
        }
        assert_eq!(run(&ahead), run(&without));
    }
}

/// A link with losses foresees nothing; these never happen.
#[test]
fn foreseen_departures_do_not_change_the_outcome() {
    let lossless = r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 20 }, reverse = { measure = true }"#;
    let without_samples = busy().more.split("[meters]").next().unwrap();
    for more in [busy().more, without_samples] {
        let foreseen = Dumbbell { bottleneck: lossless, more, ..busy() }.plan();
        let mut queued = foreseen.clone();
        for link in queued.links.iter_mut().filter(|link| link.measured) {
            link.config.loss.per_packet = 1e-300;
        }
        let outcome = run(&foreseen);
        assert!(outcome.links.iter().all(|link| link.counts.transmitted > 0) && outcome.links[0].counts.dropped > 0);
        assert_eq!(outcome, run(&queued));
    }
}
