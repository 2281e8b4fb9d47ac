//! `rampmeter._engine`: scenarios run in-process.
//!
//! Nothing is decided here. Values come in as Python's own, results leave as JSON texts, one a run, and Python's lock is
//! free while packets move. What is typed, documented and pleasant to use is `python/rampmeter`.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rampmeter_control::Registry;
use rampmeter_scenario::{Plan, Scenario, Summary, World};
use rampmeter_sim::Simulated;
use serde_json::json;

pyo3::create_exception!(
    rampmeter,
    ScenarioError,
    PyValueError,
    "What is wrong with a scenario, and what would be right."
);
pyo3::create_exception!(rampmeter, WorldError, PyRuntimeError, "Why a world could not run a scenario.");

/// A value of an axis, as Python has it.
#[derive(FromPyObject)]
enum AxisValue {
    Bool(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

impl From<AxisValue> for toml::Value {
    fn from(value: AxisValue) -> Self {
        match value {
            AxisValue::Bool(value) => value.into(),
            AxisValue::Whole(value) => value.into(),
            AxisValue::Number(value) => value.into(),
            AxisValue::Text(value) => value.into(),
        }
    }
}

/// Runs every point of the scenario at `path` and gives one JSON object each, in the order of the sweep.
#[pyfunction]
fn run(
    python: Python<'_>,
    path: &str,
    world: &str,
    axes: Vec<(String, Vec<AxisValue>)>,
    jobs: Option<usize>,
) -> PyResult<Vec<String>> {
    if world != Simulated.name() {
        let message = format!("no world is called `{world}` here; there is `{}`", Simulated.name());
        return Err(WorldError::new_err(message));
    }
    let registry = Registry::default();
    let wrong = |error: rampmeter_scenario::ScenarioError| ScenarioError::new_err(error.to_string());
    let mut scenario = Scenario::read(path).map_err(wrong)?;
    for (axis, values) in axes {
        scenario.set(&axis, values.into_iter().map(Into::into).collect()).map_err(wrong)?;
    }
    scenario.check(&registry).map_err(wrong)?;
    let plans = scenario.points().iter().map(|point| scenario.plan(point, &registry)).collect::<Result<Vec<_>, _>>();
    let plans = plans.map_err(wrong)?;
    let jobs = jobs.or(thread::available_parallelism().ok().map(NonZero::get)).unwrap_or(1).clamp(1, plans.len());
    python.detach(|| run_all(&plans, &registry, jobs))
}

/// Runs `plans` on `jobs` threads. Ctrl-C stops after the runs under way.
fn run_all(plans: &[Plan], registry: &Registry, jobs: usize) -> PyResult<Vec<String>> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut results = vec![String::new(); plans.len()];
    let (done, finished) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (done, next, stop) = (done.clone(), &next, &stop);
            scope.spawn(move || {
                while let Some((place, plan)) = {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    plans.get(place).filter(|_| !stop.load(Ordering::Relaxed)).map(|plan| (place, plan))
                } {
                    if done.send((place, run_one(plan, registry))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        loop {
            let outcome = match finished.recv_timeout(Duration::from_millis(100)) {
                Ok((place, Ok(result))) => {
                    results[place] = result;
                    Ok(())
                }
                Ok((_, Err(message))) => Err(WorldError::new_err(message)),
                Err(mpsc::RecvTimeoutError::Timeout) => Python::attach(interrupted),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            };
            if outcome.is_err() {
                stop.store(true, Ordering::Relaxed);
                return outcome;
            }
        }
    })?;
    Ok(results)
}

fn interrupted(python: Python<'_>) -> PyResult<()> {
    python.check_signals()
}

fn run_one(plan: &Plan, registry: &Registry) -> Result<String, String> {
    let start = Instant::now();
    let outcome = Simulated.run(plan, registry).map_err(|error| error.to_string())?;
    let summary = Summary::of(plan, &outcome, Simulated.name(), start.elapsed().as_secs_f64());
    let flows = outcome.flows.iter().map(|flow| {
        json!({
            "flow": flow.flow,
            "traffic": plan.traffic[flow.traffic].name,
            "scheme": plan.schemes[flow.scheme].name,
            "start_s": flow.start.as_secs_f64(),
            "response_s": flow.response.map(rampmeter_units::Duration::as_secs_f64),
            "delivered_bytes": flow.delivered.as_u64(),
            "sent_packets": flow.sent_packets,
            "retransmitted_packets": flow.retransmitted_packets,
        })
    });
    Ok(json!({ "summary": summary, "flows": flows.collect::<Vec<_>>() }).to_string())
}

/// The extension module.
#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add("WorldError", module.py().get_type::<WorldError>())?;
    module.add_function(wrap_pyfunction!(run, module)?)
}
