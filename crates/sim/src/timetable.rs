//! The planned events, ordered by time.

use rampmeter_scenario::Plan;
use rampmeter_units::Time;

/// A planned event. Events of the same instant run in the order of the variants, before all packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entry {
    /// The measurement of links and long-lived flows starts.
    MeasureFrom,
    /// The measurement ends.
    MeasureTo,
    /// A link changes: the index of the link, and of the change.
    Change(u32, u32),
    /// A flow's application stops.
    Stop(u32),
    /// A flow starts.
    Start(u32),
    /// Samples are taken.
    Sample,
}

#[derive(Debug)]
pub(crate) struct Timetable {
    /// The entries in reverse order: the next one is the last.
    entries: Vec<(Time, Entry)>,
}

impl Timetable {
    pub(crate) fn of(plan: &Plan) -> Self {
        let end = Time::ZERO + plan.duration;
        let mut entries =
            vec![(Time::ZERO + plan.warmup.min(plan.duration), Entry::MeasureFrom), (end, Entry::MeasureTo)];
        for (link, link_plan) in plan.links.iter().enumerate() {
            let changes = link_plan.changes.iter().enumerate();
            entries.extend(changes.map(|(n, change)| (change.at, Entry::Change(link as u32, n as u32))));
        }
        for (flow, flow_plan) in plan.flows.iter().enumerate() {
            if flow_plan.start < end {
                entries.push((flow_plan.start, Entry::Start(flow as u32)));
                entries.extend(flow_plan.stop.map(|stop| (stop, Entry::Stop(flow as u32))));
            }
        }
        entries.extend(plan.samples().map(|at| (at, Entry::Sample)));
        entries.sort_unstable_by(|a, b| b.cmp(a));
        Self { entries }
    }

    /// When the next entry is due; [`Time::MAX`] if there is none.
    pub(crate) fn next(&self) -> Time {
        self.entries.last().map_or(Time::MAX, |(at, _)| *at)
    }

    pub(crate) fn take(&mut self) -> Option<(Time, Entry)> {
        self.entries.pop()
    }
}
