//! Tests of `rampmeter claims`: what is run, shown, recorded and compared.

mod common;

use std::process::Command;

use common::{RAMPMETER, SMALL, Workspace, text};

/// Claims that hold and claims that fail, one of each with the status `holds` and one with `open`.
const CLAIMS: &str = r#"
[[claim]]
id = "kept"
where = "here"
text = "Transfers take a while"
scenario = "../../small.toml"
quick = true
metric = { mean = "flows.fct_mean_s", in = { RTT = 0.024 } }
expect = { above = 1.0 }
status = "holds"

[[claim]]
id = "lost"
where = "here"
text = "Transfers take no time"
scenario = "../../small.toml"
quick = true
metric = { mean = "flows.fct_mean_s", in = { RTT = 0.024 } }
expect = { below = 1.0 }
status = "holds"

[[claim]]
id = "near"
where = "here"
text = "Transfers take next to no time"
scenario = "../../small.toml"
quick = true
metric = { mean = "flows.fct_mean_s" }
expect = { below = 0.001 }
status = "open"
note = "light is too slow"

[[claim]]
id = "reached"
where = "here"
text = "Transfers end"
scenario = "../../small.toml"
quick = true
metric = { mean = "flows.fct_mean_s" }
expect = { below = 100.0 }
status = "open"
note = "not run for long enough"
"#;

/// A workspace whose study `mine` has these claims.
fn with_claims(name: &str, claims: &str) -> Workspace {
    let workspace = Workspace::new(name);
    std::fs::create_dir_all(workspace.0.join("studies/mine")).unwrap();
    std::fs::write(workspace.0.join("studies/mine/claims.toml"), claims).unwrap();
    workspace
}

#[test]
fn failed_and_open_claims_are_shown_with_texts_and_notes() {
    let workspace = with_claims("claims", CLAIMS);
    let run = |arguments: &[&str]| workspace.stdout(&[&["claims"], arguments].concat());
    let complete = run(&[]);
    for line in [
        "regression lost: Transfers take no time\n",
        "open       near: Transfers take next to no time\n           light is too slow\n",
        "now holds  reached: Transfers end\n           its status is open but it holds: write status = \"holds\"\n           not run for long enough\n",
        "claims: 2 hold, 1 open, 1 fail, 0 skipped; 4 without a recorded result of all seeds\n",
    ] {
        assert!(complete.contains(line), "{line}{complete}");
    }
    assert!(!complete.contains("holds      kept: ") && run(&["--text"]).contains("holds      kept: "));
    let kept: Vec<&str> = complete.lines().filter(|line| line.contains("kept")).collect();
    assert!(kept.len() == 1 && kept[0].contains(" RTT ") && kept[0].contains(" above 1 "), "{kept:?}");
    assert!(complete.lines().any(|line| line.contains(" below 0.001 ") && line.contains(" s ")), "{complete}");
    assert!(!complete.contains("all seeds)") && !complete.contains("fewer runs"), "{complete}");

    let quick = run(&["--quick"]);
    assert!(!quick.contains("now holds") && !quick.contains("regression"), "{quick}");
    assert!(quick.contains("fails      lost: ") && quick.contains("open       reached: "), "{quick}");
    assert!(quick.lines().next().unwrap().ends_with("status (all seeds)"), "{quick}");
    assert!(
        quick.ends_with("fewer runs (--quick). A claim's status is that of all seeds: see --recorded\n"),
        "{quick}"
    );
    assert_eq!(workspace.rampmeter(&["claims", "--quick", "--strict"]).status.code(), Some(1));
}

