//! Every mistake gives an error of one line with its place and the remedy; none panics.

mod common;

use common::good::{GOOD, check, is_refused};
use proptest::prelude::*;
use rampmeter_scenario::{Registries, Scenario, values};

#[test]
fn the_valid_file_is_accepted() {
    check(GOOD).unwrap();
}

#[test]
fn invalid_macroflows_are_refused() {
    for (key, line, advice) in [
        ("macroflow = \"host\"", 34, "\"destination\""),
        ("scheduler = \"fair\"", 34, "\"round-robin\""),
        ("macroflow = 7", 34, "a text in quotes"),
    ] {
        is_refused("controller = \"newreno\"\n", &format!("controller = \"newreno\"\n{key}\n"), line, advice);
    }
    is_refused("pairs = \"any\"", "weight = 0", 53, "a weight from 0.001 to 1000");
}

#[test]
fn invalid_service_curves_are_refused() {
    let hfsc =
        |text: &str| text.replace("controller = \"newreno\"\n", "controller = \"newreno\"\nscheduler = \"h-fsc\"\n");
    let with = |curve: &str| GOOD.replace("pairs = \"any\"", &format!("curve = {curve}"));
    for (curve, advice) in [
        ("\"1 Mb/s\"", "{ m1 = \"1.6 Mb/s\", d = \"5 ms\", m2 = \"320 kb/s\" }"),
        ("{ m1 = \"1 Mb/s\", d = \"5 ms\" }", "needs `m2`"),
        ("{ m1 = \"1 Mb/s\", m2 = \"1 Mb/s\" }", "has only `m1`; give it both or neither"),
        ("{ d = \"5 ms\", m2 = \"1 Mb/s\" }", "has only `d`"),
        ("{ m2 = \"0 b/s\" }", "more than zero"),
        ("{ m1 = \"1 Mb/s\", d = 5, m2 = \"1 Mb/s\" }", "one of ns, us, ms, s"),
        ("{ m1 = \"1 Mb/s\", D = \"5 ms\", m2 = \"1 Mb/s\" }", "has no key `D`"),
    ] {
        let message = check(&hfsc(&with(curve))).expect_err(curve).to_string();
        assert!(message.starts_with("x.toml:54: ") && message.contains(advice), "{curve}: {message}");
    }
    let message = check(&with("{ m2 = \"1 Mb/s\" }")).unwrap_err().to_string();
    assert!(message.starts_with("x.toml:53: ") && message.contains("scheduler = \"h-fsc\""), "{message}");
    assert!(message.contains("[scheme.tcp]"), "{message}");
    check(&hfsc(&GOOD.replace("pairs = \"any\"", "pairs = \"any\"\ncurve = { m2 = \"1 Mb/s\" }"))).unwrap();
}

#[test]
fn a_stack_is_named_before_its_controller() {
    for (keys, name) in [
        ("stack = \"quinn\"", "quinn:cubic"),
        ("stack = \"noq\"\ncontroller = \"bbr3\"", "noq:bbr3"),
        ("stack = \"noq\"\ncontroller = \"noq:bbr3\"", "noq:bbr3"),
        ("stack = { noq = \"../noq\" }", "quinn:cubic"),
    ] {
        let advice = format!("scheme `tcp` has no key `stack`; remove it, and write controller = \"{name}\"");
        is_refused("controller = \"newreno\"\nsettings = { initial_window = 1 }", keys, 33, &advice);
    }
}

#[test]
fn invalid_stalls_are_refused() {
    for (stalls, advice) in [
        ("every = \"1 s\"", "duration = \"2 ms\""),
        ("every = \"0 s\", duration = \"1 ms\"", "more than zero"),
        ("every = \"1 s\", duration = \"1 ns\"", "1 us or more"),
    ] {
        is_refused("count = 3\nat = \"left\"", &format!("stalls = {{ {stalls} }}\nat = \"left\""), 22, advice);
    }
}

