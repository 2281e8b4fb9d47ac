//! Values that are set for keys of a scenario, as `--set KEY=VALUE` does.

mod common;

use common::good::GOOD;
use rampmeter_scenario::{Plan, Registries, Scenario, values};
use rampmeter_units::{Duration, Rate};

/// `GOOD` with the values of `sets`, or the message about the first wrong one.
fn scenario(sets: &[(&str, &str)]) -> Result<Scenario, String> {
    with(Scenario::parse("x.toml", GOOD).unwrap(), sets)
}

fn with(mut scenario: Scenario, sets: &[(&str, &str)]) -> Result<Scenario, String> {
    let sets = sets.iter().map(|(key, list)| ((*key).to_owned(), values(list)));
    scenario.set_all(sets).map_err(|error| error.to_string())?;
    scenario.check(&Registries::default()).map_err(|error| error.to_string())?;
    Ok(scenario)
}

fn plans(scenario: &Scenario) -> Vec<Plan> {
    scenario.points().iter().map(|point| scenario.plan(point, &Registries::default()).unwrap()).collect()
}

#[test]
fn any_key_can_be_set() {
    let sets = [
        ("duration", "20s"),
        ("drain", "0 s"),
        ("link.bottleneck.rate", "30 Mb/s"),
        ("link.bottleneck.jitter.max", "3 ms"),
        ("link.bottleneck.changes.0.at", "5 s"),
        ("link.bottleneck.reverse.delay", "7 ms"),
        ("hosts.source.count", "5"),
        ("hosts.sink.count", "5"),
        ("scheme.tcp.settings.initial_window", "3"),
        ("scheme.fixed.transport.min_rto", "2 s"),
        ("traffic.background.arrivals.count", "9"),
    ];
    let scenario = scenario(&sets).unwrap();
    let plan = &plans(&scenario)[0];
    assert_eq!((plan.duration, plan.drain), (Duration::from_secs(20), Duration::ZERO));
    let [forward, reverse] = [&plan.links[0], &plan.links[1]];
    assert_eq!((forward.config.rate, reverse.config.rate), (Rate::from_bps(30_000_000), Rate::from_bps(20_000_000)));
    assert_eq!(forward.disorder.jitter.max, Duration::from_millis(3));
    assert_eq!(forward.changes[0].at.as_secs_f64(), 5.0);
    assert_eq!(reverse.config.delay, Duration::from_millis(7));
    assert_eq!(plan.flows.iter().filter(|flow| flow.traffic == 1).count(), 9);
    assert_eq!(plan.nodes.iter().filter(|node| node.is_host).count(), 10);
}

#[test]
fn several_values_are_an_axis_with_the_name_of_the_key() {
    let scenario =
        scenario(&[("link.bottleneck.rate", "10 Mb/s,20 Mb/s"), ("load", "0.3"), ("scheme", "tcp")]).unwrap();
    let names: Vec<&str> = scenario.axes().iter().map(|axis| axis.name.as_str()).collect();
    assert_eq!(names, ["link.bottleneck.rate", "scheme", "load", "seed"]);
    let rates = plans(&scenario).iter().map(|plan| plan.links[0].config.rate.as_bps()).collect::<Vec<_>>();
    assert_eq!(rates, [10_000_000, 20_000_000]);
    let [slow, fast] = [0, 1].map(|n| scenario.content(&scenario.points()[n]).unwrap());
    assert_ne!(slow, fast);
    let changed = Scenario::parse("x.toml", &GOOD.replacen("40 Mb/s", "20 Mb/s", 1)).unwrap();
    assert_eq!(changed.content(&changed.points()[0]).unwrap(), fast, "as if the file had the value");
}

#[test]
fn a_value_replaces_a_placeholder_unless_its_axis_has_no_other() {
    let message = scenario(&[("traffic.transfers.arrivals.load", "0.5")]).unwrap_err();
    assert_eq!(
        message,
        "--set traffic.transfers.arrivals.load: its value is that of the axis `load`; set `load` instead"
    );
    scenario(&[("traffic.transfers.scheme", "fixed")]).unwrap(); // the other traffic uses the axis
}

#[test]
fn mistakes_name_the_key_that_was_set() {
    for (key, list, expected) in [
        (
            "link.bottlneck.rate",
            "1 Mb/s",
            "--set link.bottlneck.rate: no link is called `bottlneck`; did you mean `bott",
        ),
        ("link.bottleneck.rate", "20", "--set link.bottleneck.rate: `rate`: `20` is not a rate: write a number and"),
        ("link.bottleneck.rte", "20 Mb/s", "--set link.bottleneck.rte: [[link]] has no key `rte`; did you mean `rate`"),
        (
            "link.bottleneck.router.packts",
            "9",
            "--set link.bottleneck.router.packts: router `drop-tail`: there is no `packts`",
        ),
        ("scheme.tcp.settings.bet", "1", "--set scheme.tcp.settings.bet: controller `newreno`: there is no `bet`"),
        (
            "scheme.tpc.controller",
            "cubic",
            "--set scheme.tpc.controller: no scheme is called `tpc`; did you mean `tcp`",
        ),
        ("traffic.background.to", "snik", "--set traffic.background.to: no group of hosts is called `snik`; did you"),
        (
            "hosts.source",
            "1",
            "--set hosts.source: `hosts.source` is a table; set one of its keys: hosts.source.at, hosts.source.count",
        ),
        ("durtion", "1 s", "--set durtion: no axis or key is called `durtion`; did you mean `duration`?"),
        (
            "lnk.bottleneck.rate",
            "1 Mb/s",
            "--set lnk.bottleneck.rate: no axis or key is called `lnk`; did you mean `link`?",
        ),
        ("skeme", "1", "--set skeme: no axis or key is called `skeme`; did you mean `scheme`?"),
        ("schemes", "x.toml", "--set schemes: no axis or key is called `schemes`"),
        ("axes.load", "0.3", "--set axes.load: an axis is set by its name; write --set load=..."),
        ("duration", "1 s", "x.toml:3: `warmup` is 1 s of a duration of 1 s"),
        ("drain", "5", "--set drain: `drain`: `5` is not a length of time"),
        ("duration", "10 s,10 s", "--set duration: axis `duration` has the value \"10 s\" twice"),
        (
            "link.bottleneck.loss.per_packet",
            "2",
            "--set link.bottleneck.loss.per_packet: `per_packet` is 2; it should be",
        ),
    ] {
        let message = scenario(&[(key, list)]).expect_err(key);
        assert!(message.starts_with(expected), "{key}: {message}");
    }
}

