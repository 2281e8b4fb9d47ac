//! `rampmeter evaluate`: asks the questions of RFC 9743, or of a conformance suite, of a controller and of its rivals.

mod schemes;
mod text;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;
use rampmeter_scenario::{Registries, ScenarioError, Schema, World};
use rampmeter_study::claims::Judge;
use rampmeter_study::evaluation::{Comparison, Evaluation, Evaluator, Questionnaire, SUITES, Schemes, Suite, page};
use rampmeter_study::{Cluster, Program, StudyError, Sweep, TraceOptions, Traced, file_name};
use rampmeter_units::Duration;

use self::schemes::{need, own_scheme, rivals};
use super::cluster::Dask;
use super::interrupt::Interrupts;
use super::invocation::{run_crate, this_command};
use super::run::{from_one, series, world};
use super::{EXIT_CODES, report_failed};
use crate::failure::Failure;

/// The name of the suite that is asked by default.
const DEFAULT: &str = "rfc9743";

/// The file of the result for programs.
const EVALUATION: &str = "evaluation.json";

/// The file of schemes, beside the scenarios.
const SCHEMES: &str = "schemes.toml";

/// The arguments of `rampmeter evaluate`.
#[derive(Debug, ClapArgs)]
#[command(after_help = format!("{EXIT_CODES} 1 also where something became worse, even if runs failed.\n\nExamples:
  rampmeter evaluate --controller pcp --quick              the main questions, in minutes
  rampmeter evaluate --controller pcp --against cubic,bbr  all questions
  rampmeter evaluate --stack quinn:cubic --against quinn:newreno,cubic --quick   another transport's stack
  rampmeter evaluate --crate DIR                           the controller of your own crate
  rampmeter evaluate --kernel cubic --world emulated --only utilization   Linux's, with real packets, in real time
  rampmeter evaluate --controller cubic --suite cubic      is it what RFC 9438 says?
  rampmeter evaluate --controller pcp --quick --baseline evaluation.json   exit 1 if something became worse"))]
pub(crate) struct Args {
    /// The controller, or a scheme of --schemes
    #[arg(long, value_name = "NAME", conflicts_with_all = ["kernel", "stack"])]
    controller: Option<String>,
    /// A controller of another transport's stack (rampmeter stacks)
    #[arg(long, value_name = "STACK:CONTROLLER", conflicts_with = "kernel")]
    stack: Option<String>,
    /// A crate of your own whose command has the controller or the stack: it is built and asked
    #[arg(long = "crate", value_name = "DIR", conflicts_with = "kernel")]
    package: Option<PathBuf>,
    /// A congestion control of Linux's TCP; needs --world emulated
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// The rivals: controllers, STACK:CONTROLLER, schemes of --schemes, linux-NAME with --world emulated, or none
    /// [default: newreno,cubic,bbr; none with another suite]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    against: Vec<String>,
    /// Only the main questions, with fewer paths
    #[arg(long)]
    quick: bool,
    /// simulated, or emulated: real packets in network namespaces of this machine, in real time
    #[arg(long, default_value = "simulated")]
    world: String,
    /// The seeds of the runs, for example 1,2,3 [default: those of the scenarios]
    #[arg(long, value_name = "SEEDS", value_delimiter = ',', value_parser = seed)]
    seeds: Vec<u64>,
    /// An evaluation.json of this controller: list what became better or worse since, and exit 1 if something did
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// The name of the controller in the baseline, if it has another one now
    #[arg(long, value_name = "NAME", requires = "baseline")]
    renamed_from: Option<String>,
    /// Ask only these questions, by their names on the page
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Write what each flow and link of the runs of one question did, and why, to a directory in DIR for each run
    /// (docs/traces.md). Its finished runs are repeated
    #[arg(long, value_name = "DIR", requires = "only", conflicts_with = "cluster")]
    trace: Option<PathBuf>,
    /// Write a Parquet table for each traced flow, too: with a row for each acknowledgement (ack), or at most one in each
    /// INTERVAL, for example 10ms
    #[arg(long, value_name = "INTERVAL|ack", requires = "trace", value_parser = series)]
    series: Option<Duration>,
    /// A file with [scheme.NAME] tables, for settings of controllers (docs/scenario.md)
    #[arg(long, value_name = "FILE")]
    schemes: Option<PathBuf>,
    /// What to ask: rfc9743, or whether the controller is what a name says: cubic (RFC 9438), bbr (the IETF's draft), l4s
    /// (RFC 9331)
    #[arg(long, value_name = "NAME", default_value = DEFAULT, conflicts_with = "questions",
          value_parser = SUITES.map(|suite| suite.name))]
    suite: String,
    /// A directory with questions.toml, its scenarios and schemes.toml, instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    questions: Option<PathBuf>,
    /// The directory for the page, the results and the scenarios [default: runs/evaluate/NAME; with -SUITE, -quick,
    /// -emulated and -part behind the name if so, where -part is for --only]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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

impl Args {
    /// Whether the evaluation needs real packets.
    pub(crate) fn is_emulated(&self) -> bool {
        self.world == "emulated"
    }
}

