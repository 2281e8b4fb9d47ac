//! `rampmeter claims`: what the papers say, against our own runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;
use rampmeter_linux::{Emulated, probe};
use rampmeter_scenario::{Registries, Scenario, Schema, World};
use rampmeter_sim::Simulated;
use rampmeter_study::claims::{self, Claim, Judge, Status, Verdict};
use rampmeter_study::{Program, Sweep};
use serde_json::json;

use super::interrupt::Interrupts;
use super::run::from_one;
use crate::failure::Failure;
use crate::table::table;

/// Where finished runs are kept.
const FOLDER: &str = "runs/claims";

/// What `rampmeter claims` takes.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "A claim's status is what its file says of it: `holds`, or `open` with a note. Without --strict \
                        a claim that fails is only said to fail."
)]
pub(crate) struct Args {
    /// One paper's claims, by the name of its folder: pcp, cm, vcp or stable [default: all]
    paper: Option<String>,
    /// Only these of its claims: by their names, or by what these begin with before a dot, such as 4 for 4.queue
    #[arg(value_name = "CLAIM")]
    names: Vec<String>,
    /// Only the claims that are tested in this world: simulated or emulated
    #[arg(long, value_name = "WORLD", value_parser = ["simulated", "emulated"])]
    world: Option<String>,
    /// Only the quick claims, with fewer and shorter runs
    #[arg(long)]
    quick: bool,
    /// Runs of each point: seeds 1 to N [default: those of the scenarios]
    #[arg(long, value_name = "N", value_parser = from_one)]
    seeds: Option<usize>,
    /// Say what each claim says, not only those that fail or are open
    #[arg(long)]
    text: bool,
    /// Exit with 1 if a claim that is said to hold does not
    #[arg(long)]
    strict: bool,
    /// Where the papers' folders are [default: the folder `studies` here, or the nearest above]
    #[arg(long, value_name = "DIR")]
    studies: Option<PathBuf>,
    /// Runs at once [default: simulated, one a core; emulated, one]
    #[arg(long, value_name = "N", value_parser = from_one)]
    jobs: Option<usize>,
    /// One JSON object on standard output instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn claims(args: &Args, registries: &Registries) -> Result<ExitCode, Failure> {
    let schema = Schema::default();
    let mut list: Vec<Claim> = Vec::new();
    for file in files(&studies(args.studies.as_deref())?, args.paper.as_deref())? {
        list.extend(claims::read(&file, args.quick, registries, &schema).map_err(Failure::input)?);
    }
    list = named(list, &args.names)?;
    if let Some(seeds) = args.seeds {
        for claim in &mut list {
            seed(&mut claim.scenario, seeds)?;
        }
    }
    list.retain(|claim| args.world.as_ref().is_none_or(|world| *world == claim.world));
    let interrupts = Interrupts::listen();
    let emulated = Emulated::new(interrupts.stop().clone());
    let mut worlds: Vec<&dyn World> = vec![&Simulated];
    if list.iter().any(|claim| claim.world == emulated.name()) {
        match probe().emulation() {
            Ok(()) => worlds.push(&emulated),
            Err(reason) => eprintln!("rampmeter: claims on real packets are not judged here: {reason}"),
        }
    }
    let program = Program::this()?;
    let judge = Judge {
        sweep: Sweep { registries, schema: &schema, jobs: args.jobs, stop: interrupts.stop() },
        worlds: &worlds,
        folder: Path::new(FOLDER),
        program: &program,
    };
    let kept_there = format!("what is finished is in {FOLDER}, and the same command goes on from there");
    let mut bar = interrupts.bar(args.json, &kept_there);
    let verdicts = judge.judge(&list, |progress| bar.show(progress));
    bar.clear();
    let verdicts = verdicts.map_err(|error| Failure::from(error).if_interrupted(&kept_there))?;

