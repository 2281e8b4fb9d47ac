//! `rampmeter run`: runs a scenario over its sweep in one of the worlds.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args as ClapArgs;
use rampmeter_linux::{Emulated, probe};
use rampmeter_scenario::{Axis, Point, Registries, Scenario, Schema, Summary, World, values};
use rampmeter_sim::Simulated;
use rampmeter_study::{
    Cluster, Directory, Program, Sweep, TraceOptions, Traced, Unfinished, default_directory, overview,
};
use rampmeter_units::{Bytes, Duration};
use serde_json::json;

use super::cluster::Dask;
use super::interrupt::Interrupts;
use super::invocation::run_crate;
use super::{EXIT_CODES, report_failed};
use crate::failure::Failure;
use crate::table::table;

/// The maximum number of runs that a warning names.
const MAX_NAMED: usize = 3;

/// The arguments of `rampmeter run`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = format!("A condition runs with one flow from left to right: `--set scheme=cubic,bbr` names its \
    controllers.\n\n{EXIT_CODES} 1 also where no run has a result.\n\nExamples:\n  rampmeter run \
    studies/pcp/quick_start.toml --set duration=20s --set link.bottleneck.rate=10Mb/s,20Mb/s --set seed=1..20\n  \
    rampmeter run lte-walking --set scheme=cubic,bbr,pcp")
)]
pub(crate) struct Args {
    /// The scenario (docs/scenario.md explains the format), or a condition (rampmeter conditions)
    file: PathBuf,
    /// simulated, or emulated: real packets in network namespaces of this machine
    #[arg(long, default_value = "simulated")]
    world: String,
    /// Values of an axis, or of a key such as link.bottleneck.rate, instead of those in the scenario; may be repeated
    #[arg(long = "set", value_name = "KEY=V1,V2")]
    set: Vec<String>,
    /// The same as --set seed=N
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A crate of your own whose command has controllers or routers of the scenario: it is built and runs it
    #[arg(long = "crate", value_name = "DIR", conflicts_with = "cluster")]
    package: Option<PathBuf>,
    /// The directory of tables and finished points [default: runs/NAME-HASH]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Repeat finished runs, too
    #[arg(long)]
    fresh: bool,
    /// The number of runs in parallel [default: simulated, one per core; emulated, one]
    #[arg(long, value_name = "N", value_parser = from_one)]
    jobs: Option<usize>,
    /// Run the points on the workers of this Dask scheduler, tcp://HOST:PORT (needs the Python package)
    #[arg(long, value_name = "ADDRESS")]
    cluster: Option<String>,
    /// Write what each flow and link did, and why, to a directory in DIR for each run: qlog for flows, pcapng for links.
    /// Finished runs are repeated
    #[arg(long, value_name = "DIR", conflicts_with = "cluster")]
    trace: Option<PathBuf>,
    /// Trace these flows, by their index in the results or the name of their traffic [default: the first hundred of
    /// measured traffic]
    #[arg(long, value_name = "N|NAME", requires = "trace")]
    trace_flow: Vec<String>,
    /// Trace these links [default: the measured ones]
    #[arg(long, value_name = "NAME", requires = "trace")]
    trace_link: Vec<String>,
    /// The maximum size of the trace of a run, after which it is cut
    #[arg(long, value_name = "SIZE", default_value = "1 GB", requires = "trace")]
    trace_limit: Bytes,
    /// Write a Parquet table for each traced flow, too: with a row for each acknowledgement (ack), or at most one in each
    /// INTERVAL, for example 10ms
    #[arg(long, value_name = "INTERVAL|ack", requires = "trace", value_parser = series)]
    series: Option<Duration>,
    /// A row for each seed, instead of means over the seeds with half of their 95% confidence intervals
    #[arg(long)]
    each: bool,
    /// Write one JSON object to standard output instead of a table
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long)]
    quiet: bool,
}

impl Args {
    /// Whether the run needs real packets.
    pub(crate) fn is_emulated(&self) -> bool {
        self.world == "emulated"
    }

    fn trace_options(&self, directory: &Path) -> TraceOptions {
        TraceOptions {
            directory: directory.to_owned(),
            flows: self.trace_flow.clone(),
            links: self.trace_link.clone(),
            limit: self.trace_limit,
            series: self.series,
        }
    }
}

