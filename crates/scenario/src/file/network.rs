//! `[[link]]` and `[[hosts]]`: routers, the links between them and their hosts.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use rampmeter_router::{Burst, BurstLength, Disorder, EcnPassage, Jitter, Loss, Reordering};
use rampmeter_transport::Clock;
use rampmeter_units::{Duration, Ecn, Random, Rate, Time};

use super::{File, RateSpec, no_duplicates};
use crate::document::{Item, Lines, Place, Section, Settings};
use crate::error::{Result, unknown};
use crate::errors::Errors;
use crate::keys;
use crate::{Change, Stalls};

/// The maximum number of hosts of one group.
const MAX_HOSTS: u64 = 100_000;

/// The maximum delay of a link. A longer one is taken for a mistake.
const MAX_DELAY: Duration = Duration::from_secs(3600);

/// The maximum number of changes by one entry of a link's `changes`.
const MAX_CHANGES: u64 = 100_000;

/// The loss of a bit from which a packet of 1500 bytes is lost almost always.
const MAX_BIT_LOSS: f64 = 0.001;

/// The minimum length and interval of stalls.
const MIN_STALL: Duration = Duration::from_micros(1);

#[derive(Debug, Clone)]
pub(crate) struct LinkSpec {
    pub(super) lines: Lines,
    pub(crate) name: String,
    pub(crate) ends: [String; 2],
    pub(crate) forward: DirectionSpec,
    /// The reverse direction; `None` if the link is one-way.
    pub(crate) reverse: Option<DirectionSpec>,
}

#[derive(Debug, Clone)]
pub(crate) struct DirectionSpec {
    pub(crate) rate: RateSpec,
    pub(crate) delay: Duration,
    pub(crate) loss: Loss,
    pub(crate) ecn: EcnPassage,
    pub(crate) disorder: Disorder,
    pub(crate) router: RouterSpec,
    pub(crate) changes: Vec<Change>,
    pub(crate) measured: bool,
}

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
    pub(crate) router: RouterSpec,
    pub(crate) clock: ClockSpec,
    pub(crate) stalls: Option<Stalls>,
}

/// The clocks of a group of hosts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClockSpec {
    /// What they have in common.
    common: Clock,
    /// Each has a further random offset of up to this.
    max_offset: Duration,
}

/// The end of a run, up to which a link's `changes` apply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunEnd {
    pub(crate) at: Duration,
    /// Whether a later change is a mistake. A condition's is none, because it is for runs of any length.
    pub(crate) refuses_later: bool,
}

impl LinkSpec {
    /// Reads a link of a run with this `end`.
    pub(crate) fn read(section: &Section<'_>, end: RunEnd) -> Result<Self> {
        section.keys(&[keys::LINK, keys::DIRECTION])?;
        let name = section.need("name", "name = \"bottleneck\"")?.name()?.to_owned();
        let section = &section.called(format!("link `{name}`"));
        let between = section.need("between", "between = [\"left\", \"right\"]")?;
        let ends = between.list()?.iter().map(Item::name).collect::<Result<Vec<_>>>()?;
        let &[a, b] = ends.as_slice() else {
            let wrong = format!("`between` names {} routers; a link has two ends: [\"left\", \"right\"]", ends.len());
            return Err(between.error(wrong));
        };
        if a == b {
            return Err(between.error(format!("`between` names `{a}` twice; a link joins two different routers")));
        }
        section.need("rate", "rate = \"40 Mb/s\"")?;
        section.need("delay", "delay = \"10 ms\"")?;
        section.need("router", "router = { kind = \"drop-tail\", packets = 100 }")?;
        let one_way = section.or("one_way", false, Item::boolean)?;
        let forward = DirectionSpec::read(section, end, DirectionSpec::default())?;
        let reverse = match section.get("reverse") {
            None => (!one_way).then(|| DirectionSpec { measured: false, ..forward.clone() }),
            Some(item) if one_way => {
                return Err(item.error("`reverse` on a link with one_way = true; remove one of the two"));
            }
            Some(item) => {
                let section = item.section(&format!("`reverse` of link `{name}`"))?;
                section.keys(&[keys::DIRECTION])?;
                Some(DirectionSpec::read(&section, end, forward.clone())?)
            }
        };
        Ok(Self { lines: section.lines(), ends: [a.to_owned(), b.to_owned()], name, forward, reverse })
    }

    /// Both directions.
    pub(crate) fn directions_mut(&mut self) -> impl Iterator<Item = &mut DirectionSpec> {
        std::iter::once(&mut self.forward).chain(&mut self.reverse)
    }

