//! Other transports' stacks as schemes on the command line: `quinn:cubic`.

mod common;

use common::{Workspace, text};
use serde_json::Value;

const EVALUATE: [&str; 5] = ["evaluate", "--questions", "mine", "--seeds", "1"];

/// The standard error of a command that must fail with exit code 2.
fn refused(workspace: &Workspace, arguments: &[&str]) -> String {
    let output = workspace.rampmeter(arguments);
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(2) && error.lines().count() == 1, "{arguments:?}: {error}");
    error
}

/// The answers of a question to each scheme.
fn answers(evaluation: &str) -> Vec<Value> {
    let read: Value = serde_json::from_str(evaluation).unwrap();
    read["evaluation"]["sections"][0]["questions"][0]["answers"].as_array().unwrap().clone()
}

#[test]
fn stacks_are_listed_by_the_names_of_schemes() {
    let list = Workspace::new("stacks").stdout(&["stacks"]);
    for scheme in ["noq:bbr3 ", "quinn:bbr ", "quinn:cubic ", "quinn:newreno "] {
        assert!(list.lines().any(|line| line.starts_with(scheme)), "{list}");
    }
}

#[test]
fn conditions_and_scenarios_run_under_a_stack() {
    let workspace = Workspace::new("stack_schemes");
    for (file, key) in [("lte-walking", "duration=8s"), ("small.toml", "seed=1")] {
        let sets = ["--set", "scheme=quinn:cubic,quinn:newreno", "--set", key, "--json"];
        let runs: Value = serde_json::from_str(&workspace.stdout(&[&["run", file], &sets[..]].concat())).unwrap();
        let of = |index: usize| (&runs["runs"][index]["point"]["scheme"], &runs["runs"][index]["flows"]);
        assert_eq!([of(0).0, of(1).0], ["quinn:cubic", "quinn:newreno"], "{runs}");
        assert!(
            of(0).1["goodput_mean_bps"].as_f64() > Some(0.0) || of(0).1["fct_mean_s"].as_f64() > Some(0.0),
            "{runs}"
        );
    }
}

#[test]
fn an_evaluation_of_a_stack_can_be_repeated_and_compared() {
    let workspace = Workspace::asking("stack_evaluation");
    let rivals = ["--stack", "quinn:cubic", "--against", "quinn:newreno,tcp"];
    let evaluate = |more: &[&str]| workspace.stdout(&[&EVALUATE[..], &rivals, more].concat());
    let first = answers(&evaluate(&["--json"]));
    let schemes: Vec<&Value> = first.iter().map(|answer| &answer["scheme"]).collect();
    assert_eq!(schemes, ["quinn:cubic", "quinn:newreno", "tcp"]);
    assert!(first.iter().all(|answer| answer["verdict"] == "passes"), "{first:?}");

    // The directory has no colon, which Windows does not permit in names.
    let directory = workspace.0.join("runs/evaluate/quinn_cubic");
    let page = std::fs::read_to_string(directory.join("index.html")).unwrap();
    assert!(page.contains("--stack quinn:cubic --against quinn:newreno,tcp"), "{page}");
    assert!(
        page.contains("controller = &quot;quinn:cubic&quot;") || page.contains("controller = \"quinn:cubic\""),
        "{page}"
    );
    let kept = std::fs::read(directory.join("evaluation.json")).unwrap();
    let question: Value = serde_json::from_slice(&kept).unwrap();
    for command in ["evaluate", "repeat"] {
        let words = question["sections"][0]["questions"][0][command].as_array().unwrap();
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        let output = workspace.command(&words).current_dir(&directory).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    }

    std::fs::write(workspace.0.join("before.json"), kept).unwrap();
    let compared = evaluate(&["--baseline", "before.json", "--out", "again"]);
    assert!(compared.contains("of 1 values, 0 became worse"), "{compared}");
    let finished = || {
        let points = std::fs::read_dir(directory.join("points")).unwrap();
        let mut points: Vec<_> = points.map(|point| point.unwrap().metadata().unwrap().modified().unwrap()).collect();
        points.sort();
        points
    };
    let before = finished();
    assert_eq!((answers(&evaluate(&["--json"])), finished()), (first, before), "it resumes");
}

#[test]
fn a_question_that_a_stack_cannot_answer_is_skipped_by_name() {
    for (name, from, to, why) in [
        (
            "datagrams",
            "size = \"100 kB\"\narrivals = { per_second = 4 }",
            "datagrams = \"500 B\"\narrivals = { count = 1 }",
            "sends datagrams",
        ),
        ("packets", "\"1250 B\"", "\"576 B\"", "`packet` is 576 B, and stack `quinn` needs at least 1.228 kB"),
    ] {
        let workspace = Workspace::asking(&format!("stack_skipped_{name}"));
        let file = workspace.0.join("mine/small.toml");
        let scenario = std::fs::read_to_string(&file).unwrap();
        assert!(scenario.contains(from), "{scenario}");
        std::fs::write(&file, scenario.replacen(from, to, 1)).unwrap();
        let questions = workspace.0.join("mine/questions.toml");
        let asked =
            std::fs::read_to_string(&questions).unwrap().replace("flows.fct_mean_s", "links.bottleneck.utilization");
        std::fs::write(questions, asked).unwrap();
        let definition = "[scheme.theirs]\ncontroller = \"quinn:cubic\"\n";
        std::fs::write(workspace.0.join("theirs.toml"), definition).unwrap();
        let defined = ["--controller", "theirs", "--schemes", "theirs.toml", "--against", "tcp"];
        let named = ["tcp", "none"].map(|rival| ["--stack", "quinn:cubic", "--against", rival]);
        for schemes in named.iter().map(|named| &named[..]).chain([&defined[..]]) {
            let answers = answers(&workspace.stdout(&[&EVALUATE[..], schemes, &["--json"]].concat()));
            assert_eq!(answers[0]["verdict"], "skipped");
            assert!(answers[0]["reason"].as_str().is_some_and(|reason| reason.contains(why)), "{answers:?}");
            assert!(answers[1..].iter().all(|rival| rival["verdict"] == "passes"), "{answers:?}");
        }
    }
}

#[test]
fn a_stack_that_cannot_be_evaluated_is_refused_at_once() {
    let workspace = Workspace::asking("stack_refused");
    for (more, wrong) in [
        (&["--stack", "quin:cubic"][..], "no stack is called `quin`; did you mean `quinn`?"),
        (&["--stack", "quinn:cubc"], "no controller of stack `quinn` is called `cubc`; did you mean `cubic`?"),
        (&["--stack", "quinn"], "as in --stack quinn:cubic; `rampmeter stacks` lists them"),
        (&["--controller", "quinn:cubic"], "write --stack quinn:cubic"),
        (&["--controller", "cubic", "--against", "quinn:vegas"], "no controller of stack `quinn` is called `vegas`"),
        (&["--stack", "quinn:cubic", "--controller", "cubic"], "cannot be used with '--controller <NAME>'"),
    ] {
        let error = refused(&workspace, &[&EVALUATE[..], more].concat());
        assert!(error.contains(wrong), "{error}");
    }
    let error = refused(&workspace, &["run", "small.toml", "--set", "scheme=quinn:cubc"]);
    assert!(error.contains("small.toml:") && error.contains("did you mean `cubic`?"), "{error}");
}
