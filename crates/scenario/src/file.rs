//! The content of a scenario file at one point of its sweep, read and checked as far as the file alone allows.

mod island;
mod network;
mod scheme;
mod traffic;

use rampmeter_units::{Bytes, Duration};

use crate::Meters;
use crate::document::{Section, Source};
use crate::error::{Problem, ScenarioError};

pub(crate) use island::IslandSpec;
pub(crate) use network::{HostsSpec, LinkSpec, RouterSpec};
pub(crate) use scheme::{SchemeSpec, SenderSpec};
pub(crate) use traffic::{ArrivalRate, Arrivals, Gaps, MAX_FLOWS, Pairs, Size, TrafficSpec};

const KEYS: [&str; 13] = [
    "title", "source", "duration", "warmup", "drain", "packet", "axes", "link", "hosts", "island", "scheme", "traffic",
    "meters",
];

/// The content of the file at one point.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) duration: Duration,
    pub(crate) warmup: Duration,
    pub(crate) drain: Duration,
    pub(crate) packet: Bytes,
    pub(crate) links: Vec<LinkSpec>,
    pub(crate) hosts: Vec<HostsSpec>,
    pub(crate) islands: Vec<IslandSpec>,
    pub(crate) schemes: Vec<SchemeSpec>,
    pub(crate) traffic: Vec<TrafficSpec>,
    pub(crate) meters: Meters,
}

impl File {
    pub(crate) fn read(source: Source<'_>) -> Result<Self, ScenarioError> {
        let document = source.parse()?;
        let file = Section::root(source, document.get_ref());
        file.keys(&KEYS)?;
        for key in ["title", "source"] {
            file.get(key).map(|item| item.text()).transpose()?;
        }
        let duration: Duration = file.need("duration", "duration = \"60 s\"")?.positive()?;
        let span = |key| file.get(key).map_or(Ok(Duration::ZERO), |item| item.quantity());
        let warmup = span("warmup")?;
        if warmup >= duration {
            let what = format!("`warmup` is {warmup} of a duration of {duration}: no flow would be measured");
            let line = file.get("warmup").map_or(file.line, |item| item.line());
            return Err(source.error(line, Problem::impossible(what, "make it shorter")));
        }
        let drain = span("drain")?;
        let links = file.tables("link", |section| LinkSpec::read(&section, duration + drain))?;
        let hosts = file.tables("hosts", |section| HostsSpec::read(&section))?;
        let islands = file.tables("island", |section| IslandSpec::read(&section))?;
        let schemes = SchemeSpec::read_all(&file)?;
        let traffic = file.tables("traffic", |section| TrafficSpec::read(&section, duration))?;
        let file = Self {
            duration,
            warmup,
            drain,
            packet: packet(&file)?,
            links,
            hosts,
            islands,
            schemes,
            traffic,
            meters: meters(&file, duration)?,
        };
        file.check_network(source)?;
        file.check_islands(source)?;
        file.check_traffic(source)?;
        Ok(file)
    }
}

fn packet(file: &Section<'_>) -> Result<Bytes, ScenarioError> {
    let Some(item) = file.get("packet") else { return Ok(Bytes::new(1500)) };
    let packet: Bytes = item.quantity()?;
    if !(Bytes::new(64)..=Bytes::new(65_535)).contains(&packet) {
        let what = format!("`packet` is {packet}, headers of 54 B included");
        return Err(item.error(Problem::impossible(what, "use 64 B to 65535 B, for example \"1500 B\"")));
    }
    Ok(packet)
}

/// The maximum number of samples of one link or flow in a run; each takes some hundred bytes.
const MAX_SAMPLES: u64 = 1_000_000;

fn meters(file: &Section<'_>, duration: Duration) -> Result<Meters, ScenarioError> {
    let Some(item) = file.get("meters") else { return Ok(Meters::default()) };
    let section = item.section("[meters]")?;
    section.keys(&["series"])?;
    let Some(item) = section.get("series") else { return Ok(Meters::default()) };
    let interval: Duration = item.positive()?;
    if duration.as_nanos() / interval.as_nanos() > MAX_SAMPLES {
        let what =
            format!("`series` of {interval} in a run of {duration} is more than {MAX_SAMPLES} samples of each flow");
        return Err(item.error(Problem::impossible(what, "take them less often, for example every \"10 ms\"")));
    }
    Ok(Meters { series_every: Some(interval) })
}

/// Refuses duplicate names.
fn no_duplicates<'s>(
    source: Source<'_>,
    kind: &'static str,
    names: impl IntoIterator<Item = (&'s str, usize)>,
) -> Result<(), ScenarioError> {
    let mut seen = std::collections::HashSet::new();
    for (name, line) in names {
        if !seen.insert(name) {
            return Err(source.error(line, Problem::Duplicate { kind, name: name.to_owned() }));
        }
    }
    Ok(())
}
