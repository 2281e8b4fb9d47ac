//! What the plan says will happen, in the order of time: flows start and stop, links change, measuring begins and ends.

use rampmeter_scenario::Plan;
use rampmeter_units::{Duration, Time};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cue {
    ChangeLink { link: usize, change: usize },
    StartMeasuring,
    Sample,
    Stop { flow: usize },
    Start { flow: usize },
    StopMeasuring,
}

/// All cues, sorted by time; of equals, changes before flows before the end.
pub(crate) fn script(plan: &Plan) -> Vec<(Time, Cue)> {
    let (warmup, duration) = (Time::ZERO + plan.warmup, Time::ZERO + plan.duration);
    let mut cues = vec![(warmup, Cue::StartMeasuring), (duration, Cue::StopMeasuring)];
    for (link, planned) in plan.links.iter().enumerate() {
        cues.extend(planned.changes.iter().enumerate().map(|(n, c)| (c.at, Cue::ChangeLink { link, change: n })));
    }
    for (flow, planned) in plan.flows.iter().enumerate() {
        cues.push((planned.start, Cue::Start { flow }));
        cues.extend(planned.stop.map(|stop| (stop, Cue::Stop { flow })));
    }
    if let Some(every) = plan.meters.series_every.filter(|&every| every > Duration::ZERO) {
        let mut at = Time::ZERO;
        while at <= duration {
            cues.push((at, Cue::Sample));
            at += every;
        }
    }
    let rank = |cue: &Cue| match cue {
        Cue::ChangeLink { .. } => 0,
        Cue::StartMeasuring => 1,
        Cue::Sample => 2,
        Cue::Stop { .. } => 3,
        Cue::Start { .. } => 4,
        Cue::StopMeasuring => 5,
    };
    cues.sort_by_key(|(at, cue)| (*at, rank(cue)));
    cues
}