#[test]
fn a_disorders_mistakes_name_their_lines() {
    for (disorder, advice) in [
        ("jitter = \"5 ms\"", "write { max = \"5 ms\" }"),
        ("jitter = { maximum = \"5 ms\" }", "no key `maximum`"),
        ("reordering = 0.01", "{ share = 0.01, delay = \"5 ms\" }"),
        ("reordering = { share = 0.01 }", "needs `delay`"),
        ("duplication = 1.0", "a share of all packets from 0 to below 1"),
    ] {
        is_refused("loss = { per_packet = 0.01 }", disorder, 17, advice);
    }
}

/// What is replaced in the valid file by what; the line and a part of the error.
const MISTAKES: &[(&str, &str, usize, &str)] = &[
    // Not TOML, or not a scenario.
    ("duration = \"10 s\"", "duration = 10 s", 2, "not TOML"),
    ("packet = \"1250 B\"", "packet = \"1250 B\"\npacket = \"1500 B\"", 6, "duplicate key `packet`"),
    ("drain", "drian", 4, "did you mean `drain`?"),
    ("duration = \"10 s\"\n", "", 1, "needs `duration`"),
    ("title = \"T\"", "title = 7", 1, "a text in quotes"),
    // Quantities.
    ("duration = \"10 s\"", "duration = 10", 2, "a number and one of ns, us, ms, s"),
    ("duration = \"10 s\"", "duration = \"0 s\"", 2, "more than zero"),
    ("warmup = \"1 s\"", "warmup = \"10 s\"", 3, "make it shorter"),
    ("1250 B", "12 B", 5, "64 B to 65535 B"),
    ("series = \"100 ms\"", "series = \"0 ms\"", 10, "more than zero"),
    ("series = \"100 ms\"\n", "", 9, "[meters] needs `series`, for example series = \"100 ms\""),
    ("series", "every", 10, "there is series"),
    ("series = \"100 ms\"", "series = \"1 ns\"", 10, "less often"),
    // Axes.
    ("load = [0.3, 0.6]", "lod = [0.3, 0.6]", 46, "did you mean `lod`?"),
    ("load = [0.3, 0.6]", "load = [0.3, 0.6]\nrtt = [1]", 9, "write \"$rtt\""),
    ("at = \"4 s\", rate", "at = \"15 s\", rate", 18, "make it earlier"),
    ("rate = \"20 Mb/s\" }]", "rate = \"20 Mb/s\" }, { at = \"4 s\", delay = \"1 ms\" }]", 18, "make them one"),
    ("at = \"4 s\", rate = \"20 Mb/s\"", "at = \"4 s\", rate = \"-20 Mb/s\"", 18, "which cannot be negative"),
    ("settings = { rate = \"2 Mb/s\" }\n", "", 36, "rate is missing"),
    (
        "rate = \"40 Mb/s\"\ndelay = \"2.5 ms\"\nrouter = { kind = \"drop-tail\", packets = 100 }",
        "rate = \"unlimited\"\ndelay = \"2.5 ms\"\nrouter = { kind = \"drop-tail\", packets = { time = \"1 s\" } }",
        16,
        "give the link a rate",
    ),
    ("load = \"$load\"", "load = \"$load * much\"", 46, "write for example \"$rtt * 0.5\""),
    ("scheme = \"$scheme\"", "scheme = \"$scheme * 2\"", 42, "use numbers"),
    ("load = [0.3, 0.6]", "load = []", 8, "give it one or more"),
    ("load = [0.3, 0.6]", "load = 0.3", 8, "a list in brackets"),
    ("load = [0.3, 0.6]", "load = [0.3, [0.6]]", 8, "list values like"),
    ("load = [0.3, 0.6]", "load = [0.3, 0.3]", 8, "remove one"),
    ("load = [0.3, 0.6]", "load = [0.3, 0.6]\nseed = [\"a\"]", 9, "whole numbers"),
    ("load = [0.3, 0.6]", "load = [0.3, \"much\"]", 46, "a share of the link's rate"),
    ("[\"tcp\", \"fixed\"]", "[\"tcp\", \"fixd\"]", 42, "did you mean `fixed`?"),
    // Links.
    ("name = \"bottleneck\"", "name = \"bottle neck\"", 12, "letters, digits"),
    ("name = \"bottleneck\"\n", "", 11, "[[link]] needs `name`"),
    ("[\"left\", \"right\"]", "[\"left\"]", 13, "two ends"),
    ("[\"left\", \"right\"]", "[\"left\", \"left\"]", 13, "two different routers"),
    ("[\"left\", \"right\"]", "[\"left\", \"sink\"]", 13, "a link joins two routers"),
    ("rate = \"40 Mb/s\"", "rate = \"40 mbps\"", 14, "write 40 Mb/s or 40 MB/s: it may mean either"),
    ("rate = \"40 Mb/s\"", "rate = \"4e7 b/s\"", 14, "a number, which cannot have an exponent, and one of"),
    ("rate = \"40 Mb/s\"", "rate = \"0 b/s\"", 14, "more than zero"),
    ("rate = \"40 Mb/s\"\n", "", 11, "link `bottleneck` needs `rate`"),
    ("delay = \"2.5 ms\"", "delay = \"1000000 s\"", 15, "`delay` is 1000000 s; use at most 3600 s"),
    ("delay = \"2.5 ms\"", "dealy = \"2.5 ms\"", 15, "did you mean `delay`?"),
    ("kind = \"drop-tail\", packets = 100", "packets = 100", 16, "needs `kind`"),
    ("kind = \"drop-tail\", packets = 100", "kind = \"droptail\"", 16, "did you mean `drop-tail`?"),
    ("packets = 100", "pakets = 100", 16, "did you mean `packets`?"),
    ("packets = 100", "packets = 0", 16, "packets = 1 or more"),
    ("packets = 100", "packets = { time = 30 }", 16, "`time`: `30` is not a length of time"),
    ("packets = 100", "packets = { time = \"80\" }", 16, "ns, us, ms, s"),
    ("packets = 100", "packets = { time = \"8 ms\", off = 1 }", 16, "time = \"80 ms\""),
    ("per_packet = 0.01", "per_packet = 1.5", 17, "a probability from 0 to below 1, for example 0.01"),
    ("{ per_packet = 0.01 }", "0.01", 17, "{ per_packet = 0.01 } or"),
    ("per_packet", "per_paket", 17, "did you mean `per_packet`?"),
    ("{ at = \"4 s\", rate = \"20 Mb/s\" }", "{ at = \"4 s\" }", 18, "give it a rate, a delay or an `ecn`"),
    ("loss = { per_packet = 0.01 }", "ecn = \"bleached\"", 17, "write \"kept\", \"marks-lost\", or the code"),
    ("loss = { per_packet = 0.01 }", "ecn = 0", 17, "a text in quotes"),
    ("at = \"4 s\", rate = \"20 Mb/s\"", "at = \"4 s\", ecn = \"ECT\"", 18, "\"not-ect\""),
    ("{ at = \"4 s\", rate", "{ rate", 18, "needs `at`"),
    ("reverse = {", "one_way = true\nreverse = {", 20, "remove one of the two"),
    ("reverse = { rate = \"20 Mb/s\", measure = true }", "one_way = true", 40, "`one_way`"),
    ("reverse = { rate", "reverse = { name", 19, "no key `name`"),
    // Hosts.
    ("count = 3", "count = 0", 22, "from 1 to 100000"),
    ("count = 3", "count = 4", 44, "same count"),
    ("at = \"left\"", "at = \"lefft\"", 23, "did you mean `left`?; routers are the ends in `between`"),
    ("from = \"4 ms\"", "from = \"40 ms\"", 25, "swap them"),
    ("name = \"sink\"", "name = \"source\"", 27, "two groups of hosts called `source`; rename one"),
    // Schemes.
    ("controller = \"newreno\"", "controller = \"newreeno\"", 33, "did you mean `newreno`?"),
    ("controller = \"newreno\"", "", 32, "needs `controller`"),
    ("controller = \"newreno\"", "kernel = \"reno\"", 34, "takes no settings"),
    ("controller = \"newreno\"", "controller = \"newreno\"\nkernel = \"reno\"", 34, "remove one"),
    ("initial_window = 1", "initial_windw = 1", 34, "did you mean `initial_window`?"),
    ("initial_window = 1", "initial_window = 0", 34, "1 or more"),
    ("{ bottleneck = {", "{ botleneck = {", 39, "did you mean `bottleneck`?"),
    ("packets = 7", "pakets = 7", 39, "did you mean `packets`?"),
    // Traffic.
    ("to = \"sink\"", "to = \"snik\"", 44, "did you mean `sink`?"),
    ("to = \"sink\"", "to = \"source\"", 44, "name two groups"),
    ("name = \"background\"", "name = \"transfers\"", 48, "two kinds of traffic called `transfers`; rename one"),
    ("size = { packets = 20 }", "size = { packets = 0 }", 45, "a whole number from 1"),
    ("size = { packets = 20 }", "size = \"20\"", 45, "not an amount of data"),
    ("size = { packets = 20 }", "size = { mean = \"9 kB\" }", 45, "needs `pareto`"),
    ("size = { packets = 20 }", "size = { mean = \"9 kB\", pareto = 1 }", 45, "a shape above 1"),
    ("size = { packets = 20 }", "size = { distribution = \"hadop\" }", 45, "\"hadoop\", \"web-search\""),
    ("size = { packets = 20 }\n", "", 45, "give the traffic a `size`"),
    ("of = \"bottleneck\"", "of = \"bottle\"", 46, "did you mean `bottleneck` or `bottleneck.reverse`?"),
    ("of = \"bottleneck\"", "every = \"1 s\"", 46, "`every` does not go with `load`"),
    ("load = \"$load\", of = \"bottleneck\"", "per_second = \"$load\", count = 3", 46, "need one of"),
    ("load = \"$load\", of = \"bottleneck\"", "per_second = \"$load\", gaps = \"even\"", 46, "pareto = 1.2"),
    ("load = \"$load\", of = \"bottleneck\"", "per_second = 12, until = \"$load\"", 46, "a number and one of"),
    ("min_rto = \"1 s\"", "min_rtoo = \"1 s\"", 35, "did you mean `min_rto`?"),
    ("min_rto = \"1 s\"", "delayed_ack = \"1 s\"", 35, "at most 500 ms"),
    ("duration = \"3 s\"", "duration = \"3 s\"\nsize = \"1 MB\"", 52, "remove `duration`"),
    ("pairs = \"any\"", "pairs = \"all\"", 53, "(i-th with i-th) or \"any\""),
    ("at = \"1 s\", spread", "at = \"11 s\", spread", 54, "make it earlier"),
    ("spread = \"1 s\"", "spread = \"20 s\"", 54, "make it shorter"),
    ("count = 2, at = \"1 s\", spread = \"1 s\"", "count = 900000, every = \"1 s\"", 47, "more than 1000000 flows"),
    // Workloads.
    ("duration = \"3 s\"", "duration = \"3 s\"\nweb = {}", 52, "remove `duration`"),
    ("duration = \"3 s\"", "video = { ladder = [] }", 52, "give 1 to 32 bitrates"),
    ("duration = \"3 s\"", "video = { lader = [\"1 Mb/s\"] }", 52, "did you mean `ladder`?"),
    ("duration = \"3 s\"", "size = \"1 MB\"\nvideo = { ladder = [\"1 Mb/s\"] }", 53, "remove one of them"),
    ("duration = \"3 s\"", "web = { objects = 2000 }", 52, "use 0 to 1000"),
    ("duration = \"3 s\"", "media = { frames = 25 }", 52, "rate = \"2 Mb/s\""),
    ("duration = \"3 s\"", "datagrams = \"1 MB\"", 52, "use 8 to 9000 bytes"),
    ("duration = \"3 s\"", "encodings = [\"1 kb/s\"]", 52, "datagrams = \"1000 B\""),
    ("duration = \"3 s\"", "datagrams = \"1 kB\"\nencodings = [\"2 kb/s\", \"1 kb/s\"]", 53, "from the lowest"),
    ("duration = \"3 s\"", "size = { representations = [\"1 kB\"], within = \"0 s\" }", 52, "more than zero"),
    // Settings that never act or lose everything.
    ("per_packet = 0.01", "per_bit = 0.5", 17, "from 0 to below 0.001, for example 1e-6"),
    ("per_packet = 0.01", "every = 1", 17, "loses all packets; write 2 or more"),
    ("packets = 100", "bytes = \"1 B\"", 16, "bytes = \"1500 B\" or more"),
    ("\"drop-tail\"", "\"dualpi2\", time_shift = \"9 ms\"", 16, "scheduler = \"time-shifted\", or remove it"),
    ("min_rto = \"1 s\"", "min_rto = \"0.2 s\", delayed_ack = \"200 ms\"", 35, "give min_rto more"),
    (
        "\"drop-tail\", packets = 100",
        "\"step-marking\", packets = 100, threshold = 100",
        16,
        "marks no packet in a buffer of 100",
    ),
    ("\"drop-tail\", packets = 100", "\"red\", packets = 100, min_th = 100, max_th = 300", 16, "less than a third"),
    // Records: all have names and the same fields, and all fields are used.
    ("load = [0.3, 0.6]", "load = [{ share = 0.3 }]", 8, "a record without a name"),
    ("load = [0.3, 0.6]", "load = [{ name = \"a, b\", x = 1 }]", 8, "a text without commas"),
    ("load = [0.3, 0.6]", "load = [{ name = \"a\", x = 1 }, { name = \"b\" }]", 8, "give all records the same keys"),
    ("load = [0.3, 0.6]", "load = [{ name = \"a\", x = 1 }]", 8, "write \"$load.x\""),
    ("load = \"$load\"", "load = \"$load.lots\"", 46, "no axis is called `load.lots`"),
    // Types.
    ("initial_window = 1", "initial_window = \"one\"", 34, "`initial_window` = \"one\": must be a whole number"),
    ("min_rto = \"1 s\"", "min_rto = 1", 35, "`min_rto` = 1: write a number and one of"),
];

