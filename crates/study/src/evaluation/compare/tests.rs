//! Evaluations of one scheme, `mine`, with a value at one place for each question.

use serde_json::{Value as Json, json};

use super::*;

/// A question `id` with a bound, and the value of each seed.
fn question(id: &str, expect: &Json, verdict: &str, seeds: &[f64]) -> Json {
    let mean = seeds.iter().sum::<f64>() / seeds.len() as f64;
    let mut question = json!({
        "id": id, "asks": "", "expect": "", "bound": null, "because": "", "better": null, "unit": "", "scenario": "",
        "repeat": [], "answers": [{
            "scheme": "mine", "verdict": verdict, "worst": mean,
            "values": [{ "at": { "path": "deep" }, "value": mean, "seeds": seeds }],
        }],
    });
    expect.as_object().unwrap().iter().for_each(|(key, value)| question[key] = value.clone());
    question
}

fn range(low: f64, high: f64) -> Json {
    json!({ "range": [low, high] })
}

fn at_most(bound: f64) -> Json {
    json!({ "bound": bound, "better": "less" })
}

fn evaluation(questions: &[Json]) -> Evaluation {
    serde_json::from_value(json!({
        "format": 1, "version": "0.1.0", "scheme": "mine", "rivals": ["cubic"], "world": "simulated", "quick": true,
        "runs": 12, "schemes": { "mine": "", "cubic": "controller = \"cubic\"\n" }, "title": "questions of mine",
        "sections": [{ "id": "1", "title": "", "level": "must", "asks": "", "questions": questions }],
    }))
    .unwrap()
}

/// What has changed between two evaluations of one question: the verdicts and the seeds' values.
fn changes(expect: &Json, before: (&str, &[f64]), now: (&str, &[f64])) -> Vec<(bool, bool)> {
    let of = |(verdict, seeds): (&str, &[f64])| evaluation(&[question("asked", expect, verdict, seeds)]);
    let comparison = Comparison::of(&of(before), &of(now)).unwrap();
    comparison.changes.iter().map(|change| (change.is_worse, change.turns_to_fails)).collect()
}

const WORSE: (bool, bool) = (true, false);
const TURNS: (bool, bool) = (true, true);
const BETTER: (bool, bool) = (false, false);

#[test]
fn a_value_that_leaves_its_range_is_worse() {
    let expect = range(0.08, 0.14);
    let [inside, outside, farther] = [[0.108, 0.109, 0.107], [0.199, 0.2, 0.198], [0.3, 0.301, 0.299]];
    assert_eq!(changes(&expect, ("passes", &inside), ("fails", &outside)), [TURNS]);
    assert_eq!(changes(&expect, ("fails", &outside), ("fails", &farther)), [WORSE]);
    assert_eq!(changes(&expect, ("fails", &outside), ("passes", &inside)), [BETTER]);
}

#[test]
fn a_value_that_moves_within_its_range_has_not_changed() {
    let expect = range(0.08, 0.14);
    assert_eq!(changes(&expect, ("passes", &[0.09, 0.091, 0.092]), ("passes", &[0.131, 0.13, 0.132])), []);
    // 0.05 outside on both sides.
    assert_eq!(changes(&expect, ("fails", &[0.03, 0.031, 0.029]), ("fails", &[0.19, 0.191, 0.189])), []);
}

#[test]
fn a_verdict_that_chance_turns_has_not_changed() {
    for expect in [at_most(0.1), range(0.05, 0.1)] {
        // Means of 0.096 and 0.104.
        let seeds = [0.07, 0.12, 0.09, 0.104];
        assert_eq!(changes(&expect, ("passes", &seeds), ("fails", &[0.13, 0.08, 0.11, 0.096])), []);
    }
}

#[test]
fn a_verdict_that_chance_may_have_turned_is_named() {
    let of = |verdict: &str, seeds: &[f64]| evaluation(&[question("asked", &at_most(0.1), verdict, seeds)]);
    let before = of("passes", &[0.07, 0.12, 0.09, 0.104]);
    let turned = Comparison::of(&before, &of("fails", &[0.07, 0.2, 0.09, 0.3])).unwrap();
    assert_eq!((turned.is_worse(), &turned.uncertain[..]), (false, &["asked".to_owned()][..]));
    assert!(turned.warnings().iter().any(|warning| warning.contains("may be chance: asked")), "{turned:?}");
    let worse = Comparison::of(&before, &of("fails", &[0.4, 0.41, 0.39, 0.4])).unwrap();
    assert!(worse.is_worse() && worse.uncertain.is_empty(), "{worse:?}");
}

#[test]
fn a_shape_that_is_lost_is_worse_unless_by_chance() {
    let shape = json!({});
    assert_eq!(changes(&shape, ("passes", &[1.0, 1.1, 0.9]), ("fails", &[3.0, 3.1, 2.9])), [TURNS]);
    assert_eq!(changes(&shape, ("passes", &[1.0, 1.1, 0.9]), ("fails", &[1.1, 1.2, 1.0])), []);
    assert_eq!(changes(&shape, ("passes", &[1.0, 1.1, 0.9]), ("passes", &[3.0, 3.1, 2.9])), []);
}

