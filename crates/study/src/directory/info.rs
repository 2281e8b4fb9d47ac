//! `run.json`: the description of a run.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use rampmeter_scenario::{DegradedSummary, Scenario, Summary, World};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::lock::LOCK;
use crate::cluster::BUILD;
use crate::journal::write_atomically;
use crate::{Finished, Program, StudyError, Unfinished};

/// The description of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunInfo {
    title: String,
    /// The name of its file.
    pub(super) scenario: String,
    scenario_sha256: String,
    pub(super) world: String,
    version: String,
    /// The sources of the simulator, as a hash.
    pub(super) build: String,
    /// The program whose points count.
    pub(super) program: Program,
    /// When the last command began, in UTC: `2026-03-01T12:00:00Z`.
    date: String,
    machine: Machine,
    axes: Map<String, Value>,
    /// All settings of each scheme. A run of an older version has none.
    #[serde(default)]
    pub(super) schemes: Map<String, Value>,
    points: usize,
    pub(super) finished: usize,
    skipped: Vec<Unfinished>,
    failed: Vec<Unfinished>,
    degraded: Vec<DegradedFlows>,
}

/// The machine of a run.
#[derive(Debug, Serialize, Deserialize)]
struct Machine {
    /// The kernel and its release.
    system: String,
    processor: String,
    cores: usize,
}

impl Machine {
    fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease");
        let processor = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned()));
        Self {
            system: format!("{} {}", std::env::consts::OS, release.trim()),
            processor: processor.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
        }
    }
}

/// Flows of a point that were degraded.
#[derive(Debug, Serialize, Deserialize)]
struct DegradedFlows {
    point: String,
    #[serde(flatten)]
    flows: DegradedSummary,
}

impl RunInfo {
    /// The description of a run that begins.
    pub(super) fn new(file: &Path, scenario: &Scenario, world: &dyn World, program: Program) -> Self {
        Self {
            title: scenario.title().to_owned(),
            scenario: name(file),
            scenario_sha256: scenario.hash(),
            world: world.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: BUILD.to_owned(),
            program,
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            machine: Machine::this(),
            axes: axes(scenario),
            schemes: Map::new(),
            points: scenario.points().len(),
            finished: 0,
            skipped: Vec::new(),
            failed: Vec::new(),
            degraded: Vec::new(),
        }
    }

    /// The axes with their values.
    pub(super) fn axes(&self) -> Vec<(String, Vec<toml::Value>)> {
        let value = |value: &Value| toml::Value::try_from(value).ok();
        let values = |values: &Value| values.as_array().into_iter().flatten().filter_map(value).collect();
        self.axes.iter().map(|(axis, list)| (axis.clone(), values(list))).collect()
    }

    /// Notes the results of all points.
    pub(super) fn set_results(&mut self, results: &[Finished<Summary>]) {
        self.finished = results.iter().flatten().count();
        let unfinished = results.iter().filter_map(|result| result.clone().err());
        (self.failed, self.skipped) = unfinished.partition(|it| it.is_failed);
        let of_run = |run: &Summary| {
            let point = run.point.to_string();
            let flows = run.degraded.iter().cloned();
            flows.map(move |flows| DegradedFlows { point: point.clone(), flows }).collect::<Vec<_>>()
        };
        self.degraded = results.iter().flatten().flat_map(of_run).collect();
    }

    /// Writes `run.json` in `directory`.
    pub(super) fn write(&self, directory: &Path) -> Result<(), StudyError> {
        let path = directory.join("run.json");
        let text = serde_json::to_string_pretty(self).map_err(|error| StudyError::file(&path, "written", &error))?;
        write_atomically(&path, (text + "\n").as_bytes())
    }

    /// The description of the run in the directory at `path`; `None` if the directory is missing or empty.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, StudyError> {
        let taken = |what: &str| StudyError::Taken { directory: path.to_owned(), what: what.to_owned() };
        let file = path.join("run.json");
        if !file.exists() {
            // Other content of the directory must not be overwritten. A command that begins has only its lock there.
            let begins = path.join(LOCK).exists();
            let busy =
                !begins && (path.is_file() || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()));
            return if busy { Err(taken("is not a run directory")) } else { Ok(None) };
        }
        let text = fs::read_to_string(&file).map_err(|error| StudyError::file(&file, "read", &error))?;
        serde_json::from_str(&text).map(Some).map_err(|_| taken("holds a run.json of another format"))
    }

    /// Why runs of this file in this world do not belong there.
    pub(super) fn differs(&self, file: &Path, world: &dyn World) -> Option<String> {
        if self.scenario != name(file) {
            Some(format!("holds runs of another scenario (`{}`)", self.scenario))
        } else if self.world != world.name() {
            Some(format!("holds runs in the {} world", self.world))
        } else {
            None
        }
    }
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

fn axes(scenario: &Scenario) -> Map<String, Value> {
    let value = |value: &toml::Value| serde_json::to_value(value).unwrap_or_default();
    let values = |axis: &rampmeter_scenario::Axis| Value::Array(axis.values.iter().map(value).collect());
    scenario.axes().iter().map(|axis| (axis.name.clone(), values(axis))).collect()
}
