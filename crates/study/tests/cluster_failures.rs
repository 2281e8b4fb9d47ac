//! A point that fails on a worker of a cluster is an error of that point, and no reason to stop.

mod common;

use std::sync::atomic::AtomicBool;

use common::TEXT;
use rampmeter_scenario::{Outcome, Plan, Registries, Scenario, Schema, World, WorldError};
use rampmeter_study::{Cluster, Journal, Program, StudyError, Sweep, Task, run_points};

/// Its runs panic where the load is 0.5.
struct Panics;

impl World for Panics {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn run(&self, plan: &Plan) -> Result<Outcome, WorldError> {
        assert!(plan.point.get("load").and_then(toml::Value::as_float) != Some(0.5), "too much\nload");
        Ok(Outcome::default())
    }
}

/// Runs points one after the other, as a worker does.
struct Worker;

impl Cluster for Worker {
    fn run(
        &self,
        job: &str,
        _stop: &AtomicBool,
        deliver: &mut dyn FnMut(&str) -> Result<(), StudyError>,
    ) -> Result<(), StudyError> {
        let job: serde_json::Value = serde_json::from_str(job).unwrap();
        for (index, place) in job["points"].as_array().unwrap().iter().enumerate() {
            let points = [place["point"].to_string()];
            let replies = run_points(&job["scenarios"][0].to_string(), &points, &Panics, &Registries::default());
            deliver(&format!("{{\"index\":{index},\"reply\":{}}}", replies[0]))?;
        }
        Ok(())
    }
}

#[test]
fn a_worker_sets_the_keys_of_a_point() {
    let mut scenario = Scenario::parse("six.toml", TEXT).unwrap();
    scenario.set("load", vec![0.2.into()]).unwrap();
    scenario.set("drain", vec!["3 s".into(), "4 s".into()]).unwrap();
    let point = |n: usize| serde_json::to_string(&scenario.points()[n]).unwrap();
    let portable = serde_json::to_string(&scenario.portable()).unwrap();
    let replies =
        run_points(&portable, &[point(0), point(scenario.points().len() - 1)], &Panics, &Registries::default());
    assert!(replies.iter().all(|reply| reply.starts_with("{\"outcome\":{\"Ok\"")), "{replies:?}");
    let wrong = point(0).replacen("drain", "drian", 1);
    let replies = run_points(&portable, &[wrong], &Panics, &Registries::default());
    assert!(replies[0].contains("no axis or key is called `drian`"), "{replies:?}");
}

#[test]
fn points_that_panic_fail_here_and_on_workers() {
    let scenario = Scenario::parse("six.toml", TEXT).unwrap();
    let points: Vec<_> = scenario.points();
    for cluster in [None, Some(&Worker as &dyn Cluster)] {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), Program::this().unwrap()).unwrap();
        let tasks: Vec<_> = points
            .iter()
            .map(|point| Task { scenario: &scenario, point, world: &Panics, journal: &journal, fresh: false })
            .collect();
        let (registries, schema, stop) = (Registries::default(), Schema::default(), AtomicBool::new(false));
        let sweep = Sweep { registries: &registries, schema: &schema, jobs: Some(2), stop: &stop, cluster };
        let results = sweep.run(&tasks, |run| run.plan.seed, |_| {}).unwrap();
        let mut failed = 0;
        for (point, result) in points.iter().zip(&results) {
            let is_wrong = point.get("load").and_then(toml::Value::as_float) == Some(0.5);
            assert_eq!(result.is_err(), is_wrong, "{point}: {result:?}");
            if let Err(unfinished) = result {
                assert!(unfinished.is_failed && unfinished.point == point.to_string(), "{unfinished:?}");
                assert!(unfinished.reason.contains("cluster_failures.rs:"), "{unfinished:?}");
                assert!(unfinished.reason.ends_with(": too much load"), "{unfinished:?}");
                failed += 1;
            }
        }
        assert!(failed > 0 && failed < points.len());
    }
}
