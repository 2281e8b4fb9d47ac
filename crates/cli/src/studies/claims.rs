//! `rampmeter claims`: tests claims of the papers by runs.

mod record;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;
use rampmeter_linux::{Emulated, probe};
use rampmeter_scenario::{Registries, Schema, World};
use rampmeter_sim::Simulated;
use rampmeter_study::claims::{self, Claim, ClaimResult, Judge, Standing, Status, rounded};
use rampmeter_study::{Cluster, Program, Sweep};
use rampmeter_units::Known;
use serde_json::json;

use self::record::{missing, record, recorded};
use super::cluster::Dask;
use super::interrupt::Interrupts;
use super::run::from_one;
use crate::failure::Failure;
use crate::table::table;

const DIRECTORY: &str = "runs/claims";

/// The arguments of `rampmeter claims`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "The file of a claim gives its status: `holds`, or `open` with a note. Without --strict a claim \
                        that fails is only reported."
)]
pub(crate) struct Args {
    /// The claims of one paper, by the name of its directory in `studies`, such as pcp or rfc9743 [default: all]
    paper: Option<String>,
    /// Only these claims: an id, or its part before a dot (4 selects 4.queue and 4.busy)
    #[arg(value_name = "CLAIM")]
    names: Vec<String>,
    /// Only the claims of this world: simulated or emulated
    #[arg(long, value_name = "WORLD", value_parser = ["simulated", "emulated"])]
    world: Option<String>,
    /// Only the quick claims, with fewer and shorter runs
    #[arg(long)]
    quick: bool,
    /// The number of runs of each point, with seeds 1 to N [default: the seeds of the scenarios]
    #[arg(long, value_name = "N", value_parser = from_one)]
    seeds: Option<usize>,
    /// Run nothing: print the recorded results of all seeds
    #[arg(long, conflicts_with_all = ["record", "missing", "quick", "seeds"])]
    recorded: bool,
    /// Run the claims without a current result from all seeds, and store their results in measured.json beside them
    #[arg(long, conflicts_with_all = ["quick", "seeds", "json"])]
    record: bool,
    /// With --record: run those with a current result too, as a change of the simulator or of a controller requires
    #[arg(long, requires = "record")]
    fresh: bool,
    /// Run nothing: list the claims without a current result, and write the list to measured.json
    #[arg(long, conflicts_with_all = ["record", "quick", "seeds", "json"])]
    missing: bool,
    /// Print the text of all claims, not only of those that fail or are open
    #[arg(long)]
    text: bool,
    /// Exit with 1 if a claim with the status `holds` fails, or if a recorded result contradicts a status or this run
    #[arg(long)]
    strict: bool,
    /// The directory of the papers' directories [default: the directory `studies` here, or the nearest above]
    #[arg(long, value_name = "DIR")]
    studies: Option<PathBuf>,
    /// The number of runs in parallel [default: simulated, one per core; emulated, one]
    #[arg(long, value_name = "N", value_parser = from_one)]
    jobs: Option<usize>,
    /// Run the points on the workers of this Dask scheduler, tcp://HOST:PORT (needs the Python package)
    #[arg(long, value_name = "ADDRESS")]
    cluster: Option<String>,
    /// Write one JSON object to standard output instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn claims(args: &Args, registries: &Registries) -> Result<ExitCode, Failure> {
    let schema = Schema::default();
    let files = files(&studies(args.studies.as_deref())?, args.paper.as_deref())?;
    let read = |quick| -> Result<Vec<(PathBuf, Vec<Claim>)>, Failure> {
        let read = |file: &PathBuf| Ok((file.clone(), claims::read(file, quick, registries, &schema)?));
        files.iter().map(read).collect()
    };
    let papers = read(args.quick)?;
    let selected = |papers: &[(PathBuf, Vec<Claim>)]| {
        named(papers.iter().flat_map(|(_, claims)| claims).cloned().collect(), &args.names)
    };
    let mut list = match selected(&papers) {
        Err(_) if args.quick => {
            selected(&read(false)?)?; // otherwise no claim has the name, with or without --quick
            let names = args.names.join(" ");
            return Err(Failure::input(format!("not all of `{names}` have quick runs; run them without --quick")));
        }
        list => list?,
    };
    list.retain(|claim| !args.record || args.fresh || !matches!(claim.recorded, Standing::Current { .. }));
    if let Some(seeds) = args.seeds {
        for claim in &mut list {
            claim.scenario.set("seed", (1..=seeds as i64).map(Into::into).collect())?;
        }
    }
    list.retain(|claim| args.world.as_ref().is_none_or(|world| *world == claim.world));
    if args.missing {
        return missing(&papers, &list);
    }
    if args.recorded {
        return Ok(show(&recorded(&list)?, args));
    }
    let interrupts = Interrupts::listen();
    let emulated = Emulated::new(interrupts.stop().clone());
    let mut worlds: Vec<&dyn World> = vec![&Simulated];
    if list.iter().any(|claim| claim.world == emulated.name()) {
        match probe().emulation() {
            Ok(()) => worlds.push(&emulated),
            Err(reason) => eprintln!("rampmeter: skipped the claims on real packets: {reason}"),
        }
    }
    let program = Program::this()?;
    let only_simulated = list.iter().all(|claim| claim.world == Simulated.name());
    let cluster = Dask::at(args.cluster.as_ref(), if only_simulated { Simulated.name() } else { emulated.name() })?;
    let judge = Judge {
        sweep: Sweep {
            registries,
            schema: &schema,
            jobs: args.jobs,
            stop: interrupts.stop(),
            cluster: cluster.as_ref().map(|it| it as &dyn Cluster),
        },
        worlds: &worlds,
        directory: Path::new(DIRECTORY),
        program: &program,
    };
    let resume_advice = format!("finished runs are in {DIRECTORY}, and the same command resumes from there");
    let mut bar = interrupts.bar(args.json, &resume_advice);
    if args.record {
        let recorded = record(&papers, &list, |claims| {
            let results = judge.judge(claims, |progress| bar.show(progress));
            bar.clear();
            results
        });
        return recorded.map_err(|error| Failure::from(error).if_interrupted(&resume_advice));
    }
    let verdicts = judge.judge(&list, |progress| bar.show(progress));
    bar.clear();
    let verdicts = verdicts.map_err(|error| Failure::from(error).if_interrupted(&resume_advice))?;

