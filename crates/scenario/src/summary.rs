//! A run in figures: one JSON object.

use std::collections::BTreeSet;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::columns::FlowGroup;
use crate::{Degraded, Outcome, Plan, Point, Row, Run, Schema, Value};

/// One run in figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// The values of the sweep's axes.
    pub point: Point,
    /// The run as a whole, by the columns of [`Schema::runs`].
    pub run: Row,
    /// All measured flows together, by the columns of [`Schema::groups`].
    pub flows: Row,
    /// The flows of each kind of measured traffic by itself, where there are several.
    pub traffic: Vec<(String, Row)>,
    /// Measured links by name, in the plan's order, by the columns of [`Schema::links`].
    pub links: Vec<(String, Row)>,
    /// Flows whose controllers could not work as their schemes do, by the reason.
    pub degraded: Vec<DegradedSummary>,
    /// Seconds of real time the run took.
    pub wall_s: f64,
}

/// Flows whose controllers could not work as their scheme does, for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct DegradedSummary {
    /// Why, and what the controller does instead.
    pub reason: String,
    /// The flows' scheme.
    pub scheme: String,
    /// The first of them, from host to host: `source.0 > sink.0`.
    pub first: String,
    /// How many there are.
    pub flows: u64,
}

impl Summary {
    /// The summary of `run`.
    pub fn of(schema: &Schema, run: &Run) -> Self {
        let Run { plan, outcome, wall_s, .. } = run;
        let group = |kinds| Row::of(&schema.groups, run, &FlowGroup::of(run, kinds));
        let measured: Vec<usize> = (0..plan.traffic.len()).filter(|kind| plan.traffic[*kind].measured).collect();
        let several = measured.len() > 1;
        let by_itself = |kind: &usize| (plan.traffic[*kind].name.clone(), group(vec![*kind]));
        Self {
            point: plan.point.clone(),
            run: Row::of(&schema.runs, run, &()),
            traffic: measured.iter().filter(|_| several).map(by_itself).collect(),
            flows: group(measured),
            links: outcome.links.iter().map(|link| (link.name.clone(), Row::of(&schema.links, run, link))).collect(),
            degraded: DegradedSummary::all(plan, outcome),
            wall_s: *wall_s,
        }
    }

    /// Whether packets left the network so late that the results describe a busy machine and not the schemes: 1% of them
    /// by more than 2 ms, or by more than a tenth of the smallest round trip.
    pub fn is_late(&self) -> bool {
        let rtt = self.run.number("rtt_min_s");
        self.run.number("host_jitter_p99_s").is_some_and(|late| late > 2e-3 || rtt.is_some_and(|rtt| late > 0.1 * rtt))
    }
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("point", &self.point)?;
        for (name, value) in self.run.iter().filter(|(_, value)| **value != Value::Null) {
            object.serialize_entry(name, value)?;
        }
        object.serialize_entry("flows", &self.flows)?;
        if !self.traffic.is_empty() {
            object.serialize_entry("traffic", &Object(&self.traffic))?;
        }
        object.serialize_entry("links", &Object(&self.links))?;
        if !self.degraded.is_empty() {
            object.serialize_entry("degraded", &self.degraded)?;
        }
        object.serialize_entry("wall_s", &self.wall_s)?;
        object.end()
    }
}

/// Rows by their names.
struct Object<'a>(&'a [(String, Row)]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, row)| (name, row)))
    }
}

impl DegradedSummary {
    /// Those of `outcome`, which came from running `plan`.
    pub fn all(plan: &Plan, outcome: &Outcome) -> Vec<Self> {
        let mut summaries: Vec<Self> = Vec::new();
        let mut seen = BTreeSet::new();
        for Degraded { flow, reason } in outcome.degraded.iter().filter(|one| seen.insert((one.flow, &one.reason))) {
            let planned = &plan.flows[*flow];
            let scheme = &plan.schemes[planned.scheme].name;
            match summaries.iter_mut().find(|one| one.reason == *reason && one.scheme == *scheme) {
                Some(summary) => summary.flows += 1,
                None => summaries.push(Self {
                    reason: reason.clone(),
                    scheme: scheme.clone(),
                    first: format!("{} > {}", plan.nodes[planned.from.0].name, plan.nodes[planned.to.0].name),
                    flows: 1,
                }),
            }
        }
        summaries
    }
}