#[test]
fn lines_of_the_file_stay_those_of_the_file() {
    let added =
        [("meters.series", "200 ms"), ("link.bottleneck.duplication", "0.1"), ("hosts.sink.stalls.every", "1 s")];
    let text = GOOD.replacen("[meters]\nseries = \"100 ms\"\n", "\n\n", 1);
    for (find, replace, line) in [("count = 2, at", "count = 2, att", 54), ("per_packet", "per_paket", 17)] {
        let mut scenario = Scenario::parse("x.toml", &text).unwrap();
        for (key, list) in &added[..2] {
            scenario.set(key, values(list)).unwrap();
        }
        let message = Scenario::parse("x.toml", &text.replacen(find, replace, 1)).unwrap_err().to_string();
        assert!(message.starts_with(&format!("x.toml:{line}: ")), "{message}");
    }
    let message = with(Scenario::parse("x.toml", &text).unwrap(), &added).unwrap_err();
    assert!(message.starts_with("--set hosts.sink.stalls.every: `stalls` needs `duration`"), "{message}");
    let sets = [("link.bottleneck.duplication", "0.1"), ("meters.series", "1 s"), ("traffic.background.measure", "7")];
    let message = with(Scenario::parse("x.toml", &text).unwrap(), &sets).unwrap_err();
    assert!(message.starts_with("--set traffic.background.measure: "), "{message}");
    let sets = [("link.bottleneck.duplication", "0.1"), ("drain", "1 s"), ("hosts.sink.count", "4")];
    let message = with(Scenario::parse("x.toml", &text).unwrap(), &sets).unwrap_err();
    assert!(message.starts_with("x.toml:44: there are 3 hosts `source` and 4 hosts `sink` to pair"), "{message}");
}

#[test]
fn keys_of_a_condition_can_be_set() {
    let condition = || Scenario::read("cable-100").unwrap();
    let sets = [("link.bottleneck.delay", "33 ms"), ("duration", "9 s"), ("scheme.flow.transport.min_rto", "1 s")];
    let scenario = with(condition(), &sets).unwrap();
    let plan = &plans(&scenario)[0];
    let bottleneck = plan.links.iter().find(|link| link.name == "bottleneck").unwrap();
    assert_eq!((bottleneck.config.delay, plan.duration), (Duration::from_millis(33), Duration::from_secs(9)));
    let content = scenario.content(&scenario.points()[0]).unwrap().to_string();
    assert!(content.contains("33 ms"), "{content}");
    for (key, list, expected) in [
        ("link.bottleneck.dely", "1 ms", "--set link.bottleneck.dely: [[link]] has no key `dely`; did you"),
        ("link.bottlneck.delay", "1 ms", "--set link.bottlneck.delay: no link is called `bottlneck`; did you mean `bo"),
        (
            "hosts.sendr.count",
            "2",
            "--set hosts.sendr.count: no group of hosts is called `sendr`; did you mean `sender`",
        ),
    ] {
        let message = with(condition(), &[(key, list)]).expect_err(key);
        assert!(message.starts_with(expected), "{key}: {message}");
    }
    let several = with(condition(), &[("condition", "cable-100,geo"), ("link.bottleneck.delay", "1 ms,2 ms")]).unwrap();
    assert_eq!(several.points().len(), 8, "two schemes, two conditions, two delays");
}

#[test]
fn a_range_stands_for_its_whole_numbers() {
    let seeds = |scenario: &Scenario| scenario.axes().last().unwrap().values.len();
    assert_eq!(seeds(&scenario(&[("seed", "1..500")]).unwrap()), 500);
    assert_eq!(seeds(&scenario(&[("seed", "1..3, 7,9..9")]).unwrap()), 5);
    let in_file = |seed: &str| {
        let text = GOOD.replacen("[axes]\n", &format!("[axes]\nseed = {seed}\n"), 1);
        Scenario::parse("x.toml", &text).map(|scenario| scenario.axes()[0].values.len()).map_err(|it| it.to_string())
    };
    assert_eq!(in_file("\"1..20\""), Ok(20));
    assert_eq!(in_file("[\"1..20\", 30]"), Ok(21));
    let counts = scenario(&[("traffic.background.arrivals.count", "1..3")]).unwrap();
    assert_eq!(counts.axes()[0].values.len(), 3);
    for (seed, advice) in [
        ("\"20..1\"", "x.toml:7: the range \"20..1\" cannot be used; write the smaller number first"),
        ("\"1..9000000000000000000\"", "at most 1000000 numbers"),
        ("\"1.5..3\"", "`seed` is the text \"1.5..3\"; it should be a list in brackets"),
        ("[\"1..3\", 2]", "has the value 2 twice"),
    ] {
        assert!(in_file(seed).unwrap_err().contains(advice), "{seed}: {:?}", in_file(seed));
    }
}
