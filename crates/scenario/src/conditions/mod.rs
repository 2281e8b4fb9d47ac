//! The library of conditions: networks by name, which any scenario can use.
//!
//! ```text
//!   condition = "lte-walking"       the links of that condition, from its router `left` to its router `right`, of which
//!                                   the one called `bottleneck` is measured; hosts are `at` these routers
//! ```
//!
//! Each is a file in `studies/conditions`, and part of the program, so that users can name it anywhere.

mod facts;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rampmeter_units::Known;

use crate::beside::Beside;
use crate::document::{Section, Source};
use crate::sets::{Edited, Set};

pub use facts::ConditionFacts;

/// Hosts at both ends of a condition.
const NETWORK: &str = include_str!("network.toml");

/// A flow between them, under one scheme after the other.
const FLOW: &str = include_str!("flow.toml");

/// A condition of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// Its name.
    pub name: &'static str,
    /// The content of its file.
    pub text: &'static str,
}

impl Condition {
    /// The condition called `name`, or what is wrong and the remedy.
    pub fn find(name: &str) -> Result<&'static Self, String> {
        CONDITIONS.iter().find(|condition| condition.name == name).ok_or_else(|| Self::unknown(name))
    }

    /// The condition whose name stands in the place of a scenario's path.
    pub(crate) fn named(path: &Path) -> Option<&'static Self> {
        CONDITIONS.iter().find(|condition| Path::new(condition.name) == path)
    }

    /// The message that no condition is called `name`.
    pub(crate) fn unknown(name: &str) -> String {
        let advice = match Known::near(name, CONDITIONS.iter().map(|condition| condition.name)) {
            Known::All(_) => "`rampmeter conditions` lists them".to_owned(),
            Known::Several(near, _) => {
                format!("{}; `rampmeter conditions` lists all", Known::Several(near, Vec::new()))
            }
            near @ Known::Near(_) => near.to_string(),
        };
        format!("no condition is called `{}`; {advice}; a file's name ends in .toml", name.escape_debug())
    }

    /// The name of its file, for messages.
    fn file(&self) -> String {
        format!("studies/conditions/{}.toml", self.name)
    }
}

/// The text of a scenario of the network of the condition `name` alone, without traffic. Its changes and its other
/// traffic last ten minutes, because nothing in the scenario ends it.
pub(crate) fn network(name: &str) -> String {
    hosts(name).replacen("\"30 s\"", "\"600 s\"", 1)
}

fn hosts(name: &str) -> String {
    NETWORK.replace("NAME", &name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The text of a scenario of one flow over the condition `name`.
pub(crate) fn one_flow(name: &str) -> String {
    hosts(name) + FLOW
}

/// Whether `text` is that of a condition, not of a scenario: it has a group, or it has links and no key that only
/// scenarios have. A scenario without its duration has traffic.
pub(crate) fn is_condition(text: &str) -> bool {
    const OF_SCENARIOS: [&str; 9] =
        ["duration", "warmup", "drain", "axes", "condition", "island", "schemes", "meters", "traffic"];
    let source = Source::new("", text);
    source.parse().is_ok_and(|document| {
        let section = Section::root(source, document.get_ref());
        let has = |key: &str| section.get(key).is_some();
        has("group") || (has("link") && !OF_SCENARIOS.into_iter().any(has))
    })
}

macro_rules! library {
    ($($name:literal)*) => {
        &[$(Condition { name: $name, text: include_str!(concat!("../../conditions/", $name, ".toml")) },)*]
    };
}

/// All conditions, in the order of lists and tables.
pub const CONDITIONS: &[Condition] = library! {
    "dsl-8"
    "dsl-upload"
    "vdsl-50"
    "cable-100"
    "cable-100-bufferbloat"
    "cable-upload"
    "cable-upload-bufferbloat"
    "fibre-300"
    "fibre-1g"
    "lan-1g"
    "wifi-home"
    "wifi-office"
    "wifi-crowded"
    "wifi-far"
    "wifi-roaming"
    "wifi-upload"
    "lte-walking"
    "lte-driving"
    "lte-train"
    "lte-crowded"
    "lte-upload"
    "5g-walking"
    "5g-midband"
    "5g-mmwave"
    "hspa"
    "edge"
    "starlink"
    "starlink-busy"
    "starlink-upload"
    "geo"
    "geo-inflight"
    "transatlantic"
    "transatlantic-shallow"
    "transpacific-deep"
    "antipodes"
    "research-1g"
    "datacentre-10g"
    "datacentre-marking"
    "datacentre-incast"
    "datacentre-between"
    "codel-40"
    "fq-codel-40"
    "pie-40"
    "red-40"
    "l4s-40"
    "fair-40"
    "policed-20M"
    "policed-small-bucket"
    "policed-video"
    "shaped-20M"
    "cable-boost"
    "loss-0.1"
    "loss-1"
    "loss-bursts"
    "ack-loss"
    "reordering"
    "reordering-extreme"
    "jitter"
    "duplication"
    "asymmetric"
    "vpn"
    "mtu-1280"
    "ecn-bleached"
    "ce-lost"
    "ce-always"
    "path-change"
    "path-flapping"
    "capacity-steps"
    "outages"
    "two-bottlenecks"
    "parking-lot"
    "web-traffic"
    "iot"
    "dial-up"
};

/// The maximum size of a condition's file in bytes.
const MAX_BYTES: u64 = 1_000_000;

/// The conditions that a scenario names: of the library, and in files beside it, which are read once.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    beside: Beside,
    read: Arc<Mutex<BTreeMap<String, Result<ConditionText, String>>>>,
}

/// The text of a condition, and the name of its file for messages.
#[derive(Debug, Clone)]
pub(crate) struct ConditionText {
    pub(crate) file: String,
    pub(crate) text: String,
}

impl Conditions {
    /// The library, and the files `beside` a scenario.
    pub(crate) fn new(beside: Beside) -> Self {
        Self { beside, read: Arc::default() }
    }

    /// The condition called `name`, or what is wrong and the remedy.
    pub(crate) fn text(&self, name: &str) -> Result<ConditionText, String> {
        if !is_file(name) {
            return Condition::find(name)
                .map(|found| ConditionText { file: found.file(), text: found.text.to_owned() });
        }
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.entry(name.to_owned()).or_insert_with(|| self.open(name)).clone()
    }

    /// The name of the file of the condition `name`, and its text with the values of `sets`.
    pub(crate) fn edited(&self, name: &str, sets: &[Set]) -> Result<(String, Edited), String> {
        let ConditionText { file, text } = self.text(name)?;
        let mut edited = Edited::new(text);
        for set in sets {
            edited.set(set).map_err(|refused| format!("{}: {}", set.key, refused.problem(&[])))?;
        }
        Ok((file, edited))
    }

    fn open(&self, name: &str) -> Result<ConditionText, String> {
        let file = self.beside.path(name);
        let text = self
            .beside
            .read(name, MAX_BYTES)
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not a text".to_owned()));
        match text {
            Ok(text) => Ok(ConditionText { file, text }),
            Err(problem) => {
                let advice = "name a file with a network in TOML, relative to the scenario";
                Err(format!("condition {file} cannot be read: {problem}; {advice}"))
            }
        }
    }
}

/// Whether a name is that of a file: it contains a slash or ends in `.toml`.
pub(crate) fn is_file(name: &str) -> bool {
    name.contains('/') || Path::new(name).extension().is_some_and(|extension| extension == "toml")
}
