//! Evaluations by the questions of RFC 9743 find what they are for: controllers that are broken on purpose fail exactly
//! the questions that ask for their fault, and a comparison with an earlier evaluation finds a regression and no others.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod own_questions;
mod suites;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use rampmeter_scenario::{Schema, World};
use rampmeter_sim::Simulated;
use rampmeter_study::evaluation::{
    Answered, Comparison, Evaluation, Evaluator, Questionnaire, Schemes, Suite, Verdict,
};
use rampmeter_study::{Program, Sweep, claims::Judge};

/// A directory with the questions of a suite, which goes with the test.
struct Study(PathBuf);

impl Study {
    fn new(name: &str, suite: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("rampmeter-{name}-{}", std::process::id()));
        Suite::called(suite).unwrap().write(&directory).unwrap();
        Self(directory)
    }

    fn questionnaire(&self) -> Questionnaire {
        Questionnaire::read(&self.0.join("questions.toml")).unwrap()
    }

    /// Asks `questions`, each with the values of its axes, of all `schemes`; the first one is evaluated.
    fn evaluate(&self, questions: &[(&str, &str)], names: &[&str], definitions: &str, seeds: &[u64]) -> Evaluation {
        let mut questionnaire = self.questionnaire();
        questionnaire.questions.retain_mut(|question| {
            let asked = questions.iter().find(|(id, _)| *id == question.id);
            asked.inspect(|(_, values)| question.set = values.parse().unwrap()).is_some()
        });
        assert_eq!(questionnaire.questions.len(), questions.len());
        self.answers(&questionnaire, false, names, definitions, seeds)
    }

    /// Asks the quick questions of `controller` and NewReno, both with ECN.
    fn evaluate_quickly(&self, controller: &str) -> Evaluation {
        let definition = format!("[scheme.{controller}]\ncontroller = '{controller}'\ntransport = {{ ecn = 'ect0' }}");
        self.answers(&self.questionnaire(), true, &[controller, "newreno"], &definition, &[1])
    }

    fn answers(
        &self,
        questionnaire: &Questionnaire,
        quick: bool,
        names: &[&str],
        definitions: &str,
        seeds: &[u64],
    ) -> Evaluation {
        let registries = faults::registries();
        let (own, file) = (self.0.join("own.toml"), self.0.join("schemes.toml"));
        std::fs::write(&own, definitions).unwrap();
        let mut schemes = Schemes::default();
        schemes.read(&file).unwrap();
        schemes.read(&own).unwrap();
        for name in names {
            schemes.need(name, &registries).unwrap();
        }
        std::fs::write(file, schemes.text()).unwrap();
        let (schema, stop, program) = (Schema::default(), AtomicBool::new(false), Program::this().unwrap());
        let worlds: [&dyn World; 1] = [&Simulated];
        let sweep = Sweep { registries: &registries, schema: &schema, jobs: None, stop: &stop, cluster: None };
        let judge =
            Judge { sweep, worlds: &worlds, directory: &self.0.join("points"), program: &program, fresh: false };
        let rivals: Vec<String> = names[1..].iter().map(|&name| name.to_owned()).collect();
        let (schemes, rivals) = (&schemes, &rivals[..]);
        Evaluator { judge, questionnaire, schemes, scheme: names[0], rivals, quick, seeds }.run(|_| {}).unwrap()
    }
}