#[test]
fn every_mistake_names_its_line_and_the_remedy() {
    for (find, replace, line, advice) in MISTAKES {
        is_refused(find, replace, *line, advice);
    }
}

#[test]
fn invalid_products_are_refused() {
    for (product, advice) in [
        ("$load * 2 * 2", "has 3 factors; write two"),
        ("$load * $lod", "did you mean `load`?"),
        ("$load * nan", "`nan` is not a factor"),
    ] {
        is_refused("\"$load\"", &format!("\"{product}\""), 46, advice);
    }
}

#[test]
fn settings_beyond_sense_name_their_range() {
    let newreno = "controller = \"newreno\"\nsettings = { initial_window = 1 }";
    for (controller, settings, advice) in [
        ("cubic", "c = 1e300", "c is 1e300: write 0.001 to 1000 packets a second cubed"),
        ("cubic", "c = nan", "c is NaN: write 0.001 to 1000"),
        ("vcp", "mi = 1e-9", "mi is 1e-9: write 0.0001 to 1000 of the window; 0.0625 is usual"),
        ("ledbat", "target = \"1 us\"", "target is 1 us: write 1 ms to 100 ms"),
    ] {
        let settings = format!("controller = \"{controller}\"\nsettings = {{ {settings} }}");
        is_refused(newreno, &settings, 34, advice);
    }
    for (router, advice) in [
        ("kind = \"pie\", alpha = 1e300", "alpha is 1e300: write 0.0001 to 1000 per second; 0.125 is recommended"),
        ("kind = \"red\", weight = 1e-300", "weight is 1e-300: write 0.000000001 to 1 of the average"),
        ("kind = \"drop-tail\", packets = { time = \"0 ms\" }", "`packets`: `time` is 0 or missing, and no packet"),
        ("kind = \"drop-tail\", bytes = { time = \"0 ms\" }", "`bytes`: `time` is 0 or missing, and no packet"),
    ] {
        is_refused("kind = \"drop-tail\", packets = 100", router, 16, advice);
    }
}

