//! Conditions: the library, and how scenarios use it.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::first_plan;
use rampmeter_scenario::{CONDITIONS, ConditionFacts, Plan, Portable, Registries, Scenario, values};
use rampmeter_units::{Bytes, Rate};
use tempfile::TempDir;

/// A scenario without links. Each test puts its condition into the first line.
const SCENARIO: &str = r#"condition = "CONDITION"
duration = "20 s"
[[hosts]]
name = "server"
at = "left"
rate = "unlimited"
delay = "0 ms"
[[hosts]]
name = "client"
at = "right"
rate = "unlimited"
delay = "0 ms"
[scheme.cubic]
controller = "newreno"
[[traffic]]
name = "download"
scheme = "cubic"
from = "server"
to = "client"
arrivals = { count = 3, spread = "1 s" }
"#;

/// A condition of one link.
const CONDITION: &str = r#"title = "Mine"
source = "me"
[[link]]
name = "bottleneck"
between = ["left", "right"]
rate = "30 Mb/s"
delay = "7 ms"
router = { kind = "drop-tail", packets = 50 }
measure = true
"#;

fn using(condition: &str) -> String {
    SCENARIO.replace("CONDITION", condition)
}

/// A scenario that uses this condition, in a file beside it.
fn with_own(condition: &str) -> (TempDir, Result<Scenario, String>) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("mine.toml"), condition).unwrap();
    let scenario = directory.path().join("scenario.toml");
    std::fs::write(&scenario, using("mine.toml")).unwrap();
    let read = Scenario::read(&scenario).and_then(|it| it.check(&Registries::default()).map(|()| it));
    (directory, read.map_err(|error| error.to_string()))
}

#[test]
fn the_library_is_the_directory_of_conditions() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/conditions");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<String> = files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let library: BTreeSet<String> = CONDITIONS.iter().map(|condition| condition.name.to_owned()).collect();
    assert_eq!(files, library);
    assert_eq!(library.len(), CONDITIONS.len());
}

#[test]
fn every_condition_is_a_network_with_a_title_and_a_source() {
    let all = ConditionFacts::all(&Registries::default()).unwrap();
    assert!(all.len() >= 60, "{}", all.len());
    for facts in &all {
        let texts = [&facts.title, &facts.source, &facts.group];
        assert!(texts.iter().all(|text| !text.is_empty()), "{facts:?}");
        assert!(!facts.title.ends_with('.') && facts.title.len() <= 80, "{facts:?}");
        assert!(facts.rate > Rate::ZERO && facts.reverse_rate > Rate::ZERO, "{facts:?}");
        assert!(facts.round_trip.as_nanos() > 0 && (0.0..0.1).contains(&facts.loss), "{facts:?}");
        assert!(!facts.router.is_empty(), "{facts:?}");
    }
    let groups: Vec<&str> = all.iter().map(|facts| facts.group.as_str()).collect();
    let changes = groups.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(changes + 1, groups.iter().collect::<BTreeSet<_>>().len(), "each group is in one place: {groups:?}");
}

#[test]
fn facts_are_those_of_the_path() {
    let all = ConditionFacts::all(&Registries::default()).unwrap();
    let facts = |name: &str| all.iter().find(|facts| facts.name == name).unwrap();
    let cable = facts("cable-100-bufferbloat");
    assert_eq!((cable.rate.as_bps(), cable.reverse_rate.as_bps(), cable.varies), (100_000_000, 10_000_000, None));
    // 2 * 8 ms; 500 ms in whole packets.
    assert_eq!((cable.round_trip.as_secs_f64(), cable.buffer.unwrap().as_secs_f64()), (0.016, 0.49992));
    assert_eq!(
        (facts("policed-20M").rate.as_bps(), facts("policed-20M").reverse_rate.as_bps()),
        (20_000_000, 20_000_000)
    );
    assert_eq!((facts("wifi-crowded").varies, facts("l4s-40").router), (Some("wifi"), "dualpi2"));
    assert!((facts("loss-bursts").loss - 0.01).abs() < 1e-9 && facts("transatlantic").loss == 0.0);
}

#[test]
fn a_condition_gives_a_scenario_its_links() {
    let plan = common::plan(&using("transatlantic-shallow"));
    let names: Vec<&str> = plan.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names[..2], ["bottleneck", "bottleneck.reverse"]);
    assert_eq!(plan.links[0].config.rate.as_bps(), 40_000_000);
    assert!(plan.links[0].measured);
    assert_eq!(plan.min_round_trip().unwrap().as_secs_f64(), 0.08);
}

