//! The entry point: runs a plan with real packets and returns its outcome.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rampmeter_run::FlowResults;
use rampmeter_scenario::{HostJitter, NodeId, Outcome, Plan, RunProgress, Sender, Series, World, WorldError};
use rampmeter_trace::Trace;
use rampmeter_units::{Bytes, Time};

use crate::commands::{CommandHost, Commands, Status};
use crate::drive::drive;
use crate::emulation::{Emulation, Measured};
use crate::endpoints::Endpoints;
use crate::host::{Host, failed};
use crate::kernel::Kernel;
use crate::probe::{kernel_tcp, probe};
use crate::route::route;
use crate::run_state::RunState;
use crate::sides::{Side, Sides};
use crate::stacks::Stacks;

/// Interval between checks for the end of the run.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(10);

/// The emulated world.
#[derive(Debug, Clone, Default)]
pub struct Emulated {
    interrupted: Arc<AtomicBool>,
}

impl Emulated {
    /// A world whose runs end with [`WorldError::Interrupted`] soon after `interrupted` is set, for example by a
    /// signal.
    pub fn new(interrupted: Arc<AtomicBool>) -> Self {
        Self { interrupted }
    }
}

impl World for Emulated {
    fn name(&self) -> &'static str {
        "emulated"
    }

    fn needs_whole_machine(&self) -> bool {
        true
    }

    fn stops_immediately(&self) -> bool {
        true
    }

    fn run(&self, plan: &Plan) -> Result<Outcome, WorldError> {
        let (outcome, ()) = self.run_until(plan, None, None, |run| self.wait(run))?;
        Ok(outcome)
    }

    fn run_traced(&self, plan: &Plan, _: &RunProgress, trace: &Trace) -> Result<Outcome, WorldError> {
        let (outcome, ()) = self.run_until(plan, None, Some(trace), |run| self.wait(run))?;
        Ok(outcome)
    }
}

impl Emulated {
    /// Runs `commands` on two hosts of the plan's network, beside the plan's flows, until the commands end, and returns
    /// their exit codes. Before they start, `ready` gets the left and the right host. Planned events happen at their
    /// times; the plan's duration does not end the run.
    pub fn run_with_commands(
        &self,
        plan: &Plan,
        commands: &Commands,
        trace: Option<&Trace>,
        ready: impl FnOnce([CommandHost; 2]),
    ) -> Result<(Outcome, Status), WorldError> {
        let (outcome, status) = self.run_until(plan, Some(commands.between), trace, |run| {
            ready(commands.hosts(run));
            let status = commands.run(run, &self.interrupted);
            run.end();
            status
        })?;
        Ok((outcome, status.map_err(failed("cannot run a command"))?))
    }

    /// Creates hosts, router and senders, and runs them until `wait` ends the run.
    fn run_until<T>(
        &self,
        plan: &Plan,
        between: Option<(NodeId, NodeId)>,
        trace: Option<&Trace>,
        wait: impl FnOnce(&RunState<'_>) -> T,
    ) -> Result<(Outcome, T), WorldError> {
        check(plan)?;
        let sides = Sides::of(plan, between)?;
        let network = Emulation::new(plan, &sides, between, trace)?;
        let packets = plan.schemes.iter().filter_map(|scheme| Some(scheme.ours()?.config.packet));
        let mtu = packets.fold(plan.packet, Bytes::max).as_u64();
        raise_open_files();
        let hosts = [host(Side::A, mtu as u32)?, host(Side::B, mtu as u32)?];
        let (over, pending) = (AtomicBool::new(false), AtomicUsize::new(0));
        let run = RunState::new(plan, &sides, hosts.each_ref(), &over, &pending);
        let of_kernel = |flow| matches!(plan.sender(flow), Sender::Kernel { .. });
        let of_stacks = |flow| matches!(plan.sender(flow), Sender::Stack { .. });
        let (results, measurements, host_jitter, waited) = thread::scope(|scope| {
            let router = scope.spawn(|| ending(&run, || route(network, &run, mtu as usize)));
            let endpoints = scope.spawn(|| {
                ending(&run, || drive(&run, Endpoints::new(run, mtu as usize, trace)?, |flow| plan.is_ours(flow)))
            });
            let kernel = scope.spawn(|| ending(&run, || drive(&run, Kernel::new(run)?, of_kernel)));
            let stacks = scope.spawn(|| ending(&run, || drive(&run, Stacks::new(run)?, of_stacks)));
            let waited = wait(&run);
            let (measurements, host_jitter) = join(router).map_err(failed("the router failed"))?;
            let results = [
                join(endpoints).map_err(failed("Rampmeter's senders failed"))?,
                join(kernel).map_err(failed("the kernel's TCP failed"))?,
                join(stacks).map_err(failed("another transport's stack failed"))?,
            ];
            Ok::<_, WorldError>((results, measurements, host_jitter, waited))
        })?;
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(WorldError::Interrupted);
        }
        let mut failure = None;
        let results = results.map(|(results, wrong)| {
            failure = failure.take().or(wrong);
            results
        });
        match failure {
            Some(error) => Err(error),
            None => Ok((outcome(plan, results, measurements, host_jitter), waited)),
        }
    }

