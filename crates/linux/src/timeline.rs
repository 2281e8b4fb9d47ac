//! What the plan says will happen to links, in the order of time.

use rampmeter_scenario::Plan;
use rampmeter_units::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cue {
    Change { link: usize, change: usize },
    MeasureFrom,
    Sample,
    MeasureTo,
}

/// All cues; at the same time changes come first and the end of measuring last.
pub(crate) fn cues(plan: &Plan) -> Vec<(Time, Cue)> {
    let end = Time::ZERO + plan.duration;
    let mut cues = vec![(Time::ZERO + plan.warmup, Cue::MeasureFrom), (end, Cue::MeasureTo)];
    for (link, planned) in plan.links.iter().enumerate() {
        cues.extend(planned.changes.iter().enumerate().map(|(n, to)| (to.at, Cue::Change { link, change: n })));
    }
    cues.extend(plan.samples().map(|at| (at, Cue::Sample)));
    cues.sort();
    cues
}
