//! `rampmeter run`: a scenario over its sweep, in one of the worlds.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args as ClapArgs;
use rampmeter_control::Registry;
use rampmeter_linux::{Emulated, probe};
use rampmeter_scenario::{FlowSummary, Point, Scenario, Summary, World, values};
use rampmeter_sim::Simulated;
use rampmeter_study::{Finished, Folder, Program, Sweep, default_folder};
use serde_json::json;

use super::interrupt::Interrupts;
use crate::failure::Failure;
use crate::table::table;

/// Runs of a sweep that a line names at most.
const MOST_NAMED: usize = 3;

/// What `rampmeter run` takes.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The scenario (docs/scenario.md explains the format)
    file: PathBuf,
    /// simulated, or emulated: real packets in network namespaces of this machine
    #[arg(long, default_value = "simulated")]
    world: String,
    /// Values for an axis of the scenario instead of its own; may be repeated
    #[arg(long = "set", value_name = "AXIS=V1,V2")]
    set: Vec<String>,
    /// The same as --set seed=N
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where tables and finished points go [default: runs/NAME-HASH]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Start over instead of going on with an interrupted run of the same scenario
    #[arg(long)]
    fresh: bool,
    /// Runs at once [default: simulated, one a core; emulated, one]
    #[arg(long, value_name = "N", value_parser = from_one)]
    jobs: Option<usize>,
    /// One JSON object on standard output instead of a table
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long)]
    quiet: bool,
}

impl Args {
    /// Whether real packets are asked for.
    pub(crate) fn is_emulated(&self) -> bool {
        self.world == "emulated"
    }
}

pub(crate) fn run(args: &Args, registry: &Registry) -> Result<ExitCode, Failure> {
    let mut scenario = Scenario::read(&args.file)?;
    for set in &args.set {
        let pair = set.split_once('=').map(|(axis, list)| (axis.trim(), values(list)));
        let Some((axis, list)) = pair.filter(|(axis, list)| !axis.is_empty() && !list.is_empty()) else {
            let what = format!("--set {set}: give an axis and its values, for example --set load=0.3,0.6");
            return Err(Failure::input(what));
        };
        scenario.set(axis, list)?;
    }
    if let Some(seed) = args.seed {
        scenario.set("seed", values(&seed.to_string()))?;
    }
    let interrupts = Interrupts::listen();
    let world = world(&args.world, interrupts.stop())?;
    scenario.check(registry)?;

    let path = args.out.clone().unwrap_or_else(|| default_folder(&args.file, &scenario, &*world));
    let mut folder = Folder::open(path, &args.file, &scenario, &*world, Program::this()?, args.fresh)?;
    let kept_there =
        format!("what is finished is in {}, and the same command goes on from there", folder.path().display());
    let mut bar = interrupts.bar(args.quiet || args.json, &kept_there);
    let sweep = Sweep { registry, jobs: args.jobs, stop: interrupts.stop() };
    let mut kept = 0;
    let results = folder.run(&sweep, &scenario, &*world, |progress| {
        kept = progress.kept;
        bar.show(progress);
    });
    bar.clear();
    let results = results.map_err(|error| Failure::from(error).if_interrupted(&kept_there))?;

    if kept > 0 {
        eprintln!("rampmeter: {kept} of {} runs were there from before (--fresh runs all again)", results.len());
    }
    for skipped in results.iter().filter_map(skipped) {
        eprintln!("rampmeter: skipped {}: {}", skipped.point, skipped.reason);
    }
    let summaries: Vec<&Summary> = results.iter().filter_map(Finished::summary).collect();
    if summaries.is_empty() {
        let (world, all) = (world.name(), results.len());
        return Err(Failure::failed(format!(
            "nothing ran: the {world} world can do none of the {all} runs, see above"
        )));
    }
    if let Some(warning) = lateness(&summaries, || probe().real_time.is_ok()) {
        eprintln!("rampmeter: {warning}");
    }
    for warning in hindrances(&summaries) {
        eprintln!("rampmeter: {warning}");
    }
    if args.json {
        println!("{}", json!({ "runs": summaries }));
    } else {
        print!("{}", figures(&scenario, &summaries));
        println!("\ntables: {}", folder.path().display());
    }
    Ok(ExitCode::SUCCESS)
}

fn skipped(result: &Finished) -> Option<&rampmeter_study::Skipped> {
    match result {
        Finished::Skipped(skipped) => Some(skipped),
        Finished::Run(_) => None,
    }
}

/// What to say if real packets were late; `has_priority`: although they ran before other programs.
fn lateness(summaries: &[&Summary], has_priority: impl FnOnce() -> bool) -> Option<String> {
    let late: Vec<&&Summary> = summaries.iter().filter(|run| run.is_late()).collect();
    let worst =
        late.iter().max_by(|a, b| a.lateness_p99_s.partial_cmp(&b.lateness_p99_s).unwrap_or(Ordering::Equal))?;
    let milliseconds = |seconds: Option<f64>| seconds.unwrap_or_default() * 1e3;
    let or = if has_priority() { "" } else { " or with real-time priority (rampmeter probe)" };
    Some(format!(
        "late packets in {} of {} runs: 1% of them by more than {:.1} ms, where a round trip takes {:.1} ms; the machine \
         is busy, run again on a calmer one{or}",
        late.len(),
        summaries.len(),
        milliseconds(worst.lateness_p99_s),
        milliseconds(worst.rtt_min_s),
    ))
}