    /// Both directions with their names.
    pub(crate) fn directions(&self) -> impl Iterator<Item = (String, &DirectionSpec)> {
        let reverse = self.reverse.as_ref().map(|direction| (format!("{}.reverse", self.name), direction));
        std::iter::once((self.name.clone(), &self.forward)).chain(reverse)
    }
}

impl Default for DirectionSpec {
    fn default() -> Self {
        Self {
            rate: RateSpec::Constant(Rate::ZERO),
            delay: Duration::ZERO,
            loss: Loss::default(),
            ecn: EcnPassage::Kept,
            disorder: Disorder::default(),
            router: RouterSpec::unlimited(),
            changes: Vec::new(),
            measured: false,
        }
    }
}

impl DirectionSpec {
    /// Reads one direction of a link. Values that are omitted are taken from `other`, except `measure`.
    fn read(section: &Section<'_>, end: RunEnd, other: Self) -> Result<Self> {
        let direction = Self {
            rate: section.or("rate", other.rate, RateSpec::read)?,
            delay: section.or("delay", other.delay, delay)?,
            loss: section.or("loss", other.loss, loss)?,
            ecn: section.or("ecn", other.ecn, ecn)?,
            disorder: Disorder {
                jitter: section.or("jitter", other.disorder.jitter, jitter)?,
                reordering: section.or("reordering", other.disorder.reordering, reordering)?,
                duplication: section.or("duplication", other.disorder.duplication, share)?,
            },
            router: section.or("router", other.router, RouterSpec::read)?,
            changes: section.or("changes", other.changes, |item| changes(item, end))?,
            measured: section.or("measure", false, Item::boolean)?,
        };
        if direction.rate.varies() && direction.changes.iter().any(|change| change.rate.is_some()) {
            let wrong = format!("`changes` of {} changes a rate that varies anyway", section.what);
            let advice = "change only `delay` and `ecn`, or give the link a constant rate";
            return Err(section.lines().of("changes").error(format!("{wrong}; {advice}")));
        }
        Ok(direction)
    }
}

fn loss(item: &Item<'_>) -> Result<Loss> {
    if !item.is_table() {
        return Err(item.error("`loss` is not a table; write { per_packet = 0.01 } or { per_bit = 1e-6 }"));
    }
    let section = item.section("`loss`")?;
    section.keys(&[keys::LOSS])?;
    let every = section.or("every", 0, |item| match item.count(0..=u64::from(u32::MAX))? {
        1 => Err(item.error("`every` is 1, which loses all packets; write 2 or more, or 0 for none")),
        every => Ok(every),
    })?;
    let expected = "a probability from 0 to below 1, for example 0.01";
    let per_packet = section.or("per_packet", 0.0, |item| item.number(0.0, 1.0, expected))?;
    let expected = "a probability from 0 to below 0.001, for example 1e-6: more loses all packets";
    let per_bit = section.or("per_bit", 0.0, |item| item.number(0.0, MAX_BIT_LOSS, expected))?;
    let burst = section.optional("burst", burst)?;
    let every = NonZeroU64::new(every);
    Ok(Loss { every, per_packet, per_bit, burst })
}

fn burst(item: &Item<'_>) -> Result<Burst> {
    let section = item.section("`burst`")?;
    section.keys(&[keys::BURST])?;
    let share = share(&section.need("share", "share = 0.02")?)?;
    let length = section.need("length", "length = 8 in packets, or length = \"20 ms\"")?;
    let length = if length.as_text().is_some() {
        BurstLength::Time(length.positive()?)
    } else {
        // The good state lasts a packet or more, apart from rounding.
        let min = (share / (1.0 - share) - 1e-9).max(1.0);
        let expected = format!("a time, or a number of packets from {min:.3} on with this share");
        BurstLength::Packets(length.number(min, 1e9, &expected)?)
    };
    let probability =
        |key, default| section.or(key, default, |item| item.number(0.0, 1.0 + f64::EPSILON, "a probability, 0 to 1"));
    let (bad, good) = (probability("bad", 1.0)?, probability("good", 0.0)?);
    if good > bad {
        let wrong = format!("`burst` loses more packets in the good state ({good}) than in the bad one ({bad})");
        return Err(item.error(format!("{wrong}; swap them")));
    }
    Ok(Burst { share, length, bad, good })
}

fn share(item: &Item<'_>) -> Result<f64> {
    item.number(0.0, 1.0, "a share of all packets from 0 to below 1, for example 0.01")
}

fn jitter(item: &Item<'_>) -> Result<Jitter> {
    if !item.is_table() {
        return Err(item.error("`jitter` is not a table; write { max = \"5 ms\" }"));
    }
    let section = item.section("`jitter`")?;
    section.keys(&[keys::JITTER])?;
    let max = delay(&section.need("max", "max = \"5 ms\"")?)?;
    Ok(Jitter { max, in_order: section.or("in_order", false, Item::boolean)? })
}

