//! A scenario of six points, and a world that makes up its outcomes from the plan.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rampmeter_router::{Counts, QueueSummary};
use rampmeter_scenario::{
    FlowOutcome, Limits, LinkId, LinkOutcome, LinkSample, Outcome, Plan, QueueId, Series, World, WorldError,
};
use rampmeter_units::{Bytes, Duration, Time};

/// The scenario; flow completion times are made up, see [`Made`].
pub(crate) const TEXT: &str = r#"title = "Six points"
duration = "10 s"
[axes]
scheme = ["reno", "newreno", "kernel"]
load = [0.25, 0.5]
seed = [1, 2]
[meters]
series = "1 s"
[[link]]
name = "wire"
between = ["left", "right"]
rate = "10 Mb/s"
delay = "5 ms"
router = { kind = "drop-tail", packets = 50 }
measure = true
[[hosts]]
name = "a"
at = "left"
rate = "1 Gb/s"
delay = "1 ms"
[[hosts]]
name = "b"
at = "right"
rate = "1 Gb/s"
delay = "1 ms"
[scheme.reno]
controller = "reno"
[scheme.newreno]
controller = "newreno"
[scheme.kernel]
kernel = "cubic"
[[traffic]]
name = "transfers"
scheme = "$scheme"
from = "a"
to = "b"
size = "50 kB"
arrivals = { load = "$load", of = "wire" }
"#;

/// Every transfer takes `100 ms * load`, twice that under `newreno`, and a millisecond more per seed. So it is simulated.
#[derive(Default)]
pub(crate) struct Made {
    /// Runs so far.
    pub(crate) runs: AtomicUsize,
    /// The number of the run that the user interrupts; 0 for none.
    pub(crate) interrupt_in: AtomicUsize,
    /// Set by the interrupt.
    pub(crate) stop: AtomicBool,
    /// It is called the emulated world, and every transfer takes 10% longer.
    pub(crate) is_emulated: bool,
}

impl World for Made {
    fn name(&self) -> &'static str {
        if self.is_emulated { "emulated" } else { "simulated" }
    }

    fn run(&self, plan: &Plan) -> Result<Outcome, WorldError> {
        if let Some(scheme) = plan.kernel_scheme() {
            let what = format!("kernel TCP (scheme `{}`)", scheme.name);
            return Err(WorldError::Unsupported { world: self.name(), what, advice: "go elsewhere".into() });
        }
        if 1 + self.runs.fetch_add(1, Ordering::SeqCst) == self.interrupt_in.load(Ordering::SeqCst) {
            self.stop.store(true, Ordering::SeqCst);
        }
        let load = plan.point.get("load").and_then(toml::Value::as_float).unwrap();
        let factor = if plan.schemes[0].name == "newreno" { 2.0 } else { 1.0 };
        let fct = Duration::from_secs_f64(0.1 * load * factor + 0.001 * plan.seed as f64);
        let fct = if self.is_emulated { fct.scale(1.1) } else { fct };
        let flows = plan.flows.iter().enumerate().map(|(index, flow)| FlowOutcome {
            flow: index,
            traffic: flow.traffic,
            scheme: flow.scheme,
            start: flow.start,
            fct: (index > 0).then_some(fct),
            delivered: Bytes::new(50_000),
            delivered_measured: Bytes::new(50_000),
            sent_packets: 40,
            retransmitted_packets: 1,
            limits: Limits::default(),
            report: rampmeter_workload::Report::default(),
        });
        let link = plan.links.iter().position(|link| link.measured).unwrap();
        let sample = LinkSample {
            at: Time::from_nanos(1_000_000_000),
            id: QueueId::Link(LinkId(link)),
            queue: rampmeter_router::Backlog::default(),
            transmitted: Bytes::new(9),
        };
        Ok(Outcome {
            flows: flows.collect(),
            links: vec![LinkOutcome {
                id: QueueId::Link(LinkId(link)),
                name: "wire".into(),
                utilization: load,
                queue: QueueSummary { mean_packets: 10.0 * load, ..QueueSummary::default() },
                counts: Counts { offered: 100, ..Counts::default() },
                waits: None,
                delays: None,
            }],
            series: Series { links: vec![sample], flows: Vec::new() },
            data_packets: 40 * plan.flows.len() as u64,
            degraded: Vec::new(),
            host_jitter: None,
        })
    }
}