#[test]
fn the_condition_is_an_axis_also_where_the_file_names_it() {
    let mut scenario = Scenario::parse("x.toml", &using("dsl-8")).unwrap();
    assert_eq!(scenario.axes()[0].name, "condition");
    scenario.set("condition", values("geo,l4s-40")).unwrap();
    let names = |scenario: &Scenario| {
        let of = |plan: Plan| (plan.point.get("condition").unwrap().clone(), plan.links[0].config.rate.as_bps());
        let plans = scenario.points().into_iter().map(|point| scenario.plan(&point, &Registries::default()).unwrap());
        plans.map(of).collect::<Vec<_>>()
    };
    assert_eq!(names(&scenario), [("geo".into(), 20_000_000), ("l4s-40".into(), 40_000_000)]);
    let axes = "[axes]\ncondition = [\"geo\", \"l4s-40\"]\n[[hosts]]";
    let listed = Scenario::parse("x.toml", &using("$condition").replacen("[[hosts]]", axes, 1)).unwrap();
    assert_eq!(names(&listed), names(&scenario));
}

#[test]
fn a_name_of_the_library_stands_in_the_place_of_a_file() {
    let scenario = Scenario::read("loss-0.1").unwrap();
    assert_eq!(scenario.title(), "One flow over loss-0.1");
    assert_eq!(scenario.points().len(), 2); // newreno and cubic
    assert_eq!(first_plan(&scenario).unwrap().flows.len(), 1);
    assert!(first_plan(&Scenario::read_network("parking-lot").unwrap()).unwrap().traffic.iter().all(|it| !it.measured));
    let error = Scenario::read("lte-waking").unwrap_err().to_string();
    assert_eq!(
        error,
        "lte-waking: no condition is called `lte-waking`; did you mean `lte-walking`?; a file's name ends in .toml"
    );
}

#[test]
fn a_condition_in_a_file_stands_in_the_place_of_a_scenario() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.toml");
    let read = |text: &str| {
        std::fs::write(&file, text).unwrap();
        Scenario::read(&file).and_then(|scenario| scenario.check(&Registries::default()).map(|()| scenario))
    };
    let scenario = read(CONDITION).unwrap();
    assert_eq!(scenario.points().len(), 2); // newreno and cubic
    assert_eq!(scenario.points()[0].get("condition").unwrap().as_str(), file.to_str());
    let plan = first_plan(&Scenario::read_network(&file).unwrap()).unwrap();
    assert_eq!((plan.links[0].config.rate.as_bps(), plan.flows.len()), (30_000_000, 0));
    for (condition, start) in [
        (CONDITION.replacen("\"7 ms\"", "\"7\"", 1), ":7: `delay`"),
        (format!("group = \"mine\"\nduration = \"3 s\"\n{CONDITION}"), ":2: a condition has no key `duration`"),
        (format!("{CONDITION}[[traffic]]\n"), ":1: a scenario needs `duration`"),
    ] {
        let error = read(&condition).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}{start}", file.display())), "{error}");
    }
    // The lines of the scenario around the condition are in no file of the user.
    read(CONDITION).unwrap();
    let mut scenario = Scenario::read(&file).unwrap();
    scenario.set("scheme", values("newreeno")).unwrap();
    let error = scenario.check(&Registries::default()).unwrap_err().to_string();
    assert_eq!(error, format!("{}: no controller is called `newreeno`; did you mean `newreno`?", file.display()));
}

#[test]
fn facts_of_a_condition_in_a_file_are_as_of_the_library() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.toml");
    std::fs::write(&file, CONDITION).unwrap();
    let facts = |name: &str| ConditionFacts::of(name, &Registries::default());
    let mine = facts(file.to_str().unwrap()).unwrap();
    assert_eq!((mine.title.as_str(), mine.group.as_str(), mine.round_trip.as_secs_f64()), ("Mine", "", 0.014));
    assert!(facts("lte-waking").unwrap_err().to_string().contains("did you mean `lte-walking`?"));
    std::fs::write(&file, using("geo")).unwrap();
    let error = facts(file.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains(":1: a condition has no key `condition`"), "{error}");
}