fn reordering(item: &Item<'_>) -> Result<Reordering> {
    if !item.is_table() {
        return Err(item.error("`reordering` is not a table; write { share = 0.01, delay = \"5 ms\" }"));
    }
    let section = item.section("`reordering`")?;
    section.keys(&[keys::REORDERING])?;
    let delay = delay(&section.need("delay", "delay = \"5 ms\"")?)?;
    Ok(Reordering { share: share(&section.need("share", "share = 0.01")?)?, delay })
}

fn ecn(item: &Item<'_>) -> Result<EcnPassage> {
    let passages = [
        ("kept", EcnPassage::Kept),
        ("not-ect", EcnPassage::SetTo(Ecn::NotEct)),
        ("ect1", EcnPassage::SetTo(Ecn::Ect1)),
        ("ect0", EcnPassage::SetTo(Ecn::Ect0)),
        ("ce", EcnPassage::SetTo(Ecn::Ce)),
        ("marks-lost", EcnPassage::MarksLost),
    ];
    let codes = "\"not-ect\", \"ect0\", \"ect1\" or \"ce\"";
    item.one_of(
        &passages,
        &format!("write \"kept\", \"marks-lost\", or the code that all packets arrive with: {codes}"),
    )
}

fn changes(item: &Item<'_>, end: RunEnd) -> Result<Vec<Change>> {
    let read = |item: &Item<'_>| {
        let section = item.section("an entry of `changes`")?;
        section.keys(&[keys::CHANGE])?;
        let at: Duration = section.need("at", "at = \"4 s\"")?.quantity()?;
        let every = section.optional("every", |item| match item.positive::<Duration>()? {
            every if (end.at.as_nanos() / every.as_nanos()) > MAX_CHANGES => {
                Err(item.error(format!("`every` is {every}; at most {MAX_CHANGES} changes in a run are possible")))
            }
            every => Ok(every),
        })?;
        if at >= end.at && every.is_none() && end.refuses_later {
            let wrong = format!("this entry of `changes` is for {at}, after the end of the run");
            return Err(item.error(format!("{wrong}; make it earlier, or `duration` longer")));
        }
        let rate = section.optional("rate", Item::quantity)?;
        let delay = section.optional("delay", delay)?;
        let ecn = section.optional("ecn", ecn)?;
        if rate.is_none() && delay.is_none() && ecn.is_none() {
            return Err(item.error("this entry of `changes` changes nothing; give it a rate, a delay or an `ecn`"));
        }
        let change = |at| Change { at: Time::ZERO + at, rate, delay, ecn };
        let times = std::iter::successors(Some(at), |at| every.map(|every| *at + every));
        Ok(times.take_while(|at| *at < end.at).map(change).collect::<Vec<_>>())
    };
    let mut changes = item.list()?.iter().map(read).collect::<Result<Vec<_>>>()?.concat();
    changes.sort_by_key(|change| change.at);
    match changes.windows(2).find(|pair| pair[0].at == pair[1].at) {
        Some(pair) => Err(item.error(format!("two entries of `changes` are for {}; make them one", pair[0].at))),
        None => Ok(changes),
    }
}

impl RouterSpec {
    pub(crate) fn read(item: &Item<'_>) -> Result<Self> {
        let kind = item.section(&format!("`{}`", item.key))?.need("kind", "kind = \"drop-tail\"")?.text()?.to_owned();
        let mut settings = Settings::read(item)?;
        settings.table.remove("kind");
        Ok(Self { kind, settings })
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.settings.table == other.settings.table
    }

    /// A queue without limit: the default of access links.
    fn unlimited() -> Self {
        Self { kind: "drop-tail".into(), settings: Settings::default() }
    }
}

impl HostsSpec {
    pub(crate) fn read(section: &Section<'_>) -> Result<Self> {
        section.keys(&[keys::HOSTS])?;
        let name = section.need("name", "name = \"source\"")?.name()?.to_owned();
        let section = &section.called(format!("hosts `{name}`"));
        Ok(Self {
            lines: section.lines(),
            name,
            count: section.or("count", 1, |item| item.count(1..=MAX_HOSTS))?,
            at: section.need("at", "at = \"left\"")?.name()?.to_owned(),
            rate: section.need("rate", "rate = \"1 Gb/s\"")?.positive()?,
            delay: delays(&section.need("delay", "delay = \"1 ms\"")?)?,
            router: section.or("router", RouterSpec::unlimited(), RouterSpec::read)?,
            clock: section.or("clock", ClockSpec::default(), ClockSpec::read)?,
            stalls: section.optional("stalls", stalls)?,
        })
    }

