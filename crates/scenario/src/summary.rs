//! The summary of a run: one JSON object.

use std::collections::BTreeSet;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::columns::FlowGroup;
use crate::limits::limited;
use crate::{Degraded, Outcome, Plan, Point, Row, Run, Schema, Value};

/// The summary of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// The values of the sweep's axes.
    pub point: Point,
    /// The run as a whole, by the columns of [`Schema::runs`].
    pub run: Row,
    /// All measured flows together, by the columns of [`Schema::groups`].
    pub flows: Row,
    /// The flows of each kind of measured traffic, if there are several kinds.
    pub traffic: Vec<(String, Row)>,
    /// Measured links by name, in the plan's order, by the columns of [`Schema::links`].
    pub links: Vec<(String, Row)>,
    /// The scenario's own metrics; `None` where one does not apply.
    pub metrics: Vec<(String, Option<f64>)>,
    /// Flows whose controllers were degraded, or that something else limited, grouped by reason.
    pub degraded: Vec<DegradedSummary>,
    /// Duration of the run in seconds of real time.
    pub wall_s: f64,
}

/// Flows of one scheme that were degraded for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct DegradedSummary {
    /// The reason, and what the controller does instead, or the remedy.
    pub reason: String,
    /// The flows' scheme.
    pub scheme: String,
    /// The first of them, as sender and receiver: `source.0 > sink.0`.
    pub first: String,
    /// The number of flows.
    pub flows: u64,
}

impl Summary {
    /// The summary of `run`, without metrics of the scenario's own.
    pub fn of(schema: &Schema, run: &Run) -> Self {
        let Run { plan, outcome, wall_s, .. } = run;
        let group = |kinds| Row::of(&schema.groups, run, &FlowGroup::of(run, kinds));
        let measured: Vec<usize> = (0..plan.traffic.len()).filter(|kind| plan.traffic[*kind].measured).collect();
        let several = measured.len() > 1;
        let of_kind = |kind: &usize| (plan.traffic[*kind].name.clone(), group(vec![*kind]));
        Self {
            point: plan.point.clone(),
            run: Row::of(&schema.runs, run, &()),
            traffic: measured.iter().filter(|_| several).map(of_kind).collect(),
            flows: group(measured),
            links: outcome.links.iter().map(|link| (link.name.clone(), Row::of(&schema.links, run, link))).collect(),
            metrics: Vec::new(),
            degraded: DegradedSummary::all(plan, outcome),
            wall_s: *wall_s,
        }
    }

    /// Whether packets left the network so late that the results describe a busy machine and not the schemes: 1% of
    /// them by more than 2 ms, or by more than a tenth of the minimum round-trip time.
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
        if !self.metrics.is_empty() {
            object.serialize_entry("metrics", &Object(&self.metrics))?;
        }
        if !self.degraded.is_empty() {
            object.serialize_entry("degraded", &self.degraded)?;
        }
        object.serialize_entry("wall_s", &self.wall_s)?;
        object.end()
    }
}

struct Object<'a, T>(&'a [(String, T)]);

impl<T: Serialize> Serialize for Object<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, row)| (name, row)))
    }
}

impl DegradedSummary {
    /// The summaries of `outcome`, the result of `plan`: of what controllers reported, and of what else limits flows.
    pub fn all(plan: &Plan, outcome: &Outcome) -> Vec<Self> {
        let mut summaries: Vec<Self> = Vec::new();
        let mut seen = BTreeSet::new();
        let limited = limited(plan, outcome);
        let all = outcome.degraded.iter().chain(&limited);
        for Degraded { flow, reason } in all.filter(|one| seen.insert((one.flow, &one.reason))) {
            let planned = &plan.flows[*flow];
            let scheme = &plan.schemes[planned.scheme].name;
            match summaries.iter_mut().find(|one| one.reason == *reason && one.scheme == *scheme) {
                Some(summary) => summary.flows += 1,
                None => summaries.push(Self {
                    reason: reason.clone(),
                    scheme: scheme.clone(),
                    first: plan.flow_name(*flow),
                    flows: 1,
                }),
            }
        }
        summaries
    }
}
