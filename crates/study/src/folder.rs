//! A run folder: what ran, its finished points, and the tables made of them.
//!
//! ```text
//!   runs/offered_load-1f2e3d4c5b6a7980/
//!     run.json          title, SHA-256 of the scenario's text, axes, world, version, points left out and why
//!     points/           the journal: one file a finished point
//!     runs.parquet      one row a run           links.parquet    one row a run and measured link
//!     flows.parquet     one row a run and flow  *_series.parquet samples over time, if the scenario asks for them
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use rampmeter_scenario::{Outcome, Run, Scenario, Summary, World};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::journal::{short_hash, write_whole};
use crate::{Finished, Journal, Program, Progress, Skipped, StudyError, Sweep, Task, tables};

/// What a folder is of.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    title: String,
    scenario: String,
    scenario_sha256: String,
    world: String,
    version: String,
    axes: Map<String, Value>,
    points: usize,
    finished: usize,
    skipped: Vec<Left>,
}

/// A point left out.
#[derive(Debug, Serialize, Deserialize)]
struct Left {
    point: String,
    reason: String,
}

/// Which finished points of its folder a run keeps. Points of another build of the program are never kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Resume {
    /// Those of an interrupted run; a complete run begins anew.
    #[default]
    Interrupted,
    /// Those of a complete run, too.
    Always,
    /// None.
    Never,
}

/// A run folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    about: About,
    journal: Journal,
}

/// Where a run goes if nobody says otherwise: `runs/`, the file's stem and a hash of all that the run is of.
pub fn default_folder(file: &Path, scenario: &Scenario, world: &dyn World) -> PathBuf {
    let stem = file.file_stem().map_or("scenario".into(), |stem| stem.to_string_lossy());
    let axes = Value::Object(axes(scenario)).to_string();
    Path::new("runs").join(format!("{stem}-{}", short_hash(&[&scenario.hash(), &axes, world.name()])))
}

fn axes(scenario: &Scenario) -> Map<String, Value> {
    let value = |value: &toml::Value| serde_json::to_value(value).unwrap_or_default();
    let values = |axis: &rampmeter_scenario::Axis| Value::Array(axis.values.iter().map(value).collect());
    scenario.axes().iter().map(|axis| (axis.name.clone(), values(axis))).collect()
}

impl Folder {
    /// Makes the folder at `path`, or opens it if it holds this very run, with the finished points that `resume` keeps.
    pub fn open(
        path: impl Into<PathBuf>,
        file: &Path,
        scenario: &Scenario,
        world: &dyn World,
        program: Program,
        resume: Resume,
    ) -> Result<Self, StudyError> {
        let path = path.into();
        let about = About {
            title: scenario.title().to_owned(),
            scenario: file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
            scenario_sha256: scenario.hash(),
            world: world.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            axes: axes(scenario),
            points: scenario.points().len(),
            finished: 0,
            skipped: Vec::new(),
        };
        let there = About::read(&path)?;
        if let Some(what) = there.as_ref().and_then(|there| about.differs(there)) {
            return Err(StudyError::Taken { folder: path, what });
        }
        let journal = Journal::open(path.join("points"), program)?;
        let kept = match resume {
            Resume::Interrupted => !there.is_some_and(|there| there.is_complete()),
            Resume::Always => true,
            Resume::Never => false,
        };
        if !kept {
            journal.clear()?;
        }
        let folder = Self { path, about, journal };
        folder.write_run()?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the points that it does not hold yet and writes the tables. `scenario` and `world` are those that it was
    /// opened for; results are in the order of the scenario's points.
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
        self.about.finished = results.iter().filter(|result| result.run().is_some()).count();
        self.about.skipped = results.iter().filter_map(Left::of).collect();
        self.write_run()?;
        Ok(results)
    }

    fn write_run(&self) -> Result<(), StudyError> {
        let path = self.path.join("run.json");
        let text =
            serde_json::to_string_pretty(&self.about).map_err(|error| StudyError::file(&path, "written", &error))?;
        write_whole(&path, (text + "\n").as_bytes())
    }
}

impl About {
    /// What the folder at `path` holds; `None` if it is not there or empty.
    fn read(path: &Path) -> Result<Option<Self>, StudyError> {
        let taken = |what: &str| StudyError::Taken { folder: path.to_owned(), what: what.to_owned() };
        let file = path.join("run.json");
        if !file.exists() {
            // Anything else there is none of ours to overwrite.
            let busy = path.is_file() || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
            return if busy { Err(taken("is something else than a run folder")) } else { Ok(None) };
        }
        let text = fs::read_to_string(&file).map_err(|error| StudyError::file(&file, "read", &error))?;
        serde_json::from_str(&text).map(Some).map_err(|_| taken("holds a run.json that is not ours"))
    }

    /// What makes `there` another run than this.
    fn differs(&self, there: &Self) -> Option<String> {
        if there.scenario_sha256 != self.scenario_sha256 {
            Some(format!("holds a run of another scenario or of another text of it (`{}`)", there.title))
        } else if there.world != self.world {
            Some(format!("holds a run in the {} world", there.world))
        } else if there.axes != self.axes {
            Some("holds a run with other values of the axes".to_owned())
        } else {
            None
        }
    }

    fn is_complete(&self) -> bool {
        self.finished + self.skipped.len() == self.points
    }
}

impl Left {
    fn of(result: &Finished<Summary>) -> Option<Self> {
        match result {
            Finished::Run(_) => None,
            Finished::Skipped(Skipped { point, reason }) => {
                Some(Self { point: point.to_string(), reason: reason.clone() })
            }
        }
    }
}