    Ok(show(&verdicts, args))
}

/// Prints the results, and returns the exit code.
fn show(verdicts: &[ClaimResult<'_>], args: &Args) -> ExitCode {
    let is_partial = args.quick || args.seeds.is_some();
    if args.json {
        println!("{}", json!({ "claims": verdicts }));
    } else {
        print!("{}", report(verdicts, is_partial, args.text));
    }
    let is_wrong = |verdict: &ClaimResult<'_>| {
        verdict.is_broken() || verdict.claim.contradicts_record() || (has_drifted(verdict) && !is_partial)
    };
    if args.strict && verdicts.iter().any(is_wrong) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The claims that `names` select; all if there are no names.
fn named(mut claims: Vec<Claim>, names: &[String]) -> Result<Vec<Claim>, Failure> {
    let is_selected = |claim: &Claim, name: &String| {
        claim.id.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if let Some(name) = names.iter().find(|name| !claims.iter().any(|claim| is_selected(claim, name))) {
        let known = match Known::near(name, claims.iter().map(|claim| claim.id.as_str())) {
            // A paper may have hundreds of claims.
            Known::All(ids) => {
                let groups = ids.iter().filter_map(|id| id.split('.').next().map(str::to_owned));
                Known::All(groups.collect::<BTreeSet<_>>().into_iter().collect())
            }
            near => near,
        };
        return Err(Failure::input(format!("no claim is called `{name}` or `{name}.*`; {known}")));
    }
    claims.retain(|claim| names.is_empty() || names.iter().any(|name| is_selected(claim, name)));
    Ok(claims)
}

/// The directory of studies: `given`, or else the nearest one here or above.
fn studies(given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let here = std::env::current_dir().map_err(Failure::failed)?;
    let mut above = here.ancestors().map(|directory| directory.join("studies"));
    above.find(|directory| directory.is_dir()).ok_or_else(|| {
        Failure::input(
            "there is no directory `studies` here or above; name the directory of the studies with --studies",
        )
    })
}

/// The files of claims below `studies`, in alphabetical order.
fn files(studies: &Path, paper: Option<&str>) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(studies).map_err(|error| {
        Failure::input(format!("{}: {error}; name the directory of the studies with --studies", studies.display()))
    })?;
    let directories = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        directories.map(|directory| directory.join("claims.toml")).filter(|file| file.is_file()).collect();
    files.sort();
    if files.is_empty() {
        let what = format!(
            "{}: no directory in it has a claims.toml; name the directory of the studies with --studies",
            studies.display()
        );
        return Err(Failure::input(what));
    }
    let Some(paper) = paper else { return Ok(files) };
    let name = |file: &PathBuf| file.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let names: Vec<String> = files.iter().filter_map(name).collect();
    files.retain(|file| name(file).is_some_and(|name| name == paper));
    if files.is_empty() {
        let known = Known::near(paper, names.iter().map(String::as_str));
        return Err(Failure::input(format!("there are no claims of a paper called `{paper}`; {known}")));
    }
    Ok(files)
}

/// A table of all claims, followed by the details of those that fail, are open or were skipped, or of all if
/// `all_texts`.
fn report(verdicts: &[ClaimResult<'_>], is_partial: bool, all_texts: bool) -> String {
    let head = ["claim", "where", "paper", "expected", "measured", "holds", "status"].map(String::from);
    let rows: Vec<Vec<String>> = verdicts
        .iter()
        .map(|verdict| {
            let claim = verdict.claim;
            vec![
                claim.id.clone(),
                claim.place.clone(),
                claim.paper.clone().unwrap_or_default(),
                claim.expect(),
                verdict.measured.map_or("none".into(), |measured| format_value(measured, claim.unit())),
                verdict.holds.map_or("skipped", |holds| if holds { "yes" } else { "no" }).into(),
                if claim.status == Status::Holds { "holds" } else { "open" }.into(),
            ]
        })
        .collect();
    let all_details: String = verdicts.iter().filter_map(|verdict| details(verdict, is_partial, all_texts)).collect();
    let (holding, failing) = (count(verdicts, Some(true)), count(verdicts, Some(false)));
    let skipped = count(verdicts, None);
    let recorded = |verdict: &&ClaimResult<'_>| matches!(verdict.claim.recorded, Standing::Current { .. });
    let unrecorded = verdicts.len() - verdicts.iter().filter(recorded).count();
    let counts = format!("claims: {holding} hold, {failing} fail, {skipped} skipped");
    let table = table(&head, &rows);
    format!("{table}\n{all_details}\n{counts}; {unrecorded} without a recorded result of all seeds\n")
}

/// The details of a claim below the table; none for a claim whose result is as expected, unless `all_texts`.
fn details(verdict: &ClaimResult<'_>, is_partial: bool, all_texts: bool) -> Option<String> {
    let claim = verdict.claim;
    // A status refers to complete runs, so fewer or shorter runs cannot contradict it.
    let label = match claim.status {
        _ if claim.contradicts_record() => "record",
        _ if verdict.holds.is_none() => "skipped",
        _ if verdict.is_broken() && is_partial => "fails",
        _ if verdict.is_broken() => "regression",
        _ if has_drifted(verdict) && !is_partial => "drift",
        _ if verdict.is_unexpected() && !is_partial => "now holds",
        Status::Open => "open",
        Status::Holds if all_texts => "holds",
        Status::Holds => return None,
    };
    let first = format!("{label:<11}{}: {}\n", claim.id, claim.text);
    let of_all_seeds = match claim.recorded {
        Standing::Current { holds, measured: Some(measured) } if is_partial && verdict.holds != Some(holds) => {
            let verdict = if holds { "it holds" } else { "it does not hold" };
            Some(format!("in all runs with all seeds {verdict}: {}", format_value(measured, claim.unit())))
        }
        _ => None,
    };
    let advice = match label {
        "now holds" => Some("its status is open but it holds: write status = \"holds\""),
        "record" => Some("its status contradicts its recorded result of all seeds: correct the status"),
        "drift" => {
            Some("measured.json has another value: the simulator has changed; run the command with --record --fresh")
        }
        _ => of_all_seeds.as_deref(),
    };
    let more = advice.into_iter().chain(verdict.reason.as_deref()).chain(claim.note.as_deref());
    Some(std::iter::once(first).chain(more.map(|more| format!("           {more}\n"))).collect())
}

/// Whether a simulated result differs from the recorded one.
fn has_drifted(verdict: &ClaimResult<'_>) -> bool {
    let Standing::Current { measured, .. } = verdict.claim.recorded else { return false };
    verdict.claim.world == Simulated.name() && verdict.measured.map(rounded) != measured
}

/// Formats a value with four significant digits.
fn format_value(value: f64, unit: Option<&str>) -> String {
    let places = if value == 0.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    let text = format!("{value:.*}", usize::try_from(places).unwrap_or(0));
    unit.map_or(text.clone(), |unit| format!("{text} {unit}"))
}

fn count(verdicts: &[ClaimResult<'_>], holds: Option<bool>) -> usize {
    verdicts.iter().filter(|verdict| verdict.holds == holds).count()
}

#[cfg(test)]
mod tests {
    use super::format_value;

    #[test]
    fn values_have_four_digits_and_their_unit() {
        assert_eq!(format_value(3.008_83, Some("RTT")), "3.009 RTT");
        assert_eq!(format_value(0.000_702_9, None), "0.0007029");
        assert_eq!(format_value(-1234.5, None), "-1234");
        assert_eq!(format_value(0.0, None), "0");
    }
}