#[test]
fn a_zero_timeout_is_named() {
    for timeout in ["min_rto", "syn_timeout"] {
        let zero = format!("transport = {{ {timeout} = \"0 s\" }}");
        is_refused("transport = { min_rto = \"1 s\" }", &zero, 35, &format!("{timeout} is zero, which would"));
    }
}

#[test]
fn single_brackets_are_refused_in_favor_of_double() {
    let single = "duration = \"10 s\"\n[link]\nname = \"bottleneck\"";
    let message = Scenario::parse("x.toml", single).expect_err("[link]").to_string();
    assert!(message.starts_with("x.toml:2: ") && message.contains("write [[link]]"), "{message}");
}

#[test]
fn two_schemes_cannot_set_different_routers_for_one_link() {
    let text = GOOD.replacen(
        "transport = ",
        "routers = { bottleneck = { kind = \"drop-tail\", packets = 8 } }\ntransport = ",
        1,
    );
    let at_once = text.replacen("scheme = \"$scheme\"", "scheme = \"tcp\"", 1);
    assert!(check(&text).is_ok());
    let message = check(&at_once).unwrap_err().to_string();
    assert!(message.starts_with("x.toml:40: schemes `tcp` and `fixed`"), "{message}");
}

#[test]
fn missing_files_and_missing_tables_are_reported() {
    let message = Scenario::read("no/such.toml").unwrap_err().to_string();
    assert!(message.starts_with("no/such.toml: cannot be read"), "{message}");
    assert!(message.ends_with("give the path of a file that this user may read"), "{message}");
    let message = check("duration = \"1 s\"").unwrap_err().to_string();
    assert!(message.starts_with("x.toml:1: a scenario needs `[[link]]`"), "{message}");
}

