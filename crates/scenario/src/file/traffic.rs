//! `[[traffic]]`: the flows between two groups of hosts, their sizes and arrivals.

use rampmeter_manager::ServiceCurve;
use rampmeter_units::{Bytes, Duration, RegistryError, Time};
use rampmeter_workload::{AnyWorkload, registry};

use super::{File, SchemeSpec, no_duplicates};
use crate::document::{Item, Lines, Section, Settings, Source};
use crate::error::{Problem, ScenarioError};

/// The maximum number of flows of one run; more are taken for a mistake.
pub(crate) const MAX_FLOWS: u64 = 1_000_000;

/// A kind of traffic.
#[derive(Debug, Clone)]
pub(crate) struct TrafficSpec {
    pub(crate) lines: Lines,
    pub(crate) name: String,
    pub(crate) scheme: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) pairs: Pairs,
    /// `None` for long-lived flows.
    pub(crate) size: Option<Size>,
    pub(crate) arrivals: Arrivals,
    /// The duration of a long-lived flow; `None` for the duration of the run.
    pub(crate) lasts: Option<Duration>,
    /// The weight of its flows in their macroflows.
    pub(crate) weight: f64,
    /// The service curve of each of its flows, and the line that sets it.
    pub(crate) curve: Option<(ServiceCurve, usize)>,
    /// The workload of its flows' applications.
    pub(crate) workload: AnyWorkload,
    pub(crate) measured: bool,
}

/// Which hosts of the two groups exchange data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// The i-th host with the i-th.
    Same,
    /// Any host with any other.
    Any,
}

/// The size of a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Size {
    Bytes(Bytes),
    /// This many full packets.
    Packets(u64),
    /// Pareto distributed: mean and shape.
    Pareto(Bytes, f64),
}

/// The start times of flows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arrivals {
    /// Single flows at random times, from `from` until `until`.
    Random { rate: ArrivalRate, gaps: Gaps, from: Time, until: Time },
    /// `count` flows at uniformly random times within `spread` after `from`; repeated every `every`.
    Group { count: u64, from: Time, spread: Duration, every: Option<Duration> },
}

/// The arrival rate of flows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ArrivalRate {
    /// Flows per second.
    PerSecond(f64),
    /// The arrival rate that offers this share of the rate of the link of this name.
    Load(f64, String),
}

/// The distribution of the time between two arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Gaps {
    Poisson,
    /// Pareto distributed, with this shape.
    Pareto(f64),
}

impl TrafficSpec {
    pub(crate) fn read(section: &Section<'_>, duration: Duration) -> Result<Self, ScenarioError> {
        let known = [
            "name",
            "scheme",
            "from",
            "to",
            "pairs",
            "size",
            "arrivals",
            "lasts",
            "weight",
            "curve",
            "datagrams",
            "encodings",
            "measure",
        ];
        section.keys(&[&known, registry::TABLES].concat())?;
        let name = section.need("name", "name = \"transfers\"")?.name()?.to_owned();
        let section = &section.called(format!("traffic `{name}`"));
        let scheme = section.need("scheme", "scheme = \"tcp\"")?.text()?.to_owned();
        let from = section.need("from", "from = \"source\"")?.name()?.to_owned();
        let to = section.need("to", "to = \"sink\"")?.name()?.to_owned();
        let pairs = [("same", Pairs::Same), ("any", Pairs::Any)];
        let advice = "use \"same\" (i-th with i-th) or \"any\"";
        let pairs = section.get("pairs").map_or(Ok(Pairs::Same), |item| item.one_of(&pairs, advice))?;
        let workload = workload(section)?;
        let size = match &workload {
            AnyWorkload::Representations(object) => object.representations.last().copied().map(Size::Bytes),
            _ => section.get("size").map(|item| size(&item)).transpose()?,
        };
        let arrivals = section.need("arrivals", "arrivals = { count = 1 }")?;
        let lasts = match section.get("lasts") {
            Some(item) if size.is_some() => {
                let problem = Problem::impossible("`lasts` with a `size`", "a transfer ends by itself: remove one");
                return Err(item.error(problem));
            }
            item => item.map(|item| item.positive()).transpose()?,
        };
        Ok(Self {
            lines: section.lines(),
            name,
            scheme,
            from,
            to,
            pairs,
            arrivals: read_arrivals(&arrivals, size.is_some(), duration)?,
            size,
            lasts,
            weight: section
                .get("weight")
                .map_or(Ok(1.0), |item| item.number(1e-3, 1e3, "a weight from 0.001 to 1000"))?,
            curve: section.get("curve").map(|item| Ok((curve(&item)?, item.line()))).transpose()?,
            workload,
            measured: section.get("measure").map_or(Ok(true), |item| item.boolean())?,
        })
    }
}

