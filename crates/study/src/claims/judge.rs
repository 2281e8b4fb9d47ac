//! Runs the points that claims need, each once even if several claims need it, and judges the claims.

use std::path::Path;

use rampmeter_scenario::{Point, Summary, World};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::{Claim, Measured, Status};
use crate::{Finished, Journal, Program, Progress, StudyError, Sweep, Task, Unfinished};

/// Runs the points of claims and judges the claims.
#[derive(Clone)]
pub struct Judge<'a> {
    /// The settings of the sweep.
    pub sweep: Sweep<'a>,
    /// The available worlds; claims for others are skipped.
    pub worlds: &'a [&'a dyn World],
    /// The directory of finished points.
    pub directory: &'a Path,
    /// The program that runs them.
    pub program: &'a Program,
    /// Whether finished points run again.
    pub fresh: bool,
}

/// The result of judging a claim.
#[derive(Debug)]
pub struct ClaimResult<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// The metric's values.
    pub values: Vec<Measured>,
    /// The value that decides.
    pub measured: Option<f64>,
    /// Whether it holds; `None` if it could not be judged.
    pub holds: Option<bool>,
    /// The reason, if it could not be judged.
    pub reason: Option<String>,
    /// Its runs that failed.
    pub failed: Vec<Unfinished>,
}

impl<'a> ClaimResult<'a> {
    /// A result without any run.
    fn unknown(claim: &'a Claim) -> Self {
        Self { claim, values: Vec::new(), measured: None, holds: None, reason: None, failed: Vec::new() }
    }

    /// The claim's status is `holds`, and it does not hold.
    pub fn is_broken(&self) -> bool {
        self.claim.status == Status::Holds && self.holds == Some(false)
    }

    /// The claim's status is `open`, and it holds.
    pub fn is_unexpected(&self) -> bool {
        self.claim.status == Status::Open && self.holds == Some(true)
    }
}

impl Serialize for ClaimResult<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let claim = self.claim;
        json!({
            "id": claim.id,
            "where": claim.place,
            "text": claim.text,
            "paper": claim.paper,
            "expect": claim.expect(),
            "unit": claim.unit(),
            "measured": self.measured,
            "holds": self.holds,
            "status": claim.status,
            "values": self.values,
            "note": claim.note,
            "reason": self.reason,
            "recorded": claim.recorded,
        })
        .serialize(serializer)
    }
}

impl Unfinished {
    /// The runs that failed, each once, of `results`.
    pub fn failed_runs<'a>(results: impl IntoIterator<Item = &'a ClaimResult<'a>>) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for run in results.into_iter().flat_map(|result| &result.failed) {
            if !runs.contains(run) {
                runs.push(run.clone());
            }
        }
        runs
    }
}

/// The runs of one scenario's text in one world.
struct Group<'a> {
    claim: &'a Claim,
    world: &'a dyn World,
    points: Vec<Point>,
    results: Vec<Finished<Summary>>,
}

