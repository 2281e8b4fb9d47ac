//! Links whose capacity varies: traces in files, and models.

mod common;

use std::path::PathBuf;

use common::{SMALL, first_plan};
use rampmeter_router::Capacity;
use rampmeter_scenario::{Registries, Scenario};

/// [`SMALL`] with another rate of its link, in line 8.
fn with_rate(rate: &str) -> String {
    SMALL.replacen("\"8 Mb/s\"", rate, 1) + "arrivals = { count = 1 }\n"
}

fn refused(file: &str, text: &str) -> String {
    let refused = Scenario::parse(file, text).and_then(|it| it.check(&Registries::default())).unwrap_err().to_string();
    assert_eq!(refused.lines().count(), 1, "{refused}");
    refused
}

/// A directory with a file called `name`.
fn directory_with(name: &str, content: &[u8]) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("rampmeter-traces-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(name), content).unwrap();
    directory
}

#[test]
fn a_broken_trace_is_refused_with_file_line_and_remedy() {
    let text = with_rate("{ trace = \"broken\" }");
    let huge = vec![b'1'; 64_000_001];
    for (content, place, remedy) in [
        (&b"1\ntwo\n"[..], "broken:2: ", "\"two\" is not a time; write the millisecond"),
        (b"4\n3\n", "broken:2: ", "sort the lines"),
        (b"", "broken:1: ", "the trace is empty; write a line"),
        (b"\xff\xfe\0\0", "broken:1: ", "is not a time"),
        (&huge, "broken ", "larger than 64 MB"),
    ] {
        let directory = directory_with("broken", content);
        let file = directory.join("x.toml").display().to_string();
        let message = refused(&file, &text);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(message.starts_with(&format!("{file}:8: trace {}/{place}", directory.display())), "{message}");
        assert!(message.contains(remedy), "{message}");
    }
    let error = refused("x.toml", &text);
    assert!(error.starts_with("x.toml:8: trace broken cannot be read: "), "{error}");
    let error = refused("x.toml", &text.replace("\"broken\"", "\"/\""));
    assert!(error.contains("it is not a file; name a file of mahimahi's format"), "{error}");
}

#[test]
fn a_trace_is_read_beside_the_scenario_and_gives_the_mean_rate() {
    let directory = directory_with("good", b"1\n2\n3\n4\n");
    let file = directory.join("x.toml").display().to_string();
    let text = with_rate("{ trace = \"good\" }").replacen("packets = 10", "packets = { time = \"100 ms\" }", 1);
    let scenario = Scenario::parse(&file, &text).unwrap();
    let link = first_plan(&scenario).unwrap().links.remove(0);
    // 12 Mb/s: 150 kB in 100 ms, in packets of 1054 B.
    assert_eq!((link.config.rate.as_bps(), link.room), (12_000_000, Some(142)));
    let (hash, content) = (scenario.hash(), scenario.content(&scenario.points()[0]).unwrap());
    std::fs::write(directory.join("good"), b"1\n2\n3\n5\n").unwrap();
    let changed = Scenario::parse(&file, &text).unwrap();
    assert_ne!((hash, content), (changed.hash(), changed.content(&changed.points()[0]).unwrap()));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_model_gives_the_mean_rate_and_the_capacity() {
    let text = with_rate("{ model = \"wifi\", mean = \"12 Mb/s\", stations = 5 }");
    let text = text.replacen("packets = 10", "packets = { time = \"100 ms\" }", 1);
    let plan = common::plan(&text);
    for link in &plan.links[..2] {
        assert_eq!((link.config.rate.as_bps(), link.room), (12_000_000, Some(142)));
        assert!(matches!(&link.capacity, Some(Capacity::Wifi(config)) if config.stations == 5));
    }
}

#[test]
fn invalid_models_are_refused_with_line_and_remedy() {
    for (rate, advice) in [
        ("{}", "`rate` needs `model`, for example model = \"lte\", or trace = \"lte.trace\""),
        ("{ model = \"lt\" }", "no model of capacity is called `lt`; did you mean `lte`?"),
        ("{ model = \"lte\" }", "a model needs its mean rate: write mean = \"20 Mb/s\""),
        ("{ model = \"lte\", mean = 20 }", "`mean` = 20"),
        ("{ model = \"lte\", mean = \"20 Mb/s\", user = 3 }", "did you mean `users`?"),
        ("{ model = \"lte\", trace = \"x\" }", "`rate` has a `trace` and a `model`; give one of the two"),
        ("{ trace = \"\" }", "write the name of a file"),
    ] {
        let error = refused("x.toml", &with_rate(rate));
        assert!(error.starts_with("x.toml:8: ") && error.contains(advice), "{rate}: {error}");
    }
    let split = with_rate("{ model = \"docsis\", mean = \"20 Mb/s\",\nvariation = 2 }");
    let error = refused("x.toml", &split);
    assert!(error.starts_with("x.toml:9: model of capacity `docsis`: `variation` is 2"), "{error}");
}

#[test]
fn changes_and_routers_that_need_a_rate_are_refused() {
    let text = with_rate("{ model = \"lte\", mean = \"20 Mb/s\" }");
    let changed = text.replacen("measure = true", "changes = [{ at = \"4 s\", rate = \"20 Mb/s\" }]", 1);
    let error = refused("x.toml", &changed);
    assert!(error.starts_with("x.toml:11: `changes` of link `wire` changes a rate that varies anyway"), "{error}");
    let with_router = |kind: &str| {
        let settings = if kind == "policer" { ", rate = \"1 Mb/s\"" } else { "" };
        text.replacen("{ kind = \"drop-tail\", packets = 10 }", &format!("{{ kind = \"{kind}\"{settings} }}"), 1)
    };
    let needs_rate = ["avq", "fair-share", "vcp", "vcp-plus", "virtual-queue", "xcp"];
    for (kind, _) in Registries::default().routers.list() {
        if needs_rate.contains(&kind) {
            let error = refused("x.toml", &with_router(kind));
            assert!(error.contains(&format!(":10: a `{kind}` router cannot follow the capacity of link")), "{error}");
        } else {
            common::plan(&with_router(kind));
        }
    }
}
