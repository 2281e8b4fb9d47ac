//! Flow segregation: separate macroflows where a network treats the flows to one destination differently
//! (`congestion-manager.md`, section 4.5, which leaves the algorithm open).
//!
//! ```text
//! every 16 round trips, for each flow with 30 packets or more since the reset of its counts:
//!     n packets, of which a share p was lost, and their mean time in flight, T
//! flows in the order of p, cut in two where the parts differ most:
//!     z = (p_2 - p_1) / sqrt(p (1 - p) (1/n_1 + 1/n_2))          p of all together
//!     z > 3 and p_2 > 3 p_1 + 1%                                 different; counts are reset, as after 500 packets
//! flows in the order of T, cut in two where T_2 / T_1 is maximal:
//!     T_2 > 3 T_1 + 10 ms and reports twice in T_2               different, too
//! different twice in a row                                       the worse flows get a separate macroflow
//! later, if z < 2 or p_2 < 2 p_1 + 0.5% between the two,
//!     and T_2 < 2 T_1 + 10 ms                                    the two macroflows are merged
//! ```
//!
//! The paper compares "perceived receiver throughputs". The throughputs of the flows of a macroflow differ by their
//! weights and by what they have to send, too. What the network gives is the throughput for each byte in flight, which is
//! 1 / T. A flow that is shaped has its bytes in flight in the shaper's queue, where they fill the common window.
//!
//! Two macroflows together are as aggressive as two TCP flows, so a split must be certain. The first one lasts at least
//! ten seconds, each later one twice as long.

use rampmeter_control::Controller;
use rampmeter_units::{Duration, Time};

use crate::destinations::Place;
use crate::flow::FlowId;
use crate::macroflow::Macroflow;
use crate::manager::{Manager, insert};
use crate::treatment::{Sample, cut_by_loss, cut_by_time};

/// The interval of comparisons, in round trips.
const ROUND_TRIPS: u64 = 16;

const MIN_PACKETS: f64 = 30.0;

/// The number of packets after which the counts are reset.
const ENOUGH_PACKETS: f64 = 500.0;

/// The number of consecutive comparisons that must agree.
const COUNTS: u8 = 2;

/// How long macroflows remain separate: the first time, and at most.
const SEPARATION: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(320));

impl<C: Controller> Manager<C> {
    /// Compares the flows of a macroflow if it is time to do so.
    pub(crate) fn compare_flows(&mut self, now: Time, index: u32) {
        if !(self.sharing.segregation && self.sharing.grouping.is_shared()) {
            return;
        }
        let Some(macroflow) = &mut self.macroflows[index as usize] else { return };
        if now < macroflow.segregation.next_comparison || macroflow.is_chosen {
            return;
        }
        let span = macroflow.round_trip().map_or(Duration::from_secs(1), |(smoothed, _)| smoothed * ROUND_TRIPS);
        let is_first = std::mem::replace(&mut macroflow.segregation.next_comparison, now + span) == Time::ZERO;
        if is_first {
            return;
        }
        if let Some((origin, until)) = macroflow.segregation.origin
            && now >= until
            && self.are_treated_alike(now, origin, index)
        {
            return self.merge(now, index, origin);
        }
        self.find_difference(now, index);
    }

    /// What happened to the packets of a macroflow's flows since their counts were reset.
    fn samples(&self, index: u32) -> Vec<(u32, Sample)> {
        let Some(macroflow) = &self.macroflows[index as usize] else { return Vec::new() };
        let members = macroflow.members.iter().filter_map(|&member| {
            let flow = self.flows[member as usize].as_ref()?;
            Some((member, Sample::of(**flow.counts.as_ref()?, macroflow.packet)))
        });
        members.collect()
    }

    /// Decides whether the flows of a macroflow are treated differently.
    fn find_difference(&mut self, now: Time, index: u32) {
        let mut samples = self.samples(index);
        samples.retain(|(_, sample)| sample.all >= MIN_PACKETS);
        let only = |samples: &[(u32, Sample)]| samples.iter().map(|(_, sample)| *sample).collect::<Vec<Sample>>();
        samples.sort_by(|(_, a), (_, b)| a.loss().total_cmp(&b.loss()));
        let mut place = cut_by_loss(&only(&samples));
        if place.is_none() {
            samples.sort_by(|(_, a), (_, b)| a.time().total_cmp(&b.time()));
            place = cut_by_time(&only(&samples));
        }
        let (worse, only) = (place.map(|place| &samples[place..]), only(&samples));
        let counted = only.len() > 1 && only.iter().all(|sample| sample.all >= ENOUGH_PACKETS);
        if worse.is_none() && !counted {
            return;
        }
        let worse: Option<Vec<FlowId>> = worse.map(|worse| worse.iter().map(|(member, _)| FlowId(*member)).collect());
        self.reset_counts(now, index);
        let Some(macroflow) = &mut self.macroflows[index as usize] else { return };
        let differences = &mut macroflow.segregation.differences;
        *differences = if worse.is_some() { *differences + 1 } else { 0 };
        if *differences >= COUNTS {
            *differences = 0;
            self.splits.extend(worse);
        }
    }

