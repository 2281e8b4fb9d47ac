//! Points on other machines.
//!
//! ```text
//!   Sweep ── Job: scenarios with their files, points ──► Cluster ──► workers: `run_points`
//!     ▲                                                     │
//!     └── journal ◄── one reply for each point ◄────────────┘
//! ```
//!
//! The journal decides, as on one machine: only points that it does not have leave, each reply is stored at once, and
//! tables are made of the journal when all are there. So they are the same to the byte, and an interruption loses only
//! the points that are running. What carries jobs and replies is an engine that exists: `python/rampmeter/cluster.py`
//! does it with Dask.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rampmeter_scenario::{Outcome, Point, Portable, Registries, RunProgress, Scenario, World};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toml::Value;

use crate::caught::caught;
use crate::sweep::panicked;
use crate::{Progress, StudyError, Task};

/// The sources of the simulator, as a hash: workers with others would give other results.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "-", env!("RAMPMETER_SOURCES"));

/// Carries jobs to workers and replies back.
pub trait Cluster: Sync {
    /// Runs `job`, a `Job` in JSON. Calls `deliver` with each reply as soon as it is there, in any order, and gives up
    /// if that fails or soon after `stop` is set. An error says what is wrong and how to mend it.
    fn run(
        &self,
        job: &str,
        stop: &AtomicBool,
        deliver: &mut dyn FnMut(&str) -> Result<(), StudyError>,
    ) -> Result<(), StudyError>;
}

/// What a cluster has to run.
#[derive(Debug, Serialize)]
struct Job<'a> {
    build: &'static str,
    scenarios: Vec<Portable>,
    points: Vec<Place<'a>>,
}

/// A point, with the index of its scenario.
#[derive(Debug, Serialize)]
struct Place<'a> {
    scenario: usize,
    point: &'a Point,
}

/// The result of a point.
#[derive(Debug, Serialize, Deserialize)]
struct Reply<O> {
    /// The outcome, or what is wrong.
    outcome: Result<O, Problem>,
    /// Seconds of real time.
    wall_s: f64,
}

/// Why a point has no outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Problem {
    /// Its run failed; others may not.
    Failed(String),
    /// The worker cannot run it, nor others.
    Other(String),
}

/// What a cluster has brought.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// The number of outcomes that were stored.
    pub(crate) stored: usize,
    /// The tasks whose runs failed, by their indices, and why.
    pub(crate) failed: BTreeMap<usize, String>,
}

/// A reply with the index of its point in the job.
#[derive(Debug, Deserialize)]
struct Delivered {
    index: usize,
    reply: Reply<Outcome>,
}

/// Runs the points that the journals of `tasks` do not have, and stores their outcomes there.
pub(crate) fn run(
    cluster: &dyn Cluster,
    tasks: &[Task<'_>],
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress),
) -> Result<Carried, StudyError> {
    let keys = tasks.iter().map(Task::key).collect::<Result<Vec<_>, _>>()?;
    let is_missing = |(own, task): &(usize, &Task<'_>)| task.fresh || task.journal.load(&keys[*own]).is_none();
    let missing: Vec<(usize, &Task<'_>)> = tasks.iter().enumerate().filter(is_missing).collect();
    let kept = tasks.len() - missing.len();
    let mut hashes: Vec<String> = Vec::new();
    let mut scenarios = Vec::new();
    let points = missing.iter().map(|(_, task)| {
        let hash = task.scenario.hash();
        let scenario = hashes.iter().position(|known| *known == hash).unwrap_or_else(|| {
            hashes.push(hash);
            scenarios.push(task.scenario.portable());
            scenarios.len() - 1
        });
        Place { scenario, point: task.point }
    });
    let points = points.collect();
    let job = serde_json::to_string(&Job { build: BUILD, scenarios, points })
        .map_err(|error| StudyError::Cluster { problem: error.to_string() })?;
    let (mut delivered, mut carried) = (0, Carried::default());
    if missing.is_empty() {
        return Ok(carried);
    }
    let start = Instant::now();
    let result = cluster.run(&job, stop, &mut |line| {
        let wrong = |problem| StudyError::Cluster { problem };
        let Delivered { index, reply } = serde_json::from_str(line)
            .map_err(|error| wrong(format!("a reply cannot be read: {error}; use the same version everywhere")))?;
        let (own, task) =
            missing.get(index).ok_or_else(|| wrong(format!("a reply to point {index}, which is none")))?;
        match reply.outcome {
            Ok(outcome) => {
                task.journal.store(&keys[*own], &outcome, reply.wall_s)?;
                carried.stored += 1;
            }
            Err(Problem::Failed(reason)) => drop(carried.failed.insert(*own, reason)),
            Err(Problem::Other(problem)) => return Err(wrong(format!("at {}: {problem}", task.point))),
        }
        delivered += 1;
        let left = start.elapsed().mul_f64((missing.len() - delivered) as f64 / delivered as f64);
        watch(Progress { done: kept + delivered, kept, total: tasks.len(), left: Some(left), ..Progress::default() });
        Ok(())
    });
    if stop.load(Ordering::Relaxed) && delivered < missing.len() {
        return Err(StudyError::Interrupted { done: kept + delivered, total: tasks.len() });
    }
    result.map(|()| carried)
}

/// Runs points of a scenario, on a worker: a [`Portable`] and points in JSON. Returns a reply for each.
pub fn run_points(portable: &str, points: &[String], world: &dyn World, registries: &Registries) -> Vec<String> {
    let scenario = serde_json::from_str(portable)
        .map_err(|error| error.to_string())
        .and_then(|portable| Scenario::from_portable(portable).map_err(|error| error.to_string()));
    let reply = |point: &String| {
        let start = Instant::now();
        let outcome = scenario.clone().map_err(Problem::Other);
        let outcome = outcome.and_then(|scenario| self::outcome(&scenario, point, world, registries));
        let reply = Reply { outcome, wall_s: start.elapsed().as_secs_f64() };
        serde_json::to_string(&reply)
            .unwrap_or_else(|error| format!("{{\"outcome\":{{\"Err\":{{\"Other\":\"{error}\"}}}},\"wall_s\":0}}"))
    };
    points.iter().map(reply).collect()
}

fn outcome(
    scenario: &Scenario,
    point: &str,
    world: &dyn World,
    registries: &Registries,
) -> Result<Box<RawValue>, Problem> {
    let other = |error: &dyn ToString| Problem::Other(error.to_string());
    let values: toml::map::Map<String, Value> = serde_json::from_str(point).map_err(|error| other(&error))?;
    // Keys that were set are axes of the sender's scenario only, and all values may be valid only together.
    let mut scenario = scenario.clone();
    let set = values.iter().map(|(axis, value)| (axis.clone(), vec![value.clone()]));
    scenario.set_all(set).map_err(|error| other(&error))?;
    let axes = scenario.axes().iter().filter_map(|axis| Some((axis.name.clone(), values.get(&axis.name)?.clone())));
    let plan = scenario.plan(&axes.collect(), registries).map_err(|error| other(&error))?;
    let reached = RunProgress::default();
    let outcome = caught(|| world.run_with_progress(&plan, &reached));
    let outcome = outcome
        .map_err(|panic| Problem::Failed(panicked(&panic, &reached)))?
        .map_err(|error| if error.is_of_point() { Problem::Failed(error.to_string()) } else { other(&error) })?;
    serde_json::value::to_raw_value(&outcome).map_err(|error| other(&error))
}
