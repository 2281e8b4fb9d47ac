//! `rampmeter show`, `diff` and `repeat`: what run directories hold.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args as ClapArgs;
use rampmeter_scenario::{Registries, Scenario, Schema, Summary, World};
use rampmeter_study::{Differences, Directory, Program, Sweep, overview, significant, tables_that_differ};
use serde_json::json;

use super::interrupt::Interrupts;
use super::run::{from_one, world};
use super::{EXIT_CODES, report_failed};
use crate::failure::Failure;
use crate::table::table;

/// The arguments of `rampmeter show`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// A directory of `rampmeter run`; the run may be interrupted or still going on
    directory: PathBuf,
    /// A row for each seed, instead of means over the seeds with half of their 95% confidence intervals
    #[arg(long)]
    each: bool,
    /// Write one JSON object to standard output instead of a table
    #[arg(long)]
    json: bool,
}

/// The arguments of `rampmeter diff`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Points are compared with their seeds aside, by Student's t-test at a level of 1% for all values \
    together. Exit codes: 0 nothing differs; 1 something does, or the command failed; 2 the input is invalid.\n\n\
    Example:\n  rampmeter diff runs/before runs/after"
)]
pub(crate) struct DiffArgs {
    /// The directory of the first run
    before: PathBuf,
    /// The directory of the second run
    after: PathBuf,
    /// Compare these values only, by their paths or the beginning of these, such as metrics or flows.fct; fewer values
    /// show smaller differences. May be repeated
    #[arg(long, value_name = "PATH")]
    value: Vec<String>,
    /// Write one JSON object to standard output instead of a table
    #[arg(long)]
    json: bool,
}

/// The arguments of `rampmeter repeat`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RepeatArgs {
    /// A directory of `rampmeter run`, also from another machine
    directory: PathBuf,
    /// The directory for the new run [default: DIRECTORY-repeated]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The number of runs in parallel [default: simulated, one per core; emulated, one]
    #[arg(long, value_name = "N", value_parser = from_one)]
    jobs: Option<usize>,
}

