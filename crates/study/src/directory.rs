//! A run directory: a description of the run, its finished points and its tables.
//!
//! ```text
//!   runs/offered_load-1f2e3d4c5b6a7980/
//!     run.json          title, SHA-256 of the scenario's text, axes, world, version, skipped and failed points, degraded flows, the reasons
//!     points/           the journal: one file per finished point
//!     runs.parquet      one row per run         links.parquet    one row per run and measured link
//!     flows.parquet     one row per run and flow  *_series.parquet samples over time, if the scenario has `series`
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use rampmeter_scenario::{DegradedSummary, Outcome, Run, Scenario, Summary, World};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::journal::{short_hash, write_atomically};
use crate::{Finished, Journal, Program, Progress, StudyError, Sweep, Task, Unfinished, tables};

/// The description of a run in `run.json`.
#[derive(Debug, Serialize, Deserialize)]
struct RunInfo {
    title: String,
    scenario: String,
    scenario_sha256: String,
    world: String,
    version: String,
    axes: Map<String, Value>,
    points: usize,
    finished: usize,
    skipped: Vec<Unfinished>,
    #[serde(default)]
    failed: Vec<Unfinished>,
    #[serde(default)]
    degraded: Vec<DegradedFlows>,
}

/// Flows of a point that were degraded.
#[derive(Debug, Serialize, Deserialize)]
struct DegradedFlows {
    point: String,
    #[serde(flatten)]
    flows: DegradedSummary,
}

/// The finished points of its directory that a run keeps. Points of another build of the program are never kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Resume {
    /// The points of an interrupted run; a complete run starts over.
    #[default]
    Interrupted,
    /// Also the points of a complete run.
    Always,
    /// No points.
    Never,
}

/// A run directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    info: RunInfo,
    journal: Journal,
}

/// The default directory of a run: `runs/`, the file's stem and a hash of the scenario, its axes and the world.
pub fn default_directory(file: &Path, scenario: &Scenario, world: &dyn World) -> PathBuf {
    let is_toml = file.extension().is_some_and(|extension| extension == "toml");
    let name = if is_toml { file.file_stem() } else { file.file_name() }; // a condition's name may contain a dot
    let name = name.map_or("scenario".into(), |name| name.to_string_lossy());
    let axes = Value::Object(axes(scenario)).to_string();
    Path::new("runs").join(format!("{name}-{}", short_hash(&[&scenario.hash(), &axes, world.name()])))
}

fn axes(scenario: &Scenario) -> Map<String, Value> {
    let value = |value: &toml::Value| serde_json::to_value(value).unwrap_or_default();
    let values = |axis: &rampmeter_scenario::Axis| Value::Array(axis.values.iter().map(value).collect());
    scenario.axes().iter().map(|axis| (axis.name.clone(), values(axis))).collect()
}

impl Directory {
    /// Creates the directory at `path`, or opens it if it holds the same run, with the finished points that `resume`
    /// keeps.
    pub fn open(
        path: impl Into<PathBuf>,
        file: &Path,
        scenario: &Scenario,
        world: &dyn World,
        program: Program,
        resume: Resume,
    ) -> Result<Self, StudyError> {
        let path = path.into();
        let info = RunInfo {
            title: scenario.title().to_owned(),
            scenario: file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
            scenario_sha256: scenario.hash(),
            world: world.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            axes: axes(scenario),
            points: scenario.points().len(),
            finished: 0,
            skipped: Vec::new(),
            failed: Vec::new(),
            degraded: Vec::new(),
        };
        let existing = RunInfo::read(&path)?;
        if let Some(what) = existing.as_ref().and_then(|existing| info.differs(existing)) {
            return Err(StudyError::Taken { directory: path, what });
        }
        let journal = Journal::open(path.join("points"), program)?;
        let kept = match resume {
            Resume::Interrupted => existing.is_none_or(|it| it.finished + it.skipped.len() < it.points),
            Resume::Always => true,
            Resume::Never => false,
        };
        if !kept {
            journal.clear()?;
        }
        let directory = Self { path, info, journal };
        directory.write_run()?;
        Ok(directory)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the points that it does not hold yet and writes the tables. `scenario` and `world` must be those that it
    /// was opened with. Results are in the order of the scenario's points.
    pub fn run(
        &mut self,
        sweep: &Sweep<'_>,
        scenario: &Scenario,
        world: &dyn World,
        watch: impl FnMut(Progress),
    ) -> Result<Vec<Finished<Summary>>, StudyError> {
        let points = scenario.points();
        let tasks: Vec<Task<'_>> =
            points.iter().map(|point| Task { scenario, point, world, journal: &self.journal }).collect();
        let keep = |run| (Summary::of(sweep.schema, &run), Run { outcome: Outcome::default(), ..run });
        let results = sweep.run(&tasks, keep, watch)?;
        let results = tables::write(&self.path, scenario, sweep.schema, &self.journal, results)?;
        self.info.finished = results.iter().flatten().count();
        let unfinished = results.iter().filter_map(|result| result.clone().err());
        (self.info.failed, self.info.skipped) = unfinished.partition(|it| it.is_failed);
        let of_run = |run: &Summary| {
            let point = run.point.to_string();
            let flows = run.degraded.iter().cloned();
            flows.map(move |flows| DegradedFlows { point: point.clone(), flows }).collect::<Vec<_>>()
        };
        self.info.degraded = results.iter().flatten().flat_map(of_run).collect();
        self.write_run()?;
        Ok(results)
    }

    fn write_run(&self) -> Result<(), StudyError> {
        let path = self.path.join("run.json");
        let text =
            serde_json::to_string_pretty(&self.info).map_err(|error| StudyError::file(&path, "written", &error))?;
        write_atomically(&path, (text + "\n").as_bytes())
    }
}

impl RunInfo {
    /// The description of the run in the directory at `path`; `None` if the directory is missing or empty.
    fn read(path: &Path) -> Result<Option<Self>, StudyError> {
        let taken = |what: &str| StudyError::Taken { directory: path.to_owned(), what: what.to_owned() };
        let file = path.join("run.json");
        if !file.exists() {
            // Other content of the directory must not be overwritten.
            let busy = path.is_file() || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
            return if busy { Err(taken("is not a run directory")) } else { Ok(None) };
        }
        let text = fs::read_to_string(&file).map_err(|error| StudyError::file(&file, "read", &error))?;
        serde_json::from_str(&text).map(Some).map_err(|_| taken("holds a run.json of another format"))
    }

    /// The difference between the run of `existing` and this one.
    fn differs(&self, existing: &Self) -> Option<String> {
        if existing.scenario_sha256 != self.scenario_sha256 {
            Some(format!("holds a run of another scenario or of another version of it (`{}`)", existing.title))
        } else if existing.world != self.world {
            Some(format!("holds a run in the {} world", existing.world))
        } else if existing.axes != self.axes {
            Some("holds a run with other values of the axes".to_owned())
        } else {
            None
        }
    }
}
