//! The share of its macroflow that each flow may expect, and the flows that are notified when it changes
//! (`congestion-manager.md`, section 3.1, `cm_query` and `cmapp_update`).

use rampmeter_control::Controller;
use rampmeter_units::Time;

use crate::flow::{Change, Flow, FlowId, Share, ShareWatch, Thresholds};
use crate::macroflow::{Macroflow, Status};
use crate::manager::Manager;

/// The weights of the active flows of a macroflow.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    /// The sum for flows without a class and for classes.
    sum: f64,
    /// Each class with its weight and the sum of its flows' weights.
    classes: Vec<(u32, f64, f64)>,
}

impl Weights {
    /// `active` has the shares of the flows that have requested to send or have bytes in flight.
    pub(crate) fn of(active: impl Iterator<Item = Share>) -> Self {
        let mut weights = Self::default();
        for share in active {
            let Some((class, weight)) = share.class else {
                weights.sum += share.weight;
                continue;
            };
            if let Some(known) = weights.classes.iter_mut().find(|(known, ..)| *known == class) {
                known.2 += share.weight;
            } else {
                weights.sum += weight;
                weights.classes.push((class, weight, share.weight));
            }
        }
        weights
    }

    /// The share of a flow, as a part of 1. A flow that is not `active` is counted as if it joined.
    pub(crate) fn share_of(&self, share: Share, active: bool) -> f64 {
        let new = if active { 0.0 } else { share.weight };
        let Some((class, weight)) = share.class else { return share.weight / (self.sum + new) };
        match self.classes.iter().find(|(known, ..)| *known == class) {
            Some((_, weight, sum)) => weight / self.sum * share.weight / (sum + new),
            None => weight / (self.sum + weight),
        }
    }
}

impl<C: Controller> Manager<C> {
    /// Compares the shares of a macroflow's flows with those last reported.
    pub(crate) fn compare_shares(&mut self, now: Time, index: u32) {
        let Some(macroflow) = &mut self.macroflows[index as usize] else { return };
        let status = macroflow.status(now, 1.0);
        macroflow.next_comparison = now + status.smoothed_rtt / 2;
        if macroflow.watchers == 0 {
            return;
        }
        let Some(macroflow) = &self.macroflows[index as usize] else { return };
        let weights = self.weights(macroflow);
        for &member in &macroflow.members {
            let Some(f) = &mut self.flows[member as usize] else { continue };
            let (share, active) = (f.share(), f.is_active());
            let Some(watch) = &mut f.watch else { continue };
            let share = status.rate.scale(weights.share_of(share, active));
            if watch.exceeds_threshold(share) {
                watch.reported = share;
                self.changes.push_back(Change { flow: FlowId(member), share, smoothed_rtt: status.smoothed_rtt });
            }
        }
    }

    /// The weights of a macroflow's active flows.
    fn weights(&self, macroflow: &Macroflow<C>) -> Weights {
        let members = macroflow.members.iter().filter_map(|&member| self.flows[member as usize].as_ref());
        Weights::of(members.filter(|flow| flow.is_active()).map(Flow::share))
    }

    /// The permitted rate of the flow's macroflow and the flow's share of it (`cm_query`).
    pub fn query(&self, now: Time, flow: FlowId) -> Option<Status> {
        let (f, macroflow) = self.of_flow(flow)?;
        Some(macroflow.status(now, self.weights(macroflow).share_of(f.share(), f.is_active())))
    }

    /// The number of other flows of its macroflow that have requested to send.
    pub fn waiting(&self, flow: FlowId) -> usize {
        let Some((_, macroflow)) = self.of_flow(flow) else { return 0 };
        let others = macroflow.members.iter().filter(|&&member| member != flow.0);
        others.filter(|&&other| self.flows[other as usize].as_ref().is_some_and(Flow::waits)).count()
    }

    /// From now on, changes of the flow's share are reported by [`Manager::poll_change`], starting with its present
    /// share.
    pub fn watch(&mut self, now: Time, flow: FlowId, thresholds: Thresholds) {
        let Some(reported) = self.query(now, flow).map(|status| status.share) else { return };
        let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) else { return };
        let is_new = f.watch.replace(Box::new(ShareWatch { thresholds, reported })).is_none();
        if let Some((macroflow, _)) = self.macroflow(flow) {
            macroflow.watchers += u32::from(is_new);
        }
    }

    /// The next change of a share that has not been reported yet (`cmapp_update`).
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_weights_within_classes_and_among_them() {
        let flow = |weight| Share { weight, ..Share::default() };
        let within = |class, of, weight| Share { weight, class: Some((class, of)), ..Share::default() };
        let weights = Weights::of([flow(1.0), within(7, 3.0, 1.0), within(7, 3.0, 2.0)].into_iter());
        assert_eq!(weights.share_of(flow(1.0), true), 0.25);
        assert_eq!(weights.share_of(within(7, 3.0, 1.0), true), 0.25);
        assert_eq!(weights.share_of(within(7, 3.0, 2.0), true), 0.5);
        assert_eq!(weights.share_of(flow(1.0), false), 0.2, "a fifth share");
        assert_eq!(weights.share_of(within(8, 4.0, 9.0), false), 0.5, "a class of its own");
        assert_eq!(weights.share_of(within(7, 3.0, 3.0), false), 0.375, "half of a class with three quarters");
        assert_eq!(Weights::default().share_of(flow(3.0), false), 1.0);
    }
}
