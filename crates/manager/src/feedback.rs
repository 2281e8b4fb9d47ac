//! How flows tell what became of their packets (`congestion-manager.md`, section 3.1, `cm_update`): with all that a transport
//! of ours knows, or with the little that any application does.

use rampmeter_control::{Arrival, Controller, LossKind, Path};
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::RouterFeedback;

use crate::flow::FlowId;
use crate::manager::Manager;

/// How a flow's packets fared, one by one.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// Outstanding bytes that have left the network because they arrived.
    pub acked: Bytes,
    /// Outstanding bytes that have left the network because they were lost.
    pub lost: Bytes,
    /// Bytes newly known to have arrived, among them some that had been given up.
    pub delivered: Bytes,
    /// The packets that arrived, one by one.
    pub arrivals: &'a [Arrival],
    /// A round-trip time measurement.
    pub rtt: Option<Duration>,
    /// How packets were found lost.
    pub loss: Option<UpdateLoss>,
    /// Bytes sent and not cumulatively acknowledged before this feedback.
    pub flight_size: Bytes,
    /// The flow is repairing losses.
    pub recovering: bool,
    /// What routers wrote into the flow's packets.
    pub feedback: RouterFeedback,
}

/// The loss part of an [`Update`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateLoss {
    /// How it showed.
    pub kind: LossKind,
    /// Highest number among the lost packets.
    pub number: u64,
    /// The flow was repairing an earlier loss when it found this one.
    pub recovering: bool,
    /// The timer has run out before without anything having arrived since.
    pub repeated: bool,
}

/// How congestion showed, in `cm_update`: the paper's `lossmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossMode {
    /// The retransmission timer ran out: nothing comes back.
    Persistent,
    /// Later packets arrived, some did not.
    Transient,
    /// A router marked a packet instead of dropping it.
    Ecn,
}

impl LossMode {
    /// The loss that a controller is told of; a mark is none.
    pub(crate) fn loss(self) -> Option<LossKind> {
        match self {
            Self::Persistent => Some(LossKind::Persistent),
            Self::Transient => Some(LossKind::Transient),
            Self::Ecn => None,
        }
    }
}

/// How a flow's packets fared, all in all: the arguments of the paper's `cm_update`. Sizes count headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Bytes that arrived.
    pub received: Bytes,
    /// Bytes that were lost.
    pub lost: Bytes,
    /// How congestion showed, if it did; `lost` may be unknown, and with a mark of a router nothing is lost.
    pub mode: Option<LossMode>,
    /// `Persistent` only: the same has been reported before without anything having arrived since.
    pub repeated: bool,
    /// A round-trip time measurement.
    pub rtt: Option<Duration>,
    /// The bytes had all been sent by then; if that is unknown, a round trip ago.
    pub sent_by: Option<Time>,
}

