//! The door: a plan goes in, real packets move, an outcome comes out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rampmeter_control::Registry;
use rampmeter_scenario::{Outcome, Plan, Sender, Series, World, WorldError};
use rampmeter_units::Time;

use crate::clock::Clock;
use crate::host::{Host, failed};
use crate::kernel::{Kernel, Stage};
use crate::network::Network;
use crate::probe::{kernel_tcp, probe};
use crate::pump::pump;
use crate::schedule::{Account, Told};
use crate::sides::{Side, Sides};

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

    fn run(&self, plan: &Plan, registry: &Registry) -> Result<Outcome, WorldError> {
        check_kernel(plan)?;
        let sides = Sides::of(plan)?;
        let mtu = u32::try_from(plan.packet.as_u64()).unwrap_or(u32::MAX);
        let network = Network::new(plan, &sides)?;
        let hosts = [host(Side::A, mtu)?, host(Side::B, mtu)?];
        let (over, pending) = (AtomicBool::new(false), AtomicUsize::new(0));
        pending.store(plan.flows.iter().filter(|flow| flow.bytes.is_some()).count(), Ordering::Relaxed);
        let clock = Clock::start();
        let hosts = [&hosts[0], &hosts[1]];
        let stage = Stage { plan, sides: &sides, hosts, clock, over: &over, pending: &pending };
        let kernel = Kernel::new(stage).map_err(failed("cannot listen for TCP connections"))?;
        let _ = registry;
        thread::scope(|scope| {
            let router = scope.spawn(|| ending(&over, || pump(network, hosts, mtu as usize, clock, &over)));
            let kernel = scope.spawn(|| ending(&over, || kernel.map_or(Ok(Told::default()), Kernel::run)));
            let interrupted = self.wait(plan, clock, &over, &pending);
            let (seen, lateness) = join(router).map_err(failed("the router cannot go on"))?;
            let told = join(kernel).map_err(failed("the kernel's TCP cannot go on"))?;
            if interrupted {
                return Err(WorldError::Interrupted);
            }
            let mut flows: Vec<_> = (0..plan.flows.len()).map(|flow| Account::new(plan, flow).outcome).collect();
            for outcome in told.flows {
                flows[outcome.flow] = outcome;
            }
            Ok(Outcome {
                flows,
                links: seen.links,
                series: Series { links: seen.samples, flows: told.samples },
                data_packets: seen.data_packets,
                lateness,
            })
        })
    }
}

impl Emulated {
    /// Waits for the run's end and declares it; whether it was interrupted.
    fn wait(&self, plan: &Plan, clock: Clock, over: &AtomicBool, pending: &AtomicUsize) -> bool {
        let duration = Time::ZERO + plan.duration;
        while !over.load(Ordering::Relaxed) {
            let now = clock.now();
            let done = now > duration && pending.load(Ordering::Relaxed) == 0;
            let interrupted = self.interrupted.load(Ordering::Relaxed);
            if done || interrupted || now > plan.end() {
                over.store(true, Ordering::Relaxed);
                return interrupted;
            }
            thread::sleep(NAP);
        }
        false
    }
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

/// Does `work`; whatever comes of it, the run is over then.
fn ending<T>(over: &AtomicBool, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let result = work();
    if result.is_err() {
        over.store(true, Ordering::Relaxed);
    }
    result
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
