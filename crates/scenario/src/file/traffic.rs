//! `[[traffic]]`: the flows between two groups of hosts, their sizes and arrivals.

use rampmeter_manager::ServiceCurve;
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_workload::{AnyWorkload, registry};

use super::{File, SchemeSpec, no_duplicates};
use crate::TrafficPlan;
use crate::document::{Item, Lines, Section, Settings};
use crate::error::{Result, unknown};
use crate::errors::Errors;
use crate::keys;
use crate::sizes::{self, Distribution};

/// The maximum number of flows of one run; more are taken for a mistake.
pub(crate) const MAX_FLOWS: u64 = 1_000_000;

#[derive(Debug, Clone)]
pub(crate) struct TrafficSpec {
    pub(crate) lines: Lines,
    /// The part that plans take over.
    pub(crate) plan: TrafficPlan,
    pub(crate) scheme: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) pairs: Pairs,
    /// `None` for long-lived flows.
    pub(crate) size: Option<Size>,
    pub(crate) arrivals: Arrivals,
    /// The duration of a long-lived flow; `None` for the duration of the run.
    pub(crate) duration: Option<Duration>,
}

/// Which hosts of the two groups exchange data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// The i-th host with the i-th.
    Same,
    /// Any host with any other.
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Size {
    Bytes(Bytes),
    /// This many full packets.
    Packets(u64),
    /// Pareto distributed: mean and shape.
    Pareto(Bytes, f64),
    /// Drawn from a published distribution.
    Published(Distribution),
    /// Drawn by the workload, with this mean.
    OfWorkload(Bytes),
}

/// The start times of flows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arrivals {
    /// Single flows at random times, from `from` until `until`.
    Random { rate: ArrivalRate, gaps: Gaps, from: Time, until: Time },
    /// `count` flows at uniformly random times within `spread` after `from`; repeated every `every`.
    Group { count: u64, from: Time, spread: Duration, every: Option<Duration> },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ArrivalRate {
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
    pub(crate) fn read(section: &Section<'_>, duration: Duration) -> Result<Self> {
        section.only(&[&keys::names(&[keys::TRAFFIC])[..], registry::TABLES].concat())?;
        let name = section.need("name", "name = \"transfers\"")?.name()?.to_owned();
        let section = &section.called(format!("traffic `{name}`"));
        let scheme = section.need("scheme", "scheme = \"tcp\"")?.text()?.to_owned();
        let from = section.need("from", "from = \"source\"")?.name()?.to_owned();
        let to = section.need("to", "to = \"sink\"")?.name()?.to_owned();
        let pairs = [("same", Pairs::Same), ("any", Pairs::Any)];
        let advice = "use \"same\" (i-th with i-th) or \"any\"";
        let pairs = section.or("pairs", Pairs::Same, |item| item.one_of(&pairs, advice))?;
        let workload = workload(section)?;
        let size = match &workload {
            AnyWorkload::Representations(object) => object.representations.last().copied().map(Size::Bytes),
            _ => section.optional("size", size)?.or(workload.mean_transfer().map(Size::OfWorkload)),
        };
        let arrivals = section.need("arrivals", "arrivals = { count = 1 }")?;
        let own_duration = section.optional("duration", |item| match size {
            Some(_) => Err(item.error("`duration` of transfers; a transfer ends by itself: remove `duration`")),
            None => item.positive(),
        })?;
        let arrivals = read_arrivals(&arrivals, size.is_some(), duration)?;
        let weight = section.or("weight", 1.0, |item| item.number(1e-3, 1e3, "a weight from 0.001 to 1000"))?;
        let curve = section.optional("curve", curve)?;
        let measured = section.or("measure", true, Item::boolean)?;
        let plan = TrafficPlan { name, weight, curve, workload, measured };
        Ok(Self { lines: section.lines(), plan, scheme, from, to, pairs, arrivals, size, duration: own_duration })
    }
}

/// The workload that the section's keys choose; bulk data if it has none of them.
fn workload(section: &Section<'_>) -> Result<AnyWorkload> {
    let mut chosen = ["size", "datagrams"].iter().chain(registry::TABLES).filter_map(|key| section.get(key));
    let item = chosen.next();
    if let (Some(first), Some(second)) = (&item, chosen.next()) {
        let wrong = format!("`{}` and `{}` in one kind of traffic", first.key, second.key);
        return Err(second.error(format!("{wrong}; each chooses a workload: remove one of them")));
    }
    let encodings = section.get("encodings");
    let (name, settings) = match (item, &encodings) {
        (Some(item), _) if item.key == "datagrams" => {
            let name = if encodings.is_some() { "audio" } else { "datagrams" };
            (name, Settings::of(section, |key| key == "datagrams" || key == "encodings")?)
        }
        (_, Some(encodings)) => {
            return Err(encodings.error("`encodings` without `datagrams`; write datagrams = \"1000 B\""));
        }
        (Some(item), None) if item.key == "size" => {
            let settings = if item.is_table() { Settings::read(&item)? } else { Settings::default() };
            let several = settings.table.contains_key("representations");
            if several { ("representations", settings) } else { ("transfer", Settings::default()) }
        }
        (Some(item), None) => (item.key, Settings::read(&item)?),
        (None, None) => ("bulk", Settings::default()),
    };
    AnyWorkload::read(name, &settings.table).map_err(|error| settings.place_of(&error).error(error))
}

