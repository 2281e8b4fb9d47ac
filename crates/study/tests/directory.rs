//! A run directory keeps finished points, and its tables do not depend on the order of execution.

mod common;

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use common::{Made, TEXT};
use parquet::file::reader::{FileReader, SerializedFileReader};
use rampmeter_scenario::{Registries, Scenario, Schema, Summary, values};
use rampmeter_study::{Directory, Finished, Program, Progress, Resume, StudyError, Sweep};
use tempfile::tempdir;

const TABLES: [&str; 5] = ["runs", "links", "flows", "link_series", "flow_series"];

fn scenario() -> Scenario {
    Scenario::parse("six.toml", TEXT).unwrap()
}

struct Run<'a> {
    directory: &'a Path,
    scenario: &'a Scenario,
    world: &'a Made,
    jobs: usize,
    resume: Resume,
    /// The run is interrupted after this many points; 0 for never.
    stop_after: usize,
}

impl<'a> Run<'a> {
    fn of(directory: &'a Path, scenario: &'a Scenario, world: &'a Made) -> Self {
        Self { directory, scenario, world, jobs: 1, resume: Resume::default(), stop_after: 0 }
    }

    fn run(&self) -> Result<(Vec<Finished<Summary>>, Progress), StudyError> {
        let (registries, schema, stop) = (Registries::default(), Schema::default(), &self.world.stop);
        stop.store(false, Ordering::SeqCst);
        let last_run = if self.stop_after > 0 { self.world.runs.load(Ordering::SeqCst) + self.stop_after } else { 0 };
        self.world.interrupt_in.store(last_run, Ordering::SeqCst);
        let program = Program::this().unwrap();
        let file = Path::new("six.toml");
        let mut directory = Directory::open(self.directory, file, self.scenario, self.world, program, self.resume)?;
        let sweep = Sweep { registries: &registries, schema: &schema, jobs: Some(self.jobs), stop, cluster: None };
        let mut last = None;
        let results = directory.run(&sweep, self.scenario, self.world, |progress| last = Some(progress))?;
        Ok((results, last.unwrap()))
    }
}

fn tables(directory: &Path) -> Vec<Vec<u8>> {
    TABLES.iter().map(|name| fs::read(directory.join(format!("{name}.parquet"))).unwrap()).collect()
}

#[test]
fn tables_are_identical_on_one_thread_and_on_many() {
    let (one, many) = (tempdir().unwrap(), tempdir().unwrap());
    let (scenario, world) = (scenario(), Made::default());
    Run::of(one.path(), &scenario, &world).run().unwrap();
    Run { jobs: 4, ..Run::of(many.path(), &scenario, &world) }.run().unwrap();
    assert_eq!(tables(one.path()), tables(many.path()));
}

#[test]
fn an_interrupted_run_resumes_with_the_same_result() {
    let (whole, broken) = (tempdir().unwrap(), tempdir().unwrap());
    let (scenario, world) = (scenario(), Made::default());
    Run::of(whole.path(), &scenario, &world).run().unwrap();
    let before = world.runs.load(Ordering::SeqCst);
    let error = Run { stop_after: 3, ..Run::of(broken.path(), &scenario, &world) }.run().unwrap_err();
    assert!(matches!(error, StudyError::Interrupted { done: 3, total: 12 }), "{error}");
    let (_, progress) = Run::of(broken.path(), &scenario, &world).run().unwrap();
    assert_eq!(progress.kept, 3);
    assert_eq!(world.runs.load(Ordering::SeqCst), before + 8, "no point ran twice");
    assert_eq!(tables(whole.path()), tables(broken.path()));
}

#[test]
fn a_complete_run_and_a_fresh_one_start_over() {
    let (directory, scenario, world) = (tempdir().unwrap(), scenario(), Made::default());
    Run::of(directory.path(), &scenario, &world).run().unwrap();
    let (_, progress) = Run::of(directory.path(), &scenario, &world).run().unwrap();
    assert_eq!(progress.kept, 0);
    Run { stop_after: 3, ..Run::of(directory.path(), &scenario, &world) }.run().unwrap_err();
    let (_, progress) = Run { resume: Resume::Never, ..Run::of(directory.path(), &scenario, &world) }.run().unwrap();
    assert_eq!(progress.kept, 0);
}

