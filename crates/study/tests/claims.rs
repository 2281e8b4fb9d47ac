//! Claims are checked for mistakes, run once per point, and judged by their bounds.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Made, TEXT};
use rampmeter_scenario::{Registries, Schema};
use rampmeter_study::claims::{self, Claim, ClaimResult, Judge, Records, Sentence, Standing};
use rampmeter_study::{Program, Sweep};
use tempfile::{TempDir, tempdir};

/// Flow completion times are `100 ms * load`, twice that under newreno, and a millisecond more per seed: see [`Made`].
const GOOD: &str = r#"paper = "P"
[[claim]]
id = "twice"
where = "Figure 1"
text = "NewReno takes about twice as long"
scenario = "six.toml"
quick = { seed = [1] }
metric = { mean = "flows.fct_mean_s", where = { scheme = "newreno" }, relative_to = { scheme = "reno" }, by = ["load"] }
expect = { between = [1.9, 2.0] }
status = "holds"
[[claim]]
id = "growth"
where = "Figure 1"
text = "Completion times grow"
scenario = "six.toml"
set = { scheme = ["reno"] }
metric = { median = "flows.fct_p50_s", by = ["load"], in = { ms = 0.001 } }
expect = { increasing_in = "load" }
status = "open"
note = "not tried"
[[claim]]
id = "queue"
where = "Figure 2"
text = "No queue"
scenario = "six.toml"
quick = true
metric = { max = "links.wire.queue_mean_packets", where = { scheme = "reno" } }
expect = { below = 1 }
status = "holds"
"#;

fn directory(claims: &str) -> (TempDir, PathBuf) {
    let directory = tempdir().unwrap();
    fs::write(directory.path().join("six.toml"), TEXT).unwrap();
    let file = directory.path().join("claims.toml");
    fs::write(&file, claims).unwrap();
    (directory, file)
}

fn read(text: &str, quick: bool) -> Result<Vec<Claim>, String> {
    let (_directory, file) = directory(text);
    let name = format!("{}/", file.parent().unwrap().display());
    claims::read(&file, quick, &Registries::default(), &Schema::default())
        .map_err(|error| error.to_string().replace(&name, ""))
}

fn judge<'c>(claims: &'c [Claim], world: &Made, points: &Path) -> Vec<ClaimResult<'c>> {
    let (registries, schema) = (Registries::default(), Schema::default());
    let (stop, program) = (AtomicBool::new(false), Program::this().unwrap());
    let sweep = Sweep { registries: &registries, schema: &schema, jobs: Some(2), stop: &stop, cluster: None };
    Judge { sweep, worlds: &[world], directory: points, program: &program, fresh: false }.judge(claims, |_| {}).unwrap()
}

#[test]
fn a_claim_can_compare_the_same_points_in_two_worlds() {
    let compared = GOOD.replacen("relative_to = { scheme = \"reno\" }", "relative_to = { world = \"simulated\" }", 1);
    let compared = compared.replacen("status = \"holds\"", "status = \"holds\"\nworld = \"emulated\"", 1);
    let claims = read(&compared, false).unwrap();
    let (registries, schema) = (Registries::default(), Schema::default());
    let (stop, program, points) = (AtomicBool::new(false), Program::this().unwrap(), tempdir().unwrap());
    let sweep = Sweep { registries: &registries, schema: &schema, jobs: Some(2), stop: &stop, cluster: None };
    let (simulated, emulated) = (Made::default(), Made { is_emulated: true, ..Made::default() });
    let judge =
        Judge { sweep, worlds: &[&simulated, &emulated], directory: points.path(), program: &program, fresh: false };
    let verdict = judge.judge(&claims[..1], |_| {}).unwrap().remove(0);
    assert_eq!([&simulated, &emulated].map(|world| world.runs.load(Ordering::SeqCst)), [4, 4]);
    for (value, fct) in verdict.values.iter().zip([0.0515, 0.1015]) {
        assert!((value.value.unwrap() - 1.1).abs() < 1e-6, "{value:?}");
        assert!((value.terms[0] - fct * 1.1).abs() < 1e-6 && (value.terms[1] - fct).abs() < 1e-6, "{value:?}");
    }
    let alone = Judge { worlds: &[&simulated], ..judge };
    let verdict = alone.judge(&claims[..1], |_| {}).unwrap().remove(0);
    assert_eq!((verdict.holds, verdict.reason.unwrap().as_str()), (None, "there is no emulated world here"));
}

