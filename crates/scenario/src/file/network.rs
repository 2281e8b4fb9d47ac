//! `[[link]]` and `[[hosts]]`: routers, the links between them and their hosts.

use rampmeter_router::{EcnPassage, LinkConfig, Loss};
use rampmeter_transport::Clock;
use rampmeter_units::{Duration, Ecn, Rate, Time};

use super::{File, no_duplicates};
use crate::document::{Item, Lines, Section, Settings, Source};
use crate::error::{Problem, ScenarioError};
use crate::{Change, Stalls};

/// The maximum number of hosts of one group.
const MAX_HOSTS: u64 = 100_000;

/// The maximum delay of a link. A longer one is taken for a mistake.
const MAX_DELAY: Duration = Duration::from_secs(3600);

/// The minimum length and interval of stalls.
const MIN_STALL: Duration = Duration::from_micros(1);

/// A link between two routers.
#[derive(Debug, Clone)]
pub(crate) struct LinkSpec {
    lines: Lines,
    pub(crate) name: String,
    pub(crate) ends: [String; 2],
    pub(crate) forward: DirectionSpec,
    /// The reverse direction; `None` if the link is one-way.
    pub(crate) reverse: Option<DirectionSpec>,
}

/// One direction of a link.
#[derive(Debug, Clone)]
pub(crate) struct DirectionSpec {
    pub(crate) config: LinkConfig,
    pub(crate) ecn: EcnPassage,
    pub(crate) router: RouterSpec,
    pub(crate) changes: Vec<Change>,
    pub(crate) measured: bool,
}

/// A router's kind and settings in the file.
#[derive(Debug, Clone)]
pub(crate) struct RouterSpec {
    pub(crate) kind: String,
    pub(crate) settings: Settings,
}

/// A group of hosts, each with its own access link.
#[derive(Debug, Clone)]
pub(crate) struct HostsSpec {
    lines: Lines,
    pub(crate) name: String,
    pub(crate) count: u64,
    pub(crate) at: String,
    pub(crate) rate: Rate,
    /// The delays of the first and the last host of the group.
    pub(crate) delay: (Duration, Duration),
    pub(crate) router: Option<RouterSpec>,
    pub(crate) clock: Clock,
    pub(crate) stalls: Option<Stalls>,
}

impl LinkSpec {
    pub(crate) fn read(section: &Section<'_>, end: Duration) -> Result<Self, ScenarioError> {
        section.keys(&[
            "name", "between", "one_way", "rate", "delay", "router", "loss", "ecn", "changes", "measure", "reverse",
        ])?;
        let name = section.need("name", "name = \"bottleneck\"")?.name()?.to_owned();
        let section = &section.called(format!("link `{name}`"));
        let between = section.need("between", "between = [\"left\", \"right\"]")?;
        let ends = between.list()?.iter().map(Item::name).collect::<Result<Vec<_>, _>>()?;
        let &[a, b] = ends.as_slice() else {
            let what = format!("`between` names {} routers", ends.len());
            return Err(between.error(Problem::impossible(what, "a link has two ends: [\"left\", \"right\"]")));
        };
        if a == b {
            let what = format!("`between` names `{a}` twice");
            return Err(between.error(Problem::impossible(what, "a link joins two different routers")));
        }
        section.need("rate", "rate = \"40 Mb/s\"")?;
        section.need("delay", "delay = \"10 ms\"")?;
        section.need("router", "router = { kind = \"drop-tail\", packets = 100 }")?;
        let one_way = section.get("one_way").map_or(Ok(false), |item| item.boolean())?;
        let forward = DirectionSpec::read(section, end, None)?;
        let reverse = match section.get("reverse") {
            None => (!one_way).then(|| DirectionSpec { measured: false, ..forward.clone() }),
            Some(item) if one_way => {
                let problem = Problem::impossible("`reverse` on a link with one_way = true", "remove one of the two");
                return Err(item.error(problem));
            }
            Some(item) => {
                let section = item.section(&format!("`reverse` of link `{name}`"))?;
                section.keys(&["rate", "delay", "router", "loss", "ecn", "changes", "measure"])?;
                Some(DirectionSpec::read(&section, end, Some(&forward))?)
            }
        };
        Ok(Self { lines: section.lines(), ends: [a.to_owned(), b.to_owned()], name, forward, reverse })
    }

    /// Both directions with their names.
    pub(crate) fn directions(&self) -> impl Iterator<Item = (String, &DirectionSpec)> {
        let reverse = self.reverse.as_ref().map(|direction| (format!("{}.reverse", self.name), direction));
        std::iter::once((self.name.clone(), &self.forward)).chain(reverse)
    }
}