pub(crate) fn evaluate(args: &Args, registries: &Registries) -> Result<ExitCode, Failure> {
    if let Some(package) = &args.package {
        if args.cluster.is_some() {
            let what = "workers of a cluster do not have the controllers of a crate; evaluate it without --cluster";
            return Err(Failure::input(what));
        }
        return run_crate(package);
    }
    check_lists(args)?;
    let mut baseline = args.baseline.as_deref().map(read_evaluation).transpose()?;
    let interrupts = Interrupts::listen();
    let world = world(&args.world, interrupts.stop())?;
    let cluster = Dask::at(args.cluster.as_ref(), world.name())?;
    let own = own_scheme(args, registries)?;
    let out = args.out.clone().unwrap_or_else(|| default_directory(args, &own));
    let scenarios = out.join("scenarios");
    if args.baseline.as_ref().is_some_and(|baseline| is_same(baseline, &out.join(EVALUATION))) {
        let what = "the new evaluation would replace the baseline; copy that, or give another --out";
        return Err(Failure::input(format!("{}: {what}", out.join(EVALUATION).display())));
    }
    let questions = write_questions(args, &scenarios)?;
    let mut schemes = Schemes::default();
    schemes.read(&args.questions.as_ref().unwrap_or(&scenarios).join(SCHEMES))?;
    if let Some(more) = &args.schemes {
        schemes.read(more)?;
    }
    let scheme = args.kernel.as_ref().map_or(own, |kernel| schemes.need_kernel(kernel));
    let rivals = rivals(args, &scheme);
    for name in rivals.iter().chain([&scheme]) {
        need(name, &mut schemes, args, registries)?;
    }
    let originals = args.questions.as_deref().map_or_else(|| format!("built-in {}", args.suite), display);
    let in_original = |error| in_original(error, &scenarios, &originals, &schemes);
    let mut questionnaire = Questionnaire::read(&questions).map_err(in_original)?;
    if !args.only.is_empty() {
        questionnaire.only(&args.only, args.quick).map_err(Failure::input)?;
    }
    questionnaire
        .check_asked(args.quick)
        .map_err(|what| Failure::input(format!("{originals}/questions.toml: {what}")))?;
    let schema = Schema::default();
    let options = |directory: &PathBuf| TraceOptions { series: args.series, ..TraceOptions::all(directory) };
    let traced = args.trace.as_ref().map(|directory| Traced::new(&*world, options(directory)));
    let worlds: [&dyn World; 1] = [traced.as_ref().map_or(&*world, |traced| traced)];
    let evaluator = Evaluator {
        judge: Judge {
            sweep: Sweep {
                registries,
                schema: &schema,
                jobs: args.jobs,
                stop: interrupts.stop(),
                cluster: cluster.as_ref().map(|it| it as &dyn Cluster),
            },
            worlds: &worlds,
            directory: &out.join("points"),
            program: &Program::this()?,
            fresh: traced.is_some(),
        },
        questionnaire: &questionnaire,
        schemes: &schemes,
        scheme: &scheme,
        rivals: &rivals,
        quick: args.quick,
        seeds: &args.seeds,
    };
    if let Some(mut before) = baseline.take() {
        if let Some(name) = &args.renamed_from {
            before = before.renamed(name, &scheme).map_err(Failure::input)?;
        }
        if !args.only.is_empty() {
            before.only(&args.only);
        }
        evaluator.check_baseline(&before).map_err(Failure::input)?;
        baseline = Some(before);
    }
    fs::write(scenarios.join(SCHEMES), schemes.text()).map_err(|error| unwritable(&scenarios, &error))?;
    let kept = format!("finished runs are in {}, and the same command resumes from there", out.display());
    let mut bar = interrupts.bar(args.json, &kept);
    let evaluation = evaluator.run(|progress| bar.show(progress));
    bar.clear();
    let evaluation = evaluation.map_err(|error| Failure::from(in_original(error)).if_interrupted(&kept))?;
    let comparison = baseline.map(|before| Comparison::of(&before, &evaluation).map_err(Failure::input)).transpose()?;
    write(&out, &evaluation)?;
    print(args, &evaluation, comparison.as_ref(), &out);
    for remark in traced.iter().flat_map(Traced::remarks) {
        eprintln!("rampmeter: trace {remark}");
    }
    for warning in comparison.iter().flat_map(Comparison::warnings) {
        eprintln!("rampmeter: {warning}");
    }
    let is_worse = comparison.is_some_and(|comparison| comparison.is_worse());
    Ok(report_failed(&evaluation.failed, is_worse))
}

fn print(args: &Args, evaluation: &Evaluation, comparison: Option<&Comparison>, out: &Path) {
    if args.json {
        println!("{}", serde_json::json!({ "evaluation": evaluation, "comparison": comparison }));
    } else {
        print!("{}", text::report(evaluation, comparison));
        println!("\npage: {}", out.join("index.html").display());
    }
}

/// Parses a seed.
fn seed(text: &str) -> Result<u64, String> {
    let seed = text.trim().parse().ok().filter(|seed| i64::try_from(*seed).is_ok());
    seed.ok_or_else(|| "write each seed, with commas between them: --seeds 1,2,3".to_owned())
}

