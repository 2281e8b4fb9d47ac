//! `rampmeter._engine`: scenarios run in the process that asks; `python/rampmeter/emulation.py` makes one for real packets.
//! And the client of this host's Congestion Manager.
//!
//! Nothing is decided here. Values come in as Python's own, results stay in a run folder, and Python's lock is free while
//! packets move. What is typed, documented and pleasant to use is `python/rampmeter`.

mod cm;

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
use rampmeter_study::{Folder, Program, Progress, Resume, StudyError, Sweep};

pyo3::create_exception!(
    rampmeter,
    ScenarioError,
    PyValueError,
    "What is wrong with a scenario, where, and what would be right."
);
pyo3::create_exception!(rampmeter, WorldError, PyRuntimeError, "Why a scenario could not be run.");

/// How often a run looks whether Ctrl-C was pressed.
const NAP: Duration = Duration::from_millis(50);

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

/// Runs every point of the scenario at `path` and leaves the results in the folder `out`. `resume` says whether points
/// that are finished there are kept; nothing: those of an interrupted run. `program` is the file of this module: points
/// of another build of it are not kept. `watch` is called, from another thread, with the runs that are done, all of them,
/// and the seconds left if that is known.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "Python names what it gives")]
fn run(
    python: Python<'_>,
    path: PathBuf,
    world: &str,
    axes: Vec<(String, Vec<AxisValue>)>,
    jobs: Option<usize>,
    out: PathBuf,
    resume: Option<bool>,
    program: PathBuf,
    watch: Py<PyAny>,
) -> PyResult<()> {
    let registries = Registries::default();
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
    let resume = match resume {
        None => Resume::Interrupted,
        Some(true) => Resume::Always,
        Some(false) => Resume::Never,
    };
    let schema = Schema::default();
    let sweep = Sweep { registries: &registries, schema: &schema, jobs, stop: &stop };
    python.detach(|| {
        thread::scope(|scope| {
            let (done, result) = mpsc::sync_channel(1);
            let (scenario, sweep, world) = (&scenario, &sweep, &*world);
            let tell = move |progress| Python::attach(|python| tell(python, &watch, progress));
            scope.spawn(move || {
                let folder = || Folder::open(out, &path, scenario, world, Program::of(&program)?, resume);
                done.send(folder().and_then(|mut folder| folder.run(sweep, scenario, world, tell)))
            });
            loop {
                match result.recv_timeout(NAP) {
                    Ok(result) => return result.map(drop).map_err(|error| refuse(&error)),
                    Err(RecvTimeoutError::Timeout) => Python::attach(interrupted).inspect_err(|_| {
                        stop.store(true, Ordering::Relaxed);
                    })?,
                    Err(RecvTimeoutError::Disconnected) => unreachable!("the sweep ended without a word"),
                }
            }
        })
    })
}

fn read(path: &Path, axes: Vec<(String, Vec<AxisValue>)>, registries: &Registries) -> Result<Scenario, StudyError> {
    let mut scenario = Scenario::read(path)?;
    for (axis, values) in axes {
        scenario.set(&axis, values.into_iter().map(Into::into).collect())?;
    }
    scenario.check(registries)?;
    Ok(scenario)
}

/// A run goes on if nobody can be told how far it is.
fn tell(python: Python<'_>, watch: &Py<PyAny>, progress: Progress) {
    let left = progress.left.map(|left| left.as_secs_f64());
    if let Err(error) = watch.call1(python, (progress.done, progress.total, left)) {
        error.write_unraisable(python, None);
    }
}

/// Makes this process able to run emulated networks without being root, if the system lets it: where it does not, the
/// run says why. The process must have one thread yet.
#[pyfunction]
fn enter_user_namespace() {
    let _ = rampmeter_linux::enter_user_namespace();
}

fn interrupted(python: Python<'_>) -> PyResult<()> {
    python.check_signals()
}

fn refuse(error: &StudyError) -> PyErr {
    let message = error.to_string();
    if error.is_bad_input() { ScenarioError::new_err(message) } else { WorldError::new_err(message) }
}

/// The extension module.
#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add("WorldError", module.py().get_type::<WorldError>())?;
    module.add("CmError", module.py().get_type::<cm::CmError>())?;
    module.add_class::<cm::CmClient>()?;
    module.add_function(wrap_pyfunction!(cm::cm_strerror, module)?)?;
    module.add_function(wrap_pyfunction!(enter_user_namespace, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)
}