pub(crate) fn run(args: &Args, registries: &Registries) -> Result<ExitCode, Failure> {
    if let Some(package) = &args.package {
        return run_crate(package);
    }
    let mut scenario = Scenario::read(&args.file)?;
    set_axes(&mut scenario, &args.set)?;
    if let Some(seed) = args.seed {
        scenario.set("seed", values(&seed.to_string()))?;
    }
    let interrupts = Interrupts::listen();
    let world = world(&args.world, interrupts.stop())?;
    let trace = args.trace.as_ref().map(|directory| args.trace_options(directory));
    let traced = trace.clone().map(|options| Traced::new(&*world, options));
    let world: &dyn World = traced.as_ref().map_or(&*world, |traced| traced);
    let cluster = Dask::at(args.cluster.as_ref(), world.name())?;
    scenario.check(registries)?;
    if let Some(options) = &trace {
        for point in scenario.each_value() {
            options.check(&scenario.plan(&point, registries)?).map_err(Failure::input)?;
        }
    }
    if let Some(warning) = too_short(&scenario, registries)? {
        eprintln!("rampmeter: {warning}");
    }

    let path = args.out.clone().unwrap_or_else(|| default_directory(&args.file, world));
    let fresh = args.fresh || args.trace.is_some();
    let mut directory = Directory::open(path, &args.file, &scenario, world, Program::this()?, fresh)?;
    let resume_advice =
        format!("finished runs are in {}, and the same command resumes from there", directory.path().display());
    let mut bar = interrupts.bar(args.quiet || args.json, &resume_advice);
    let schema = Schema::default();
    let sweep = Sweep {
        registries,
        schema: &schema,
        jobs: args.jobs,
        stop: interrupts.stop(),
        cluster: cluster.as_ref().map(|it| it as &dyn Cluster),
    };
    let mut kept = 0;
    let results = directory.run(&sweep, &scenario, world, |progress| {
        kept = progress.kept;
        bar.show(progress);
    });
    bar.clear();
    let results = results.map_err(|error| Failure::from(error).if_interrupted(&resume_advice))?;

    if kept > 0 {
        eprintln!("rampmeter: {kept} of {} runs were already finished (--fresh repeats them)", results.len());
    }
    let unfinished = || results.iter().filter_map(|result| result.as_ref().err());
    for skipped in unfinished().filter(|it| !it.is_failed) {
        eprintln!("rampmeter: skipped {}: {}", skipped.point, skipped.reason);
    }
    let failed: Vec<&Unfinished> = unfinished().filter(|it| it.is_failed).collect();
    let code = report_failed(failed.iter().copied(), false);
    let summaries: Vec<&Summary> = results.iter().flatten().collect();
    if summaries.is_empty() {
        let (world, all) = (world.name(), results.len());
        let why = match failed.len() {
            0 => format!("no run was possible: the {world} world cannot run any of the {all} points"),
            failed => format!("no run has a result: {failed} of {all} failed"),
        };
        return Err(Failure::failed(format!("{why}, for the reasons above")));
    }
    if let Some(warning) = late_packets(&summaries, || probe().real_time.is_ok()) {
        eprintln!("rampmeter: {warning}");
    }
    for warning in degraded_flows(&summaries) {
        eprintln!("rampmeter: {warning}");
    }
    for remark in traced.iter().flat_map(Traced::remarks) {
        eprintln!("rampmeter: trace {remark}");
    }
    if let Some(before) = directory.had_more() {
        eprintln!(
            "rampmeter: the tables in {} have {} points now and had {before}; the command of then writes them again \
             without running them",
            directory.path().display(),
            summaries.len()
        );
    }
    if args.json {
        let mut json = json!({ "runs": summaries });
        if !failed.is_empty() {
            json["failed"] = json!(failed);
        }
        println!("{json}");
    } else {
        let (head, rows) = overview(&schema, &scenario, &summaries, args.each);
        print!("{}", table(&head, &rows));
        println!("\ntables: {}", directory.path().display());
        if let Some(traces) = &args.trace {
            println!("traces: {}", traces.display());
        }
    }
    Ok(code)
}

/// Sets axes and keys to the values of `--set KEY=V1,V2`.
pub(crate) fn set_axes(scenario: &mut Scenario, sets: &[String]) -> Result<(), Failure> {
    let read = |set: &String| {
        let pair = set.split_once('=').map(|(key, list)| (key.trim().to_owned(), values(list)));
        pair.filter(|(key, list)| !key.is_empty() && !list.is_empty()).ok_or_else(|| {
            let what = "give an axis or a key and its values, for example --set load=0.3,0.6 or --set duration=10s";
            Failure::input(format!("--set {set}: {what}"))
        })
    };
    let sets = sets.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(scenario.set_all(sets)?)
}