/// The workload that the section's keys choose; bulk data if it has none of them.
fn workload(section: &Section<'_>) -> Result<AnyWorkload, ScenarioError> {
    let mut chosen = ["size", "datagrams"].iter().chain(registry::TABLES).filter_map(|key| section.get(key));
    let item = chosen.next();
    if let (Some(first), Some(second)) = (&item, chosen.next()) {
        let what = format!("`{}` and `{}` in one kind of traffic", first.key, second.key);
        return Err(second.error(Problem::impossible(what, "each chooses a workload: remove one of them")));
    }
    let encodings = section.get("encodings");
    let (name, settings) = match (item, &encodings) {
        (Some(item), _) if item.key == "datagrams" => {
            let name = if encodings.is_some() { "audio" } else { "datagrams" };
            (name, Settings::of(section, |key| key == "datagrams" || key == "encodings")?)
        }
        (_, Some(encodings)) => {
            let advice = "write datagrams = \"1000 B\"";
            return Err(encodings.error(Problem::impossible("`encodings` without `datagrams`", advice)));
        }
        (Some(item), None) if item.key == "size" => {
            let settings = if item.is_table() { Settings::read(&item)? } else { Settings::default() };
            let several = settings.table.contains_key("representations");
            if several { ("representations", settings) } else { ("transfer", Settings::default()) }
        }
        (Some(item), None) => (item.key, Settings::read(&item)?),
        (None, None) => ("bulk", Settings::default()),
    };
    let refuse = |error: RegistryError| section.error_at(settings.line_of(&error.to_string()), error);
    AnyWorkload::read(name, &settings.table).map_err(refuse)
}

fn curve(item: &Item<'_>) -> Result<ServiceCurve, ScenarioError> {
    if !item.is_table() {
        let advice = "write { m1 = \"1.6 Mb/s\", d = \"5 ms\", m2 = \"320 kb/s\" }, or { m2 = \"1 Mb/s\" }";
        return Err(item.error(Problem::impossible("`curve` is not a table", advice)));
    }
    let section = item.section("`curve`")?;
    section.keys(&["m1", "d", "m2"])?;
    let m2 = section.need("m2", "m2 = \"320 kb/s\"")?.positive()?;
    match (section.get("m1"), section.get("d")) {
        (Some(m1), Some(d)) => Ok(ServiceCurve { m1: m1.quantity()?, d: d.positive()?, m2 }),
        (None, None) => Ok(ServiceCurve::linear(m2)),
        (Some(alone), None) | (None, Some(alone)) => {
            let what = format!("`curve` has only `{}`", alone.key);
            let advice = "give it both or neither: the curve has slope `m1` for the time `d`, and `m2` afterwards";
            Err(alone.error(Problem::impossible(what, advice)))
        }
    }
}

fn size(item: &Item<'_>) -> Result<Size, ScenarioError> {
    if !item.is_table() {
        return Ok(Size::Bytes(item.positive()?));
    }
    let section = item.section("`size`")?;
    if let Some(packets) = section.get("packets") {
        section.keys(&["packets"])?;
        return Ok(Size::Packets(packets.count(1..=1_000_000_000)?));
    }
    section.keys(&["packets", "mean", "pareto"])?;
    let mean = section.need("mean", "mean = \"250 kB\"")?.positive()?;
    Ok(Size::Pareto(mean, shape(&section.need("pareto", "pareto = 1.25")?)?))
}

/// The shape of a Pareto distribution.
fn shape(item: &Item<'_>) -> Result<f64, ScenarioError> {
    item.number(1.0 + f64::EPSILON, 1e6, "a shape above 1 (at 1 the mean is infinite), for example 1.25")
}

const ARRIVALS: &str = "arrivals need one of `per_second`, `load` and `count`";

fn read_arrivals(item: &Item<'_>, sized: bool, duration: Duration) -> Result<Arrivals, ScenarioError> {
    let section = item.section("`arrivals`")?;
    section.keys(&["per_second", "load", "of", "gaps", "at", "until", "count", "spread", "every"])?;
    let end = Time::ZERO + duration;
    let instant = |key, default| match section.get(key) {
        None => Ok(default),
        Some(item) => {
            let at = Time::ZERO + item.quantity()?;
            if at > end {
                let what = format!("`{key}` is {}, after the end at {duration}", at.since(Time::ZERO));
                return Err(item.error(Problem::impossible(what, "nothing would start: make it earlier")));
            }
            Ok(at)
        }
    };
    let from = instant("at", Time::ZERO)?;
    let found = ["per_second", "load", "count"].into_iter().filter_map(|key| section.get(key)).collect::<Vec<_>>();
    let &[kind] = found.as_slice() else {
        let advice = "per_second = 12, or load = 0.6 and of = \"bottleneck\", or count = 30";
        return Err(item.error(Problem::impossible(ARRIVALS, advice)));
    };
    let only = |allowed: &[&str]| match section.items().find(|item| !allowed.contains(&item.key)) {
        None => Ok(()),
        Some(item) => {
            let what = format!("`{}` does not go with `{}`", item.key, kind.key);
            let known = allowed.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            Err(item.error(Problem::impossible(what, format!("use {known}"))))
        }
    };
    if kind.key == "count" {
        only(&["count", "at", "spread", "every"])?;
        let spread = section.get("spread").map_or(Ok(Duration::ZERO), |item| item.quantity())?;
        if from + spread > end {
            let what = format!("`spread` of {spread} has flows start after the end at {duration}");
            return Err(item.error(Problem::impossible(what, "make it shorter")));
        }
        return Ok(Arrivals::Group {
            count: kind.count(0..=MAX_FLOWS)?,
            from,
            spread,
            every: section.get("every").map(|item| item.positive()).transpose()?,
        });
    }
    let rate = if kind.key == "per_second" {
        only(&["per_second", "gaps", "at", "until"])?;
        ArrivalRate::PerSecond(kind.number(0.0, 1e9, "flows per second, 0 or more")?)
    } else {
        only(&["load", "of", "gaps", "at", "until"])?;
        if !sized {
            let advice = "give the traffic a `size`, or use `per_second` or `count`";
            return Err(kind.error(Problem::impossible("`load` of flows without a size", advice)));
        }
        let share = kind.number(0.0, 100.0, "a share of the link's rate, 0 or more: 0.6")?;
        ArrivalRate::Load(share, section.need("of", "of = \"bottleneck\"")?.text()?.to_owned())
    };
    let gaps = section.get("gaps").map_or(Ok(Gaps::Poisson), |item| gaps(&item))?;
    Ok(Arrivals::Random { rate, gaps, from, until: instant("until", end)? })
}

