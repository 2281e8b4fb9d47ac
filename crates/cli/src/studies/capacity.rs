//! `rampmeter capacity`: draws the capacity of a link, or writes it as a trace. A link with a rate of its own may send in
//! each millisecond what that rate allows.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use rampmeter_router::capacity::{BYTES_PER_LINE, MAX_LINES, Opportunity, Trace};
use rampmeter_scenario::{LinkId, LinkPlan, Plan, Registries, Scenario, values};
use rampmeter_units::{Bytes, Duration, Known, Rate, Time};

use super::run::set_point;
use crate::failure::Failure;

/// The time of one character of the drawing, and the characters of one line.
const STEP: Duration = Duration::from_millis(100);
const WIDTH: usize = 100;

/// The longest drawing, in lines.
const MAX_DRAWN: usize = 60;

/// The arguments of `rampmeter capacity`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "The link is that of the scenario's first point. It may send the same in every run with that \
    seed, simulated and emulated.\n\n\
    Example:\n  rampmeter capacity lte-walking\n  rampmeter capacity FILE.toml --link bottleneck --length '60 s' --out lte.trace")]
pub(crate) struct Args {
    /// The scenario (docs/scenario.md explains the format), or a condition (rampmeter conditions)
    file: PathBuf,
    /// The link; NAME.reverse is its reverse direction [default: the first one whose capacity varies, or a
    /// measured one]
    #[arg(long, value_name = "NAME")]
    link: Option<String>,
    /// The length of the trace
    #[arg(long, value_name = "TIME", default_value = "60 s")]
    length: Duration,
    /// The file to write, instead of a drawing
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A value of an axis, or of a key such as link.bottleneck.rate, instead of its first one; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The same as --set seed=N
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub(crate) fn capacity(args: &Args, registries: &Registries) -> Result<ExitCode, Failure> {
    let mut scenario = Scenario::read_network(&args.file)?;
    set_point(&mut scenario, &args.set)?;
    if let Some(seed) = args.seed {
        scenario.set("seed", values(&seed.to_string()))?;
    }
    let plan = scenario.plan(&scenario.points()[0], registries)?;
    let (link, opportunities) = find(&plan, args.link.as_deref())?;
    match &args.out {
        Some(path) => {
            let trace = record(link, opportunities, args.length)?;
            std::fs::write(path, trace).map_err(|error| {
                let advice = "give --out a file in a directory that exists";
                Failure::failed(format!("{} cannot be written: {error}; {advice}", path.display()))
            })?;
        }
        None => print!("{}", draw(link, opportunities, args.length)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// An endless sequence of opportunities.
type Opportunities<'p> = Box<dyn Iterator<Item = Opportunity> + 'p>;

/// The link called `name`; or the first one whose capacity varies, or that is measured, or the first one.
fn find<'p>(plan: &'p Plan, name: Option<&str>) -> Result<(&'p LinkPlan, Opportunities<'p>), Failure> {
    let first = |is_wanted: fn(&LinkPlan) -> bool| plan.links.iter().position(is_wanted);
    let n = match name {
        None => (0..plan.links.len())
            .find(|n| plan.opportunities(LinkId(*n)).is_some())
            .or_else(|| first(|link| link.changes.iter().any(|change| change.rate.is_some())))
            .or_else(|| first(|link| link.measured))
            .unwrap_or(0),
        Some(name) => {
            let known = || Known::near(name, plan.links.iter().map(|link| link.name.as_str()));
            let n = plan.links.iter().position(|link| link.name == name);
            n.ok_or_else(|| Failure::input(format!("no link is called `{name}`; {}", known())))?
        }
    };
    let link = &plan.links[n];
    let refuse = |why: &str| Failure::input(format!("link `{}` {why}; choose another one with --link", link.name));
    match (plan.opportunities(LinkId(n)), &link.capacity) {
        (Some(mut opportunities), _) => Ok((link, Box::new(std::iter::from_fn(move || Some(opportunities.next()))))),
        (None, Some(_)) => Err(refuse("is a token bucket, whose capacity depends on what was sent")),
        (None, None) if link.config.rate == Rate::MAX => Err(refuse("has no limit to its rate")),
        (None, None) => Ok((link, Box::new(at_rate(link)))),
    }
}

/// What a link without a model or a trace may send in each millisecond, by its rate and its `changes`.
fn at_rate(link: &LinkPlan) -> impl Iterator<Item = Opportunity> {
    let step = Duration::from_millis(1);
    let mut unsent = 0; // bits that are no whole byte yet, times 1000
    let (mut start, mut rate) = (Time::ZERO, link.config.rate);
    let mut changes = link.changes.iter().peekable();
    std::iter::repeat_with(move || {
        while let Some(change) = changes.next_if(|change| change.at <= start) {
            rate = change.rate.unwrap_or(rate);
        }
        let sum = unsent + u128::from(rate.as_bps());
        unsent = sum % 8000;
        start += step;
        Opportunity { at: start, bytes: Bytes::new((sum / 8000) as u64), delay: Duration::ZERO }
    })
}

fn record(link: &LinkPlan, opportunities: Opportunities<'_>, length: Duration) -> Result<String, Failure> {
    let lines = link.config.rate.bytes_in(length).as_u64() / BYTES_PER_LINE.as_u64();
    if lines > MAX_LINES as u64 {
        let wrong = format!("{length} at {} are {lines} lines of 1500 bytes", link.config.rate);
        return Err(Failure::input(format!("{wrong}; use at most {MAX_LINES}: a shorter --length")));
    }
    let text = Trace::record(opportunities, length);
    match Trace::parse(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::input(format!("{length} are no trace: {}; use a longer --length", error.problem))),
    }
}

/// A line for each 10 s, with a character for the mean rate of each 100 ms.
fn draw(link: &LinkPlan, opportunities: Opportunities<'_>, length: Duration) -> Result<String, Failure> {
    let steps = length.as_nanos().div_ceil(STEP.as_nanos());
    if steps == 0 || steps > (WIDTH * MAX_DRAWN) as u64 {
        let longest = STEP * (WIDTH * MAX_DRAWN) as u64;
        return Err(Failure::input(format!(
            "a --length of {length} cannot be drawn; use up to {longest}, or --out FILE"
        )));
    }
    let mut bytes = vec![Bytes::ZERO; steps as usize];
    for Opportunity { at, bytes: more, .. } in opportunities {
        if at >= Time::ZERO + length {
            break;
        }
        bytes[(at.as_nanos() / STEP.as_nanos()) as usize] += more;
    }
    let max = bytes.iter().copied().max().unwrap_or_default();
    let sum = bytes.iter().copied().fold(Bytes::ZERO, |sum, bytes| sum + bytes);
    let [set, mean, peak] = [link.config.rate, Rate::of(sum, length), Rate::of(max, STEP)].map(rounded);
    let when = if link.capacity.is_some() { "on average" } else { "at first" };
    let mut text = format!("{}: {set} {when}, {mean} in this time, at most {peak} in {STEP}\n", link.name);
    for (line, bytes) in bytes.chunks(WIDTH).enumerate() {
        let bar: String = bytes.iter().map(|bytes| character(bytes.as_f64() / max.as_f64())).collect();
        let _ = writeln!(text, "{:>5} s {bar}", line * WIDTH / 10);
    }
    Ok(text)
}

/// A rate with three digits.
fn rounded(rate: Rate) -> Rate {
    let unit = 10_u64.pow(rate.as_bps().max(1).ilog10().saturating_sub(2));
    Rate::from_bps((rate.as_bps() + unit / 2) / unit * unit)
}

/// A bar of this height, from 0 to 1.
fn character(height: f64) -> char {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    BARS[((height * 8.0).round() as usize).min(8)]
}