/// What to say of flows whose controllers could not work as they should: a line for each scheme and reason.
fn hindrances(summaries: &[&Summary]) -> Vec<String> {
    let mut found: BTreeMap<(&str, &str), (&str, u64, Vec<&Point>)> = BTreeMap::new();
    for run in summaries {
        for hindered in &run.hindered {
            let new = || (hindered.first.as_str(), 0, Vec::new());
            let (_, flows, points) = found.entry((&hindered.scheme, &hindered.why)).or_insert_with(new);
            *flows += hindered.flows;
            points.push(&run.point);
        }
    }
    let line = |((scheme, why), (first, flows, points)): (_, (_, u64, Vec<&Point>))| {
        let others = if flows > 1 { format!(" and {} more flows", flows - 1) } else { String::new() };
        let runs = format!("{} of {} runs{}", points.len(), summaries.len(), which(&points, summaries));
        format!("{scheme}, {first}{others}, at some time in {runs}: {why}")
    };
    found.into_iter().map(line).collect()
}

/// Which of the runs have these points, by the axes that vary: three at most, or else the first; nothing if all have.
fn which(points: &[&Point], summaries: &[&Summary]) -> String {
    if points.len() == summaries.len() {
        return String::new();
    }
    let name = |point: &&Point| {
        let values =
            point.iter().filter(|(axis, value)| summaries.iter().any(|run| run.point.get(axis) != Some(value)));
        values.map(|(axis, value)| format!("{axis} = {value}")).collect::<Vec<_>>().join(", ")
    };
    let named = points.len().min(if points.len() > MOST_NAMED { 1 } else { MOST_NAMED });
    let mut names: Vec<String> = points[..named].iter().map(name).collect();
    if named < points.len() {
        names.push(format!("{} more", points.len() - named));
    }
    format!(" ({})", names.join("; "))
}

/// A number of simulations at once.
pub(crate) fn from_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|jobs| *jobs > 0).ok_or_else(|| "a whole number from 1".to_owned())
}

pub(crate) fn world(name: &str, stop: &Arc<AtomicBool>) -> Result<Box<dyn World>, Failure> {
    match name {
        "simulated" => Ok(Box::new(Simulated)),
        "emulated" => Ok(Box::new(Emulated::new(Arc::clone(stop)))),
        _ => Err(Failure::input(format!("no world is called `{name}`; there are simulated and emulated"))),
    }
}

/// A row a point: its axes, its flows, each measured link; below it one for the flows of each kind of measured traffic
/// where there are several. Links are said to mark where one does in some run.
fn figures(scenario: &Scenario, summaries: &[&Summary]) -> String {
    let axes: Vec<&str> = scenario.axes().iter().map(|axis| axis.name.as_str()).collect();
    let links: Vec<&str> =
        summaries.first().map_or(Vec::new(), |first| first.links.iter().map(|(name, _)| name.as_str()).collect());
    let mut head: Vec<String> = axes.iter().map(ToString::to_string).collect();
    let several = summaries.iter().any(|run| !run.traffic.is_empty());
    head.extend(several.then(|| "traffic".to_owned()));
    head.extend(["transfers", "unfinished", "response ms", "deviation ms", "goodput Mb/s", "Jain"].map(String::from));
    let marking = summaries.iter().flat_map(|run| &run.links).any(|(_, link)| link.mark_rate > 0.0);
    for link in &links {
        head.extend(["used %", "queue", "dropped %"].map(|figure| format!("{link} {figure}")));
        head.extend(marking.then(|| format!("{link} marked %")));
    }
    let rows: Vec<Vec<String>> = summaries
        .iter()
        .flat_map(|run| {
            let point = serde_json::to_value(&run.point).unwrap_or_default();
            let value = |axis: &&str| point[axis].as_str().map_or_else(|| point[axis].to_string(), String::from);
            let mut row: Vec<String> = axes.iter().map(value).collect();
            row.extend(several.then(|| "all".to_owned()));
            row.extend(flow_cells(&run.flows));
            for (_, link) in &run.links {
                row.extend([
                    format!("{:.1}", link.utilization * 100.0),
                    format!("{:.1}", link.queue_mean_packets),
                    format!("{:.3}", link.drop_rate * 100.0),
                ]);
                row.extend(marking.then(|| format!("{:.3}", link.data_mark_rate * 100.0)));
            }
            let group = |(name, flows): &(String, FlowSummary)| {
                let nothing = axes.iter().map(|_| String::new());
                nothing.chain([name.clone()]).chain(flow_cells(flows)).collect()
            };
            std::iter::once(row).chain(run.traffic.iter().map(group)).collect::<Vec<_>>()
        })
        .collect();
    table(&head, &rows)
}