#[test]
fn a_conditions_bottleneck_runs_from_left_to_right() {
    let link = |name: &str, ends: &str, rest: &str| {
        let router = "router = { kind = \"drop-tail\" }";
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = [{ends}]\nrate = \"1 Mb/s\"\ndelay = \"1 ms\"\n{router}\n{rest}\n"
        )
    };
    let two = |bottleneck: &str, other: &str, rest: &str| {
        link("bottleneck", bottleneck, "measure = true") + &link("other", other, rest)
    };
    for (condition, remedy) in [
        (CONDITION.replace("[\"left\", \"right\"]", "[\"right\", \"left\"]"), Some("between = [\"left\", \"right\"]")),
        (two("\"left\", \"m\"", "\"m\", \"right\"", ""), None),
        (two("\"left\", \"m\"", "\"right\", \"m\"", ""), None),
        (two("\"m\", \"right\"", "\"m\", \"left\"", ""), None),
        (two("\"right\", \"m\"", "\"left\", \"m\"", ""), Some("perhaps [\"m\", \"right\"]")),
        (two("\"left\", \"m\"", "\"right\", \"m\"", "one_way = true"), Some("carries no data")),
    ] {
        let (_directory, read) = with_own(&condition);
        let Some(remedy) = remedy else {
            read.unwrap();
            continue;
        };
        let error = read.unwrap_err();
        assert!(error.contains("link `bottleneck` from ") && error.contains(remedy), "{error}");
        assert!(error.contains("mine.toml:3: ") || error.contains("mine.toml:5: "), "{error}");
    }
}

#[test]
fn a_packet_larger_than_the_conditions_is_refused() {
    let with = |packet: &str| {
        let transport = format!("controller = \"newreno\"\ntransport = {{ packet = \"{packet}\" }}");
        let text = using("vpn").replacen("controller = \"newreno\"", &transport, 1);
        Scenario::parse("x.toml", &text)?.check(&Registries::default())
    };
    with("1420 B").unwrap();
    let error = with("1421 B").unwrap_err().to_string();
    assert!(error.starts_with("x.toml:15: transport: `packet` is 1.421 kB, and condition `vpn` carries at most"));
    assert!(error.ends_with("make it smaller, or omit it for packets that fit"), "{error}");
}

#[test]
fn the_smaller_packet_of_scenario_and_condition_counts() {
    let packet =
        |condition: &str, own: &str| common::plan(&(format!("packet = \"{own}\"\n") + &using(condition))).packet;
    assert_eq!(packet("vpn", "1500 B"), Bytes::new(1420));
    assert_eq!(packet("vpn", "1000 B"), Bytes::new(1000));
    assert_eq!(packet("dsl-8", "1500 B"), Bytes::new(1500));
}

#[test]
fn traffic_of_a_condition_changes_no_flow_and_is_not_measured() {
    let own = common::plan(&using("transatlantic"));
    let plan = common::plan(&using("web-traffic"));
    let flows = |plan: &Plan| plan.flows.iter().filter(|flow| flow.traffic == 0).copied().collect::<Vec<_>>();
    let starts = |plan: &Plan| flows(plan).iter().map(|flow| flow.start).collect::<Vec<_>>();
    assert_eq!(starts(&own), starts(&plan));
    assert!(plan.flows.len() > 500, "{}", plan.flows.len());
    assert_eq!(plan.traffic.iter().map(|it| it.measured).collect::<Vec<_>>(), [true, false]);
    assert!(plan.nodes.iter().any(|node| node.name == "condition.web-server.9"));
}

#[test]
fn a_condition_in_a_file_is_read_beside_the_scenario() {
    let traced = CONDITION.replacen("\"30 Mb/s\"", "{ trace = \"steady.trace\" }", 1);
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("paths")).unwrap();
    std::fs::write(directory.path().join("paths/mine.toml"), traced).unwrap();
    std::fs::write(directory.path().join("paths/steady.trace"), "1\n2\n3\n").unwrap();
    let file = directory.path().join("scenario.toml");
    std::fs::write(&file, using("paths/mine.toml")).unwrap();
    let scenario = Scenario::read(&file).unwrap();
    assert_eq!(first_plan(&scenario).unwrap().links[0].config.rate.as_bps(), 12_000_000);
    let portable: Portable = scenario.portable();
    drop(directory);
    let carried = Scenario::from_portable(portable).unwrap();
    assert_eq!(first_plan(&carried).unwrap().links[0].config.rate.as_bps(), 12_000_000);
}

