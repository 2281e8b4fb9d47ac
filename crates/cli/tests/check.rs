//! `rampmeter check` and `rampmeter new`, and `--set` with keys, as users run them.

mod common;

use common::{SMALL, Workspace, text};

#[test]
fn check_lists_all_errors_of_all_files() {
    let workspace = Workspace::new("check");
    let write = |name: &str, text: &str| std::fs::write(workspace.0.join(name), text).unwrap();
    let wrong = SMALL.replacen("40 Mb/s", "40M", 1).replacen("at = \"right\"", "at = 7", 1);
    write("wrong.toml", &wrong.replacen("\"newreno\"", "\"newrino\"", 1));
    let claim = |id: &str, more: &str| {
        format!(
            "[[claim]]\nid = \"{id}\"\nwhere = \"1\"\ntext = \"t\"\nscenario = \"small.toml\"\nstatus = \"holds\"\n\
             metric = {{ mean = \"flows.fct_mean_s\" }}\nexpect = {{ at_most = 1 }}\n{more}\n"
        )
    };
    write("claims.toml", &[claim("a", "statu = 1"), claim("b", ""), claim("c", "set = { drian = 1 }")].concat());
    let questions = "[[section]]\nid = \"1\"\ntitle = \"t\"\nlevel = \"mast\"\nasks = \"a\"\n[[question]]\nid = 7\n";
    write("questions.toml", questions);
    write("small.txt", SMALL);

    let output = workspace.rampmeter(&["check", "small.toml", "wrong.toml", "claims.toml", "questions.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let found = text(&output.stdout);
    let lines: Vec<&str> = found.lines().collect();
    for (line, expected) in [
        "small.toml: no errors",
        "wrong.toml:8: `at` is 7; it should be a text in quotes",
        "wrong.toml:16: `rate`: `40M` is not a rate: write 40 Mb/s or 40 MB/s",
        "wrong.toml:21: no controller is called `newrino`; did you mean `newreno`?",
        "claims.toml:9: unknown field `statu`",
        "claims.toml:19: claim `c`: --set drian: no axis or key is called `drian`; did you mean `drain`",
        "questions.toml:4: unknown variant `mast`",
        "questions.toml:7: invalid type: integer `7`",
    ]
    .iter()
    .enumerate()
    {
        assert!(lines.get(line).is_some_and(|line| line.starts_with(expected)), "{expected}: {found}");
    }
    assert_eq!(lines.len(), 8, "{found}");

    let output = workspace.rampmeter(&["check", "--json", "wrong.toml", "missing.toml", "lte-walking"]);
    assert_eq!(output.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["files"][0]["errors"][0]["line"], 8);
    assert_eq!(json["files"][0]["errors"][0]["file"], "wrong.toml");
    assert_eq!(json["files"][1]["errors"][0]["line"], serde_json::Value::Null);
    assert_eq!(json["files"][2]["errors"].as_array().map(Vec::len), Some(0));

    write(
        "metrics.toml",
        &format!("{SMALL}\n[metrics]\na = \"flows.fct_mean_s\"\nb = \"flows.nope\"\nc = \"1 / (\"\n"),
    );
    let wrong = text(&workspace.rampmeter(&["check", "metrics.toml"]).stdout);
    assert!(wrong.contains("the metric `b`: no value") && wrong.contains("the metric `c`: a value is"), "{wrong}");

    let output = workspace.rampmeter(&["check", "small.toml"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "small.toml: no errors\n"));
}

#[test]
fn new_scenarios_run() {
    let workspace = Workspace::new("new");
    for (arguments, set) in
        [(&["new", "a.toml"][..], "buffer=20ms"), (&["new", "b.toml", "--condition", "geo"], "seed=1")]
    {
        let output = workspace.rampmeter(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), format!("{0}: run it with `rampmeter run {0}`\n", arguments[1]));
        assert!(workspace.rampmeter(&["check", arguments[1]]).status.success());
        let short = ["--set", "duration=6s", "--set", "scheme=cubic", "--set", "seed=1", "--set", set];
        let output = workspace.rampmeter(&[&["run", arguments[1], "--quiet"][..], &short].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let output = workspace.rampmeter(&["new", "a.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), "rampmeter: a.toml exists; give the name of a new file\n");
    let output = workspace.rampmeter(&["new", "c.toml", "--condition", "geoo"]);
    assert!(text(&output.stderr).contains("did you mean `geo`"), "{}", text(&output.stderr));
}

#[test]
fn keys_that_are_set_are_columns_of_results() {
    let workspace = Workspace::new("keys");
    let sets = ["--set", "link.bottleneck.rate=10Mb/s,20Mb/s", "--set", "duration=2s", "--set", "seed=1..3"];
    let output = workspace.rampmeter(&[&["run", "small.toml", "--quiet", "--json"][..], &sets].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 6);
    assert!(runs[0].to_string().contains("\"link.bottleneck.rate\":\"10Mb/s\""), "{}", runs[0]);
    let again = workspace.rampmeter(&["run", "small.toml", "--quiet", "--set", "link.bottleneck.rat=1"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).starts_with("rampmeter: --set link.bottleneck.rat: [[link]] has no key `rat`"));
}

#[test]
fn schemas_are_json_of_draft_4() {
    let workspace = Workspace::new("schema");
    for (of, table) in [("scenario", "link"), ("claims", "claim")] {
        let output = workspace.rampmeter(&["schema", of]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-04/schema#");
        assert!(schema["properties"][table].is_object(), "{of}");
    }
}