/// Sets axes and keys to the values of `--set KEY=VALUE`, for a command that takes one point.
pub(crate) fn set_point(scenario: &mut Scenario, sets: &[String]) -> Result<(), Failure> {
    set_axes(scenario, sets)?;
    for set in sets {
        let name = set.split_once('=').map_or("", |(axis, _)| axis.trim());
        let has_more = |axis: &&Axis| axis.name == name && axis.values.len() > 1;
        if let Some(axis) = scenario.axes().iter().find(has_more) {
            let wrong =
                format!("--set {set}: axis `{name}` has {} values, and this command uses one", axis.values.len());
            return Err(Failure::input(format!("{wrong}; write for example --set {name}={}", plain(&axis.values[0]))));
        }
    }
    Ok(())
}

/// A value as on the command line.
fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A warning if a point measures too few round trips to mean anything.
fn too_short(scenario: &Scenario, registries: &Registries) -> Result<Option<String>, Failure> {
    for point in scenario.each_value() {
        let plan = scenario.plan(&point, registries)?;
        if let Some((flow, round_trip)) = plan.too_short() {
            let (measured, flow, enough) = (plan.measured(), plan.flow_name(flow), plan.warmup + round_trip * 10);
            return Ok(Some(format!(
                "{measured} are measured at {point}, fewer than ten round trips ({round_trip}) of {flow}, so results \
                 show how flows start; make `duration` at least {enough}"
            )));
        }
    }
    Ok(None)
}

/// A warning if real packets were late; `has_priority`: whether they were sent with real-time priority.
fn late_packets(summaries: &[&Summary], has_priority: impl FnOnce() -> bool) -> Option<String> {
    let late: Vec<&&Summary> = summaries.iter().filter(|run| run.is_late()).collect();
    let jitter = |run: &Summary| run.run.number("host_jitter_p99_s");
    let worst = late.iter().max_by(|a, b| jitter(a).partial_cmp(&jitter(b)).unwrap_or(Ordering::Equal))?;
    let milliseconds = |seconds: Option<f64>| seconds.unwrap_or_default() * 1e3;
    let or = if has_priority() { "" } else { " or with real-time priority (rampmeter probe)" };
    Some(format!(
        "late packets in {} of {} runs: in the worst run 1% of the packets were late by more than {:.1} ms, at a \
         round-trip time of {:.1} ms; the machine is busy: repeat the runs on an idle machine{or}",
        late.len(),
        summaries.len(),
        milliseconds(jitter(worst)),
        milliseconds(worst.run.number("rtt_min_s")),
    ))
}

/// The warnings about degraded flows: a line for each scheme and reason.
fn degraded_flows(summaries: &[&Summary]) -> Vec<String> {
    let mut found: BTreeMap<(&str, &str), (&str, u64, Vec<&Point>)> = BTreeMap::new();
    for run in summaries {
        for degraded in &run.degraded {
            let new = || (degraded.first.as_str(), 0, Vec::new());
            let (_, flows, points) = found.entry((&degraded.scheme, &degraded.reason)).or_insert_with(new);
            *flows += degraded.flows;
            points.push(&run.point);
        }
    }
    let line = |((scheme, reason), (first, flows, points)): (_, (_, u64, Vec<&Point>))| {
        let others = if flows > 1 { format!(" and {} more were", flows - 1) } else { " was".into() };
        let runs = format!("{} of {} runs{}", points.len(), summaries.len(), name_runs(&points, summaries));
        format!("scheme {scheme}: flow {first}{others} degraded in {runs}: {reason}")
    };
    found.into_iter().map(line).collect()
}

/// The runs with these points, by the axes that vary: up to three, or the first and the number of the others; empty if
/// all runs have them.
fn name_runs(points: &[&Point], summaries: &[&Summary]) -> String {
    if points.len() == summaries.len() {
        return String::new();
    }
    let name = |point: &&Point| {
        let values =
            point.iter().filter(|(axis, value)| summaries.iter().any(|run| run.point.get(axis) != Some(value)));
        values.map(|(axis, value)| format!("{axis} = {value}")).collect::<Vec<_>>().join(", ")
    };
    let named = points.len().min(if points.len() > MAX_NAMED { 1 } else { MAX_NAMED });
    let mut names: Vec<String> = points[..named].iter().map(name).collect();
    if named < points.len() {
        names.push(format!("{} more", points.len() - named));
    }
    format!(" ({})", names.join("; "))
}

/// Parses the interval of a series of acknowledgements: zero for all of them.
pub(crate) fn series(text: &str) -> Result<Duration, String> {
    if text == "ack" {
        return Ok(Duration::ZERO);
    }
    let interval: Option<Duration> = text.parse().ok();
    interval.filter(|&it| it > Duration::ZERO).ok_or_else(|| "write ack, or an interval such as 10ms".to_owned())
}