#[test]
fn with_few_seeds_a_half_and_turned_verdicts_count() {
    let expect = json!({ "bound": 0.15, "better": "more" });
    for (before, now) in [(&[0.8][..], &[0.2][..]), (&[0.815, 0.7], &[0.189, 0.3]), (&[0.8], &[0.2, 0.3, 0.4])] {
        assert_eq!(changes(&expect, ("passes", before), ("passes", now)), [WORSE], "{before:?}");
        assert_eq!(changes(&expect, ("passes", now), ("passes", before)), [BETTER], "{before:?}");
    }
    assert_eq!(changes(&expect, ("passes", &[0.8]), ("passes", &[0.6])), []);
    assert_eq!(changes(&expect, ("passes", &[0.16]), ("fails", &[0.14])), [TURNS]);
}

#[test]
fn a_baseline_of_another_build_is_compared_with_a_warning() {
    let now = evaluation(&[question("asked", &at_most(1.0), "passes", &[0.5, 0.6, 0.7])]);
    let before = Evaluation { build: "0.1.0-abc".into(), ..now.clone() };
    let [warning] = &Comparison::of(&before, &now).unwrap().warnings()[..] else { panic!("no warning") };
    assert!(warning.contains("another build of Rampmeter (0.1.0-abc)"), "{warning}");
    assert_eq!(Comparison::of(&now, &before).unwrap().warnings().len(), 1);
}

/// A question whose value is `value`, and not the mean of the seeds' values.
fn with_value(value: f64, seeds: &[f64]) -> Evaluation {
    let mut question = question("asked", &at_most(1.0), "passes", seeds);
    question["answers"][0]["values"][0]["value"] = value.into();
    evaluation(&[question])
}

#[test]
fn a_ratio_of_means_is_tested_by_the_means_of_the_ratios() {
    // 0.765 is the mean of the seeds' ratios, and 0.685 the ratio of the means.
    let [before, now] = [[0.60, 0.93], [0.62, 0.91]].map(|[low, high]| [low, high, low + 0.04, high - 0.04]);
    let changes = |before: &Evaluation, now: &Evaluation| Comparison::of(before, now).unwrap().changes.len();
    assert_eq!(changes(&with_value(0.765, &before), &with_value(0.685, &now)), 0);
    let [before, now] = [[0.70, 0.71, 0.72], [0.80, 0.81, 0.82]];
    assert_eq!(changes(&with_value(0.6, &before), &with_value(0.7, &now)), 1);
    assert_eq!(changes(&with_value(0.7, &before), &with_value(0.6, &now)), 0); // two directions
}

#[test]
fn a_question_that_is_no_longer_asked_is_worse() {
    let [one, two] = ["one", "two"].map(|id| question(id, &at_most(1.0), "passes", &[0.5, 0.6, 0.7]));
    let comparison =
        Comparison::of(&evaluation(&[one.clone(), two.clone()]), &evaluation(std::slice::from_ref(&two))).unwrap();
    assert_eq!(comparison.compared, 2);
    let [change] = &comparison.changes[..] else { panic!("{comparison:?}") };
    assert_eq!((change.question.as_str(), change.now, change.is_worse), ("one", None, true));
    let comparison = Comparison::of(&evaluation(std::slice::from_ref(&two)), &evaluation(&[one, two])).unwrap();
    assert_eq!((comparison.compared, &comparison.changes[..]), (1, &[][..]));
}

#[test]
fn a_baseline_that_does_not_fit_is_refused() {
    let now = evaluation(&[question("asked", &at_most(1.0), "passes", &[0.5, 0.6, 0.7])]);
    let refused = |change: &dyn Fn(&mut Evaluation)| {
        let mut before = now.clone();
        change(&mut before);
        Comparison::of(&before, &now).unwrap_err()
    };
    for (message, advice) in [
        (refused(&|it| it.format = 0), "format 0 and not 1"),
        (refused(&|it| "others".clone_into(&mut it.title)), "by others, and this evaluation by questions of mine"),
        (refused(&|it| "emulated".clone_into(&mut it.world)), "use the same --world"),
        (refused(&|it| it.quick = false), "without --quick; omit it"),
        (refused(&|it| "old".clone_into(&mut it.scheme)), "add --renamed-from old"),
        (refused(&|it| it.rivals.push("bbr".into())), "the rival `bbr`, and this evaluation does not"),
        (refused(&|it| drop(it.schemes.insert("cubic".into(), "beta = 1".into()))), "`cubic` has other settings"),
        (refused(&|it| it.sections.clear()), "none of these questions"),
        (refused(&|it| "1".clone_into(&mut it.sections[0].questions[0].digest)), "another scenario, metric or bound"),
        (refused(&|it| it.sections[0].questions[0].answers.clear()), "no value that this evaluation"),
    ] {
        assert!(message.contains(advice), "{message}");
    }
}