#[test]
fn values_of_the_command_line_are_checked_like_the_files() {
    let mut scenario = Scenario::parse("x.toml", GOOD).unwrap();
    for (axis, list, start) in [
        ("laod", "1", "--set laod: no axis or key is called `laod`; did you mean `load`?"),
        ("load", "", "--set load: axis `load` has no values"),
        ("load", "0.6,lots", "x.toml:46: `load` is the text \"lots\""),
        ("scheme", "tpc", "x.toml:42: no scheme is called `tpc`; did you mean `tcp`?"),
        ("seed", "1.5", "--set seed: axis `seed`"),
    ] {
        let message = scenario.set(axis, values(list)).unwrap_err().to_string();
        assert!(message.starts_with(start), "{message}");
    }
    scenario.set("load", values("0.9")).unwrap();
    scenario.set("seed", values("3,4")).unwrap();
    assert_eq!(scenario.points().len(), 4);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_panics(
        edits in prop::collection::vec((0..GOOD.len(), 0..12usize, prop_oneof![
            "[ -~]{0,6}",
            "[\\PC\n]{0,4}",
            Just("\"$load\"".to_owned()),
            Just("9999999999999999999".to_owned()),
            Just("-1".to_owned()),
            Just("nan".to_owned()),
            Just("1e308".to_owned()),
            Just("[[hosts]]".to_owned()),
        ]), 1..4),
    ) {
        let mut text: Vec<char> = GOOD.chars().collect();
        for (at, cut, insert) in edits {
            let start = at.min(text.len());
            let end = (start + cut).min(text.len());
            text.splice(start..end, insert.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = check(&text) {
            prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error);
        }
    }
}

#[test]
fn impossible_bursts_of_loss_are_refused() {
    let refuse = |burst: &str, advice: &str| {
        is_refused("per_packet = 0.01", &format!("burst = {{ {burst} }}"), 17, advice);
    };
    refuse("share = 0.1", "`burst` needs `length`, for example length = 8");
    refuse("length = 8", "`burst` needs `share`");
    refuse("share = 1, length = 8", "from 0 to below 1");
    refuse("share = 0.9, length = 8", "a number of packets from 9.000 on");
    refuse("share = 0.1, length = 0.5", "a number of packets from 1.000 on");
    refuse("share = 0.1, length = \"0 s\"", "more than zero");
    refuse("share = 0.1, length = \"8\"", "ns, us, ms, s");
    refuse("share = 0.1, length = 8, bad = 1.5", "a probability, 0 to 1");
    refuse("share = 0.1, length = 8, bad = 0.1, good = 0.2", "in the good state (0.2) than in the bad one (0.1)");
    refuse("share = 0.1, length = 8, r = 0.1", "`burst` has no key `r`");
    assert!(check(&GOOD.replacen("per_packet = 0.01", "burst = { share = 0.9, length = 9, bad = 1 }", 1)).is_ok());
}

#[test]
fn errors_in_a_shared_file_of_schemes_name_its_own_lines() {
    let directory = tempfile::tempdir().unwrap();
    let schemes = directory.path().join("schemes.toml");
    let scenario = directory.path().join("scenario.toml");
    let own = GOOD.replacen("title = \"T\"", "title = \"T\"\nschemes = \"schemes.toml\"", 1);
    let own = own.replacen("[scheme.tcp]\ncontroller = \"newreno\"\nsettings = { initial_window = 1 }\n", "", 1);
    let own = own.replacen("transport = { min_rto = \"1 s\" }\n", "", 1);
    std::fs::write(&scenario, own).unwrap();
    let checked = |text: &str| {
        std::fs::write(&schemes, text).unwrap();
        Scenario::read(&scenario).and_then(|scenario| {
            scenario.check(&Registries::default())?;
            Ok(scenario.hash())
        })
    };
    let newreno = checked("[scheme.tcp]\ncontroller = \"newreno\"\n").unwrap();
    let cubic = checked("[scheme.tcp]\ncontroller = \"cubic\"\n").unwrap();
    assert_ne!(newreno, cubic, "results of other schemes are not reused");
    for (text, line, advice) in [
        ("[scheme.tcp]\n\ncontroller = \"qubic\"\n", 3, "did you mean `cubic`"),
        (
            "[scheme.tcp]\ncontroller = \"cubic\"\n[scheme.fixed]\ncontroller = \"cubic\"\n",
            3,
            "scenario.toml has `fixed`, too: remove or rename one",
        ),
        ("[scheme.tcp]\ncontroller = \"cubic\"\n[axes]\nseed = [1]\n", 3, "move the rest into the scenario"),
        ("[scheme.tcp\n", 1, "not TOML"),
    ] {
        let message = checked(text).expect_err(text).to_string();
        assert!(message.starts_with(&format!("{}:{line}: ", schemes.display())), "{message}");
        assert!(message.contains(advice), "{message}");
    }
    std::fs::remove_file(&schemes).unwrap();
    let missing = Scenario::read(&scenario).expect_err("no file").to_string();
    assert!(missing.starts_with(&format!("{}:2: ", scenario.display())), "{missing}");
}