    if args.json {
        println!("{}", json!({ "claims": verdicts }));
    } else {
        print!("{}", report(&verdicts, args.quick || args.seeds.is_some(), args.text));
    }
    let broken = verdicts.iter().any(Verdict::is_broken);
    Ok(if args.strict && broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Those of `claims` that are meant by one of `names`; all if there are none.
fn named(mut claims: Vec<Claim>, names: &[String]) -> Result<Vec<Claim>, Failure> {
    let is_meant = |claim: &Claim, name: &String| {
        claim.id.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if let Some(name) = names.iter().find(|name| !claims.iter().any(|claim| is_meant(claim, name))) {
        let known = claims.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Failure::input(format!("no claim's name is or begins with `{name}`; there are {known}")));
    }
    claims.retain(|claim| names.is_empty() || names.iter().any(|name| is_meant(claim, name)));
    Ok(claims)
}

/// Has every point of `scenario` run with seeds 1 to `count`, if it has seeds.
fn seed(scenario: &mut Scenario, count: usize) -> Result<(), Failure> {
    if scenario.axes().iter().any(|axis| axis.name == "seed") {
        scenario.set("seed", (1..=count as i64).map(Into::into).collect())?;
    }
    Ok(())
}

/// The folder that is `given`, or else that which is here or above.
fn studies(given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let here = std::env::current_dir().map_err(Failure::failed)?;
    let mut above = here.ancestors().map(|folder| folder.join("studies"));
    above.find(|folder| folder.is_dir()).ok_or_else(|| {
        Failure::input("there is no folder `studies` here or above; say where the studies are with --studies")
    })
}

/// The files of claims below `studies`, in alphabetical order.
fn files(studies: &Path, paper: Option<&str>) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(studies).map_err(|error| {
        Failure::input(format!("{}: {error}; say where the studies are with --studies", studies.display()))
    })?;
    let folders = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        folders.map(|folder| folder.join("claims.toml")).filter(|file| file.is_file()).collect();
    files.sort();
    if files.is_empty() {
        let what = format!(
            "{}: no folder in it has a claims.toml; say where the studies are with --studies",
            studies.display()
        );
        return Err(Failure::input(what));
    }
    let Some(paper) = paper else { return Ok(files) };
    let name = |file: &PathBuf| file.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let known = files.iter().filter_map(name).collect::<Vec<_>>().join(", ");
    files.retain(|file| name(file).is_some_and(|name| name == paper));
    if files.is_empty() {
        return Err(Failure::input(format!("there are no claims of a paper called `{paper}`; there are {known}")));
    }
    Ok(files)
}

/// A row a claim, then what each claim says that fails or is open, or all if `wordy`, and why those were not judged that
/// were not.
fn report(verdicts: &[Verdict<'_>], in_part: bool, wordy: bool) -> String {
    let head = ["claim", "where", "paper", "expected", "measured", "holds", "status"].map(String::from);
    let rows: Vec<Vec<String>> = verdicts
        .iter()
        .map(|verdict| {
            let claim = verdict.claim;
            vec![
                claim.id.clone(),
                claim.place.clone(),
                claim.paper.clone().unwrap_or_default(),
                verdict.expect(),
                verdict.measured.map_or("none".into(), |measured| figure(measured, verdict.unit())),
                verdict.holds.map_or("not judged", |holds| if holds { "yes" } else { "NO" }).into(),
                if claim.status == Status::Holds { "holds" } else { "open" }.into(),
            ]
        })
        .collect();
    let looks: String = verdicts.iter().filter_map(|verdict| look(verdict, in_part, wordy)).collect();
    let (holding, failing) = (count(verdicts, Some(true)), count(verdicts, Some(false)));
    let unjudged = count(verdicts, None);
    format!("{}\n{looks}\n{holding} hold, {failing} do not, {unjudged} not judged\n", table(&head, &rows))
}

/// What to say of a claim below the table; nothing of one that holds as it is said to, unless `wordy`.
fn look(verdict: &Verdict<'_>, in_part: bool, wordy: bool) -> Option<String> {
    let claim = verdict.claim;
    // Fewer and shorter runs than those that a status is given by cannot contradict it.
    let word = match claim.status {
        _ if verdict.holds.is_none() => "skipped",
        _ if verdict.is_broken() && in_part => "fails",
        _ if verdict.is_broken() => "BROKEN",
        _ if verdict.is_news() && !in_part => "news",
        Status::Open => "open",
        Status::Holds if wordy => "holds",
        Status::Holds => return None,
    };
    let first = format!("{word:<8}{}: {}\n", claim.id, claim.text);
    let holds = (word == "news").then_some("is marked open and holds here");
    let more = holds.into_iter().chain(verdict.reason.as_deref()).chain(claim.note.as_deref());
    Some(std::iter::once(first).chain(more.map(|more| format!("        {more}\n"))).collect())
}

/// Four digits are as many as runs give.
fn figure(value: f64, unit: Option<&str>) -> String {
    let places = if value == 0.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    let text = format!("{value:.*}", usize::try_from(places).unwrap_or(0));
    unit.map_or(text.clone(), |unit| format!("{text} {unit}"))
}

fn count(verdicts: &[Verdict<'_>], holds: Option<bool>) -> usize {
    verdicts.iter().filter(|verdict| verdict.holds == holds).count()
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figures_have_four_digits_and_their_unit() {
        assert_eq!(figure(3.008_83, Some("RTT")), "3.009 RTT");
        assert_eq!(figure(0.000_702_9, None), "0.0007029");
        assert_eq!(figure(-1234.5, None), "-1234");
        assert_eq!(figure(0.0, None), "0");
    }
}