/// Parses a number of runs.
pub(crate) fn from_one(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|jobs| *jobs > 0)
        .ok_or_else(|| "write a whole number of at least 1, for example 4".to_owned())
}

pub(crate) fn world(name: &str, stop: &Arc<AtomicBool>) -> Result<Box<dyn World>, Failure> {
    match name {
        "simulated" => Ok(Box::new(Simulated)),
        "emulated" => Ok(Box::new(Emulated::new(Arc::clone(stop)))),
        _ => Err(Failure::input(format!("no world is called `{name}`; there are simulated and emulated"))),
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_scenario::{DegradedSummary, Value};

    use super::*;

    const NETWORK: &str = r#"
duration = "1 s"
[[link]]
name = "wire"
between = ["left", "right"]
rate = "1 Mb/s"
delay = "1 ms"
router = { kind = "drop-tail" }
"#;

    fn run(late: Option<f64>, rtt: f64) -> Summary {
        let value = |number: Option<f64>| number.map_or(Value::Null, Value::Number);
        let figures = [("host_jitter_p99_s", value(late)), ("rtt_min_s", value(late.map(|_| rtt)))];
        Summary { run: figures.into(), ..Summary::default() }
    }

    /// Two schemes with four seeds each.
    fn points() -> Vec<Point> {
        let axes = "title = \"$scheme\"\naxes = { scheme = [\"tcp\", \"vcp\"], seed = [1, 2, 3, 4] }";
        Scenario::parse_network("x.toml", &format!("{axes}{NETWORK}")).unwrap().points()
    }

    #[test]
    fn late_packets_give_one_line_with_the_worst_run() {
        let runs = [run(Some(0.5e-3), 0.02), run(Some(2.5e-3), 0.1), run(Some(3.5e-3), 0.02), run(None, 0.0)];
        let warning = late_packets(&runs.each_ref(), || true).unwrap();
        assert!(warning.starts_with("late packets in 2 of 4 runs") && warning.contains("3.5 ms"), "{warning}");
        assert_eq!(warning.lines().count(), 1);
        assert!(!warning.contains("priority"), "{warning}");
        let warning = late_packets(&runs.each_ref(), || false).unwrap();
        assert!(warning.ends_with("or with real-time priority (rampmeter probe)"), "{warning}");
    }

    #[test]
    fn degraded_flows_give_one_line_for_a_scheme_and_reason() {
        let degraded = |flows| DegradedSummary {
            reason: "no codes".into(),
            scheme: "vcp".into(),
            first: "source.0 > sink.0".into(),
            flows,
        };
        let points = points();
        let run = |seed: usize, degraded| Summary { point: points[seed - 1].clone(), degraded, ..Summary::default() };
        let runs = [run(1, vec![degraded(3)]), run(2, Vec::new()), run(3, vec![degraded(1)])];
        let warnings = degraded_flows(&runs.each_ref());
        let expected =
            "scheme vcp: flow source.0 > sink.0 and 3 more were degraded in 2 of 3 runs (seed = 1; seed = 3): no codes";
        assert_eq!(warnings, [expected]);
        let warnings = degraded_flows(&[&run(1, vec![degraded(1)])]);
        assert_eq!(warnings, ["scheme vcp: flow source.0 > sink.0 was degraded in 1 of 1 runs: no codes"]);
    }

    #[test]
    fn up_to_three_runs_are_named_by_the_axes_that_vary() {
        let run = |point| Summary { point, ..Summary::default() };
        let runs: Vec<Summary> = points().into_iter().map(run).collect();
        let runs: Vec<&Summary> = runs.iter().collect();
        let first = |count: usize, of: &[&Summary]| {
            name_runs(&of.iter().map(|run| &run.point).collect::<Vec<_>>()[..count], of)
        };
        assert_eq!(first(1, &runs), " (scheme = \"tcp\", seed = 1)");
        assert_eq!(first(3, &runs[4..]), " (seed = 1; seed = 2; seed = 3)");
        assert_eq!(first(4, &runs), " (scheme = \"tcp\", seed = 1; 3 more)");
        assert_eq!(first(8, &runs), "");
    }

    #[test]
    fn packets_on_time_give_no_warning() {
        assert_eq!(late_packets(&[&run(Some(1.9e-3), 0.02), &run(None, 0.0)], || true), None);
        assert!(late_packets(&[&run(Some(0.3e-3), 0.002)], || true).is_some(), "more than a tenth of the round trip");
    }
}