impl DirectionSpec {
    /// Reads one direction of a link in a run that ends at `end`. Values that are omitted are taken from `other`,
    /// except `measure`.
    fn read(section: &Section<'_>, end: Duration, other: Option<&Self>) -> Result<Self, ScenarioError> {
        let unset = LinkConfig { rate: Rate::ZERO, delay: Duration::ZERO, loss: Loss::default() };
        let mut config = other.map_or(unset, |other| other.config);
        if let Some(item) = section.get("rate") {
            config.rate = item.positive()?;
        }
        if let Some(item) = section.get("delay") {
            config.delay = delay(&item)?;
        }
        if let Some(item) = section.get("loss") {
            config.loss = loss(&item)?;
        }
        let ecn = match section.get("ecn") {
            Some(item) => ecn(&item)?,
            None => other.map_or(EcnPassage::Kept, |other| other.ecn),
        };
        let router = match (section.get("router"), other) {
            (Some(item), _) => RouterSpec::read(&item)?,
            (None, Some(other)) => other.router.clone(),
            (None, None) => RouterSpec::unlimited(),
        };
        let changes = match (section.get("changes"), other) {
            (Some(item), _) => changes(&item, end)?,
            (None, Some(other)) => other.changes.clone(),
            (None, None) => Vec::new(),
        };
        let measured = section.get("measure").map_or(Ok(false), |item| item.boolean())?;
        Ok(Self { config, ecn, router, changes, measured })
    }
}

fn loss(item: &Item<'_>) -> Result<Loss, ScenarioError> {
    if !item.is_table() {
        let advice = "write { per_packet = 0.01 } or { per_bit = 1e-6 }";
        return Err(item.error(Problem::impossible("`loss` is not a table", advice)));
    }
    let section = item.section("`loss`")?;
    section.keys(&["per_packet", "per_bit"])?;
    let probability = |key| {
        section
            .get(key)
            .map_or(Ok(0.0), |item| item.number(0.0, 1.0, "a probability from 0 to below 1, for example 0.01"))
    };
    Ok(Loss { per_packet: probability("per_packet")?, per_bit: probability("per_bit")? })
}

fn ecn(item: &Item<'_>) -> Result<EcnPassage, ScenarioError> {
    Ok(match item.text()? {
        "kept" => EcnPassage::Kept,
        "not-ect" => EcnPassage::SetTo(Ecn::NotEct),
        "ect1" => EcnPassage::SetTo(Ecn::Ect1),
        "ect0" => EcnPassage::SetTo(Ecn::Ect0),
        "ce" => EcnPassage::SetTo(Ecn::Ce),
        other => {
            let advice =
                "write \"kept\", or the code that all packets arrive with: \"not-ect\", \"ect0\", \"ect1\" or \"ce\"";
            return Err(item.error(Problem::impossible(format!("`ecn` is `{other}`"), advice)));
        }
    })
}

fn changes(item: &Item<'_>, end: Duration) -> Result<Vec<Change>, ScenarioError> {
    let read = |item: &Item<'_>| {
        let section = item.section("an entry of `changes`")?;
        section.keys(&["at", "rate", "delay", "ecn"])?;
        let at: Duration = section.need("at", "at = \"4 s\"")?.quantity()?;
        if at >= end {
            let what = format!("this entry of `changes` is for {at}, after the end of the run");
            return Err(item.error(Problem::impossible(what, "make it earlier, or `duration` longer")));
        }
        let rate = section.get("rate").map(|item| item.positive()).transpose()?;
        let delay = section.get("delay").map(|item| delay(&item)).transpose()?;
        let ecn = section.get("ecn").map(|item| ecn(&item)).transpose()?;
        if rate.is_none() && delay.is_none() && ecn.is_none() {
            let advice = "give it a rate, a delay or an `ecn`";
            let problem = Problem::impossible("this entry of `changes` changes nothing", advice);
            return Err(item.error(problem));
        }
        Ok(Change { at: Time::ZERO + at, rate, delay, ecn })
    };
    let mut changes = item.list()?.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    changes.sort_by_key(|change| change.at);
    if let Some(pair) = changes.windows(2).find(|pair| pair[0].at == pair[1].at) {
        let what = format!("two entries of `changes` are for {}", pair[0].at);
        return Err(item.error(Problem::impossible(what, "make them one")));
    }
    Ok(changes)
}

impl RouterSpec {
    pub(crate) fn read(item: &Item<'_>) -> Result<Self, ScenarioError> {
        let kind = item.section(&format!("`{}`", item.key))?.need("kind", "kind = \"drop-tail\"")?.text()?.to_owned();
        let mut settings = Settings::read(item)?;
        settings.table.remove("kind");
        Ok(Self { kind, settings })
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.settings.table == other.settings.table
    }

    /// A queue without limit: the default of access links.
    pub(crate) fn unlimited() -> Self {
        Self { kind: "drop-tail".into(), settings: Settings::default() }
    }
}

