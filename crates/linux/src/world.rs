//! The door: a plan goes in, real packets move, an outcome comes out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rampmeter_scenario::{HostJitter, NodeId, Outcome, Plan, Sender, Series, World, WorldError};
use rampmeter_units::{Bytes, Time};

use crate::commands::{Commands, Status};
use crate::host::{Host, failed};
use crate::kernel::Kernel;
use crate::network::{Network, Seen};
use crate::ours::Ours;
use crate::probe::{kernel_tcp, probe};
use crate::pump::pump;
use crate::sides::{Side, Sides};
use crate::stage::{Account, Stage, Told};

/// How often the run looks whether it is over.
const NAP: std::time::Duration = std::time::Duration::from_millis(10);

/// The emulated world.
#[derive(Debug, Clone, Default)]
pub struct Emulated {
    interrupted: Arc<AtomicBool>,
}

impl Emulated {
    /// A world whose runs end with [`WorldError::Interrupted`] soon after `interrupted` is set, by a signal for example.
    pub fn new(interrupted: Arc<AtomicBool>) -> Self {
        Self { interrupted }
    }
}

impl World for Emulated {
    fn name(&self) -> &'static str {
        "emulated"
    }

    fn runs_alone(&self) -> bool {
        true
    }

    fn breaks_off(&self) -> bool {
        true
    }

    fn run(&self, plan: &Plan) -> Result<Outcome, WorldError> {
        let (outcome, ()) = self.perform(plan, None, |stage| self.wait(stage))?;
        Ok(outcome)
    }
}

impl Emulated {
    /// Runs `commands` on two hosts of the plan's network, beside the plan's flows, until the commands have ended; says
    /// how. What the plan lets happen at a time happens then; it does not end the run.
    pub fn accompany(&self, plan: &Plan, commands: &Commands) -> Result<(Outcome, Status), WorldError> {
        let between = commands.between;
        let (outcome, status) = self.perform(plan, Some(between), |stage| {
            let status = commands.run(stage, &self.interrupted);
            stage.end();
            status
        })?;
        Ok((outcome, status.map_err(failed("a command cannot be run"))?))
    }

    /// Sets everything up, and runs it until `wait` declares the end.
    fn perform<T>(
        &self,
        plan: &Plan,
        between: Option<(NodeId, NodeId)>,
        wait: impl FnOnce(&Stage<'_>) -> T,
    ) -> Result<(Outcome, T), WorldError> {
        check_hosts(plan)?;
        check_islands(plan)?;
        check_kernel(plan)?;
        let sides = Sides::around(plan, between)?;
        let network = Network::joining(plan, &sides, between)?;
        let packets = plan.schemes.iter().filter_map(|scheme| Some(scheme.ours()?.config.packet));
        let mtu = packets.fold(plan.packet, Bytes::max).as_u64();
        raise_open_files();
        let hosts = [host(Side::A, mtu as u32)?, host(Side::B, mtu as u32)?];
        let (over, pending) = (AtomicBool::new(false), AtomicUsize::new(0));
        let stage = Stage::new(plan, &sides, hosts.each_ref(), &over, &pending);
        let (told, seen, host_jitter, waited) = thread::scope(|scope| {
            let router = scope.spawn(|| ending(&stage, || pump(network, &stage, mtu as usize)));
            let ours = scope.spawn(|| ending(&stage, || Ours::new(stage, mtu as usize)?.run()));
            let kernel = scope.spawn(|| ending(&stage, || Kernel::new(stage)?.run()));
            let waited = wait(&stage);
            let (seen, host_jitter) = join(router).map_err(failed("the router cannot go on"))?;
            let told = [
                join(ours).map_err(failed("our senders cannot go on"))?,
                join(kernel).map_err(failed("the kernel's TCP cannot go on"))?,
            ];
            Ok::<_, WorldError>((told, seen, host_jitter, waited))
        })?;
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(WorldError::Interrupted);
        }
        Ok((outcome(plan, told, seen, host_jitter), waited))
    }

    /// Waits for the run's end and declares it.
    fn wait(&self, stage: &Stage<'_>) {
        let duration = Time::ZERO + stage.plan.duration;
        while !stage.is_over() {
            let now = stage.clock.now();
            let done = (now > duration && stage.is_done()) || now > stage.plan.end();
            if done || self.interrupted.load(Ordering::Relaxed) {
                stage.end();
            }
            thread::sleep(NAP);
        }
    }
}

fn outcome(plan: &Plan, told: [Told; 2], seen: Seen, host_jitter: Option<HostJitter>) -> Outcome {
    let unstarted = |flow: usize| Account::new(plan, flow, plan.flows[flow].start).outcome;
    let mut flows: Vec<_> = (0..plan.flows.len()).map(unstarted).collect();
    let mut series = Series { links: seen.samples, flows: Vec::new() };
    let mut degraded = Vec::new();
    for told in told {
        for outcome in told.flows {
            flows[outcome.flow] = outcome;
        }
        series.flows.extend(told.samples);
        degraded.extend(told.degraded);
    }
    series.flows.sort_by_key(|sample| (sample.at, sample.flow));
    Outcome { flows, links: seen.links, series, data_packets: seen.data_packets, degraded, host_jitter }
}

/// Every socket is an open file: allows as many as the system does. What is refused shows when a socket is made.
fn raise_open_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

fn check_hosts(plan: &Plan) -> Result<(), WorldError> {
    let Some(node) = plan.nodes.iter().find(|node| node.stalls.is_some()) else { return Ok(()) };
    Err(WorldError::Lacks {
        world: "emulated",
        what: format!("hosts that stall when told (`{}`)", node.name),
        advice: "leave out its `stalls`, real hosts stall by themselves; or run it in the simulator".into(),
    })
}

fn check_islands(plan: &Plan) -> Result<(), WorldError> {
    let Some(aggregate) = plan.aggregates.first() else { return Ok(()) };
    Err(WorldError::Lacks {
        world: "emulated",
        what: format!("islands (`{}`)", aggregate.name),
        advice: "set its `active` to false, or run it in the simulator".into(),
    })
}

fn check_kernel(plan: &Plan) -> Result<(), WorldError> {
    for scheme in &plan.schemes {
        let Sender::Kernel { algorithm } = &scheme.sender else { continue };
        let known = kernel_tcp();
        if !known.contains(algorithm) {
            return Err(WorldError::Lacks {
                world: "emulated",
                what: format!("kernel TCP `{algorithm}` (scheme `{}`)", scheme.name),
                advice: format!("this kernel has {}", known.join(", ")),
            });
        }
    }
    Ok(())
}

/// A host, or what this machine lacks for one.
fn host(side: Side, mtu: u32) -> Result<Host, WorldError> {
    Host::new(side, mtu).map_err(|error| match probe().emulation() {
        Err(reason) => WorldError::System { what: "no emulated network here".into(), error: io::Error::other(reason) },
        Ok(()) => error,
    })
}

/// Does `work`; if it fails, the run is over.
fn ending<T>(stage: &Stage<'_>, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    work().inspect_err(|_| stage.end())
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
