//! How flows report what happened to their packets (`congestion-manager.md`, section 3.1, `cm_update`): packet by
//! packet, as Rampmeter's transport does ([`Update`]), or as totals, as any application can ([`Report`]).

use rampmeter_control::{Arrival, Controller, LossKind, Notice, Path};
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::RouterFeedback;

use crate::flow::FlowId;
use crate::manager::Manager;

/// What happened to a flow's packets, packet by packet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Update<'a> {
    /// Bytes that left `in_flight` because they arrived.
    pub arrived_in_flight: Bytes,
    /// Bytes that left `in_flight` because they were lost.
    pub lost: Bytes,
    /// Bytes newly reported as delivered, including packets that had been counted as lost.
    pub delivered: Bytes,
    /// The packets that arrived, one by one.
    pub arrivals: &'a [Arrival],
    /// Several acknowledgements, one for each of `arrivals`, were combined: so windows grow for each of them. False
    /// where acknowledgements are delayed, so that one grows windows once.
    pub is_combined: bool,
    /// A round-trip time measurement: of the last of `arrivals`, or of a packet that counted as lost.
    pub rtt: Option<Duration>,
    /// The loss that this feedback reveals, if any.
    pub loss: Option<UpdateLoss>,
    /// Bytes sent and not cumulatively acknowledged before this feedback.
    pub flight_size: Bytes,
    /// The flow is in loss recovery.
    pub recovering: bool,
    /// What routers wrote into the flow's packets.
    pub feedback: RouterFeedback,
}

/// The loss part of an [`Update`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateLoss {
    /// How the loss was detected.
    pub kind: LossKind,
    /// The highest number among the lost packets.
    pub number: u64,
    /// The flow was already in loss recovery when it detected this loss.
    pub recovering: bool,
    /// The timer expired before, and nothing has arrived since.
    pub repeated_timeout: bool,
}

/// How congestion was detected, in `cm_update`: the paper's `lossmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossMode {
    /// The retransmission timer expired: no feedback arrives.
    Persistent,
    /// Later packets arrived, some did not.
    Transient,
    /// A router marked a packet instead of dropping it.
    Ecn,
}

impl LossMode {
    /// The kind of loss that is reported to the controller; none for a mark.
    pub(crate) fn loss(self) -> Option<LossKind> {
        match self {
            Self::Persistent => Some(LossKind::Persistent),
            Self::Transient => Some(LossKind::Transient),
            Self::Ecn => None,
        }
    }
}

/// What happened to a flow's packets in total: the arguments of the paper's `cm_update`. Sizes include headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Bytes that arrived.
    pub received: Bytes,
    /// Bytes that were lost.
    pub lost: Bytes,
    /// How congestion was detected, if it was. `lost` may be zero because the number is unknown; a mark loses nothing.
    pub mode: Option<LossMode>,
    /// `Persistent` only: the same was reported before, and nothing has arrived since.
    pub repeated_timeout: bool,
    /// A round-trip time measurement.
    pub rtt: Option<Duration>,
    /// All of these bytes had been sent by this time; if it is unknown, one round trip ago.
    pub sent_by: Option<Time>,
}

impl<C: Controller> Manager<C> {
    /// Reports what happened to the flow's packets, packet by packet.
    pub fn update(&mut self, now: Time, flow: FlowId, update: &Update<'_>) {
        if self.flows.get(flow.index()).and_then(Option::as_ref).is_some_and(|f| f.earlier.is_some()) {
            self.update_both(now, flow, update);
        } else {
            self.update_own(now, flow, update);
        }
    }

