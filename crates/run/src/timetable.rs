//! The planned events, ordered by time.

use rampmeter_scenario::Plan;
use rampmeter_units::Time;

/// A planned event. Events of the same instant run in the order of the variants, before all packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
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

impl Entry {
    /// The flow that starts or stops.
    pub fn flow(self) -> Option<usize> {
        match self {
            Self::Stop(flow) | Self::Start(flow) => Some(flow as usize),
            _ => None,
        }
    }
}

/// The entries of a plan that have not run.
#[derive(Debug)]
pub struct Timetable {
    /// In reverse order: the next one is the last.
    entries: Vec<(Time, Entry)>,
}

impl Timetable {
    /// The entries of `plan` that `concern` the caller. Flows that would start at the end of the measurement, or after
    /// it, do not.
    pub fn new(plan: &Plan, concern: impl Fn(Entry) -> bool) -> Self {
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
        entries.retain(|(_, entry)| concern(*entry));
        entries.sort_unstable_by(|a, b| b.cmp(a));
        Self { entries }
    }

    /// When the next entry is due; [`Time::MAX`] if there is none.
    #[inline]
    pub fn next(&self) -> Time {
        self.entries.last().map_or(Time::MAX, |(at, _)| *at)
    }

    /// Takes the next entry that is due by `now`, with its time.
    pub fn due(&mut self, now: Time) -> Option<(Time, Entry)> {
        self.entries.last().filter(|(at, _)| *at <= now)?;
        self.entries.pop()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use rampmeter_scenario::{Change, Registries, Scenario};
    use rampmeter_units::Duration;

    use super::*;

    /// Two flows from `source` to `sink` over a bottleneck of 8 Mb/s and 10 ms, measured from 1 s to 4 s.
    ///
    /// ```text
    ///   source.0 ─┐                                   ┌─ sink.0
    ///             ├ left ══ 8 Mb/s, 10 ms ═══ right ──┤           access links: 80 Mb/s, 1 ms
    ///   source.1 ─┘                                   └─ sink.1
    /// ```
    pub(crate) fn plan() -> Plan {
        let text = r#"
            duration = "4 s"
            warmup = "1 s"
            packet = "1000 B"
            hosts = [{ name = "source", count = 2, at = "left", rate = "80 Mb/s", delay = "1 ms" },
                     { name = "sink", count = 2, at = "right", rate = "80 Mb/s", delay = "1 ms" }]
            link = [{ name = "bottleneck", between = ["left", "right"], rate = "8 Mb/s", delay = "10 ms",
                      router = { kind = "drop-tail", packets = 5 }, measure = true }]
            scheme.it = { controller = "newreno" }
            traffic = [{ name = "flows", scheme = "it", from = "source", to = "sink", arrivals = { count = 2 } }]
            meters = { series = "500 ms" }
        "#;
        let scenario = Scenario::parse("test.toml", text).unwrap();
        scenario.plan(&scenario.points()[0], &Registries::default()).unwrap()
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    proptest! {
        #[test]
        fn every_entry_runs_once_when_it_is_due(
            starts in prop::collection::vec((0..6000_u64, prop::option::of(0..6000_u64)), 0..20),
            changes in prop::collection::vec(0..6000_u64, 0..10),
            step in 1..700_u64,
        ) {
            let mut plan = plan();
            let flow = plan.flows[0];
            plan.flows =
                starts.iter().map(|(at, stop)| rampmeter_scenario::FlowPlan { start: ms(*at), stop: stop.map(ms), ..flow }).collect();
            plan.links[0].changes =
                changes.iter().map(|at| Change { at: ms(*at), rate: None, delay: None, ecn: None }).collect();
            let mut timetable = Timetable::new(&plan, |_| true);
            let (mut ran, mut now) = (Vec::new(), Time::ZERO);
            while timetable.next() < Time::MAX {
                while let Some((at, entry)) = timetable.due(now) {
                    prop_assert!(now.since(at) < Duration::from_millis(step), "{entry:?} ran late");
                    ran.push((at, entry));
                }
                prop_assert!(timetable.next() > now);
                now += Duration::from_millis(step);
            }
            prop_assert!(ran.is_sorted(), "by time, then by kind");
            let running = starts.iter().filter(|(at, _)| *at < 4000);
            let stops = running.clone().filter(|(_, stop)| stop.is_some()).count();
            let count = |is: fn(&Entry) -> bool| ran.iter().filter(|(_, entry)| is(entry)).count();
            prop_assert_eq!(count(|entry| matches!(entry, Entry::Start(_))), running.count());
            prop_assert_eq!(count(|entry| matches!(entry, Entry::Stop(_))), stops);
            prop_assert_eq!(count(|entry| matches!(entry, Entry::Change(0, _))), changes.len());
            prop_assert_eq!(count(|entry| matches!(entry, Entry::MeasureFrom | Entry::MeasureTo)), 2);
            prop_assert_eq!(count(|entry| *entry == Entry::Sample), 9);
        }
    }

    #[test]
    fn entries_that_concern_nobody_are_left_out() {
        let flows = |entry: Entry| entry.flow() == Some(1);
        let mut timetable = Timetable::new(&plan(), flows);
        assert_eq!(timetable.due(Time::MAX), Some((Time::ZERO, Entry::Start(1))));
        assert_eq!(timetable.next(), Time::MAX);
    }
}