/// Checks the lists of questions and of seeds.
fn check_lists(args: &Args) -> Result<(), Failure> {
    if args.only.iter().any(|name| name.trim().is_empty()) {
        let what = "--only: a name is empty; write names of questions, as in --only utilization, or omit it for all";
        return Err(Failure::input(what));
    }
    if args.trace.is_some() && args.only.len() != 1 {
        return Err(Failure::input(
            "--trace: name one question with --only; the runs of others could have the same names",
        ));
    }
    let is_repeated = |(index, seed): &(usize, &u64)| args.seeds[..*index].contains(*seed);
    match args.seeds.iter().enumerate().find(is_repeated) {
        None => Ok(()),
        Some((_, seed)) => {
            let why = "runs with the same seed are the same runs";
            Err(Failure::input(format!("--seeds: {seed} is there twice, and {why}; write each seed once")))
        }
    }
}

fn default_directory(args: &Args, name: &str) -> PathBuf {
    let quick = if args.quick { "-quick" } else { "" };
    let emulated = if args.is_emulated() { "-emulated" } else { "" };
    let suite = if args.suite == DEFAULT { String::new() } else { format!("-{}", args.suite) };
    let part = if args.only.is_empty() { "" } else { "-part" };
    Path::new("runs/evaluate").join(file_name(&format!("{name}{suite}{quick}{emulated}{part}")))
}

/// Writes the questions, scenarios and schemes into `directory`, and returns the file of questions.
fn write_questions(args: &Args, directory: &Path) -> Result<PathBuf, Failure> {
    let Some(own) = &args.questions else {
        let suite = Suite::called(&args.suite).unwrap_or(SUITES[0]);
        return Ok(suite.write(directory)?);
    };
    fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
    if is_same(own, directory) {
        let what = "these are the copies of an evaluation's own questions; copy them, or give another --out";
        return Err(Failure::input(format!("{}: {what}", own.display())));
    }
    let unreadable = |error: std::io::Error| {
        Failure::input(format!("{}: {error}; give a directory with questions.toml and its scenarios", own.display()))
    };
    for entry in fs::read_dir(own).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() {
            fs::copy(&path, directory.join(path.file_name().unwrap_or_default())).map_err(unreadable)?;
        }
    }
    Ok(directory.join("questions.toml"))
}

/// An error in a copy names the file in `originals`. The file of schemes has those of several files.
fn in_original(mut error: StudyError, copies: &Path, originals: &str, schemes: &Schemes) -> StudyError {
    use ScenarioError::{CannotSend, Set, Unreadable, Wrong};
    let StudyError::Scenario(inner) = &mut error else { return error };
    let inner = match inner {
        CannotSend { error, .. } => &mut **error,
        inner => inner,
    };
    if let Wrong { file, line, .. } = inner
        && Path::new(file.as_str()) == copies.join(SCHEMES)
    {
        if let Some((origin, at)) = schemes.origin(*line) {
            (*file, *line) = (display(origin), *at);
        }
        return error;
    }
    let (Unreadable { file, .. } | Wrong { file, .. } | Set { file, .. }) = inner else { return error };
    if let Ok(name) = Path::new(file.as_str()).strip_prefix(copies)
        && name != Path::new(SCHEMES)
    {
        *file = format!("{originals}/{}", name.display());
    }
    if let Wrong { problem, .. } | Set { problem, .. } = inner {
        *problem = problem.replace(&format!("{}/", copies.display()), &format!("{originals}/"));
    }
    error
}

/// A path without a slash at its end.
fn display(path: &Path) -> String {
    path.display().to_string().trim_end_matches('/').to_owned()
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn read_evaluation(path: &Path) -> Result<Evaluation, Failure> {
    let advice = "give the evaluation.json of an earlier evaluation";
    let unreadable = |error| Failure::input(format!("{}: {error}; {advice}", path.display()));
    let text = fs::read_to_string(path).map_err(unreadable)?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::input(format!("{}:{}: not an evaluation: {error}; {advice}", path.display(), error.line()))
    })
}

fn write(out: &Path, evaluation: &Evaluation) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(evaluation).map_err(Failure::failed)?;
    fs::write(out.join(EVALUATION), json + "\n").map_err(|error| unwritable(out, &error))?;
    fs::write(out.join("index.html"), page(evaluation, &this_command())).map_err(|error| unwritable(out, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_a_copy_names_the_original() {
        let (copies, schemes) = (Path::new("out/scenarios"), Schemes::default());
        for (originals, expected) in [
            (
                "built-in rfc9743",
                "built-in rfc9743/questions.toml:3: question `x`: built-in rfc9743/alone.toml: no axis",
            ),
            ("mine", "mine/questions.toml:3: question `x`: mine/alone.toml: no axis"),
        ] {
            let file = copies.join("questions.toml").display().to_string();
            let problem = "question `x`: out/scenarios/alone.toml: no axis".to_owned();
            let error = StudyError::from(ScenarioError::Wrong { file, line: 3, problem });
            assert_eq!(in_original(error, copies, originals, &schemes).to_string(), expected);
        }
    }
}
