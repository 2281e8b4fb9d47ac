//! `rampmeter._engine`: runs scenarios in the calling process (`python/rampmeter/emulation.py` starts one for real
//! packets), the client of this host's Congestion Manager, and files and streams on real networks.
//!
//! This module only converts: values come in as Python's types, results stay in a run directory, and Python's lock is
//! released during a run. `python/rampmeter` has the typed and documented interface.

mod cm;
mod net;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rampmeter_linux::Emulated;
use rampmeter_scenario::{Registries, Scenario, Schema, World};
use rampmeter_sim::Simulated;
use rampmeter_study::{Cluster, Directory, Finished, Program, Progress, StudyError, Sweep, TraceOptions, Traced};

pyo3::create_exception!(
    rampmeter,
    ScenarioError,
    PyValueError,
    "An error in a scenario, with its place and the remedy."
);
pyo3::create_exception!(rampmeter, WorldError, PyRuntimeError, "A scenario could not be run.");

/// The interval at which a run checks for Ctrl-C.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A value of an axis in Python's types.
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

/// Runs every point of the scenario at `path` and leaves the results in the directory `out`. Points that are finished
/// there are kept unless the run is `fresh`. `program` is the file of this module: points of another build of it are not
/// kept. Runs are traced in the directory `trace`, if there is one. `watch` is called from another thread with the number
/// of finished runs, the number of all runs, and the seconds left if they are known. `cluster`, if there is one, is
/// called with a job and a function for replies, and runs the points elsewhere.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "Python names what it gives")]
fn run(
    python: Python<'_>,
    path: PathBuf,
    world: &str,
    axes: Vec<(String, Vec<AxisValue>)>,
    jobs: Option<usize>,
    out: PathBuf,
    fresh: bool,
    trace: Option<PathBuf>,
    program: PathBuf,
    watch: Py<PyAny>,
    cluster: Option<Py<PyAny>>,
) -> PyResult<()> {
    let registries = rampmeter_stacks::registries();
    let scenario = read(&path, axes, &registries).map_err(|error| refuse(&error))?;
    let stop = Arc::new(AtomicBool::new(false));
    let world: Box<dyn World> = match world {
        "simulated" => Box::new(Simulated),
        "emulated" => Box::new(Emulated::new(Arc::clone(&stop))),
        _ => {
            let message = format!("no world is called `{world}`; there are simulated and emulated");
            return Err(ScenarioError::new_err(message));
        }
    };
    let fresh = fresh || trace.is_some();
    let traced = trace.map(|directory| Traced::new(&*world, TraceOptions::all(&directory)));
    let world: &dyn World = traced.as_ref().map_or(&*world, |traced| traced);
    let schema = Schema::default();
    let cluster = cluster.map(Carrier);
    let cluster = cluster.as_ref().map(|carrier| carrier as &dyn Cluster);
    let sweep = Sweep { registries: &registries, schema: &schema, jobs, stop: &stop, cluster };
    python.detach(|| {
        thread::scope(|scope| {
            let (done, result) = mpsc::sync_channel(1);
            let (scenario, sweep) = (&scenario, &sweep);
            let watch = move |progress| Python::attach(|python| report(python, &watch, progress));
            scope.spawn(move || {
                let directory = || Directory::open(out, &path, scenario, world, Program::of(&program)?, fresh);
                done.send(directory().and_then(|mut directory| directory.run(sweep, scenario, world, watch)))
            });
            loop {
                match result.recv_timeout(SIGNAL_CHECK_INTERVAL) {
                    Ok(result) => return result.map_err(|error| refuse(&error)).and_then(|results| check(&results)),
                    Err(RecvTimeoutError::Timeout) => Python::attach(|python| {
                        python.check_signals().inspect_err(|_| stop.store(true, Ordering::Relaxed))
                    })?,
                    Err(RecvTimeoutError::Disconnected) => unreachable!("the sweep ended without a result"),
                }
            }
        })
    })
}

fn read(path: &Path, axes: Vec<(String, Vec<AxisValue>)>, registries: &Registries) -> Result<Scenario, StudyError> {
    let mut scenario = Scenario::read(path)?;
    let values = |values: Vec<AxisValue>| values.into_iter().map(Into::into).collect();
    scenario.set_all(axes.into_iter().map(|(axis, of_axis)| (axis, values(of_axis))))?;
    scenario.check(registries)?;
    Ok(scenario)
}

/// A Python function that carries a job to a cluster: `rampmeter.cluster.carry` with its client.
struct Carrier(Py<PyAny>);

impl Cluster for Carrier {
    fn run(
        &self,
        job: &str,
        stop: &AtomicBool,
        deliver: &mut dyn FnMut(&str) -> Result<(), StudyError>,
    ) -> Result<(), StudyError> {
        let failed = |error: PyErr| StudyError::Cluster { problem: error.to_string() };
        Python::attach(|python| {
            let replies = self.0.bind(python).call1((job,)).map_err(failed)?;
            for reply in replies.try_iter().map_err(failed)? {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                deliver(&reply.and_then(|reply| reply.extract::<String>()).map_err(failed)?)?;
            }
            Ok(())
        })
    }
}

/// Runs points of a scenario on a worker of a cluster.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "Python hands it over")]
fn run_points(python: Python<'_>, portable: &str, points: Vec<String>) -> Vec<String> {
    python.detach(|| rampmeter_study::run_points(portable, &points, &Simulated, &rampmeter_stacks::registries()))
}

/// Calls `watch`. An exception there does not stop the run.
fn report(python: Python<'_>, watch: &Py<PyAny>, progress: Progress) {
    let left = progress.left.map(|left| left.as_secs_f64());
    if let Err(error) = watch.call1(python, (progress.done, progress.total, left)) {
        error.write_unraisable(python, None);
    }
}

/// Enters a user namespace, so that this process can run emulated networks without root if the system permits it;
/// otherwise the run reports the reason. The process must have only one thread.
#[pyfunction]
fn enter_user_namespace() {
    let _ = rampmeter_linux::enter_user_namespace();
}

/// An error if runs failed. The results of the others are in the run directory.
fn check<T>(results: &[Finished<T>]) -> PyResult<()> {
    let failed = results.iter().filter_map(|result| result.as_ref().err()).filter(|it| it.is_failed);
    let lines: Vec<String> = failed.map(|it| format!("failed at {}: {}", it.point, it.reason)).collect();
    if lines.is_empty() { Ok(()) } else { Err(WorldError::new_err(lines.join("\n"))) }
}

fn refuse(error: &StudyError) -> PyErr {
    let message = error.to_string();
    if error.is_bad_input() { ScenarioError::new_err(message) } else { WorldError::new_err(message) }
}

/// The extension module.
#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("BUILD", rampmeter_study::BUILD)?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add("WorldError", module.py().get_type::<WorldError>())?;
    module.add("CmError", module.py().get_type::<cm::CmError>())?;
    module.add_class::<cm::CmClient>()?;
    net::add(module)?;
    module.add_function(wrap_pyfunction!(cm::cm_strerror, module)?)?;
    module.add_function(wrap_pyfunction!(enter_user_namespace, module)?)?;
    module.add_function(wrap_pyfunction!(run_points, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)
}