impl Drop for Study {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_broken_controller_fails_exactly_where_it_should() {
    // A question, the values of its axes, and the schemes that fail it. NewReno passes all.
    let expected: [(&str, &str, &[&str]); 6] = [
        ("outage", "path = 'outage'", &["never-backs-off"]),
        ("no-feedback", "path = 'no-feedback'", &["never-backs-off"]),
        ("circuit-breaker", "loss = 0.1", &["never-backs-off"]),
        ("latecomer", "path = 'latecomer'", &["starves-latecomers"]),
        ("aqm-delay", "flows = 4\npath = 'codel'", &["ignores-ce", "never-backs-off"]),
        ("reordering", "path = ['in-order', 'jitter']", &["halves-at-every-reordering"]),
    ];
    let names = ["never-backs-off", "newreno", "starves-latecomers", "ignores-ce", "halves-at-every-reordering"];
    let evaluation = Study::new("faults", "rfc9743").evaluate(
        &expected.map(|(id, values, _)| (id, values)),
        &names,
        "[scheme]",
        &[1],
    );
    for (id, _, expected) in expected {
        assert_eq!(failing(&evaluation, id), expected, "{id}");
    }
}

/// Of all quick questions, those that the broken controller fails and NewReno does not.
#[test]
#[ignore = "all quick questions of four controllers: half a minute"]
fn a_broken_controller_fails_what_its_fault_harms() {
    let expected = [
        (
            "never-backs-off",
            "outage half-lost rate-falls-to-a-tenth crowd-loss crowd-goodput caused-loss rate-at-high-loss \
             unequal-round-trips short-beside-long starvation no-feedback harm-goodput harm-latency harm-loss call-loss \
             film-bitrate harm-short circuit-breaker slow-link-goodput slow-link-loss policer-loss transient-loss",
        ),
        (
            "starves-latecomers",
            "rate-falls-to-a-tenth equal-shares latecomer unequal-round-trips harm-goodput aqm-utilization \
             delay-changes-utilization",
        ),
        ("ignores-ce", "aqm-delay aqm-harm data-center-queue"),
        ("halves-at-every-reordering", "reordering"),
    ];
    for (broken, expected) in expected {
        let evaluation = Study::new(broken, "rfc9743").evaluate_quickly(broken);
        let fails = |question: &Answered, scheme: &str| {
            question.answers.iter().any(|answer| answer.scheme == scheme && answer.verdict == Verdict::Fails)
        };
        let failing = evaluation.questions().filter(|&asked| fails(asked, broken) && !fails(asked, "newreno"));
        let failing: Vec<&str> = failing.map(|question| question.id.as_str()).collect();
        assert_eq!(failing.join(" "), expected, "{broken}");
    }
}

/// The schemes that fail the question `id`, by name.
fn failing<'a>(evaluation: &'a Evaluation, id: &str) -> Vec<&'a str> {
    let question = evaluation.questions().find(|question| question.id == id).unwrap();
    assert!(question.answers.iter().all(|answer| answer.verdict != Verdict::Skipped), "{id}");
    let failing = question.answers.iter().filter(|answer| answer.verdict == Verdict::Fails);
    let mut failing: Vec<&str> = failing.map(|answer| answer.scheme.as_str()).collect();
    failing.sort_unstable();
    failing
}

/// A fault that an implementation of QUIC had: its CUBIC reduced the window to 59.5% at a loss, and not to 70%. It then
/// leaves about 5% more of a link with a short queue idle.
#[test]
fn a_comparison_finds_a_regression_and_no_others() {
    let questions = [("utilization", "flows = 1\npath = 'shallow'"), ("aqm-utilization", "flows = 1\npath = 'codel'")];
    let study = Study::new("regression", "rfc9743");
    let evaluate = |settings: &str, seeds| {
        let definition = format!("[scheme.cubic]\ncontroller = 'cubic'\nsettings = {{ {settings} }}\n");
        study.evaluate(&questions, &["cubic"], &definition, seeds)
    };
    let before = evaluate("", &[1, 2, 3, 4]);
    let compare = |now: &Evaluation| Comparison::of(&before, now).unwrap();
    let other_seeds = compare(&evaluate("", &[5, 6, 7, 8]));
    assert_eq!((other_seeds.compared, &other_seeds.changes[..]), (2, &[][..]));
    let regression = compare(&evaluate("beta = 0.595", &[5, 6, 7, 8]));
    let worse = regression.changes.iter().filter(|change| change.is_worse).count();
    assert_eq!((worse, regression.is_worse()), (2, true), "{regression:?}");
}
