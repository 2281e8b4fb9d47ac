//! `rampmeter evaluate --questions DIR`: errors name the files in DIR and come before any run, and results do not
//! depend on the number of threads.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Workspace, text};

const EVALUATE: [&str; 7] = ["evaluate", "--controller", "cubic", "--against", "tcp", "--questions", "mine"];

#[test]
fn an_error_in_own_questions_names_the_file_of_the_user() {
    for (file, right, wrong, expected) in [
        ("questions.toml", "at_most", "at_mst", "mine/questions.toml:15: "),
        (
            "questions.toml",
            "{ at_most = 1 }",
            "{}",
            "mine/questions.toml:15: `expect` is a table with one of at_most, ",
        ),
        (
            "questions.toml",
            "fct_mean_s",
            "fct_men_s",
            "mine/questions.toml:8: question `completion`: no value is called `flows.fct_men_s`; did you mean \
             `flows.fct_mean_s`?",
        ),
        (
            "questions.toml",
            "fct_mean_s\"",
            "fct_mean_s\", where = { scheme = \"tpc\" }",
            "mine/questions.toml:8: question `completion`: `where`: the axis `scheme` has no value `tpc`; did you mean \
             `tcp`? Its values are cubic, tcp",
        ),
        (
            "questions.toml",
            "quick = true",
            "set = { sed = 1 }",
            "mine/questions.toml:8: question `completion`: --set sed: no axis or key is called `sed`; did you \
             mean `seed`?",
        ),
        ("questions.toml", "small.toml", "smal.toml", "mine/smal.toml: cannot be read"),
        ("small.toml", "40 Mb/s", "40 XB/s", "mine/small.toml:17: "),
        ("small.toml", "[\"tcp\"]", "\"tcp\"", "mine/small.toml:12: "),
        ("schemes.toml", "controller", "= controller", "mine/schemes.toml:2: "),
        ("schemes.toml", "\"newreno\"", "\"newreno\"\nsettings = { bta = 1 }", "mine/schemes.toml:1: "),
    ] {
        let workspace = Workspace::asking("own_questions");
        let path = workspace.0.join("mine").join(file);
        let before = fs::read_to_string(&path).unwrap();
        fs::write(&path, before.replacen(right, wrong, 1)).unwrap();
        let output = workspace.rampmeter(&EVALUATE);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {message}");
        assert!(message.starts_with(&format!("rampmeter: {expected}")), "{wrong}: {message}");
        assert_eq!(message.lines().count(), 1, "{wrong}: {message}");
    }
}

/// Replaces `before` by `now` in a file of questions.
fn change(workspace: &Workspace, file: &str, before: &str, now: &str) {
    let file = workspace.0.join("mine").join(file);
    fs::write(&file, fs::read_to_string(&file).unwrap().replace(before, now)).unwrap();
}

#[test]
fn a_list_that_asks_nothing_new_is_refused() {
    let workspace = Workspace::asking("evaluation_lists");
    change(&workspace, "questions.toml", "quick = true", "quick = false");
    for (arguments, expected) in [
        (&["--seeds", "1-3"][..], "write each seed, with commas between them: --seeds 1,2,3"),
        (&["--seeds", "1,2,1"], "--seeds: 1 is there twice, and runs with the same seed are the same runs"),
        (&["--only", ""], "--only: a name is empty; write names of questions"),
        (&["--quick"], "mine/questions.toml: no question is asked with --quick; omit it, or give questions `quick"),
    ] {
        let output = workspace.rampmeter(&[&EVALUATE[..], arguments].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(expected) && message.lines().count() == 1, "{arguments:?}: {message}");
    }
}

#[test]
fn quick_values_leave_out_some_of_a_list_but_not_all() {
    let workspace = Workspace::asking("evaluation_quick");
    change(&workspace, "questions.toml", "quick = true", "quick = { seed = 1 }");
    change(&workspace, "questions.toml", "s\" }", "s\", where = { seed = [2, 1] } }");
    let quick = || workspace.rampmeter(&[&EVALUATE[..], &["--quick"]].concat());
    assert!(quick().status.success(), "{}", text(&quick().stderr));
    change(&workspace, "questions.toml", "[2, 1]", "2");
    assert!(text(&quick().stderr).contains("`where`: the axis `seed` has no value `2`; its values are 1\n"));
    assert!(workspace.rampmeter(&EVALUATE).status.success());
    // Values of `set` that the file does not have.
    change(&workspace, "questions.toml", "where = { seed = 2 }", "where = { seed = [5, 6] }");
    change(&workspace, "questions.toml", "quick = { seed = 1 }", "set = { seed = [5, 6] }\nquick = { seed = 5 }");
    assert!(quick().status.success(), "{}", text(&quick().stderr));
}