    pub(crate) fn update_own(&mut self, now: Time, flow: FlowId, update: &Update<'_>) {
        if let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) {
            f.count_time(now);
            f.in_flight = f.in_flight.saturating_sub(update.arrived_in_flight + update.lost);
            f.count(update.arrived_in_flight, update.lost);
        }
        if let Some((macroflow, index)) = self.macroflow(flow) {
            macroflow.update(now, update);
            self.after_feedback(now, index);
        }
    }

    /// Reports what happened to the flow's packets in total (`cm_update`).
    pub fn report(&mut self, now: Time, flow: FlowId, report: &Report) {
        let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) else { return };
        // A receiver cannot have received more than was sent.
        let received = report.received.min(f.all_in_flight());
        let lost = report.lost.min(f.all_in_flight() - received);
        let (earlier, own) = f.split(&Report { received, lost, ..*report });
        let own = own.map(|own| {
            f.count_time(now);
            f.in_flight -= own.received + own.lost;
            f.count(own.received, own.lost);
            (f.macroflow, own)
        });
        for (index, report) in earlier.into_iter().chain(own) {
            self.report_to(now, index, &report);
        }
    }

    /// Reports what happened to packets of a macroflow.
    fn report_to(&mut self, now: Time, index: u32, report: &Report) {
        let Some(macroflow) = &mut self.macroflows[index as usize] else { return };
        if let Some(rtt) = report.rtt.filter(|_| macroflow.assumed_rtt.is_some()) {
            let history = self.destinations.0.get(&macroflow.place).and_then(|known| known.history);
            macroflow.start(now, &Path::new(macroflow.packet, rtt, history));
        }
        if macroflow.report(now, report) {
            self.age(now, index);
        }
        self.after_feedback(now, index);
    }

    /// The flow's bytes in flight.
    pub fn in_flight(&self, flow: FlowId) -> Bytes {
        self.of_flow(flow).map_or(Bytes::ZERO, |(flow, _)| flow.all_in_flight())
    }

    /// Removes `bytes` that the flow has notified of from its bytes in flight: they were not sent, or their outcome is
    /// unknown.
    pub fn discard_in_flight(&mut self, now: Time, flow: FlowId, bytes: Bytes) {
        let earlier = self.flows.get_mut(flow.index()).and_then(Option::as_mut).and_then(|f| f.take_earlier(bytes));
        let own = bytes - earlier.map_or(Bytes::ZERO, |(_, bytes)| bytes);
        let own = self.macroflow_of(flow).map(|index| (index, self.reduce_in_flight(now, flow, own)));
        for (index, bytes) in earlier.into_iter().chain(own) {
            self.discard_of(now, index, bytes);
        }
    }

    /// Removes bytes in flight of a macroflow.
    pub(crate) fn discard_of(&mut self, now: Time, index: u32, bytes: Bytes) {
        if let Some(macroflow) = &mut self.macroflows[index as usize] {
            macroflow.discard(now, bytes);
            self.wake(index);
        }
    }

    /// Adds `bytes` that were discarded to the flow's bytes in flight again: they are in flight, or were until now. So
    /// their time in flight counts from the flow's last change on.
    pub fn restore_in_flight(&mut self, flow: FlowId, bytes: Bytes) {
        let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) else { return };
        f.in_flight += bytes;
        if let Some((macroflow, _)) = self.macroflow(flow) {
            macroflow.restore(bytes);
        }
    }

    /// Adds `bytes` that counted as lost to the flow's bytes in flight again: the loss was spurious, so that it says
    /// nothing about how the network treats the flow.
    pub fn restore_lost(&mut self, flow: FlowId, bytes: Bytes) {
        let f = self.flows.get_mut(flow.index()).and_then(Option::as_mut);
        if let Some(counts) = f.and_then(|f| f.counts.as_mut()) {
            counts.remove_lost(bytes);
        }
        self.restore_in_flight(flow, bytes);
    }

    /// Reports that `bytes` of packet `number`, which the flow has notified of, were never sent. A flow that cannot answer
    /// each grant before the next one is charged for full packets and returns the unused part here. The flow's next turn
    /// and the macroflow's next departure are earlier by that part.
    pub fn unsent(&mut self, now: Time, flow: FlowId, number: u64, bytes: Bytes) {
        let f = self.flows.get_mut(flow.index()).and_then(Option::as_mut);
        let earlier = f.filter(|f| f.was_sent_earlier(number)).and_then(|f| f.take_earlier(bytes));
        if let Some((index, taken)) = earlier {
            self.discard_of(now, index, taken);
            // Feedback may have removed some of these bytes before: the rest is in flight in the present macroflow.
            let rest = self.reduce_in_flight(now, flow, bytes - taken);
            if let Some(own) = self.macroflow_of(flow) {
                self.discard_of(now, own, rest);
            }
            return;
        }
        let bytes = self.reduce_in_flight(now, flow, bytes);
        if let Some((macroflow, index)) = self.macroflow(flow) {
            macroflow.return_unsent(now, flow.0, bytes);
            self.wake(index);
        }
    }

    /// Removes `bytes`, or as many as there are, from the flow's bytes in flight, and returns the number removed.
    fn reduce_in_flight(&mut self, now: Time, flow: FlowId, bytes: Bytes) -> Bytes {
        let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) else { return Bytes::ZERO };
        let bytes = bytes.min(f.in_flight);
        f.count_time(now);
        f.in_flight -= bytes;
        bytes
    }

    /// Bytes that had been reported lost have arrived: packets were reordered (section 4.2.2).
    /// While the flow has bytes in flight in two macroflows nothing is undone: the loss may have concerned either.
    pub fn undo(&mut self, now: Time, flow: FlowId) {
        if self.of_flow(flow).is_some_and(|(f, _)| f.earlier.is_some()) {
            return;
        }
        if let Some((macroflow, index)) = self.macroflow(flow) {
            macroflow.controller.on_notice(now, Notice::SpuriousLoss);
            self.after_feedback(now, index);
        }
    }

    /// An answer to the request that was sent to the flow's receiver at `requested_at` is overdue. Unless feedback has
    /// arrived since, the rate of the macroflow ages until feedback arrives (section 4.4).
    pub fn on_feedback_overdue(&mut self, now: Time, flow: FlowId, requested_at: Time) {
        let Some((macroflow, index)) = self.macroflow(flow) else { return };
        if macroflow.on_feedback_overdue(now, requested_at) {
            self.age(now, index);
            self.wake(index);
        }
    }

    /// Arms the timer of a macroflow whose rate has begun to age, and reports the changed shares.
    fn age(&mut self, now: Time, index: u32) {
        let Some(macroflow) = &self.macroflows[index as usize] else { return };
        self.timers.arm(index, macroflow.next_halving(now));
        self.compare_shares(now, index);
    }

    /// After feedback for a macroflow: arms its controller's deadline, compares shares and treatment, and grants.
    pub(crate) fn after_feedback(&mut self, now: Time, index: u32) {
        let Some(macroflow) = &self.macroflows[index as usize] else { return };
        self.timers.arm(index, macroflow.controller.deadline());
        if macroflow.watchers > 0 && now >= macroflow.next_comparison {
            self.compare_shares(now, index);
        }
        self.compare_flows(now, index);
        self.wake(index);
    }
}