#[test]
fn bounds_and_shapes_are_judged_by_the_worst_value() {
    let (points, world) = (tempdir().unwrap(), Made::default());
    let claims = read(GOOD, false).unwrap();
    let verdicts = judge(&claims, &world, points.path());
    // Means over seeds 1 and 2: 51.5 over 26.5 ms at load 0.25 and 101.5 over 51.5 at 0.5; the latter is nearer to 2.
    assert!((verdicts[0].measured.unwrap() - 101.5 / 51.5).abs() < 1e-9 && verdicts[0].holds == Some(true));
    assert!((verdicts[1].measured.unwrap() - 51.5 / 26.5).abs() < 1e-9 && verdicts[1].is_unexpected());
    assert!((verdicts[2].measured.unwrap() - 5.0).abs() < 1e-9 && verdicts[2].is_broken());
    assert_eq!(world.runs.load(Ordering::SeqCst), 8, "each point once, and none that no claim needs");
    judge(&claims, &world, points.path());
    assert_eq!(world.runs.load(Ordering::SeqCst), 8, "kept for the next time");

    let json = serde_json::to_string(&verdicts[1]).unwrap();
    let start = r#"{"id":"growth","where":"Figure 1","text":"Completion times grow","paper":null,"expect":"grows with load","unit":"ratio","measured":1.94"#;
    assert!(
        json.starts_with(start) && json.contains(r#""holds":true,"status":"open","values":[{"at":{"load":0.25}"#),
        "{json}"
    );
}

#[test]
fn a_claim_has_the_unit_of_its_metric() {
    let units = |text: &str| read(text, false).unwrap().iter().map(|it| it.unit().to_owned()).collect::<Vec<_>>();
    assert_eq!(units(GOOD), ["ratio", "ratio", "packets"]);
    let others = GOOD.replace("increasing_in = \"load\"", "below = 9.0").replace("queue_mean_packets", "drop_rate");
    assert_eq!(units(&others), ["ratio", "ms", "fraction"]);
    for (column, unit) in [
        ("flows.goodput_mean_bps", "b/s"),
        ("flows.fct_mean_s", "s"),
        ("flows.unfinished", "transfers"),
        ("flows.goodput_jain", "Jain's index"),
        ("flows.goodput_spread", "ratio"),
        ("flows.stalls_mean", ""),
    ] {
        assert_eq!(units(&GOOD.replace("links.wire.queue_mean_packets", column))[2], unit);
    }
}

#[test]
fn quick_claims_run_with_their_quick_values() {
    let (points, world) = (tempdir().unwrap(), Made::default());
    let claims = read(GOOD, true).unwrap();
    assert_eq!(claims.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>(), ["twice", "queue"]);
    let verdicts = judge(&claims, &world, points.path());
    assert!((verdicts[0].measured.unwrap() - 101.0 / 51.0).abs() < 1e-9);
}

#[test]
fn a_claim_of_a_missing_world_is_not_judged() {
    let (points, world) = (tempdir().unwrap(), Made::default());
    let elsewhere = read(&GOOD.replace("quick = true", "world = \"emulated\""), false).unwrap();
    let kernel =
        read(&GOOD.replace("where = { scheme = \"reno\" } }", "where = { scheme = \"kernel\" } }"), false).unwrap();
    for (claims, word) in [(elsewhere, "emulated"), (kernel, "kernel TCP")] {
        let verdicts = judge(&claims, &world, points.path());
        assert_eq!(verdicts[2].holds, None);
        assert!(verdicts[2].reason.as_ref().unwrap().contains(word));
    }
}

/// Judges all claims of `file` and records the results.
fn record(file: &Path, world: &Made) -> Records {
    let claims = claims::read(file, false, &Registries::default(), &Schema::default()).unwrap();
    let points = tempdir().unwrap();
    let results = judge(&claims, world, points.path());
    Records::update(&Records::path(file), &claims, &results).unwrap()
}

#[test]
fn a_record_is_current_until_its_runs_change() {
    let (directory, file) = directory(GOOD);
    let read = || claims::read(&file, true, &Registries::default(), &Schema::default()).unwrap();
    assert!(read().iter().all(|claim| claim.recorded == Standing::Missing));
    let records = record(&file, &Made::default());
    assert!(records.missing.is_empty());
    let values = &records.claims["twice"].values;
    // 101.5 over 51.5 ms; 101 over 51 with seed 1 and 102 over 52 with seed 2.
    assert_eq!((values[1].value, values[1].min, values[1].max), (Some(1.971), Some(1.962), Some(1.98)));
    assert_eq!((&values[1].terms[..], records.claims["twice"].seeds), (&[0.1015, 0.0515][..], 2));
    let holds = |claim: &Claim| matches!(claim.recorded, Standing::Current { holds: true, .. });
    assert_eq!(read().iter().map(holds).collect::<Vec<_>>(), [true, false], "with quick values, too");
    assert!(read()[1].contradicts_record());

    for (find, replace, recorded) in [
        ("title = \"Six", "# A comment.\ntitle = \"6", true),
        ("[scheme.kernel]", "[scheme.other]\ncontroller = \"cubic\"\n[scheme.kernel]", true),
        ("load = [0.25, 0.5]", "load = [0.5, 0.25]", true),
        ("delay = \"5 ms\"", "delay = \"6 ms\"", false),
        ("seed = [1, 2]", "seed = [1, 2, 3]", false),
        ("load = [0.25, 0.5]", "load = [0.25, 0.5, 0.6]", false),
    ] {
        fs::write(directory.path().join("six.toml"), TEXT.replace(find, replace)).unwrap();
        assert_eq!(read()[0].recorded != Standing::Stale, recorded, "{replace}");
    }
    fs::write(directory.path().join("six.toml"), TEXT).unwrap();
    for (find, replace, holds) in [
        ("1.9, 2.0", "1.5, 1.6", Some(false)),
        ("\"holds\"", "\"open\"\nnote = \"n\"", Some(true)),
        ("by = [\"load\"]", "by = [\"seed\"]", None),
    ] {
        fs::write(&file, GOOD.replacen(find, replace, 1)).unwrap();
        let claim = read().remove(0);
        let recorded = match claim.recorded {
            Standing::Current { holds, .. } => Some(holds),
            _ => None,
        };
        assert_eq!((recorded, claim.contradicts_record()), (holds, holds.is_some()), "{replace}");
    }
}

#[test]
fn a_record_keeps_other_results_and_drops_those_without_a_claim() {
    let (_directory, file) = directory(GOOD);
    let path = Records::path(&file);
    record(&file, &Made::default());
    let first = fs::read_to_string(&path).unwrap();
    record(&file, &Made::default());
    assert_eq!(fs::read_to_string(&path).unwrap(), first, "the same results are the same bytes");
    let changed = GOOD.replace("\"queue\"", "\"wait\"").replace("flows.fct_p50_s", "flows.fct_p99_s");
    fs::write(&file, changed).unwrap();
    let claims = claims::read(&file, false, &Registries::default(), &Schema::default()).unwrap();
    let records = Records::update(&path, &claims, &[]).unwrap();
    assert_eq!(records.claims.keys().collect::<Vec<_>>(), ["growth", "twice"]);
    assert_eq!(records.missing.iter().collect::<Vec<_>>(), ["growth", "wait"]);
}

#[test]
fn every_mistake_names_its_line_and_the_remedy() {
    for (find, replace, line, advice) in [
        ("id = \"twice\"", "ident = \"twice\"", 3, "unknown field `ident`"),
        ("id = \"queue\"", "id = \"twice\"", 21, "rename one"),
        ("status = \"open\"", "status = \"maybe\"", 19, "expected `holds` or `open`"),
        ("note = \"not tried\"\n", "", 11, "write the best value so far and the reason"),
        ("\"six.toml\"", "\"seven.toml\"", 2, "seven.toml: cannot be read"),
        ("set = { scheme", "set = { skeme", 11, "did you mean `scheme`?"),
        ("by = [\"load\"], in", "by = [\"lode\"], in", 11, "no axis is called `lode`"),
        ("relative_to = { scheme", "relative_to = { world", 2, "relative_to = { world = \"simulated\" }"),
        ("increasing_in = \"load\"", "increasing_in = \"seed\"", 11, "add it to `by`"),
        ("flows.fct_p50_s", "flows.fct", 11, "the nearest values of flows are fct_p"),
        ("links.wire.queue", "links.wyre.queue", 21, "did you mean `links.wire.queue"),
        ("median = ", "median = \"data_packets\", mean = ", 17, "one of mean, geometric_mean"),
        ("in = { ms = 0.001 }", "in = { ms = 0 }", 17, "{ RTT = 0.025 }"),
        ("below = 1", "bellow = 1", 28, "did you mean `below`?"),
        ("quick = true", "quick = 7", 26, "`quick` should be true, false"),
        (
            "[[claim]]",
            "[[variant]]\nname = \"old\"\nwhere = { skeme = \"pcp\" }\n[[claim]]",
            2,
            "did you mean `scheme`?",
        ),
        (
            "[[claim]]",
            "[[variant]]\nname = \"old\"\nwhere = { scheme = \"old\" }\n[[claim]]",
            2,
            "no claim has runs where",
        ),
    ] {
        assert!(GOOD.contains(find), "{find}");
        let message = read(&GOOD.replacen(find, replace, 1), false).expect_err(replace);
        assert!(message.starts_with(&format!("claims.toml:{line}: ")), "{replace}: {message}");
        assert!(message.contains(advice) && message.lines().count() == 1, "{replace}: {message}");
    }
}

/// A claim whose id names a variant is the only one of this variant and sentence, and its runs are the variant's.
fn every_variant_has_its_cell(file: &Path, claims: &[Claim]) {
    let records = Records::read(&Records::path(file)).unwrap();
    let results: Vec<ClaimResult<'_>> = claims.iter().map(|claim| records.result(claim)).collect();
    let sentences = Sentence::of(&results);
    for claim in claims.iter().filter(|claim| claim.id != claim.sentence()) {
        let has_it = |sentence: &Sentence<'_>| {
            let mut cells = sentence.claim.variants.iter().zip(&sentence.cells);
            cells.any(|(variant, cell)| {
                cell.as_ref().is_some_and(|cell| cell.claim.id == claim.id && claim.id.contains(&variant.name))
            })
        };
        assert!(sentences.iter().any(has_it), "{} of {}", claim.id, file.display());
    }
}

#[test]
fn the_claims_of_the_studies_are_valid() {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let registries = rampmeter_stacks::registries();
    let mut found = 0;
    for study in fs::read_dir(studies).unwrap() {
        let file = study.unwrap().path().join("claims.toml");
        if file.exists() {
            let claims = claims::read(&file, false, &registries, &Schema::default()).unwrap();
            found += claims.len();
            every_variant_has_its_cell(&file, &claims);
            claims::read(&file, true, &registries, &Schema::default()).unwrap();
        }
    }
    assert!(found > 0);
}