impl HostsSpec {
    pub(crate) fn read(section: &Section<'_>) -> Result<Self, ScenarioError> {
        section.keys(&["name", "count", "at", "rate", "delay", "router", "clock", "stalls"])?;
        let name = section.need("name", "name = \"source\"")?.name()?.to_owned();
        let section = &section.called(format!("hosts `{name}`"));
        Ok(Self {
            lines: section.lines(),
            name,
            count: section.get("count").map_or(Ok(1), |item| item.count(1..=MAX_HOSTS))?,
            at: section.need("at", "at = \"left\"")?.name()?.to_owned(),
            rate: section.need("rate", "rate = \"1 Gb/s\"")?.positive()?,
            delay: delays(&section.need("delay", "delay = \"1 ms\"")?)?,
            router: section.get("router").map(|item| RouterSpec::read(&item)).transpose()?,
            clock: section.get("clock").map_or(Ok(Clock::default()), |item| clock(&item))?,
            stalls: section.get("stalls").map(|item| stalls(&item)).transpose()?,
        })
    }

    /// The delay of host `i`: the middle of the `i`-th of `count` equal parts of the range.
    pub(crate) fn delay_of(&self, i: u64) -> Duration {
        let (first, last) = self.delay;
        first + last.saturating_sub(first).scale((i as f64 + 0.5) / self.count as f64)
    }
}

fn clock(item: &Item<'_>) -> Result<Clock, ScenarioError> {
    let section = item.section("`clock`")?;
    section.keys(&["ahead", "fast", "jitter"])?;
    let span = |key| section.get(key).map_or(Ok(Duration::ZERO), |item| item.quantity());
    let fast = |item: Item<'_>| item.number(-1e5, 1e5 + 1.0, "parts per million, up to 100000; negative is slow");
    let fast = section.get("fast").map_or(Ok(0.0), fast)?;
    Ok(Clock { ahead: span("ahead")?, fast: fast.round() as i32, jitter: span("jitter")? })
}

fn stalls(item: &Item<'_>) -> Result<Stalls, ScenarioError> {
    let section = item.section("`stalls`")?;
    section.keys(&["every", "lasting"])?;
    let span = |key, example| {
        let item = section.need(key, example)?;
        let span: Duration = item.positive()?;
        if span < MIN_STALL {
            let what = format!("`{key}` is {span}");
            return Err(item.error(Problem::impossible(what, format!("use {MIN_STALL} or more"))));
        }
        Ok(span)
    };
    Ok(Stalls { every: span("every", "every = \"50 ms\"")?, lasting: span("lasting", "lasting = \"2 ms\"")? })
}

fn delay(item: &Item<'_>) -> Result<Duration, ScenarioError> {
    let delay = item.quantity()?;
    if delay > MAX_DELAY {
        let what = format!("`{}` is {delay}", item.key);
        return Err(item.error(Problem::impossible(what, format!("use at most {MAX_DELAY}"))));
    }
    Ok(delay)
}

fn delays(item: &Item<'_>) -> Result<(Duration, Duration), ScenarioError> {
    if !item.is_table() {
        let delay = delay(item)?;
        return Ok((delay, delay));
    }
    let section = item.section("`delay`")?;
    section.keys(&["from", "to"])?;
    let from = delay(&section.need("from", "from = \"4 ms\"")?)?;
    let to = delay(&section.need("to", "to = \"14 ms\"")?)?;
    if from > to {
        return Err(item.error(Problem::impossible(format!("`delay` goes from {from} down to {to}"), "swap them")));
    }
    Ok((from, to))
}

impl File {
    pub(super) fn check_network(&self, source: Source<'_>) -> Result<(), ScenarioError> {
        if self.links.is_empty() {
            let (place, key) = ("a scenario".into(), "[[link]]");
            let example = "[[link]] name = \"bottleneck\", between = [\"left\", \"right\"]";
            return Err(source.error(1, Problem::MissingKey { place, key, example }));
        }
        no_duplicates(source, "links", self.links.iter().map(|link| (link.name.as_str(), link.lines.of("name"))))?;
        let groups = self.hosts.iter().map(|hosts| (hosts.name.as_str(), hosts.lines.of("name")));
        no_duplicates(source, "groups of hosts", groups)?;
        let routers = || self.links.iter().flat_map(|link| link.ends.iter().map(String::as_str));
        for link in &self.links {
            if let Some(end) = link.ends.iter().find(|end| self.hosts.iter().any(|hosts| hosts.name == **end)) {
                let what = format!("link `{}` ends at the hosts `{end}`", link.name);
                let advice = "a link joins two routers; hosts have their own access links, `at` a router";
                return Err(source.error(link.lines.of("between"), Problem::impossible(what, advice)));
            }
        }
        for hosts in &self.hosts {
            if !routers().any(|router| router == hosts.at) {
                let mut known: Vec<&str> = routers().collect();
                known.sort_unstable();
                known.dedup();
                return Err(source.error(hosts.lines.of("at"), Problem::unknown("router", &hosts.at, known)));
            }
        }
        let names: Vec<String> = self.links.iter().flat_map(|link| link.directions().map(|(name, _)| name)).collect();
        for scheme in &self.schemes {
            for (link, line, _) in &scheme.routers {
                if !names.contains(link) {
                    return Err(source.error(*line, Problem::unknown("link", link, names.iter().map(String::as_str))));
                }
            }
        }
        Ok(())
    }
}