#[test]
fn claims_are_selected_by_name_and_run_with_given_seeds() {
    let numbered =
        CLAIMS.replace("\"kept\"", "\"7.kept\"").replace("\"lost\"", "\"7.lost\"").replace("\"near\"", "\"70.near\"");
    let workspace = with_claims("some_claims", &numbered);
    let judged = |arguments: &[&str]| -> Vec<String> {
        let output = workspace.rampmeter(&[&["claims", "mine", "--json"], arguments].concat());
        let output: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        let names = output["claims"].as_array().unwrap().iter().map(|claim| claim["id"].as_str().unwrap().to_owned());
        names.collect()
    };
    let points = || std::fs::read_dir(workspace.0.join("runs/claims")).unwrap().count();
    assert_eq!(judged(&["7", "--seeds", "1"]), ["7.kept", "7.lost"]);
    assert_eq!(points(), 1);
    assert_eq!(judged(&["70.near", "7.lost", "--seeds", "3"]), ["7.lost", "70.near"]);
    assert_eq!(points(), 3);
    let missing = text(&workspace.rampmeter(&["claims", "mine", "--missing", "7"]).stdout);
    assert_eq!(
        missing.lines().take_while(|line| !line.contains("measured.json")).collect::<Vec<_>>(),
        ["7.kept", "7.lost"]
    );

    let nowhere = Command::new(RAMPMETER).arg("claims").current_dir("/").output().unwrap();
    assert!(text(&nowhere.stderr).contains("no directory `studies` here or above"), "{}", text(&nowhere.stderr));
    // The directory of studies is also found above.
    let (deep, arguments) = (workspace.0.join("studies/mine"), ["claims", "mine", "8"]);
    let unknown = Command::new(RAMPMETER).args(arguments).current_dir(deep).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("near it are 7, 70, reached\n"), "{}", text(&unknown.stderr));
    let not_quick = CLAIMS.replacen("quick = true\n", "", 1);
    std::fs::write(workspace.0.join("studies/mine/claims.toml"), not_quick).unwrap();
    let message = text(&workspace.rampmeter(&["claims", "mine", "lost", "kept", "--quick"]).stderr);
    assert!(message.contains("no quick runs of kept: leave out --quick, or these names"), "{message}");
    for (arguments, near) in [(["claims", "mine", "los"], "lost"), (["claims", "mini", "kept"], "mine")] {
        let message = text(&workspace.rampmeter(&arguments).stderr);
        assert!(message.contains(&format!("did you mean `{near}`?")), "{message}");
    }
}

/// Two variants, one of which sends slowly, and a third scheme.
const VARIANTS: &str = r#"
[[variant]]
name = "default"
where = { scheme = "tcp" }

[[variant]]
name = "letter"
where = { scheme = "slow" }

[[claim]]
id = "3.time"
where = "here"
text = "Transfers of two schemes take no time"
scenario = "three.toml"
set = { scheme = ["tcp", "third"] }
metric = { mean = "flows.fct_mean_s", by = ["scheme"] }
expect = { below = 0.5 }
status = "open"
note = "The third is slow, too"

[[claim]]
id = "letter.3.time"
where = "here"
text = "With the paper's own rules: transfers take no time"
scenario = "three.toml"
set = { scheme = ["slow"] }
metric = { mean = "flows.fct_mean_s" }
expect = { below = 0.5 }
status = "open"
note = "It sends 1 Mb/s"

[[claim]]
id = "11.time"
where = "here"
text = "Transfers of both variants take a while"
scenario = "three.toml"
set = { scheme = ["tcp", "slow"] }
metric = { mean = "flows.fct_mean_s", by = ["scheme"] }
expect = { above = 0.01 }
status = "holds"

[[claim]]
id = "11.alone"
where = "here"
text = "Transfers of the default take a while"
scenario = "three.toml"
set = { scheme = ["tcp"] }
metric = { mean = "flows.fct_mean_s" }
expect = { above = 0.01 }
status = "holds"
"#;

fn with_variants(name: &str) -> Workspace {
    let workspace = with_claims(name, VARIANTS);
    let slow = "controller = \"fixed-rate\"\nsettings = { rate = \"1 Mb/s\" }\n";
    let three = SMALL.replace("scheme = [\"tcp\"]", "scheme = [\"tcp\", \"slow\", \"third\"]");
    let three = format!("{three}\n[scheme.slow]\n{slow}\n[scheme.third]\n{slow}");
    std::fs::write(workspace.0.join("studies/mine/three.toml"), three).unwrap();
    workspace
}

#[test]
fn variants_of_a_sentence_are_compared_in_a_row() {
    let workspace = with_variants("variants");
    let run = |arguments: &[&str]| text(&workspace.rampmeter(&[&["claims", "mine"], arguments].concat()).stdout);
    assert!(run(&["--record"]).contains("0 of 4 claims"));
    let rows = |arguments: &[&str]| -> Vec<String> {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = run(&[&["--variants"], arguments].concat());
        text.lines().map(words).filter(|line| line.contains("time")).collect()
    };
    // The third scheme has no part in the result of the default.
    let recorded = rows(&["--recorded"]);
    assert_eq!(recorded.len(), 2, "{recorded:?}");
    for (row, start) in recorded.iter().zip(["3.time here below 0.5 s holds 0.", "11.time here above 0.01 s holds 0."])
    {
        assert!(row.starts_with(start), "{row}");
    }
    assert!(recorded[0].contains(" open 0.8") && recorded[1].matches("holds").count() == 2, "{recorded:?}");
    assert_eq!(rows(&["--seeds", "2"]), recorded, "all runs again");
    let one = run(&["3", "--recorded", "--variants", "--text"]);
    assert!(one.contains("\nletter.3.time: With the paper's own rules") && !one.contains("11.time"), "{one}");
    assert!(one.ends_with("sentences that hold: default 1 of 1, letter 0 of 1\n"), "{one}");
    assert!(run(&["3", "--variants", "--seeds", "1"]).contains("fewer runs (--seeds 1)"));

    let json: serde_json::Value = serde_json::from_str(&run(&["--recorded", "--variants", "--json"])).unwrap();
    assert_eq!(json["claims"].as_array().unwrap().len(), 3);
    let first = &json["variants"][0];
    assert_eq!((&first["sentence"], &first["unit"]), (&"3.time".into(), &"s".into()));
    assert_eq!(first["results"][1]["id"], "letter.3.time");
    assert_eq!([&first["results"][0]["holds"], &first["results"][1]["holds"]], [true, false]);
    let without = workspace.rampmeter(&["claims", "mine", "11.alone", "--variants", "--recorded"]);
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without.stderr).contains("none of these claims has variants"), "{}", text(&without.stderr));
}

