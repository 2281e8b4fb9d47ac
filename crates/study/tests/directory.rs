//! A run directory keeps finished points, and its tables do not depend on the order of execution.

mod common;

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use common::{Made, TEXT};
use parquet::file::reader::{FileReader, SerializedFileReader};
use rampmeter_scenario::{Registries, Scenario, Schema, Summary, values};
use rampmeter_study::{Directory, Finished, Program, Progress, StudyError, Sweep, tables_that_differ};
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
    fresh: bool,
    /// The run is interrupted after this many points; 0 for never.
    stop_after: usize,
}

impl<'a> Run<'a> {
    fn of(directory: &'a Path, scenario: &'a Scenario, world: &'a Made) -> Self {
        Self { directory, scenario, world, jobs: 1, fresh: false, stop_after: 0 }
    }

    fn run(&self) -> Result<(Vec<Finished<Summary>>, Progress), StudyError> {
        let (registries, schema, stop) = (Registries::default(), Schema::default(), &self.world.stop);
        stop.store(false, Ordering::SeqCst);
        let last_run = if self.stop_after > 0 { self.world.runs.load(Ordering::SeqCst) + self.stop_after } else { 0 };
        self.world.interrupt_in.store(last_run, Ordering::SeqCst);
        let program = Program::this().unwrap();
        let file = Path::new("six.toml");
        let mut directory = Directory::open(self.directory, file, self.scenario, self.world, program, self.fresh)?;
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
fn a_complete_run_is_kept_unless_it_is_fresh() {
    let (directory, scenario, world) = (tempdir().unwrap(), scenario(), Made::default());
    Run::of(directory.path(), &scenario, &world).run().unwrap();
    let before = tables(directory.path());
    let (_, progress) = Run::of(directory.path(), &scenario, &world).run().unwrap();
    assert_eq!(progress.kept, 8);
    let (_, progress) = Run { fresh: true, ..Run::of(directory.path(), &scenario, &world) }.run().unwrap();
    assert_eq!(progress.kept, 0);
    assert_eq!(tables(directory.path()), before);
}

#[test]
fn another_version_of_a_scenario_repeats_only_what_it_changes() {
    let (directory, world) = (tempdir().unwrap(), Made::default());
    Run::of(directory.path(), &scenario(), &world).run().unwrap();
    let kept = |text: &str| {
        let scenario = Scenario::parse("six.toml", text).unwrap();
        Run::of(directory.path(), &scenario, &world).run().unwrap().1.kept
    };
    // Of twelve points four are of kernel TCP, which does not run here.
    assert_eq!(kept(&TEXT.replace("Six points", "Other words").replace("[meters]", "# A comment\n[meters]")), 8);
    assert_eq!(kept(&TEXT.replace("seed = [1, 2]", "seed = [1, 2, 3]")), 8);
    assert_eq!(kept(&TEXT.replace("load = [0.25, 0.5]", "load = [0.5, 0.75]")), 4);
    assert_eq!(kept(&TEXT.replace("10 Mb/s", "11 Mb/s")), 0);
    assert_eq!(kept(TEXT), 8, "the first version is still there");
}

#[test]
fn an_interrupted_run_can_be_read() {
    let (directory, scenario, world) = (tempdir().unwrap(), scenario(), Made::default());
    Run { stop_after: 3, ..Run::of(directory.path(), &scenario, &world) }.run().unwrap_err();
    let rows = SerializedFileReader::new(fs::File::open(directory.path().join("runs.parquet")).unwrap()).unwrap();
    assert_eq!(rows.metadata().file_metadata().num_rows(), 3);
    let (read, again) = Directory::read(directory.path()).unwrap();
    let kept = read.kept(&again, &world, &Registries::default(), &Schema::default()).unwrap();
    assert_eq!((kept.len(), kept.iter().flatten().count()), (12, 3));
}

#[test]
fn the_scenario_of_a_directory_gives_the_same_tables() {
    let (first, second, world) = (tempdir().unwrap(), tempdir().unwrap(), Made::default());
    let mut scenario = scenario();
    scenario.set("load", values("0.5,0.75")).unwrap();
    Run::of(first.path(), &scenario, &world).run().unwrap();
    let (_, again) = Directory::read(first.path()).unwrap();
    assert_eq!(again.points(), scenario.points());
    Run::of(second.path(), &again, &world).run().unwrap();
    assert_eq!(tables_that_differ(first.path(), second.path()).unwrap(), [""; 0]);
    scenario.set("load", values("0.5")).unwrap();
    Run::of(second.path(), &scenario, &world).run().unwrap();
    assert!(tables_that_differ(first.path(), second.path()).unwrap().contains(&"runs.parquet".to_owned()));
}

#[test]
fn values_that_are_valid_together_are_read_again() {
    let (directory, world) = (tempdir().unwrap(), Made::default());
    let text = TEXT.replace("duration = \"10 s\"", "duration = \"10 s\"\nwarmup = \"8 s\"");
    let mut scenario = Scenario::parse("six.toml", &text).unwrap();
    let set = |key: &str, value: &str| (key.to_owned(), values(value));
    scenario.set_all([set("duration", "5s"), set("warmup", "1s")]).unwrap();
    Run::of(directory.path(), &scenario, &world).run().unwrap();
    let (_, again) = Directory::read(directory.path()).unwrap();
    assert_eq!(again.points(), scenario.points());
}

#[test]
fn tables_of_series_go_with_the_series() {
    let (directory, world) = (tempdir().unwrap(), Made::default());
    Run::of(directory.path(), &scenario(), &world).run().unwrap();
    assert!(directory.path().join("link_series.parquet").exists());
    let without = Scenario::parse("six.toml", &TEXT.replace("[meters]\nseries = \"1 s\"\n", "")).unwrap();
    Run::of(directory.path(), &without, &world).run().unwrap();
    assert!(!directory.path().join("link_series.parquet").exists());
}

#[test]
fn a_directory_of_another_run_is_not_changed() {
    let (directory, world) = (tempdir().unwrap(), Made::default());
    Run::of(directory.path(), &scenario(), &world).run().unwrap();
    let emulated = Made { is_emulated: true, ..Made::default() };
    let error = Run::of(directory.path(), &scenario(), &emulated).run().unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("simulated world"), "{error}");
    let other = tempdir().unwrap();
    fs::write(other.path().join("thesis.tex"), "years of work").unwrap();
    let error = Run::of(other.path(), &scenario(), &world).run().unwrap_err();
    assert!(error.is_bad_input() && other.path().join("thesis.tex").exists(), "{error}");
    assert!(Directory::read(other.path()).unwrap_err().is_bad_input());
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