fn curve(item: &Item<'_>) -> Result<ServiceCurve> {
    if !item.is_table() {
        let advice = "write { m1 = \"1.6 Mb/s\", d = \"5 ms\", m2 = \"320 kb/s\" }, or { m2 = \"1 Mb/s\" }";
        return Err(item.error(format!("`curve` is not a table; {advice}")));
    }
    let section = item.section("`curve`")?;
    section.keys(&[keys::CURVE])?;
    let m2 = section.need("m2", "m2 = \"320 kb/s\"")?.positive()?;
    match (section.get("m1"), section.get("d")) {
        (Some(m1), Some(d)) => Ok(ServiceCurve { m1: m1.quantity()?, d: d.positive()?, m2 }),
        (None, None) => Ok(ServiceCurve::linear(m2)),
        (Some(alone), None) | (None, Some(alone)) => {
            let advice = "give it both or neither: the curve has slope `m1` for the time `d`, and `m2` afterwards";
            Err(alone.error(format!("`curve` has only `{}`; {advice}", alone.key)))
        }
    }
}

fn size(item: &Item<'_>) -> Result<Size> {
    if !item.is_table() {
        return Ok(Size::Bytes(item.positive()?));
    }
    let section = item.section("`size`")?;
    if let Some(packets) = section.get("packets") {
        section.only(&["packets"])?;
        return Ok(Size::Packets(packets.count(1..=1_000_000_000)?));
    }
    if let Some(name) = section.get("distribution") {
        section.only(&["distribution"])?;
        let names = sizes::ALL.map(|(name, _)| format!("\"{name}\"")).join(", ");
        return Ok(Size::Published(name.one_of(&sizes::ALL, &format!("use one of {names}"))?));
    }
    section.keys(&[keys::SIZE])?;
    let mean = section.need("mean", "mean = \"250 kB\"")?.positive()?;
    Ok(Size::Pareto(mean, shape(&section.need("pareto", "pareto = 1.25")?)?))
}

/// The shape of a Pareto distribution.
fn shape(item: &Item<'_>) -> Result<f64> {
    item.number(1.0 + f64::EPSILON, 1e6, "a shape above 1 (at 1 the mean is infinite), for example 1.25")
}

fn read_arrivals(item: &Item<'_>, sized: bool, duration: Duration) -> Result<Arrivals> {
    let section = item.section("`arrivals`")?;
    section.keys(&[keys::ARRIVALS])?;
    let end = Time::ZERO + duration;
    let instant = |item: &Item<'_>| match item.quantity()? {
        at if at > duration => {
            let wrong = format!("`{}` is {at}, after the end at {duration}", item.key);
            Err(item.error(format!("{wrong}; nothing would start: make it earlier")))
        }
        at => Ok(Time::ZERO + at),
    };
    let from = section.or("at", Time::ZERO, instant)?;
    let found = ["per_second", "load", "count"].into_iter().filter_map(|key| section.get(key)).collect::<Vec<_>>();
    let &[kind] = found.as_slice() else {
        let advice = "per_second = 12, or load = 0.6 and of = \"bottleneck\", or count = 30";
        return Err(item.error(format!("arrivals need one of `per_second`, `load` and `count`; {advice}")));
    };
    let only = |allowed: &[&str]| match section.items().find(|item| !allowed.contains(&item.key)) {
        None => Ok(()),
        Some(item) => {
            let known = allowed.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            Err(item.error(format!("`{}` does not go with `{}`; use {known}", item.key, kind.key)))
        }
    };
    if kind.key == "count" {
        only(&["count", "at", "spread", "every"])?;
        let spread = section.or("spread", Duration::ZERO, |item| match item.quantity()? {
            spread if from + spread > end => {
                let wrong = format!("`spread` of {spread} has flows start after the end at {duration}");
                Err(item.error(format!("{wrong}; make it shorter")))
            }
            spread => Ok(spread),
        })?;
        let (count, every) = (kind.count(0..=MAX_FLOWS)?, section.optional("every", Item::positive)?);
        return Ok(Arrivals::Group { count, from, spread, every });
    }
    let rate = if kind.key == "per_second" {
        only(&["per_second", "gaps", "at", "until"])?;
        ArrivalRate::PerSecond(kind.number(0.0, 1e9, "flows per second, 0 or more")?)
    } else {
        only(&["load", "of", "gaps", "at", "until"])?;
        if !sized {
            let advice = "give the traffic a `size`, or use `per_second` or `count`";
            return Err(kind.error(format!("`load` of flows without a size; {advice}")));
        }
        let share = kind.number(0.0, 100.0, "a share of the link's rate, 0 or more: 0.6")?;
        ArrivalRate::Load(share, section.need("of", "of = \"bottleneck\"")?.text()?.to_owned())
    };
    let gaps = section.or("gaps", Gaps::Poisson, gaps)?;
    Ok(Arrivals::Random { rate, gaps, from, until: section.or("until", end, instant)? })
}