#[test]
fn the_claims_near_an_unknown_one_are_listed() {
    let workspace = with_variants("near_claims");
    for (name, near) in [
        ("11.foo", "near it are 3.time, 11.alone, 11.time, letter.3\n"),
        ("11.tima", "did you mean `11.time`?"),
        ("letters", "near it are 3, 11, letter\n"),
    ] {
        let unknown = workspace.rampmeter(&["claims", "mine", name, "--recorded"]);
        assert_eq!(unknown.status.code(), Some(2));
        let message = text(&unknown.stderr);
        assert!(message.contains(&format!("no claim is called `{name}` or `{name}.*`; {near}")), "{message}");
    }
    let variant = text(&workspace.rampmeter(&["claims", "mine", "default", "--recorded"]).stderr);
    assert!(variant.contains("no claim is called `default`: it is a variant; --recorded --variants"), "{variant}");
}

#[test]
fn recorded_results_are_kept_and_compared_with_statuses() {
    let right = CLAIMS.split_once("\n\n[[claim]]\nid = \"lost\"").unwrap().0;
    let workspace = with_claims("recorded_claims", right);
    let run = |arguments: &[&str]| workspace.rampmeter(&[&["claims", "mine"], arguments].concat());
    let missing = run(&["--missing"]);
    assert!(text(&missing.stdout).starts_with("kept\n"), "{}", text(&missing.stdout));
    let unrecorded = text(&run(&["--recorded", "--strict"]).stdout);
    assert!(unrecorded.contains("skipped    kept: ") && unrecorded.contains("use --record\n"), "{unrecorded}");
    let row = |text: &str| text.lines().find(|line| line.starts_with("kept")).unwrap_or_default().to_owned();
    assert!(row(&unrecorded).ends_with("  skipped  not recorded"), "{unrecorded}");
    let recorded = run(&["--record"]);
    assert!(text(&recorded.stdout).contains("expected above 1 RTT: holds\n"), "{}", text(&recorded.stdout));
    assert!(text(&recorded.stdout).ends_with("measured.json: 0 of 1 claims have no current result\n"));
    // A current result is not run again: without its points, too.
    std::fs::remove_dir_all(workspace.0.join("runs")).unwrap();
    assert!(!text(&run(&["--record"]).stdout).contains("expected") && !workspace.0.join("runs/claims").exists());
    let shown = text(&run(&["--recorded"]).stdout);
    assert!(
        shown.contains("claims: 1 hold, 0 open, 0 fail, 0 skipped; 0 without")
            && !workspace.0.join("runs/claims").exists()
    );
    assert!(text(&run(&["--record", "--fresh"]).stdout).contains("expected"));

    let path = workspace.0.join("studies/mine/measured.json");
    let measured = std::fs::read_to_string(&path).unwrap();
    assert_eq!(run(&["--strict", "--quick"]).status.code(), Some(0));
    std::fs::write(&path, measured.replace("\"measured\":", "\"measured\":1")).unwrap();
    assert!(text(&run(&[]).stdout).contains("\ndrift      kept: "));
    std::fs::write(&path, measured.replace("\"digest\":\"", "\"digest\":\"of other runs ")).unwrap();
    let stale = text(&run(&["--recorded"]).stdout);
    assert!(row(&stale).ends_with("  skipped  out of date") && stale.contains("is of other runs"), "{stale}");
    std::fs::write(&path, measured.replace("\"holds\":true", "\"holds\":false")).unwrap();
    let contradicted = run(&["--strict", "--quick"]);
    assert_eq!(contradicted.status.code(), Some(1));
    assert!(text(&contradicted.stdout).contains("\nrecord     kept: "), "{}", text(&contradicted.stdout));

    // Fewer runs say something else than all.
    let open = right.replace("status = \"holds\"", "status = \"open\"\nnote = \"n\"");
    std::fs::write(workspace.0.join("studies/mine/claims.toml"), open).unwrap();
    let partial = text(&run(&["--quick"]).stdout);
    assert!(partial.contains("\n           in all runs with all seeds it does not hold: "), "{partial}");
}
