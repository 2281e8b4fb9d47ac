//! What a condition is, in a line: its rates, its round trip, its queue, its losses.

use rampmeter_router::{AnyConfig, Burst, Loss};
use rampmeter_units::{Bytes, Duration, Rate};
use serde::{Serialize, Serializer};

use super::{CONDITIONS, Conditions};
use crate::beside::Beside;
use crate::document::{Section, Source};
use crate::error::Result;
use crate::{LinkId, LinkPlan, NodeId, Registries, Scenario, ScenarioError};

/// What a condition is, from left to right unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConditionFacts {
    /// Its name.
    pub name: String,
    /// The kind of network.
    pub group: String,
    /// What it stands for.
    pub title: String,
    /// Where its numbers are from.
    pub source: String,
    /// The lowest mean rate of a link or a policer.
    #[serde(rename = "rate_bps", serialize_with = "bits_per_second")]
    pub rate: Rate,
    /// The same from right to left.
    #[serde(rename = "reverse_rate_bps", serialize_with = "bits_per_second")]
    pub reverse_rate: Rate,
    /// How the capacity of the bottleneck varies: the model's name, or `trace`; none if it is constant.
    pub varies: Option<&'static str>,
    /// The delay of all links in both directions.
    #[serde(rename = "rtt_s", serialize_with = "seconds")]
    pub round_trip: Duration,
    /// The router at the bottleneck.
    pub router: &'static str,
    /// The time that its buffer takes to empty, if it is limited.
    #[serde(rename = "buffer_s", serialize_with = "optional_seconds")]
    pub buffer: Option<Duration>,
    /// The share of full-size packets that is lost at random.
    pub loss: f64,
}

impl ConditionFacts {
    /// Those of all conditions of the library.
    pub fn all(registries: &Registries) -> Result<Vec<Self>> {
        CONDITIONS.iter().map(|condition| Self::of(condition.name, registries)).collect()
    }

    /// A time in milliseconds as lists show it, with two digits where they matter.
    pub fn milliseconds(span: Duration) -> String {
        let milliseconds = span.as_secs_f64() * 1e3;
        if milliseconds < 10.0 { format!("{milliseconds:.1} ms") } else { format!("{milliseconds:.0} ms") }
    }

    /// Those of one condition: of the library, or in a file.
    pub fn of(name: &str, registries: &Registries) -> Result<Self> {
        let text = Conditions::new(Beside::file("")).text(name);
        let text = text.map_err(|problem| ScenarioError::Set { file: name.to_owned(), problem })?.text;
        let scenario = Scenario::over(name)?;
        let plan = scenario.plan(&scenario.points()[0], registries)?;
        let node = |name| plan.nodes.iter().position(|node| node.name == name).map(NodeId);
        let path = |from, to| plan.path(node(from)?, node(to)?).ok();
        let there = path("sender.0", "receiver.0").unwrap_or_default();
        let back = path("receiver.0", "sender.0").unwrap_or_default();
        let links = |path: &[LinkId]| path.iter().map(|link| &plan.links[link.0]).collect::<Vec<_>>();
        let (there, back) = (links(&there), links(&back));
        let rate = |path: &[&LinkPlan]| path.iter().map(|link| sustained(link)).min().unwrap_or_default();
        let delay = there.iter().chain(&back).fold(Duration::ZERO, |sum, link| sum + link.config.delay);
        let kept: f64 = there.iter().map(|link| 1.0 - mean_loss(link.config.loss, plan.packet)).product();
        let bottleneck = there.iter().find(|link| link.name == "bottleneck").copied();
        let room = bottleneck.and_then(|link| Some(link.config.rate.time_to_send(plan.packet * link.room?)));
        let key = |key| text_of(&text, key).unwrap_or_default();
        Ok(Self {
            name: name.to_owned(),
            group: key("group"),
            title: key("title"),
            source: key("source"),
            rate: rate(&there),
            reverse_rate: rate(&back),
            varies: bottleneck.and_then(|link| Some(link.capacity.as_ref()?.kind())),
            round_trip: delay,
            router: bottleneck.map_or("", |link| link.router.kind()),
            buffer: room,
            loss: 1.0 - kept,
        })
    }
}

/// The text of one of the keys of a condition's `text`.
fn text_of(text: &str, key: &str) -> Option<String> {
    let source = Source::new("", text);
    let document = source.parse().ok()?;
    Some(Section::root(source, document.get_ref()).get(key)?.as_text()?.to_owned())
}

/// The rate that one flow can sustain: the link's or that of its policer.
fn sustained(link: &LinkPlan) -> Rate {
    match &link.router {
        AnyConfig::Policer(policer) => policer.rate.min(link.config.rate),
        _ => link.config.rate,
    }
}

/// The share of packets of `packet` bytes that is lost.
fn mean_loss(loss: Loss, packet: Bytes) -> f64 {
    let regular = loss.every.map_or(0.0, |every| 1.0 / every.get() as f64);
    1.0 - (1.0 - regular) * (1.0 - loss.of_packet(packet)) * (1.0 - loss.burst.map_or(0.0, Burst::mean))
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes fields by reference, here and below
fn bits_per_second<S: Serializer>(rate: &Rate, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_u64(rate.as_bps())
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn seconds<S: Serializer>(span: &Duration, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64())
}

#[allow(clippy::ref_option)]
fn optional_seconds<S: Serializer>(span: &Option<Duration>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    span.map(Duration::as_secs_f64).serialize(serializer)
}