#[test]
fn results_depend_on_the_content_of_the_condition() {
    let content = |condition: &str| {
        let (_directory, scenario) = with_own(condition);
        let scenario = scenario.unwrap();
        (scenario.content(&scenario.points()[0]).unwrap(), scenario.hash())
    };
    let (first, first_hash) = content(CONDITION);
    let (renamed, _) = content(&CONDITION.replacen("Mine", "Yours", 1));
    let (changed, changed_hash) = content(&CONDITION.replacen("7 ms", "8 ms", 1));
    assert_eq!(first, renamed);
    assert_ne!(first, changed);
    assert_ne!(first_hash, changed_hash);
}

#[test]
fn a_wrong_condition_is_refused_with_its_place() {
    for (find, replace, line, advice) in [
        ("rate = \"30 Mb/s\"\n", "", 3, "link `bottleneck` needs `rate`"),
        ("\"7 ms\"", "\"7\"", 7, "one of ns, us, ms, s"),
        ("\"drop-tail\"", "\"droptail\"", 8, "drop-tail"),
        ("packets = 50", "packets = 0", 8, "packets = 1 or more"),
        ("\"right\"", "\"rite\"", 1, "a condition needs links from `left` to `right`"),
        ("\"bottleneck\"", "\"path\"", 1, "a condition needs a measured link called `bottleneck`"),
        ("measure = true", "", 1, "write [[link]] name = \"bottleneck\", measure = true"),
        ("title", "duration = \"3 s\"\ntitle", 1, "a condition has no key `duration`"),
        ("title = \"Mine\"", "title = Mine", 1, "not TOML"),
    ] {
        let (directory, refused) = with_own(&CONDITION.replacen(find, replace, 1));
        let error = refused.unwrap_err();
        let place = format!("{}:{line}: ", directory.path().join("mine.toml").display());
        assert!(error.starts_with(&place) && error.contains(advice), "{replace}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn an_unknown_condition_is_refused_with_a_remedy() {
    let refused = |condition: &str| Scenario::parse("x.toml", &using(condition)).unwrap_err().to_string();
    for (condition, advice) in [
        ("lte-waking", "no condition is called `lte-waking`; did you mean `lte-walking`?"),
        ("mars", "`rampmeter conditions` lists them; a file's name ends in .toml"),
        ("mars.toml", "condition mars.toml cannot be read: "),
        ("", "no condition is called ``"),
    ] {
        let error = refused(condition);
        assert!(error.starts_with("x.toml:1: ") && error.contains(advice), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let twice = using("dsl-8").replacen(
        "[[hosts]]",
        &format!("{}\n[[hosts]]", &CONDITION[CONDITION.find("[[link]]").unwrap()..]),
        1,
    );
    let error = Scenario::parse("x.toml", &twice).unwrap_err().to_string();
    assert!(error.starts_with("x.toml:4: there are two links called `bottleneck`"), "{error}");
    let mut scenario = Scenario::parse("x.toml", &using("dsl-8")).unwrap();
    let error = scenario.set("condition", values("dsl-9")).unwrap_err().to_string();
    assert!(error.contains("no condition is called `dsl-9`; did you mean `dsl-8`?"), "{error}");
}

#[test]
fn changes_repeat_until_the_end_of_the_run() {
    let plan = common::plan(&using("path-flapping"));
    let changes: Vec<(f64, f64)> = plan.links[0]
        .changes
        .iter()
        .map(|change| (change.at.as_secs_f64(), change.delay.unwrap().as_secs_f64()))
        .collect();
    let expected: Vec<(f64, f64)> = (5..20).map(|s| (f64::from(s), if s % 2 == 1 { 0.02 } else { 0.01 })).collect();
    assert_eq!(changes, expected);
    // A network that other programs use has no end of its own.
    assert!(first_plan(&Scenario::read_network("path-flapping").unwrap()).unwrap().links[0].changes.len() > 500);
    let late = CONDITION.replace("measure", "changes = [{ at = \"30 s\", rate = \"1 Mb/s\" }]\nmeasure");
    let (_directory, read) = with_own(&late);
    assert!(first_plan(&read.unwrap()).unwrap().links[0].changes.is_empty());
    // A run that ends before the first change has none.
    let short = using("path-flapping").replace("\"20 s\"", "\"4 s\"");
    assert!(common::plan(&short).links[0].changes.is_empty());
}