impl Judge<'_> {
    /// Judges `claims`, in their order.
    pub fn judge<'c>(
        &self,
        claims: &'c [Claim],
        mut watch: impl FnMut(Progress),
    ) -> Result<Vec<ClaimResult<'c>>, StudyError> {
        let journal = Journal::open(self.directory, self.program.clone())?;
        let mut groups = self.groups(claims);
        let total = groups.iter().map(|group| group.points.len()).sum();
        let (mut done_before, mut kept_before) = (0, 0);
        for world in self.worlds {
            let of_world = || groups.iter().filter(|group| group.world.name() == world.name());
            let task = |group, point| {
                let Group { claim, world, .. }: &Group<'_> = group;
                Task { scenario: &claim.scenario, point, world: *world, journal: &journal, fresh: self.fresh }
            };
            let tasks: Vec<Task<'_>> =
                of_world().flat_map(|group| group.points.iter().map(move |point| task(group, point))).collect();
            let mut kept = 0;
            let keep = |run| Summary::of(self.sweep.schema, &run);
            let results = self.sweep.run(&tasks, keep, |now| {
                kept = now.kept;
                let (done, kept) = (done_before + now.done, kept_before + now.kept);
                watch(Progress { done, kept, total, ..now });
            });
            let results = results.map_err(|error| match error {
                StudyError::Interrupted { done, .. } => StudyError::Interrupted { done: done_before + done, total },
                error => error,
            })?;
            done_before += results.len();
            kept_before += kept;
            let mut results = results.into_iter();
            for group in groups.iter_mut().filter(|group| group.world.name() == world.name()) {
                group.results = results.by_ref().take(group.points.len()).collect();
            }
        }
        Ok(claims.iter().map(|claim| verdict(claim, &groups)).collect())
    }

    /// The points to run, each once.
    fn groups<'c>(&'c self, claims: &'c [Claim]) -> Vec<Group<'c>> {
        let mut groups: Vec<Group<'c>> = Vec::new();
        for claim in claims {
            let named = |name: &str| self.worlds.iter().copied().find(|world| world.name() == name);
            // Without one of its worlds a claim is skipped.
            let Some(worlds) = claim.worlds().map(named).collect::<Option<Vec<_>>>() else { continue };
            for world in worlds {
                let index = groups.iter().position(|group| group.is_of(claim, world.name())).unwrap_or(groups.len());
                if index == groups.len() {
                    groups.push(Group { claim, world, points: Vec::new(), results: Vec::new() });
                }
                for point in claim.scenario.points().into_iter().filter(|point| claim.metric.needs(point)) {
                    if !groups[index].points.contains(&point) {
                        groups[index].points.push(point);
                    }
                }
            }
        }
        groups
    }
}

impl Group<'_> {
    /// Whether it has the runs of `claim` in `world`.
    fn is_of(&self, claim: &Claim, world: &str) -> bool {
        // Keys that are set are axes, too.
        let axes = |claim: &Claim| claim.scenario.axes().iter().map(|axis| axis.name.clone()).collect::<Vec<_>>();
        self.claim.scenario.hash() == claim.scenario.hash()
            && self.world.name() == world
            && axes(self.claim) == axes(claim)
    }
}

fn verdict<'c>(claim: &'c Claim, groups: &[Group<'_>]) -> ClaimResult<'c> {
    let unjudged = |reason| ClaimResult { reason: Some(reason), ..ClaimResult::unknown(claim) };
    let of = |world| groups.iter().find(|group| group.is_of(claim, world));
    let Some(groups) = claim.worlds().map(of).collect::<Option<Vec<_>>>() else {
        return unjudged(format!("there is no {} world here", claim.world));
    };
    let points = claim.scenario.points();
    let own = || {
        let pairs = groups.iter().flat_map(|group| group.points.iter().zip(&group.results));
        pairs.filter(|(point, _)| claim.metric.needs(point) && points.contains(point)).map(|(_, result)| result)
    };
    let unfinished = || own().filter_map(|result| result.as_ref().err());
    let failed: Vec<Unfinished> = unfinished().filter(|it| it.is_failed).cloned().collect();
    if let Some(first) = failed.first() {
        // A controller that has no result there does not do what the claim says.
        let reason = Some(format!("a run failed, at {}: {}", first.point, first.reason));
        return ClaimResult { holds: Some(false), reason, failed, ..ClaimResult::unknown(claim) };
    }
    if let Some(skipped) = unfinished().next() {
        return unjudged(skipped.reason.clone());
    }
    let runs: Vec<_> = own().flatten().collect();
    let values = claim.metric.values(&runs);
    let measured = claim.bound.worst(&values);
    let holds = measured.map(|worst| claim.bound.holds(worst));
    let reason = measured.is_none().then(|| "a run has no such value, or nothing was run".to_owned());
    // A claim without a value does not hold: a scheme that completes no flow has no mean completion time.
    ClaimResult { claim, values, measured, holds: holds.or(Some(false)), reason, failed }
}
