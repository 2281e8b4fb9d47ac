//! All errors of a file are found at once.

mod common;

use common::good::GOOD;
use rampmeter_scenario::{Registries, Scenario};

/// The errors of `text`, without the path of its file.
fn problems(text: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.toml");
    std::fs::write(&path, text).unwrap();
    let problems = Scenario::problems(&path, &Registries::default());
    let own = format!("{}/", directory.path().display());
    problems.iter().map(|error| error.to_string().replace(&own, "")).collect()
}

/// Asserts that the errors of `GOOD` with these replacements begin with `expected`, and that there are no others.
fn are(replacements: &[(&str, &str)], expected: &[&str]) {
    let mut text = GOOD.to_owned();
    for (find, replace) in replacements {
        assert!(text.contains(find), "{find}");
        text = text.replacen(find, replace, 1);
    }
    let found = problems(&text);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} instead of {expected}");
    }
}

#[test]
fn a_valid_file_has_none() {
    are(&[], &[]);
    assert!(Scenario::problems("lte-walking", &Registries::default()).is_empty());
}

#[test]
fn each_table_and_each_value_of_an_axis_has_its_own() {
    are(
        &[
            ("drain = \"5 s\"", "drain = \"5M\""),
            ("rate = \"40 Mb/s\"", "rate = \"40\""),
            ("at = \"right\"", "at = 7"),
            ("controller = \"newreno\"", "controler = \"newreno\""),
            ("rate = \"2 Mb/s\"", "rat = \"2 Mb/s\""),
            ("load = [0.3, 0.6]", "load = [0.3, \"much\", \"more\"]"),
            ("title", "titel"),
        ],
        &[
            "x.toml:1: a scenario has no key `titel`",
            "x.toml:4: `drain`: `5M` is not a length of time",
            "x.toml:14: `rate`: `40` is not a rate",
            "x.toml:29: `at` is 7",
            "x.toml:33: scheme `tcp` has no key `controler`",
            "x.toml:38: controller `fixed-rate`: there is no `rat`",
            "x.toml:46: `load` is the text \"much\"",
            "x.toml:46: `load` is the text \"more\"",
        ],
    );
}

#[test]
fn what_follows_from_an_error_is_none() {
    are(&[("duration = \"10 s\"", "duration = 7")], &["x.toml:2: "]); // not TOML's 7: a time without a unit
    are(&[("name = \"bottleneck\"", "name = \"bottle neck\"")], &["x.toml:12: "]);
    are(&[("load = [0.3, 0.6]", "load = []")], &["x.toml:8: axis `load` has no values"]);
    are(&[("scheme = \"$scheme\"", "scheme = \"$shceme\"")], &["x.toml:42: no axis is called `shceme`"]);
    are(
        &[("load = \"$load\"", "load = \"$lod\""), ("to = \"source\"", "to = \"sauce\"")],
        &["x.toml:46: no axis is called `lod`", "x.toml:51: no group of hosts"],
    );
    are(&[("load = \"$load\"", "load = \"$lod * 0.5\"")], &["x.toml:46: no axis is called `lod`"]);
    are(&[("[[link]]", "[link]")], &["x.toml:11: `[link]` is a single table"]);
}

#[test]
fn errors_of_controllers_and_routers_are_found_together() {
    are(
        &[
            ("initial_window = 1", "initial_windw = 1"),
            ("kind = \"drop-tail\", packets = 100", "kind = \"droptail\""),
            ("min_rto = \"1 s\"", "min_rtoo = \"1 s\""),
            ("settings = { rate = \"2 Mb/s\" }", "settings = { rate = 2 }"),
        ],
        &[
            "x.toml:16: no router is called `droptail`",
            "x.toml:34: controller `newreno`: there is no `initial_windw`",
            "x.toml:38: controller `fixed-rate`: `rate` = 2",
        ],
    );
}

#[test]
fn a_condition_has_those_of_its_own_file() {
    let text = "[[link]]\nname = \"bottleneck\"\nbetween = [\"left\", \"right\"]\nrate = \"40 Mb/s\"\ndelay = \"5m\"\n\
                router = { kind = \"red\", packets = 100 }\nmeasure = true\n[[hosts]]\nname = \"s\"\ncuont = 3\n";
    let found = problems(text);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("x.toml:5: `delay`: `5m`") && found[1].starts_with("x.toml:10: "), "{found:#?}");
}

#[test]
fn a_file_of_schemes_and_a_scenario_without_traffic_are_checked() {
    let schemes = "[scheme.a]\ncontroller = \"$controller\"\nmacroflow = \"$grouping\"\n[scheme.b]\nkernl = \"x\"\n";
    let found = problems(schemes);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("x.toml:5: scheme `b` has no key `kernl`"), "{found:#?}");
    let (network, _) = common::SMALL.split_once("[[traffic]]").unwrap();
    assert!(problems(network).is_empty());
}