/// The value is a quotient, for which the runs of the evaluated scheme alone are not enough.
#[test]
fn the_command_on_the_page_computes_the_value_again() {
    let workspace = Workspace::asking("evaluation_again");
    change(&workspace, "questions.toml", "fct_mean_s\"", "fct_mean_s\", relative_to = { scheme = \"tcp\" }");
    workspace.stdout(&[&EVALUATE[..], &["--quick", "--seeds", "3,4", "--out", "first"]].concat());
    let first = workspace.0.join("first");
    let question = |directory: &Path| {
        let text = fs::read_to_string(directory.join("evaluation.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["sections"][0]["questions"][0].take()
    };
    let before = question(&first);
    let arguments: Vec<&str> = before["evaluate"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let page = fs::read_to_string(first.join("index.html")).unwrap();
    assert!(page.contains(&format!("rampmeter {}</code>", arguments.join(" "))));
    let again = workspace.command(&arguments).current_dir(&first).output().unwrap();
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(before["answers"][0]["worst"].is_number());
    assert_eq!(before, question(&first.join("repeat")));
}

#[test]
fn a_wrong_baseline_is_refused_before_any_run() {
    let workspace = Workspace::asking("evaluation_baseline");
    workspace.stdout(&[&EVALUATE[..], &["--out", "before"]].concat());
    let file = workspace.0.join("before/evaluation.json");
    let recorded = fs::read_to_string(&file).unwrap();
    let gate = |rival: &str, more: &[&str]| {
        let mut arguments = [&EVALUATE[..], &["--out", "now", "--baseline", "before/evaluation.json"], more].concat();
        arguments[4] = rival;
        workspace.rampmeter(&arguments)
    };
    let refused = |rival: &str, more: &[&str], message: &str| {
        let output = gate(rival, more);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {errors}");
        assert!(errors.contains(message), "{errors}");
        assert!(!workspace.0.join("now/points").exists(), "{more:?}");
    };
    refused("tcp", &["--quick"], "the baseline was recorded without --quick; omit it");
    refused("bbr", &[], "the baseline has the rival `tcp`, and this evaluation does not");
    refused("tcp", &["--renamed-from", "newreno"], "the baseline is of `cubic` and not of `newreno`");
    refused("tcp", &["--only", "complete"], "no question is called `complete`");
    fs::write(&file, recorded.replace("\"scheme\": \"cubic\"", "\"scheme\": \"old\"")).unwrap();
    refused("tcp", &[], "add --renamed-from old");
    let output = gate("tcp", &["--renamed-from", "old", "--only", "completion"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("of 1 values, 0 became worse"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("1 of 1 compared values have fewer than 3 seeds"));
}

#[test]
fn an_evaluation_does_not_replace_what_it_reads() {
    let workspace = Workspace::asking("evaluation_replaces");
    let run = |arguments: &[&str]| workspace.rampmeter(&[&["evaluate", "--controller", "cubic"], arguments].concat());
    let first = run(&["--against", "tcp", "--questions", "mine", "--out", "before"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let kept =
        || ["evaluation.json", "scenarios/small.toml"].map(|file| fs::read(workspace.0.join("before").join(file)));
    let before = kept().map(Result::unwrap);
    for (more, message) in [
        (["--questions", "mine", "--baseline", "before/evaluation.json"], "would replace the baseline"),
        (["--questions", "before/scenarios", "--seeds", "1"], "copies of an evaluation's own questions"),
    ] {
        let output = run(&[&["--against", "tcp", "--out", "before"], &more[..]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
    assert_eq!(kept().map(Result::unwrap), before);
}

#[test]
fn a_verdict_that_turns_to_fails_is_a_regression() {
    let workspace = Workspace::asking("evaluation_turns");
    let run = |more: &[&str]| workspace.rampmeter(&[&EVALUATE[..], &["--seeds", "1,2,3"], more].concat());
    change(&workspace, "questions.toml", "at_most = 1", "between = [0.05, 0.25]");
    assert!(run(&["--out", "before"]).status.success());
    // Four times the round trip, and so about four times the completion time.
    change(&workspace, "small.toml", "10 ms", "40 ms");
    let compare = || run(&["--out", "now", "--baseline", "before/evaluation.json"]);
    let refused = compare();
    assert_eq!(refused.status.code(), Some(2), "another scenario is another question");
    assert!(text(&refused.stderr).contains("`completion` has another scenario, metric or bound now; ask it as it was"));
    // Without digests, as in earlier evaluations, the longer path stands for a slower controller.
    let before = workspace.0.join("before/evaluation.json");
    let recorded = fs::read_to_string(&before).unwrap();
    let lines = recorded.lines().filter(|line| !line.contains("\"digest\":"));
    fs::write(&before, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let output = compare();
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{report}{}", text(&output.stderr));
    assert!(report.contains("worse    completion: "), "{report}");
    assert!(report.contains("now, and passes turns to fails\n") && report.contains("1 became worse"), "{report}");
    // The workflow for other repositories selects these lines.
    let workflow = include_str!("../../../../contrib/github/evaluate.yml");
    let (_, rest) = workflow.split_once("grep -E '").unwrap();
    fs::write(workspace.0.join("report"), &report).unwrap();
    let mut grep = Command::new("grep");
    let grep = grep.current_dir(&workspace.0).args(["-cE", rest.split_once('\'').unwrap().0, "report"]);
    assert_eq!(text(&grep.output().unwrap().stdout), "2\n", "{report}");
}

#[test]
fn a_question_with_a_changed_trace_is_another_question() {
    let workspace = Workspace::asking("evaluation_trace");
    let file = |name: &str| workspace.0.join("mine").join(name);
    let scenario = fs::read_to_string(file("small.toml")).unwrap();
    fs::write(file("small.toml"), scenario.replace("\"40 Mb/s\"", "{ trace = \"link.trace\" }")).unwrap();
    fs::write(file("link.trace"), "1\n1\n2\n").unwrap();
    let evaluate = |more: &[&str]| workspace.rampmeter(&[&EVALUATE[..], &["--seeds", "1,2,3"], more].concat());
    let first = evaluate(&["--out", "before"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(evaluate(&["--out", "now", "--baseline", "before/evaluation.json"]).status.success());
    fs::write(file("link.trace"), "1\n2\n").unwrap();
    let output = evaluate(&["--out", "now", "--baseline", "before/evaluation.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`completion` has another scenario"), "{}", text(&output.stderr));
}

#[test]
fn an_unknown_congestion_control_of_linux_is_one_line() {
    let workspace = Workspace::asking("evaluation_kernel");
    for names in [&["--kernel", "nosuch"][..], &["--controller", "cubic", "--against", "linux-nosuch"]] {
        let arguments = [&["evaluate", "--world", "emulated", "--quick", "--questions", "mine"], names].concat();
        let output = workspace.rampmeter(&arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        let expected = "rampmeter: this kernel's TCP has no congestion control called `nosuch`; it has ";
        assert!(message.starts_with(expected) && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn the_runs_of_a_question_are_traced() {
    let workspace = Workspace::asking("traced_question");
    let evaluate = |more: &[&str]| {
        let command = ["evaluate", "--controller", "tcp", "--against", "none", "--questions", "mine", "--seeds", "1"];
        workspace.rampmeter(&[&command[..], more].concat())
    };
    assert!(evaluate(&[]).status.success());
    let output = evaluate(&["--only", "completion", "--trace", "why", "--series", "ack"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let runs: Vec<_> = std::fs::read_dir(workspace.0.join("why")).unwrap().flatten().collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(
        runs[0].path().read_dir().unwrap().flatten().any(|file| file.path().extension().is_some_and(|it| it == "qlog"))
    );
    let output = evaluate(&["--trace", "why"]);
    assert_eq!(output.status.code(), Some(2));
}
