//! A run directory: a description of the run, its finished points and its tables.
//!
//! ```text
//!   runs/offered_load-1f2e3d4c5b6a7980/
//!     run.json          title, world, axes, schemes with all settings, build, date, machine; skipped and failed points,
//!                       degraded flows, the reasons
//!     lock              the process that writes here
//!     scenario.toml     the scenario's text              beside.json    the files that it names, if there are any
//!     points/           the journal: one file per finished point, also of earlier versions of the scenario
//!     runs.parquet      one row per run                  links.parquet  one row per run and measured link
//!     flows.parquet     one row per run and flow         *_series.parquet  samples over time, if the scenario has `series`
//! ```
//!
//! The tables are those of the last command. If that was interrupted, they have what was finished.

mod info;
mod lock;
mod settings;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rampmeter_scenario::{Point, Portable, Registries, Scenario, Schema, Summary, World};

use self::info::RunInfo;
use self::lock::Lock;
pub use self::settings::ChangedSetting;
use crate::cluster::BUILD;
use crate::journal::{short_hash, write_atomically};
use crate::metrics::Metrics;
use crate::{Finished, Journal, Program, Progress, StudyError, Sweep, Task, tables};

const SCENARIO: &str = "scenario.toml";
const BESIDE: &str = "beside.json";
const POINTS: &str = "points";

/// The names of the tables that are not equal, to the bit, in two run directories.
pub fn tables_that_differ(one: &Path, other: &Path) -> Result<Vec<String>, StudyError> {
    let content = |directory: &Path, name: &str| {
        let file = directory.join(name);
        let read = file.exists().then(|| fs::read(&file)).transpose();
        read.map_err(|error| StudyError::file(&file, "read", &error))
    };
    let mut different = Vec::new();
    for (table, _) in Schema::default().tables() {
        let name = format!("{table}.parquet");
        if content(one, &name)? != content(other, &name)? {
            different.push(name);
        }
    }
    Ok(different)
}

/// A run directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    info: RunInfo,
    journal: Journal,
    /// The points that the tables had before.
    points_before: usize,
    /// Whether finished points run again.
    fresh: bool,
    _lock: Option<Lock>,
}

/// The default directory of a run: `runs/`, the file's stem, and a hash of the file's place and of the world. So all
/// versions of a scenario have one directory, and its finished points are kept.
pub fn default_directory(file: &Path, world: &dyn World) -> PathBuf {
    let is_toml = file.extension().is_some_and(|extension| extension == "toml");
    let name = if is_toml { file.file_stem() } else { file.file_name() }; // a condition's name may contain a dot
    let name = name.map_or("scenario".into(), |name| name.to_string_lossy());
    let place = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    Path::new("runs").join(format!("{name}-{}", short_hash(&[&place.to_string_lossy(), world.name()])))
}

impl Directory {
    /// Creates the directory at `path`, or opens it if it holds runs of the same file in the same world. Finished points
    /// that the same program ran are kept, unless the run is `fresh`.
    pub fn open(
        path: impl Into<PathBuf>,
        file: &Path,
        scenario: &Scenario,
        world: &dyn World,
        program: Program,
        fresh: bool,
    ) -> Result<Self, StudyError> {
        let path = path.into();
        let existing = || {
            let existing = RunInfo::read(&path)?;
            match existing.as_ref().and_then(|existing| existing.differs(file, world)) {
                Some(what) => Err(StudyError::Taken { directory: path.clone(), what }),
                None => Ok(existing),
            }
        };
        existing()?; // before anything is written there
        fs::create_dir_all(&path).map_err(|error| StudyError::file(&path, "made", &error))?;
        let lock = Some(Lock::new(&path)?);
        let existing = existing()?;
        let points_before = existing.map_or(0, |existing| existing.finished);
        let journal = Journal::open(path.join(POINTS), program)?;
        let info = RunInfo::new(file, scenario, world, journal.program().clone());
        let directory = Self { path, info, journal, points_before, fresh, _lock: lock };
        directory.write_scenario(scenario)?;
        directory.info.write(&directory.path)?;
        Ok(directory)
    }

    /// Opens the directory at `path` to read it: with its scenario and the name of its world. Points of the
    /// program of its last run count.
    pub fn read(path: impl Into<PathBuf>) -> Result<(Self, Scenario), StudyError> {
        let path = path.into();
        let info = if path.join("run.json").exists() { RunInfo::read(&path)? } else { None };
        let Some(info) = info else { return Err(StudyError::NoRun { directory: path }) };
        let text = |name: &str| {
            let file = path.join(name);
            fs::read_to_string(&file).map_err(|error| StudyError::file(&file, "read", &error))
        };
        let beside: BTreeMap<String, String> = if path.join(BESIDE).exists() {
            let bad = |error| StudyError::file(&path.join(BESIDE), "read", &error);
            serde_json::from_str(&text(BESIDE)?).map_err(bad)?
        } else {
            BTreeMap::new()
        };
        let mut scenario =
            Scenario::from_portable(Portable { file: info.scenario.clone(), text: text(SCENARIO)?, beside })?;
        scenario.set_all(info.axes())?;
        let journal = Journal::of(path.join(POINTS), info.program.clone());
        let points_before = info.finished;
        Ok((Self { path, info, journal, points_before, fresh: false, _lock: None }, scenario))
    }

