//! The planned changes and measurements of links, ordered by time.

use rampmeter_scenario::Plan;
use rampmeter_units::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LinkAction {
    Change { link: usize, change: usize },
    MeasureFrom,
    Sample,
    MeasureTo,
}

/// All actions. At the same time changes come first and the end of the measurement last.
pub(crate) fn actions(plan: &Plan) -> Vec<(Time, LinkAction)> {
    let end = Time::ZERO + plan.duration;
    let mut actions = vec![(Time::ZERO + plan.warmup, LinkAction::MeasureFrom), (end, LinkAction::MeasureTo)];
    for (link, planned) in plan.links.iter().enumerate() {
        actions
            .extend(planned.changes.iter().enumerate().map(|(n, to)| (to.at, LinkAction::Change { link, change: n })));
    }
    actions.extend(plan.samples().map(|at| (at, LinkAction::Sample)));
    actions.sort();
    actions
}
