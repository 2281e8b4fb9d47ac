//! Responses of receivers: what arrived, what was lost and how long it took, reported to the manager.

use std::collections::BTreeSet;
use std::fmt::Debug;

use rampmeter_control::Controller;
use rampmeter_units::{Bytes, Time};
use rampmeter_wire::Response;

use super::probes::Outcome;
use super::{Agent, Peer, reordering};
use crate::flow::FlowId;
use crate::manager::Manager;
use crate::{LossMode, Report};

impl<A: Copy + Ord + Debug> Agent<A> {
    /// Handles a response, or a part of one.
    pub(super) fn on_response<C: Controller>(
        &mut self,
        now: Time,
        from: A,
        response: &Response,
        manager: &mut Manager<C>,
    ) {
        let Some(&index) = self.by_address.get(&from) else { return };
        let Peer { prober, members, .. } = &mut self.peers[index as usize];
        let congestion = congestion_of(response);
        if response.this_probe == response.last_probe {
            let is_ours = response.this_probe == prober.first() || prober.probes.is_recent(response.this_probe);
            if is_ours && congestion.is_some() {
                let report = Report { mode: congestion, ..Report::default() };
                // A report that names a flow is about the packets of its program, others are about those of this agent.
                let flows = match response.counts.first().map(|count| count.flow) {
                    Some(name) => {
                        let flow = prober.probes.own_names.flow(name);
                        if flow.is_some() && response.missed {
                            prober.probes.on_missed(name);
                        }
                        flow.into_iter().collect()
                    }
                    None => one_per_macroflow(members.values(), manager),
                };
                for flow in flows {
                    manager.report(now, flow, &report);
                }
            }
            return;
        }
        let is_first = !prober.probes.has_part(response.this_probe);
        let Some(whole) = prober.probes.collect(now, response) else { return };
        if is_first {
            prober.on_response(now);
        }
        for (arrived_at, response) in whole {
            self.on_whole_response(now, index, arrived_at, &response, manager);
        }
        self.arm(index);
    }

    /// Handles a response of which all parts that are to be expected have arrived, the last one at `arrived_at`.
    fn on_whole_response<C: Controller>(
        &mut self,
        now: Time,
        index: u32,
        arrived_at: Time,
        response: &Response,
        manager: &mut Manager<C>,
    ) {
        let Peer { prober, members, .. } = &mut self.peers[index as usize];
        let Some(answer) = prober.probes.on_response(arrived_at, response, self.config.sequenced) else { return };
        // Without flows the queue at the bottleneck drains, or is that of others.
        if members.is_empty() {
            prober.rtt = Some(answer.rtt);
        } else {
            prober.on_rtt(answer.rtt);
        }
        let mut on_loss = Some(LossMode::Transient);
        if !self.config.sequenced {
            let action = prober.reordering.on_response(now, answer.rtt, answer.sent, answer.received);
            on_loss = on_loss.filter(|_| action == reordering::WindowAction::Reduce);
            if action == reordering::WindowAction::Undo {
                for flow in one_per_macroflow(members.values(), manager) {
                    manager.undo(now, flow);
                }
            }
        }
        // The round trip and the congestion are reported to every macroflow of these flows.
        let sent_by = Some(answer.requested_at);
        let report = Report { mode: congestion_of(response), rtt: Some(answer.rtt), sent_by, ..Report::default() };
        for flow in one_per_macroflow(members.values(), manager) {
            manager.report(now, flow, &report);
        }
        self.report_outcomes(now, on_loss, &answer.outcomes, manager);
    }

    /// Reports the outcomes of packets to the manager; losses among them have the mode `on_loss`.
    pub(super) fn report_outcomes<C: Controller>(
        &mut self,
        now: Time,
        on_loss: Option<LossMode>,
        outcomes: &[Outcome],
        manager: &mut Manager<C>,
    ) {
        for outcome in outcomes {
            let flow = outcome.name.flow;
            // The flow's number may belong to another flow by now.
            let member = self.members.get(flow.index()).and_then(Option::as_ref);
            let Some(member) = member.filter(|member| member.has_name(outcome.name.wire)) else { continue };
            let (received, lost) = &mut self.peers[member.peer as usize].outcomes;
            *received += outcome.received;
            *lost += outcome.lost;
            if outcome.unknown > Bytes::ZERO {
                manager.discard_in_flight(now, flow, outcome.unknown);
            }
            if outcome.received + outcome.lost > Bytes::ZERO {
                let mode = on_loss.filter(|_| outcome.lost > Bytes::ZERO);
                let (received, lost, sent_by) = (outcome.received, outcome.lost, Some(outcome.sent_by));
                manager.report(now, flow, &Report { received, lost, mode, sent_by, ..Report::default() });
            }
        }
    }
}

/// The congestion that the receiver reports.
fn congestion_of(response: &Response) -> Option<LossMode> {
    match (response.missed, response.marked) {
        (true, _) => Some(LossMode::Transient),
        (false, true) => Some(LossMode::Ecn),
        (false, false) => None,
    }
}

/// One flow of each macroflow among the flows to one host.
pub(super) fn one_per_macroflow<'a, C: Controller>(
    members: impl IntoIterator<Item = &'a FlowId>,
    manager: &Manager<C>,
) -> Vec<FlowId> {
    let mut seen = BTreeSet::new();
    let is_new = |flow: &FlowId| manager.macroflow_of(*flow).is_some_and(|macroflow| seen.insert(macroflow));
    members.into_iter().copied().filter(is_new).collect()
}