/// What the table says of flows.
fn flow_cells(flows: &FlowSummary) -> [String; 6] {
    let milliseconds = |value: Option<f64>| value.map_or(String::new(), |seconds| format!("{:.1}", seconds * 1e3));
    [
        flows.completed.to_string(),
        flows.unfinished.to_string(),
        milliseconds(flows.response_mean_s),
        milliseconds(flows.response_sd_s),
        flows.goodput_mean_bps.map_or(String::new(), |bps| format!("{:.3}", bps / 1e6)),
        flows.goodput_jain.map_or(String::new(), |jain| format!("{jain:.3}")),
    ]
}

#[cfg(test)]
mod tests {
    use rampmeter_scenario::HinderedSummary;

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
        Summary { lateness_p99_s: late, rtt_min_s: late.map(|_| rtt), ..Summary::default() }
    }

    /// Two schemes with four seeds each.
    fn points() -> Vec<Point> {
        let axes = "title = \"$scheme\"\naxes = { scheme = [\"tcp\", \"vcp\"], seed = [1, 2, 3, 4] }";
        Scenario::parse_network("x.toml", &format!("{axes}{NETWORK}")).unwrap().points()
    }

    #[test]
    fn late_packets_are_told_in_one_line_with_the_worst_run() {
        let runs = [run(Some(0.5e-3), 0.02), run(Some(2.5e-3), 0.1), run(Some(3.5e-3), 0.02), run(None, 0.0)];
        let warning = lateness(&runs.each_ref(), || true).unwrap();
        assert!(warning.starts_with("late packets in 2 of 4 runs") && warning.contains("3.5 ms"), "{warning}");
        assert_eq!(warning.lines().count(), 1);
        assert!(!warning.contains("priority"), "{warning}");
        let warning = lateness(&runs.each_ref(), || false).unwrap();
        assert!(warning.ends_with("or with real-time priority (rampmeter probe)"), "{warning}");
    }

    #[test]
    fn kinds_of_traffic_have_a_row_each_below_that_of_all() {
        let scenario = Scenario::parse_network("x.toml", NETWORK).unwrap();
        let flows = |completed| FlowSummary { completed, ..FlowSummary::default() };
        let one = Summary { point: scenario.points()[0].clone(), flows: flows(30), ..Summary::default() };
        let words = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let rows = |run: &Summary| figures(&scenario, &[run]).lines().skip(2).map(words).collect::<Vec<_>>();
        assert_eq!(rows(&one), [["1", "30", "0"]]);
        let traffic = [("web", 10), ("bulk", 20)].map(|(name, completed)| (name.into(), flows(completed)));
        let two = Summary { traffic: traffic.to_vec(), ..one };
        assert_eq!(rows(&two), [&["1", "all", "30", "0"][..], &["web", "10", "0"], &["bulk", "20", "0"]]);
    }

    #[test]
    fn what_hinders_flows_is_told_once_for_a_scheme_and_a_reason() {
        let hindered = |flows| HinderedSummary {
            why: "no codes".into(),
            scheme: "vcp".into(),
            first: "source.0 > sink.0".into(),
            flows,
        };
        let points = points();
        let run = |seed: usize, hindered| Summary { point: points[seed - 1].clone(), hindered, ..Summary::default() };
        let runs = [run(1, vec![hindered(3)]), run(2, Vec::new()), run(3, vec![hindered(1)])];
        let told = hindrances(&runs.each_ref());
        let expected =
            "vcp, source.0 > sink.0 and 3 more flows, at some time in 2 of 3 runs (seed = 1; seed = 3): no codes";
        assert_eq!(told, [expected]);
        let told = hindrances(&[&run(1, vec![hindered(1)])]);
        assert_eq!(told, ["vcp, source.0 > sink.0, at some time in 1 of 1 runs: no codes"]);
    }

    #[test]
    fn runs_are_named_by_the_axes_that_vary_three_at_most_or_else_the_first() {
        let run = |point| Summary { point, ..Summary::default() };
        let runs: Vec<Summary> = points().into_iter().map(run).collect();
        let runs: Vec<&Summary> = runs.iter().collect();
        let first =
            |count: usize, of: &[&Summary]| which(&of.iter().map(|run| &run.point).collect::<Vec<_>>()[..count], of);
        assert_eq!(first(1, &runs), " (scheme = \"tcp\", seed = 1)");
        assert_eq!(first(3, &runs[4..]), " (seed = 1; seed = 2; seed = 3)");
        assert_eq!(first(4, &runs), " (scheme = \"tcp\", seed = 1; 3 more)");
        assert_eq!(first(8, &runs), "");
    }

    #[test]
    fn packets_on_time_and_simulated_ones_are_no_news() {
        assert_eq!(lateness(&[&run(Some(1.9e-3), 0.02), &run(None, 0.0)], || true), None);
        assert!(lateness(&[&run(Some(0.3e-3), 0.002)], || true).is_some(), "more than a tenth of the round trip");
    }
}
