//! Which part of its macroflow each flow may expect, and who is told when that changes (`congestion-manager.md`, section 3.1,
//! `cm_query` and `cmapp_update`).

use rampmeter_control::Controller;
use rampmeter_units::Time;

use crate::flow::{Change, Flow, FlowId, Share, Thresholds, Watch};
use crate::macroflow::{Macroflow, Status};
use crate::manager::Manager;

/// The weights of the flows of a macroflow that count at the moment.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    /// Of flows without a class and of classes.
    top: f64,
    /// Each class with its weight and the sum of its flows' weights.
    classes: Vec<(u32, f64, f64)>,
}

impl Weights {
    /// `active` are the shares of flows that have something to send or on their way.
    pub(crate) fn of(active: impl Iterator<Item = Share>) -> Self {
        let mut weights = Self::default();
        for share in active {
            let Some((class, weight)) = share.class else {
                weights.top += share.weight;
                continue;
            };
            if let Some(known) = weights.classes.iter_mut().find(|(known, ..)| *known == class) {
                known.2 += share.weight;
            } else {
                weights.top += weight;
                weights.classes.push((class, weight, share.weight));
            }
        }
        weights
    }

    /// The part, of 1, of a flow: one of those or, if it is not `active`, one that joined them.
    pub(crate) fn part(&self, share: Share, active: bool) -> f64 {
        let new = if active { 0.0 } else { share.weight };
        let Some((class, weight)) = share.class else { return share.weight / (self.top + new) };
        match self.classes.iter().find(|(known, ..)| *known == class) {
            Some((_, weight, sum)) => weight / self.top * share.weight / (sum + new),
            None => weight / (self.top + weight),
        }
    }
}

impl<C: Controller> Manager<C> {
    /// Sees whose share has changed by much.
    pub(crate) fn look(&mut self, now: Time, index: u32) {
        let Some(macroflow) = &mut self.macroflows[index as usize] else { return };
        let status = macroflow.status(now, 1.0);
        macroflow.next_look = now + status.smoothed_rtt / 2;
        if macroflow.watchers == 0 {
            return;
        }
        let Some(macroflow) = &self.macroflows[index as usize] else { return };
        let weights = self.weights(macroflow);
        for &member in &macroflow.members {
            let Some(f) = &mut self.flows[member as usize] else { continue };
            let (share, active) = (f.share(), f.is_active());
            let Some(watch) = &mut f.watch else { continue };
            let share = status.rate.scale(weights.part(share, active));
            if watch.is_crossed(share) {
                watch.told = share;
                self.changes.push_back(Change { flow: FlowId(member), share, smoothed_rtt: status.smoothed_rtt });
            }
        }
    }

    /// The weights of a macroflow's active flows.
    fn weights(&self, macroflow: &Macroflow<C>) -> Weights {
        let members = macroflow.members.iter().filter_map(|&member| self.flows[member as usize].as_ref());
        Weights::of(members.filter(|flow| flow.is_active()).map(Flow::share))
    }

    /// What the flow's macroflow is allowed, and which share of it is the flow's (`cm_query`).
    pub fn query(&self, now: Time, flow: FlowId) -> Option<Status> {
        let (f, macroflow) = self.of_flow(flow)?;
        Some(macroflow.status(now, self.weights(macroflow).part(f.share(), f.is_active())))
    }

    /// Has the flow told of changes of its share, from what it is now, by [`Manager::poll_change`].
    pub fn watch(&mut self, now: Time, flow: FlowId, thresholds: Thresholds) {
        let Some(told) = self.query(now, flow).map(|status| status.share) else { return };
        let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) else { return };
        let is_new = f.watch.replace(Box::new(Watch { thresholds, told })).is_none();
        if let Some((macroflow, _)) = self.macroflow(flow) {
            macroflow.watchers += u32::from(is_new);
        }
    }

    /// The next change of a share that its flow has yet to be told (`cmapp_update`).
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
        assert_eq!(weights.part(flow(1.0), true), 0.25);
        assert_eq!(weights.part(within(7, 3.0, 1.0), true), 0.25);
        assert_eq!(weights.part(within(7, 3.0, 2.0), true), 0.5);
        assert_eq!(weights.part(flow(1.0), false), 0.2, "a fifth share");
        assert_eq!(weights.part(within(8, 4.0, 9.0), false), 0.5, "a class of its own");
        assert_eq!(Weights::default().part(flow(3.0), false), 1.0);
    }
}