    /// Whether two macroflows have been treated alike since their counts were reset. Every answer resets the counts.
    fn are_treated_alike(&mut self, now: Time, origin: u32, index: u32) -> bool {
        if self.macroflows[origin as usize].as_ref().is_none_or(|macroflow| macroflow.members.is_empty()) {
            return true;
        }
        let sum = |index| self.samples(index).iter().fold(Sample::default(), |sum, (_, sample)| sum.and(*sample));
        let (one, other): (Sample, Sample) = (sum(origin), sum(index));
        if one.all.min(other.all) < MIN_PACKETS {
            return false;
        }
        self.reset_counts(now, origin);
        self.reset_counts(now, index);
        one.is_treated_like(other) && other.is_treated_like(one)
    }

    fn reset_counts(&mut self, now: Time, index: u32) {
        let Some(macroflow) = &self.macroflows[index as usize] else { return };
        for &member in &macroflow.members {
            if let Some(flow) = &mut self.flows[member as usize] {
                flow.restart_counts(now);
            }
        }
    }

    /// Moves flows that are treated worse than others to a separate macroflow; `make` creates its controller. To be
    /// called after feedback; does nothing if there are no such flows.
    pub fn segregate(&mut self, now: Time, mut make: impl FnMut() -> C) {
        while let Some(flows) = self.splits.pop_front() {
            self.split(now, &flows, make());
        }
    }

    fn split(&mut self, now: Time, flows: &[FlowId], controller: C) {
        let Some(index) = flows.iter().find_map(|flow| self.flows[flow.index()].as_ref()).map(|flow| flow.macroflow)
        else {
            return;
        };
        let together = |flow: &&FlowId| self.flows[flow.index()].as_ref().is_some_and(|flow| flow.macroflow == index);
        let flows: Vec<FlowId> = flows.iter().filter(together).copied().collect();
        let Some(macroflow) = &self.macroflows[index as usize] else { return };
        if flows.len() >= macroflow.members.len() {
            return; // the others have left
        }
        let part = flows.len() as f64 / macroflow.members.len() as f64;
        let mut new = Macroflow::new(macroflow.place, controller, self.sharing);
        new.split_from(now, macroflow, part);
        let separation = self.separation_time(new.place);
        new.segregation.origin = Some((index, now + separation));
        let position = insert(&mut self.macroflows, &mut self.free_macroflows, new);
        for flow in flows {
            self.move_flow(now, flow, position);
        }
    }

    /// How long a split of `destination`'s flows lasts; the next one lasts longer.
    fn separation_time(&mut self, place: Place) -> Duration {
        let Some(known) = self.destinations.0.get_mut(&place) else { return SEPARATION.0 };
        let separation = known.separation.max(SEPARATION.0);
        known.separation = (separation * 2).min(SEPARATION.1);
        separation
    }

    /// A macroflow ends: macroflows split from it now belong to its own origin, or to none. Returns the one that new
    /// flows join.
    pub(crate) fn remove_origin(&mut self, index: u32, ended: &Macroflow<C>) -> Option<u32> {
        if !self.sharing.segregation {
            return None;
        }
        let mut successor = None;
        for (position, macroflow) in self.macroflows.iter_mut().enumerate() {
            let Some(macroflow) = macroflow else { continue };
            let origin = &mut macroflow.segregation.origin;
            if let Some((_, until)) = origin.filter(|(origin, _)| *origin == index) {
                *origin = ended.segregation.origin.map(|(further, _)| (further, until));
                successor = successor.or(Some(position as u32));
            }
        }
        successor
    }

    fn merge(&mut self, now: Time, index: u32, origin: u32) {
        let Some(macroflow) = &self.macroflows[index as usize] else { return };
        let target = self.macroflows[origin as usize].as_ref();
        if target.is_none_or(|target| target.place != macroflow.place) {
            return;
        }
        let (members, number) = (macroflow.members.clone(), macroflow.next_number);
        if let Some(origin) = &mut self.macroflows[origin as usize] {
            origin.next_number = origin.next_number.max(number);
        }
        for member in members {
            self.move_flow(now, FlowId(member), origin);
        }
        self.retire(now, index, false);
    }

    /// Moves a flow to another macroflow, with its bytes in flight and its requests.
    pub(crate) fn move_flow(&mut self, now: Time, flow: FlowId, to: u32) {
        let Some(Some(f)) = self.flows.get_mut(flow.index()) else { return };
        let from = std::mem::replace(&mut f.macroflow, to);
        f.restart_counts(now);
        let (in_flight, share, watches) = (f.in_flight, f.share(), f.watch.is_some());
        let requests = [(f.requested, false), (f.retransmission, true)];
        if let Some(macroflow) = &mut self.macroflows[from as usize] {
            macroflow.close(now, flow.0, in_flight);
            macroflow.watchers -= u32::from(watches);
        }
        if let Some(macroflow) = &mut self.macroflows[to as usize] {
            macroflow.join(flow.0);
            macroflow.share(flow.0, share);
            macroflow.watchers += u32::from(watches);
            macroflow.restore(in_flight);
            for (_, retransmission) in requests.into_iter().filter(|(requested, _)| *requested) {
                macroflow.request(now, flow.0, retransmission);
            }
        }
        self.wake(from);
        self.wake(to);
    }
}
