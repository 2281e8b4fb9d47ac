//! The content of a scenario file at one point of its sweep, read and checked as far as the file alone allows.

mod condition;
mod island;
mod metric;
mod network;
mod rate;
mod scheme;
mod traffic;

use std::collections::HashSet;

use rampmeter_units::{Bytes, Duration};

use crate::Meters;
use crate::conditions::Conditions;
use crate::document::{Item, Place, Section, Source};
use crate::error::Result;
use crate::errors::Errors;
use crate::keys;
use crate::sets::Set;

pub(crate) use condition::ConditionSpec;
pub(crate) use island::IslandSpec;
pub use metric::MetricText;
pub(crate) use network::{DirectionSpec, HostsSpec, LinkSpec, RouterSpec, RunEnd};
pub(crate) use rate::RateSpec;
pub(crate) use scheme::{SchemeSpec, SenderSpec, keys_of};
pub(crate) use traffic::{ArrivalRate, Arrivals, Gaps, MAX_FLOWS, Pairs, Size, TrafficSpec};

#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) duration: Duration,
    pub(crate) warmup: Duration,
    pub(crate) drain: Duration,
    pub(crate) packet: Bytes,
    /// The name of its condition.
    pub(crate) condition: Option<String>,
    /// The largest packet that the condition carries.
    pub(crate) max_packet: Bytes,
    pub(crate) links: Vec<LinkSpec>,
    pub(crate) hosts: Vec<HostsSpec>,
    pub(crate) islands: Vec<IslandSpec>,
    pub(crate) schemes: Vec<SchemeSpec>,
    pub(crate) traffic: Vec<TrafficSpec>,
    pub(crate) meters: Meters,
}

impl File {
    /// Reads a text; `sets` are values for keys of its condition. What has errors is left out.
    pub(crate) fn read(source: Source<'_>, conditions: &Conditions, sets: &[Set], errors: &mut Errors) -> Result<Self> {
        let document = source.parse()?;
        let file = Section::root(source, document.get_ref());
        errors.keep(file.keys(&[keys::SCENARIO]));
        for key in ["title", "source"] {
            errors.keep(file.optional(key, Item::text));
        }
        errors.keep(file.optional("metrics", MetricText::read_all));
        let duration = file.need("duration", "duration = \"60 s\"").and_then(|item| item.positive());
        let duration = errors.keep(duration).unwrap_or(UNKNOWN_DURATION);
        let warmup = file.or("warmup", Duration::ZERO, |item| match item.quantity()? {
            warmup if warmup >= duration => {
                let wrong = format!("`warmup` is {warmup} of a duration of {duration}: no flow would be measured");
                Err(item.error(format!("{wrong}; make it shorter")))
            }
            warmup => Ok(warmup),
        });
        let warmup = errors.keep(warmup).unwrap_or_default();
        let drain = errors.keep(file.or("drain", Duration::ZERO, Item::quantity)).unwrap_or_default();
        let end = RunEnd { at: duration + drain, refuses_later: true };
        let links = file.tables("link", errors, |section| LinkSpec::read(&section, end));
        let hosts = file.tables("hosts", errors, |section| HostsSpec::read(&section));
        let islands = file.tables("island", errors, |section| IslandSpec::read(&section));
        let mut schemes = SchemeSpec::read_all(&file, errors);
        let traffic = file.tables("traffic", errors, |section| TrafficSpec::read(&section, duration));
        SchemeSpec::add_stacks(&mut schemes, &traffic);
        let packet = errors.keep(file.or("packet", Bytes::new(1500), packet)).unwrap_or(Bytes::new(1500));
        let meters = file.or("meters", Meters::default(), |item| meters(item, duration));
        let meters = errors.keep(meters).unwrap_or_default();
        let condition = file.get("condition").and_then(|item| {
            let read = ConditionSpec::read(&item, conditions, sets, duration, end.at, errors);
            if read.is_err() {
                errors.lose(None);
            }
            errors.keep(read)
        });
        if file.get("link").is_none() && file.get("condition").is_none() {
            let example = "[[link]] name = \"bottleneck\", between = [\"left\", \"right\"]";
            errors.add(file.missing("[[link]]", &format!("{example}, or condition = \"cable-100\"")));
            errors.lose(None);
        }
        let mut file = Self {
            duration,
            warmup,
            drain,
            packet,
            condition: None,
            max_packet: Bytes::MAX,
            links,
            hosts,
            islands,
            schemes,
            traffic,
            meters,
        };
        if let Some(condition) = condition {
            file.add(condition);
        }
        file.check_network(errors);
        file.check_islands(errors);
        file.check_traffic(errors);
        Ok(file)
    }

    /// Adds the condition's parts to the file's own. Its traffic is the last, so the file's own flows stay the same.
    fn add(&mut self, condition: ConditionSpec) {
        let ConditionSpec { name, packet, links, hosts, schemes, traffic } = condition;
        self.condition = Some(name);
        self.max_packet = packet.unwrap_or(Bytes::MAX);
        self.packet = self.packet.min(self.max_packet);
        self.links.splice(0..0, links);
        self.hosts.extend(hosts);
        self.schemes.extend(schemes);
        self.traffic.extend(traffic);
    }
}

/// A duration for the checks of a file without a valid one: long enough for most of what it may have.
const UNKNOWN_DURATION: Duration = Duration::from_secs(3600);

/// Refuses duplicates among names, which are given with their places.
fn no_duplicates<'n>(kind: &str, names: impl IntoIterator<Item = (&'n String, &'n Place)>) -> Result<()> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|(name, _)| !seen.insert(*name)) {
        Some((name, place)) => Err(place.error(format!("there are two {kind} called `{name}`; rename one"))),
        None => Ok(()),
    }
}

fn packet(item: &Item<'_>) -> Result<Bytes> {
    match item.quantity()? {
        packet if (Bytes::new(64)..=Bytes::new(65_535)).contains(&packet) => Ok(packet),
        packet => {
            let advice = "use 64 B to 65535 B, for example \"1500 B\"";
            Err(item.error(format!("`packet` is {packet}, headers of 54 B included; {advice}")))
        }
    }
}

/// The maximum number of samples of one link or flow in a run; each takes some hundred bytes.
const MAX_SAMPLES: u64 = 1_000_000;

fn meters(item: &Item<'_>, duration: Duration) -> Result<Meters> {
    let section = item.section("[meters]")?;
    section.keys(&[keys::METERS])?;
    let item = section.need("series", "series = \"100 ms\"")?;
    match item.positive::<Duration>()? {
        interval if duration.as_nanos() / interval.as_nanos() > MAX_SAMPLES => {
            let wrong = format!("`series` of {interval} in a run of {duration} is more than {MAX_SAMPLES} samples");
            Err(item.error(format!("{wrong} of each flow; take them less often, for example every \"10 ms\"")))
        }
        interval => Ok(Meters { series_every: Some(interval) }),
    }
}