fn gaps(item: &Item<'_>) -> Result<Gaps> {
    if !item.is_table() {
        return item.one_of(&[("poisson", Gaps::Poisson)], "use \"poisson\" or { pareto = 1.2 }");
    }
    let section = item.section("`gaps`")?;
    section.keys(&[keys::GAPS])?;
    Ok(Gaps::Pareto(shape(&section.need("pareto", "pareto = 1.2")?)?))
}

impl File {
    pub(super) fn check_traffic(&self, errors: &mut Errors) {
        let names = self.traffic.iter().map(|traffic| (&traffic.plan.name, traffic.lines.of("name")));
        errors.keep(no_duplicates("kinds of traffic", names));
        for traffic in &self.traffic {
            // Each is checked as far as what it names could be read.
            if !errors.is_lost(&traffic.scheme) {
                errors.keep(self.check_scheme(traffic, errors));
            }
            if ![&traffic.from, &traffic.to].into_iter().any(|hosts| errors.is_lost(hosts)) {
                errors.keep(self.check_hosts(traffic));
            }
            if let Arrivals::Random { rate: ArrivalRate::Load(_, of), .. } = &traffic.arrivals
                && !errors.is_lost(of.trim_end_matches(".reverse"))
            {
                errors.keep(self.check_link(of, traffic.lines.of("arrivals")));
            }
        }
    }

    fn check_scheme(&self, traffic: &TrafficSpec, errors: &Errors) -> Result<()> {
        let TrafficSpec { lines, plan: TrafficPlan { name, workload, curve, .. }, .. } = traffic;
        let refuse = |key, wrong: String| Err(lines.of(key).error(wrong));
        let Some(scheme) = self.schemes.iter().find(|scheme| scheme.name == traffic.scheme) else {
            let known = self.schemes.iter().map(|scheme| scheme.name.as_str());
            return refuse("scheme", unknown("scheme", &traffic.scheme, known));
        };
        if let Some((what, sender)) = workload.needs_manager().zip(scheme.foreign_sender()) {
            let why = format!("traffic `{name}` {what} by a scheme of {sender}");
            let remedy = format!("{sender} has no Congestion Manager: give it another scheme");
            return Err(lines.of("scheme").cannot_send(why, &remedy));
        }
        // A curve needs one scheme with h-fsc in the file; other schemes of a comparison ignore it.
        if curve.is_some() && !errors.has_lost() && !self.schemes.iter().any(SchemeSpec::guarantees) {
            let settings = "macroflow = \"destination\" and scheduler = \"h-fsc\"";
            let advice = format!("give [scheme.{}] {settings}, or remove it", traffic.scheme);
            return refuse("curve", format!("traffic `{name}` has a `curve`, and no scheme uses it; {advice}"));
        }
        Ok(())
    }

    fn check_hosts(&self, traffic: &TrafficSpec) -> Result<()> {
        let TrafficSpec { lines, plan: TrafficPlan { name, .. }, from, to, pairs, .. } = traffic;
        let refuse = |key, wrong: String| Err(lines.of(key).error(wrong));
        let count = |key, name: &String| {
            let known = || self.hosts.iter().map(|hosts| hosts.name.as_str());
            let hosts = self.hosts.iter().find(|hosts| hosts.name == *name);
            hosts.map(|hosts| hosts.count).ok_or_else(|| lines.of(key).error(unknown("group of hosts", name, known())))
        };
        let (senders, receivers) = (count("from", from)?, count("to", to)?);
        if *pairs == Pairs::Same && from == to {
            let advice = "name two groups, or use pairs = \"any\"";
            return refuse("to", format!("traffic `{name}` goes from `{from}` to itself; {advice}"));
        }
        if from == to && senders < 2 {
            let wrong = format!("traffic `{name}` goes between the hosts of `{from}`, of which there is one");
            return refuse("to", format!("{wrong}; give the group a count of 2 or more"));
        }
        if *pairs == Pairs::Same && senders != receivers {
            let wrong = format!("there are {senders} hosts `{from}` and {receivers} hosts `{to}` to pair");
            return refuse("to", format!("{wrong}; give both groups the same count, or use pairs = \"any\""));
        }
        Ok(())
    }
}