fn gaps(item: &Item<'_>) -> Result<Gaps, ScenarioError> {
    if item.is_table() {
        let section = item.section("`gaps`")?;
        section.keys(&["pareto"])?;
        return Ok(Gaps::Pareto(shape(&section.need("pareto", "pareto = 1.2")?)?));
    }
    match item.text()? {
        "poisson" => Ok(Gaps::Poisson),
        other => {
            let what = format!("`gaps` is \"{other}\"");
            Err(item.error(Problem::impossible(what, "use \"poisson\" or { pareto = 1.2 }")))
        }
    }
}

impl File {
    pub(super) fn check_traffic(&self, source: Source<'_>) -> Result<(), ScenarioError> {
        let names = self.traffic.iter().map(|traffic| (traffic.name.as_str(), traffic.lines.of("name")));
        no_duplicates(source, "kinds of traffic", names)?;
        for traffic in &self.traffic {
            let error = |key, problem| Err(source.error(traffic.lines.of(key), problem));
            let known = || self.schemes.iter().map(|scheme| scheme.name.as_str());
            if !known().any(|name| name == traffic.scheme) {
                return error("scheme", Problem::unknown("scheme", &traffic.scheme, known()));
            }
            let is_kernel_scheme = self.schemes.iter().any(|s| s.name == traffic.scheme && !s.is_rampmeter());
            if let Some(what) = traffic.workload.needs_manager().filter(|_| is_kernel_scheme) {
                let what = format!("traffic `{}` {what} by a scheme of the kernel", traffic.name);
                let advice = "the kernel has no Congestion Manager: give it another scheme";
                return error("scheme", Problem::impossible(what, advice));
            }
            let mut counts = [0; 2];
            for (count, (key, name)) in counts.iter_mut().zip([("from", &traffic.from), ("to", &traffic.to)]) {
                let Some(hosts) = self.hosts.iter().find(|hosts| hosts.name == *name) else {
                    let known = self.hosts.iter().map(|hosts| hosts.name.as_str());
                    return error(key, Problem::unknown("group of hosts", name, known));
                };
                *count = hosts.count;
            }
            let (from, to) = (&traffic.from, &traffic.to);
            if traffic.pairs == Pairs::Same && from == to {
                let what = format!("traffic `{}` goes from `{from}` to itself", traffic.name);
                return error("to", Problem::impossible(what, "name two groups, or use pairs = \"any\""));
            }
            if from == to && counts[0] < 2 {
                let what =
                    format!("traffic `{}` goes between the hosts of `{from}`, of which there is one", traffic.name);
                return error("to", Problem::impossible(what, "give the group a count of 2 or more"));
            }
            if traffic.pairs == Pairs::Same && counts[0] != counts[1] {
                let what = format!("there are {} hosts `{from}` and {} hosts `{to}` to pair", counts[0], counts[1]);
                return error(
                    "to",
                    Problem::impossible(what, "give both groups the same count, or use pairs = \"any\""),
                );
            }
            // A curve needs one scheme with h-fsc in the file; other schemes of a comparison ignore it.
            if let Some((_, line)) = traffic.curve.filter(|_| !self.schemes.iter().any(SchemeSpec::guarantees)) {
                let what = format!("traffic `{}` has a `curve`, and no scheme uses it", traffic.name);
                let advice = format!(
                    "give [scheme.{}] macroflow = \"destination\" and scheduler = \"h-fsc\", or remove it",
                    traffic.scheme
                );
                return Err(source.error(line, Problem::impossible(what, advice)));
            }
            if let Arrivals::Random { rate: ArrivalRate::Load(_, of), .. } = &traffic.arrivals {
                let names = self.links.iter().flat_map(|link| link.directions().map(|(name, _)| name));
                let names: Vec<String> = names.collect();
                if !names.contains(of) {
                    return error("arrivals", Problem::unknown("link", of, names.iter().map(String::as_str)));
                }
            }
        }
        Ok(())
    }
}