    /// Ends the run when its time is over, all transfers have ended or it was interrupted.
    fn wait(&self, run: &RunState<'_>) {
        let duration = Time::ZERO + run.plan.duration;
        while !run.is_over() {
            let now = run.clock.now();
            let done = (now > duration && run.is_done()) || now > run.plan.end();
            if done || self.interrupted.load(Ordering::Relaxed) {
                run.end();
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

fn outcome(plan: &Plan, results: [FlowResults; 3], measured: Measured, host_jitter: Option<HostJitter>) -> Outcome {
    let of = |flow: usize| {
        let [ours, kernel, stacks] = &results;
        match plan.sender(flow) {
            Sender::Ours(_) => ours.flows[flow],
            Sender::Kernel { .. } => kernel.flows[flow],
            Sender::Stack { .. } => stacks.flows[flow],
        }
    };
    let flows = (0..plan.flows.len()).map(of).collect();
    let mut series = Series { links: measured.samples, flows: Vec::new() };
    let mut degraded = Vec::new();
    for results in results {
        series.flows.extend(results.samples);
        degraded.extend(results.degraded);
    }
    series.flows.sort_by_key(|sample| (sample.at, sample.flow));
    let (links, data_packets) = (measured.links, measured.data_packets);
    Outcome { flows, links, series, data_packets, degraded, host_jitter }
}

/// Raises the limit on open files, because every socket is one. If this fails, the creation of a socket reports it.
fn raise_open_files() {
    if let Ok((_, max)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, max, max);
    }
}

/// Refuses plans that need features which only the simulator has, or a TCP that this kernel does not have.
fn check(plan: &Plan) -> Result<(), WorldError> {
    if let Some(node) = plan.nodes.iter().find(|node| node.stalls.is_some()) {
        let advice = "omit its `stalls`, because real hosts stall by themselves; or run it with --world simulated";
        return Err(unsupported(format!("planned stalls of hosts (`{}`)", node.name), advice));
    }
    if let Some(aggregate) = plan.aggregates.first() {
        let advice = "set its `active` to false, or run it with --world simulated";
        return Err(unsupported(format!("islands (`{}`)", aggregate.name), advice));
    }
    let known = kernel_tcp();
    for scheme in &plan.schemes {
        let Sender::Kernel { algorithm } = &scheme.sender else { continue };
        if !known.contains(algorithm) {
            let what = format!("kernel TCP `{algorithm}` (scheme `{}`)", scheme.name);
            return Err(unsupported(what, format!("use one that this kernel has: {}", known.join(", "))));
        }
    }
    Ok(())
}

pub(crate) fn unsupported(what: String, advice: impl Into<String>) -> WorldError {
    WorldError::Unsupported { world: "emulated", what, advice: advice.into() }
}

/// Creates a host, or returns an error with the ability that this machine lacks.
fn host(side: Side, mtu: u32) -> Result<Host, WorldError> {
    Host::new(side, mtu).map_err(|error| match probe().emulation() {
        Err(reason) => WorldError::System {
            what: "this machine cannot run emulated networks".into(),
            error: io::Error::other(reason),
        },
        Ok(()) => error,
    })
}

/// Runs `work`, and ends the run if it fails or panics.
fn ending<T>(run: &RunState<'_>, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    struct End<'a>(&'a RunState<'a>);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            if thread::panicking() {
                self.0.end();
            }
        }
    }
    let _end = End(run);
    work().inspect_err(|_| run.end())
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