    /// The delay of host `i`: the middle of the `i`-th of `count` equal parts of the range.
    pub(crate) fn delay_of(&self, i: u64) -> Duration {
        let (first, last) = self.delay;
        first + last.saturating_sub(first).scale((i as f64 + 0.5) / self.count as f64)
    }
}

impl ClockSpec {
    fn read(item: &Item<'_>) -> Result<Self> {
        let section = item.section("`clock`")?;
        section.keys(&[keys::CLOCK])?;
        let expected = "parts per million, up to 100000; negative is slow";
        let drift_ppm = section.or("drift_ppm", 0.0, |item| item.number(-1e5, 1e5 + 1.0, expected))?;
        let jitter = section.or("jitter", Duration::ZERO, Item::quantity)?;
        let (offset, max_offset) = match section.get("offset") {
            None => (Duration::ZERO, Duration::ZERO),
            Some(item) if item.is_table() => {
                let section = item.section("`offset`")?;
                section.keys(&[keys::OFFSET])?;
                (Duration::ZERO, section.need("max", "max = \"10 s\"")?.quantity()?)
            }
            Some(item) => (item.quantity()?, Duration::ZERO),
        };
        Ok(Self { common: Clock { offset, drift_ppm: drift_ppm.round() as i32, jitter }, max_offset })
    }

    /// The clock of the host with these random numbers.
    pub(crate) fn of_host(self, mut random: Random) -> Clock {
        Clock { offset: self.common.offset + self.max_offset.scale(random.uniform()), ..self.common }
    }
}

fn stalls(item: &Item<'_>) -> Result<Stalls> {
    let section = item.section("`stalls`")?;
    section.keys(&[keys::STALLS])?;
    let span = |key, example| {
        let item = section.need(key, example)?;
        match item.positive()? {
            span if span < MIN_STALL => Err(item.error(format!("`{key}` is {span}; use {MIN_STALL} or more"))),
            span => Ok(span),
        }
    };
    Ok(Stalls { every: span("every", "every = \"50 ms\"")?, duration: span("duration", "duration = \"2 ms\"")? })
}

fn delay(item: &Item<'_>) -> Result<Duration> {
    match item.quantity()? {
        delay if delay > MAX_DELAY => Err(item.error(format!("`{}` is {delay}; use at most {MAX_DELAY}", item.key))),
        delay => Ok(delay),
    }
}

fn delays(item: &Item<'_>) -> Result<(Duration, Duration)> {
    if !item.is_table() {
        return delay(item).map(|delay| (delay, delay));
    }
    let section = item.section("`delay`")?;
    section.keys(&[keys::DELAYS])?;
    let from = delay(&section.need("from", "from = \"4 ms\"")?)?;
    let to = delay(&section.need("to", "to = \"14 ms\"")?)?;
    if from > to {
        return Err(item.error(format!("`delay` goes from {from} down to {to}; swap them")));
    }
    Ok((from, to))
}

impl File {
    pub(super) fn check_network(&self, errors: &mut Errors) {
        errors.keep(no_duplicates("links", self.links.iter().map(|link| (&link.name, link.lines.of("name")))));
        let names = self.hosts.iter().map(|hosts| (&hosts.name, hosts.lines.of("name")));
        errors.keep(no_duplicates("groups of hosts", names));
        for link in &self.links {
            if let Some(end) = link.ends.iter().find(|end| self.hosts.iter().any(|hosts| hosts.name == **end)) {
                let advice = "a link joins two routers; hosts have their own access links, `at` a router";
                let wrong = format!("link `{}` ends at the hosts `{end}`; {advice}", link.name);
                errors.add(link.lines.of("between").error(wrong));
            }
        }
        if errors.has_lost() {
            return; // the routers of a link may be lost
        }
        let routers = self.routers();
        for hosts in self.hosts.iter().filter(|hosts| !routers.contains(hosts.at.as_str())) {
            let wrong = unknown("router", &hosts.at, routers.iter().copied());
            let wrong = format!("{wrong}; routers are the ends in `between` of links");
            errors.add(hosts.lines.of("at").error(wrong));
        }
        for (link, place, _) in self.schemes.iter().flat_map(|scheme| &scheme.routers) {
            errors.keep(self.check_link(link, place));
        }
    }

    pub(super) fn routers(&self) -> BTreeSet<&str> {
        self.links.iter().flat_map(|link| link.ends.iter().map(String::as_str)).collect()
    }

    /// Refuses the name of a direction of a link that does not exist.
    pub(super) fn check_link(&self, name: &str, place: &Place) -> Result<()> {
        let names: Vec<String> = self.links.iter().flat_map(|link| link.directions().map(|(name, _)| name)).collect();
        if names.iter().any(|known| known == name) {
            return Ok(());
        }
        Err(place.error(unknown("link", name, names.iter().map(String::as_str))))
    }
}