impl<C: Controller> Manager<C> {
    /// The flow learnt how its packets fared, one by one.
    pub fn update(&mut self, now: Time, flow: FlowId, update: &Update<'_>) {
        if let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) {
            f.in_flight = f.in_flight.saturating_sub(update.acked + update.lost);
            f.fared.received += update.acked;
            f.fared.lost += update.lost;
        }
        if let Some((macroflow, index)) = self.macroflow(flow) {
            macroflow.update(now, update);
            self.follow(now, index);
        }
    }

    /// The flow learnt how its packets fared, all in all (`cm_update`).
    pub fn report(&mut self, now: Time, flow: FlowId, report: &Report) {
        let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) else { return };
        // Nobody can have received more than was sent.
        let received = report.received.min(f.in_flight);
        let lost = report.lost.min(f.in_flight - received);
        let report = &Report { received, lost, ..*report };
        f.in_flight -= received + lost;
        f.fared.received += received;
        f.fared.lost += lost;
        f.last_used = now;
        let Some((macroflow, index)) = self.macroflow(flow) else { return };
        if let Some(rtt) = report.rtt.filter(|_| macroflow.is_assumed()) {
            let (packet, destination) = (macroflow.packet(), macroflow.destination);
            let history = self.history(destination);
            if let Some((macroflow, _)) = self.macroflow(flow) {
                macroflow.start(now, &Path::new(packet, rtt, history));
            }
        }
        if let Some((macroflow, _)) = self.macroflow(flow) {
            if macroflow.report(now, report) {
                self.age(now, index);
            }
            self.follow(now, index);
        }
    }

    /// What the flow has sent that is not known to have arrived, or to be lost.
    pub fn in_flight(&self, flow: FlowId) -> Bytes {
        self.of_flow(flow).map_or(Bytes::ZERO, |(flow, _)| flow.in_flight)
    }

    /// `bytes` that the flow has notified of are not on their way: they did not leave after all, or nobody knows what
    /// became of them.
    pub fn take_back(&mut self, now: Time, flow: FlowId, bytes: Bytes) {
        let bytes = self.subtract(now, flow, bytes);
        if let Some((macroflow, index)) = self.macroflow(flow) {
            macroflow.forget(now, bytes);
            self.wake(index);
        }
    }

    /// `bytes` that were taken back are on their way after all, or were until just now.
    pub fn give_again(&mut self, flow: FlowId, bytes: Bytes) {
        let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) else { return };
        f.in_flight += bytes;
        if let Some((macroflow, _)) = self.macroflow(flow) {
            macroflow.recall(bytes);
        }
    }

    /// Of what the flow has notified of, `bytes` never left: where flows can't answer each grant before the next one is
    /// given, it counts as sent in full, and what was not used comes back here. The flow's turn, and everybody's next packet,
    /// come the sooner.
    pub fn unsent(&mut self, now: Time, flow: FlowId, bytes: Bytes) {
        let bytes = self.subtract(now, flow, bytes);
        if let Some((macroflow, index)) = self.macroflow(flow) {
            macroflow.credit(now, flow.0, bytes);
            self.wake(index);
        }
    }

    /// Takes `bytes` off what the flow has outstanding, if it has so many. Says how many that were.
    fn subtract(&mut self, now: Time, flow: FlowId, bytes: Bytes) -> Bytes {
        let Some(Some(f)) = self.flows.get_mut(flow.0 as usize) else { return Bytes::ZERO };
        let bytes = bytes.min(f.in_flight);
        f.in_flight -= bytes;
        f.last_used = now;
        bytes
    }

    /// What had been reported lost has arrived after all: packets had overtaken each other (section 4.2.2).
    pub fn undo(&mut self, now: Time, flow: FlowId) {
        if let Some((macroflow, index)) = self.macroflow(flow) {
            macroflow.undo(now);
            self.follow(now, index);
        }
    }

    /// What was asked of the flow's receiver at `asked` should have been answered by now: unless anything has come back
    /// since, the macroflow's rate ages until something does (section 4.4).
    pub fn fall_silent(&mut self, now: Time, flow: FlowId, asked: Time) {
        let Some((macroflow, index)) = self.macroflow(flow) else { return };
        if macroflow.fall_silent(now, asked) {
            self.age(now, index);
            self.wake(index);
        }
    }

    /// A macroflow's rate has begun to age.
    fn age(&mut self, now: Time, index: u32) {
        let Some(macroflow) = &self.macroflows[index as usize] else { return };
        let next = macroflow.next_halving(now);
        self.timers.arm(index, next);
        self.look(now, index);
    }

    /// After news of a macroflow: its controller's deadline, its flows' shares, what may leave now.
    fn follow(&mut self, now: Time, index: u32) {
        let Some(macroflow) = &self.macroflows[index as usize] else { return };
        let deadline = macroflow.controller.deadline();
        let look = macroflow.watchers > 0 && now >= macroflow.next_look;
        if deadline < Time::MAX {
            self.timers.arm(index, deadline);
        }
        if look {
            self.look(now, index);
        }
        self.notice(now, index);
        self.wake(index);
    }
}
