//! `rampmeter claims`: tests claims of the papers by runs.

mod record;
mod report;
mod variants;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;
use rampmeter_linux::{Emulated, probe};
use rampmeter_scenario::{Registries, Schema, World};
use rampmeter_sim::Simulated;
use rampmeter_study::claims::{self, Claim, ClaimResult, Judge, Sentence, Standing};
use rampmeter_study::{Cluster, Program, Sweep, Unfinished};
use rampmeter_units::{Known, nearest};
use serde_json::json;

use self::record::{missing, record, recorded};
use self::report::{has_drifted, report};
use self::variants::{matrix, of_all_variants};
use super::cluster::Dask;
use super::interrupt::Interrupts;
use super::run::from_one;
use super::{EXIT_CODES, report_failed};
use crate::failure::Failure;

const DIRECTORY: &str = "runs/claims";

/// The number of claims that the message for an unknown one suggests.
const SUGGESTIONS: usize = 6;

/// The arguments of `rampmeter claims`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = format!("The file of a claim gives its status: `holds`, or `open` with a note. Without --strict a claim \
                        that fails is only reported.\n\n{EXIT_CODES} With --strict 1 also where a claim \
                        fails, even if runs failed.")
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
    /// Compare variants: a row for each sentence that several variants have, such as `3.drops`, `letter.3.drops` and
    /// `authors.3.drops`, and a column for each variant
    #[arg(long, conflicts_with_all = ["record", "missing"])]
    variants: bool,
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
            let is_quick = |name: &str| papers.iter().flat_map(|(_, claims)| claims).any(|claim| has_name(claim, name));
            let slow: Vec<&str> = args.names.iter().map(String::as_str).filter(|name| !is_quick(name)).collect();
            let names = slow.join(", ");
            return Err(Failure::input(format!("no quick runs of {names}: leave out --quick, or these names")));
        }
        list => list?,
    };
    if args.variants {
        let all: Vec<Claim> = papers.iter().flat_map(|(_, claims)| claims).cloned().collect();
        list = of_all_variants(&all, &list)?;
    }
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
        fresh: false,
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
        let mut json = json!({ "claims": verdicts });
        if args.variants {
            json["variants"] = json!(Sentence::of(verdicts));
        }
        println!("{json}");
    } else if args.variants {
        print!("{}", matrix(verdicts, args.text));
    } else {
        print!("{}", report(verdicts, is_partial, args.text));
    }
    if is_partial && !args.json {
        let fewer = [args.quick.then(|| "--quick".to_owned()), args.seeds.map(|seeds| format!("--seeds {seeds}"))];
        let fewer = fewer.into_iter().flatten().collect::<Vec<_>>().join(" ");
        println!("These values are of fewer runs ({fewer}). A claim's status is that of all seeds: see --recorded");
    }
    let is_wrong = |verdict: &ClaimResult<'_>| {
        verdict.is_broken() || verdict.claim.contradicts_record() || (has_drifted(verdict) && !is_partial)
    };
    report_failed(&Unfinished::failed_runs(verdicts), args.strict && verdicts.iter().any(is_wrong))
}

/// The claims that `names` select; all if there are no names.
fn named(mut claims: Vec<Claim>, names: &[String]) -> Result<Vec<Claim>, Failure> {
    if let Some(name) = names.iter().find(|name| !claims.iter().any(|claim| has_name(claim, name))) {
        if claims.iter().flat_map(|claim| claim.variants.iter()).any(|variant| variant.name == *name) {
            let more = "--recorded --variants compares it with the others, and its claims name it in their text";
            return Err(Failure::input(format!("no claim is called `{name}`: it is a variant; {more}")));
        }
        let ids = || claims.iter().map(|claim| claim.id.as_str());
        let known = match Known::near(name, ids()) {
            // A paper may have hundreds of claims.
            Known::All(_) | Known::Several(..) => {
                format!("near it are {}", nearest(name, ids(), SUGGESTIONS).join(", "))
            }
            near @ Known::Near(_) => near.to_string(),
        };
        return Err(Failure::input(format!("no claim is called `{name}` or `{name}.*`; {known}")));
    }
    claims.retain(|claim| names.is_empty() || names.iter().any(|name| has_name(claim, name)));
    Ok(claims)
}

fn has_name(claim: &Claim, name: &str) -> bool {
    claim.id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
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