    /// How many finished points its tables had before, if they have fewer now.
    pub fn had_more(&self) -> Option<usize> {
        Some(self.points_before).filter(|before| *before > self.info.finished)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the world of its runs.
    pub fn world(&self) -> &str {
        &self.info.world
    }

    /// The name of its scenario's file.
    pub fn scenario(&self) -> &str {
        &self.info.scenario
    }

    /// Whether this program, or another one of the same sources, made its last run.
    pub fn is_of_this_build(&self) -> bool {
        self.info.build == BUILD
    }

    /// Runs the points that it does not hold yet and writes the tables, also if that is interrupted. `scenario` and
    /// `world` must be those that it was opened with. Results are in the order of the scenario's points.
    pub fn run(
        &mut self,
        sweep: &Sweep<'_>,
        scenario: &Scenario,
        world: &dyn World,
        watch: impl FnMut(Progress),
    ) -> Result<Vec<Finished<Summary>>, StudyError> {
        let points = scenario.points();
        let metrics = Metrics::of(scenario, sweep.schema, sweep.registries)?;
        self.info.schemes = settings::settings(scenario, sweep.registries)?;
        self.info.write(&self.path)?;
        let keep = |run| metrics.summary(sweep.schema, &run);
        let results = sweep.run(&self.tasks(scenario, &points, world), keep, watch);
        match results {
            Ok(results) => {
                self.info.set_results(&results);
                self.write_tables(
                    sweep,
                    scenario,
                    world,
                    &results.iter().map(|it| it.as_ref().ok()).collect::<Vec<_>>(),
                )?;
                Ok(results)
            }
            Err(error) => {
                let kept = self.kept(scenario, world, sweep.registries, sweep.schema)?;
                self.info.finished = kept.iter().flatten().count();
                self.write_tables(sweep, scenario, world, &kept.iter().map(Option::as_ref).collect::<Vec<_>>())?;
                Err(error)
            }
        }
    }

    /// The settings of its schemes that are not the defaults.
    pub fn changed_settings(
        &self,
        scenario: &Scenario,
        registries: &Registries,
    ) -> Result<Vec<ChangedSetting>, StudyError> {
        Ok(settings::changed(&self.info.schemes, scenario, registries)?)
    }

    /// The summaries of the points that are finished, in the order of the scenario's points; `None` for the others.
    pub fn kept(
        &self,
        scenario: &Scenario,
        world: &dyn World,
        registries: &Registries,
        schema: &Schema,
    ) -> Result<Vec<Option<Summary>>, StudyError> {
        let metrics = Metrics::of(scenario, schema, registries)?;
        let summary = |task: &Task<'_>| Ok(task.kept(registries)?.map(|run| metrics.summary(schema, &run)));
        self.tasks(scenario, &scenario.points(), world).iter().map(summary).collect()
    }

    fn tasks<'a>(&'a self, scenario: &'a Scenario, points: &'a [Point], world: &'a dyn World) -> Vec<Task<'a>> {
        points.iter().map(|point| Task { scenario, point, world, journal: &self.journal, fresh: self.fresh }).collect()
    }

    /// Writes the description and the tables; `summaries` are those of the points that are finished.
    fn write_tables(
        &self,
        sweep: &Sweep<'_>,
        scenario: &Scenario,
        world: &dyn World,
        summaries: &[Option<&Summary>],
    ) -> Result<(), StudyError> {
        let points = scenario.points();
        let tasks = self.tasks(scenario, &points, world);
        let finished = tasks.iter().zip(summaries).filter_map(|(task, summary)| Some((task, (*summary)?)));
        tables::write(&self.path, scenario, sweep.schema, &finished.collect::<Vec<_>>(), sweep.registries)?;
        self.info.write(&self.path)
    }

    /// Writes the scenario with all that it names, as it is run now.
    fn write_scenario(&self, scenario: &Scenario) -> Result<(), StudyError> {
        let Portable { text, beside, .. } = scenario.portable();
        write_atomically(&self.path.join(SCENARIO), text.as_bytes())?;
        let file = self.path.join(BESIDE);
        if beside.is_empty() {
            return match fs::remove_file(&file) {
                Err(error) if file.exists() => Err(StudyError::file(&file, "removed", &error)),
                _ => Ok(()),
            };
        }
        let text = serde_json::to_vec(&beside).map_err(|error| StudyError::file(&file, "written", &error))?;
        write_atomically(&file, &text)
    }
}