pub(crate) fn show(args: &ShowArgs, registries: &Registries) -> Result<ExitCode, Failure> {
    let (directory, scenario, kept) = read(&args.directory, registries)?;
    let finished: Vec<&Summary> = kept.iter().flatten().collect();
    if args.json {
        println!("{}", json!({ "runs": finished, "points": kept.len() }));
        return Ok(ExitCode::SUCCESS);
    }
    let (head, rows) = overview(&Schema::default(), &scenario, &finished, args.each);
    print!("{}", table(&head, &rows));
    let changed = directory.changed_settings(&scenario, registries)?;
    if !changed.is_empty() {
        let head = ["scheme", "setting", "value", "default"].map(str::to_owned);
        let rows: Vec<_> = changed.into_iter().map(|it| vec![it.scheme, it.key, it.value, it.default]).collect();
        println!();
        print!("{}", table(&head, &rows));
    }
    if finished.len() < kept.len() {
        eprintln!("rampmeter: {} of {} runs are finished", finished.len(), kept.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// Says that no point is in common, and which axes only one of the runs has.
fn no_point(before: &[Summary], after: &[Summary]) -> String {
    let axes = |runs: &[Summary]| -> BTreeSet<String> {
        runs.iter().flat_map(|run| run.point.iter()).map(|(axis, _)| axis.to_owned()).collect()
    };
    let (first, second) = (axes(before), axes(after));
    let mut parts = vec!["no point in common, seeds aside".to_owned()];
    for (which, own, other) in [("first", &first, &second), ("second", &second, &first)] {
        let own: Vec<&str> = own.difference(other).map(String::as_str).collect();
        if !own.is_empty() && !other.is_empty() {
            let axes = if own.len() == 1 { "axis" } else { "axes" };
            parts.push(format!("only the {which} has the {axes} {} (--set)", own.join(", ")));
        }
    }
    parts.join("; ")
}

pub(crate) fn diff(args: &DiffArgs, registries: &Registries) -> Result<ExitCode, Failure> {
    let summaries = |directory: &Path| {
        read(directory, registries).map(|(_, _, kept)| kept.into_iter().flatten().collect::<Vec<Summary>>())
    };
    let [before, after] = [summaries(&args.before)?, summaries(&args.after)?];
    let differences = Differences::of(&before, &after, &args.value);
    let code = if differences.changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if differences.compared == 0 {
        let has_points = Differences::of(&before, &after, &[]).compared > 0;
        let what = if has_points { "no such value in common".to_owned() } else { no_point(&before, &after) };
        return Err(Failure::input(format!("the two runs have {what}")));
    }
    if args.json {
        println!("{}", json!(differences));
        return Ok(code);
    }
    for (points, directory) in differences.unmatched.iter().zip([&args.before, &args.after]) {
        for point in points {
            eprintln!("rampmeter: only in {}: {point}", directory.display());
        }
    }
    if differences.changes.is_empty() {
        println!("no difference of {} values is more than chance explains", differences.compared);
        return Ok(code);
    }
    let head = ["point", "value", "before", "now", "change", ""].map(str::to_owned);
    let rows: Vec<Vec<String>> = (differences.changes.iter())
        .map(|change| {
            let percent = change.now.zip(change.before).map(|(now, before)| 100.0 * (now / before - 1.0));
            let percent = percent.filter(|percent| percent.is_finite());
            let percent = percent.map_or(String::new(), |percent| format!("{percent:+.1}%"));
            let remark = if change.may_be_chance { "may be chance: give at least 3 seeds" } else { "" };
            let [before, now] = [change.before, change.now].map(|value| value.map_or("none".to_owned(), significant));
            vec![change.point.clone(), change.path.clone(), before, now, percent, remark.to_owned()]
        })
        .collect();
    print!("{}", table(&head, &rows));
    println!("\n{} of {} values differ", rows.len(), differences.compared);
    Ok(code)
}

pub(crate) fn repeat(args: &RepeatArgs, registries: &Registries) -> Result<ExitCode, Failure> {
    let (old, scenario) = Directory::read(&args.directory)?;
    let interrupts = Interrupts::listen();
    let world = world(old.world(), interrupts.stop())?;
    scenario.check(registries)?;
    let out = args.out.clone().unwrap_or_else(|| {
        let name = args.directory.file_name().unwrap_or_default().to_string_lossy();
        args.directory.with_file_name(format!("{name}-repeated"))
    });
    if out.canonicalize().is_ok_and(|out| args.directory.canonicalize().is_ok_and(|old| old == out)) {
        return Err(Failure::input("--out is the directory of the first run, which would be replaced; give another"));
    }
    let mut new = Directory::open(&out, Path::new(old.scenario()), &scenario, &*world, Program::this()?, true)?;
    let advice = format!("finished runs are in {}", out.display());
    let mut bar = interrupts.bar(false, &advice);
    let schema = Schema::default();
    let sweep = Sweep { registries, schema: &schema, jobs: args.jobs, stop: interrupts.stop(), cluster: None };
    let results = new.run(&sweep, &scenario, &*world, |progress| bar.show(progress));
    bar.clear();
    let results = results.map_err(|error| Failure::from(error).if_interrupted(&advice))?;
    let different = tables_that_differ(&args.directory, &out)?;
    let failed = results.iter().filter_map(|result| result.as_ref().err()).filter(|it| it.is_failed);
    if different.is_empty() {
        println!("the tables of {} and {} are equal", args.directory.display(), out.display());
        return Ok(report_failed(failed, false));
    }
    println!("other tables in {}: {}", out.display(), different.join(", "));
    let build = if old.is_of_this_build() { "" } else { "; another build made the first run" };
    println!("`rampmeter diff {} {}` shows what differs{build}", args.directory.display(), out.display());
    Ok(report_failed(failed, true))
}

/// A run directory with its scenario, and the summaries of its points, if they are finished.
fn read(path: &Path, registries: &Registries) -> Result<(Directory, Scenario, Vec<Option<Summary>>), Failure> {
    let (directory, scenario) = Directory::read(path)?;
    let world: Box<dyn World> = world(directory.world(), &Arc::default())?;
    let kept = directory.kept(&scenario, &*world, registries, &Schema::default())?;
    if kept.iter().all(Option::is_none) {
        return Err(Failure::failed(format!("{}: no run is finished", path.display())));
    }
    Ok((directory, scenario, kept))
}