#[test]
fn a_complete_run_is_kept_on_request() {
    let (directory, scenario, world) = (tempdir().unwrap(), scenario(), Made::default());
    Run::of(directory.path(), &scenario, &world).run().unwrap();
    let before = tables(directory.path());
    let (_, progress) = Run { resume: Resume::Always, ..Run::of(directory.path(), &scenario, &world) }.run().unwrap();
    assert_eq!(progress.kept, 8);
    assert_eq!(tables(directory.path()), before);
}

#[test]
fn a_directory_of_another_run_is_not_changed() {
    let (directory, world) = (tempdir().unwrap(), Made::default());
    Run::of(directory.path(), &scenario(), &world).run().unwrap();
    let mut fewer = scenario();
    fewer.set("load", values("0.5")).unwrap();
    let other = Scenario::parse("six.toml", &TEXT.replace("10 Mb/s", "11 Mb/s")).unwrap();
    for (scenario, word) in [(&fewer, "other values of the axes"), (&other, "another scenario")] {
        let error = Run::of(directory.path(), scenario, &world).run().unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains(word), "{error}");
    }
    let other = tempdir().unwrap();
    fs::write(other.path().join("thesis.tex"), "years of work").unwrap();
    let error = Run::of(other.path(), &scenario(), &world).run().unwrap_err();
    assert!(error.is_bad_input() && other.path().join("thesis.tex").exists(), "{error}");
}

#[test]
fn a_truncated_file_is_not_a_finished_point() {
    let (directory, scenario, world) = (tempdir().unwrap(), scenario(), Made::default());
    Run { stop_after: 5, ..Run::of(directory.path(), &scenario, &world) }.run().unwrap_err();
    for entry in fs::read_dir(directory.path().join("points")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
    }
    let (_, progress) = Run::of(directory.path(), &scenario, &world).run().unwrap();
    assert_eq!(progress.kept, 0);
}

#[test]
fn points_that_the_world_cannot_run_are_listed() {
    let (directory, scenario, world) = (tempdir().unwrap(), scenario(), Made::default());
    let (results, _) = Run::of(directory.path(), &scenario, &world).run().unwrap();
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 4);
    let about: serde_json::Value =
        serde_json::from_slice(&fs::read(directory.path().join("run.json")).unwrap()).unwrap();
    assert_eq!((&about["points"], &about["finished"]), (&12.into(), &8.into()));
    assert!(about["skipped"][0]["reason"].as_str().unwrap().contains("kernel TCP"), "{about}");
    assert_eq!(about["scenario_sha256"], scenario.hash());
}

#[test]
fn tables_are_tidy_and_typed() {
    let (directory, scenario, world) = (tempdir().unwrap(), scenario(), Made::default());
    Run::of(directory.path(), &scenario, &world).run().unwrap();
    let open = |name: &str| {
        SerializedFileReader::new(fs::File::open(directory.path().join(format!("{name}.parquet"))).unwrap()).unwrap()
    };
    let runs = open("runs");
    assert_eq!(runs.metadata().file_metadata().num_rows(), 8);
    let first = runs.get_row_iter(None).unwrap().next().unwrap().unwrap().to_string();
    assert!(
        first.starts_with(r#"{scheme: "reno", load: 0.25, seed: 1, world: "simulated", data_packets: "#),
        "{first}"
    );
    let flow = open("flows").get_row_iter(None).unwrap().next().unwrap().unwrap().to_string();
    let start =
        r#"{scheme: "reno", load: 0.25, seed: 1, flow: 0, traffic: "transfers", flow_scheme: "reno", measured: true"#;
    assert!(flow.starts_with(start) && flow.contains("fct_s: null, size_bytes: 50000"), "{flow}");
    assert_eq!(open("link_series").metadata().file_metadata().num_rows(), 8);
}

#[test]
fn an_axis_named_like_a_column_keeps_its_name() {
    let text = TEXT.replace("load = [0.25, 0.5]", "load = [0.25, 0.5]\nlink = [50]").replace("= 50 }", "= \"$link\" }");
    let (directory, world) = (tempdir().unwrap(), Made::default());
    let scenario = Scenario::parse("six.toml", &text).unwrap();
    Run::of(directory.path(), &scenario, &world).run().unwrap();
    let file = fs::File::open(directory.path().join("links.parquet")).unwrap();
    let row = SerializedFileReader::new(file).unwrap().get_row_iter(None).unwrap().next().unwrap().unwrap().to_string();
    assert!(row.contains("link: 50") && row.contains("its_link: \"wire\""), "{row}");
}
