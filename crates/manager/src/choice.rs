//! Macroflows of choice (`congestion-manager.md`, section 4.5): a program that knows that a network treats some of its
//! flows differently puts them into a separate macroflow (RFC 3124 section 3.6, `cm_setmacroflow`).
//!
//! What must hold when a flow leaves one macroflow for another:
//!
//! ```text
//! 1  bytes in flight stay with the macroflow whose window permitted them: its other flows must not send more because
//!    the flow has left
//! 2  feedback about these bytes, above all their loss, concerns that macroflow's controller, and no other
//! 3  a new macroflow starts with the initial window of an unknown path; the windows of the others do not change
//! 4  a flow in a macroflow of choice stays there: segregation does not move it, and later flows do not join it
//! ```
//!
//! Rules 1 and 2 need the macroflow that sent each byte. A flow that reports packets has their numbers, which increase
//! from one macroflow to the next. For a flow that reports totals, the bytes sent first count as reported first. So
//! that one earlier macroflow is enough, a flow with bytes in flight in two macroflows cannot move again.
//!
//! *Deviations* from RFC 3124: macroflows have no numbers of their own; a flow in them is their name, so that a program
//! can name only its own. All flows of a macroflow have the same destination, and so the same history and packet size.

use rampmeter_control::{Arrival, Controller, Path};
use rampmeter_units::{Bytes, Time};

use crate::feedback::{Report, Update, UpdateLoss};
use crate::flow::{Flow, FlowId};
use crate::macroflow::Macroflow;
use crate::manager::{Manager, insert};

/// The macroflow that a flow is put into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MacroflowChoice {
    /// A new one, which only flows that are put there join.
    New,
    /// The one that flows to this destination join by themselves; with
    /// [`Grouping::PerFlow`](crate::Grouping::PerFlow) a new one.
    Default,
    /// That of this flow.
    Of(FlowId),
}

/// Why a flow was not put into a macroflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MacroflowError {
    /// One of the flows is not open.
    Closed,
    /// The two flows have different destinations.
    OtherDestination,
    /// The flow has bytes in flight in an earlier macroflow, and others in its present one.
    StillInFlight,
}

/// The bytes in flight that a flow has sent in the macroflow that it was in before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Earlier {
    pub(crate) macroflow: u32,
    pub(crate) bytes: Bytes,
    /// Packets with lower numbers were sent there.
    end: u64,
}

impl Flow {
    /// Whether packet `number` was sent in the earlier macroflow.
    pub(crate) fn was_sent_earlier(&self, number: u64) -> bool {
        self.earlier.as_ref().is_some_and(|earlier| number < earlier.end)
    }

    /// Removes up to `bytes` of those in flight in the earlier macroflow. Returns that macroflow and their number.
    pub(crate) fn take_earlier(&mut self, bytes: Bytes) -> Option<(u32, Bytes)> {
        let earlier = self.earlier.as_mut()?;
        let (macroflow, taken) = (earlier.macroflow, bytes.min(earlier.bytes));
        earlier.bytes -= taken;
        if earlier.bytes == Bytes::ZERO {
            self.earlier = None;
        }
        Some((macroflow, taken))
    }

    /// Takes from a report, of no more than the bytes in flight, the part about the earlier macroflow. Returns that
    /// macroflow with this part, and the rest if there is one.
    pub(crate) fn split(&mut self, report: &Report) -> (Option<(u32, Report)>, Option<Report>) {
        let bytes = self.earlier.as_ref().map_or(Bytes::ZERO, |earlier| earlier.bytes);
        let received = report.received.min(bytes);
        let lost = report.lost.min(bytes - received);
        let Some((macroflow, taken)) = self.take_earlier(received + lost) else { return (None, Some(*report)) };
        let rest = Report { received: report.received - received, lost: report.lost - lost, ..*report };
        let is_all_there = rest.received + rest.lost == Bytes::ZERO;
        if is_all_there && (taken > Bytes::ZERO || self.in_flight == Bytes::ZERO) {
            return (Some((macroflow, *report)), None);
        }
        // A loss concerns the macroflow of the lost bytes; the round trip is that of the last packet.
        let there = Report { received, lost, mode: report.mode.filter(|_| lost > Bytes::ZERO), rtt: None, ..*report };
        ((taken > Bytes::ZERO).then_some((macroflow, there)), Some(rest))
    }
}

impl<C: Controller> Manager<C> {
    /// Puts the flow into another macroflow, with its requests and its share; its bytes in flight stay with the
    /// macroflow that sent them. `make` creates the controller of a new macroflow.
    pub fn set_macroflow(
        &mut self,
        now: Time,
        flow: FlowId,
        choice: MacroflowChoice,
        make: impl FnOnce() -> C,
    ) -> Result<(), MacroflowError> {
        let (f, from) = self.of_flow(flow).ok_or(MacroflowError::Closed)?;
        let (index, place) = (f.macroflow, from.place);
        let shared = self.destinations.0.get(&place).and_then(|known| known.macroflow);
        let to = match choice {
            MacroflowChoice::Of(other) => {
                let (other, to) = self.of_flow(other).ok_or(MacroflowError::Closed)?;
                if to.place != place {
                    return Err(MacroflowError::OtherDestination);
                }
                Some(other.macroflow)
            }
            MacroflowChoice::Default => shared.filter(|_| self.sharing.grouping.is_shared()),
            MacroflowChoice::New => None,
        };
        if to == Some(index) {
            return Ok(());
        }
        if f.in_flight > Bytes::ZERO && f.earlier.is_some() {
            return Err(MacroflowError::StillInFlight);
        }
        let to = to.unwrap_or_else(|| self.add_macroflow(now, index, choice == MacroflowChoice::New, make()));
        let returning = self.leave_in_flight(flow, to);
        self.move_flow(now, flow, to);
        if let Some(Some(f)) = self.flows.get_mut(flow.index()) {
            f.in_flight = returning;
        }
        self.on_leave(now, index);
        self.compare_shares(now, index);
        self.compare_shares(now, to);
        Ok(())
    }

    /// A macroflow beside `origin`, on the same path. Only one that flows join by themselves starts with the history of
    /// the destination, which is that of flows treated as usual.
    fn add_macroflow(&mut self, now: Time, origin: u32, is_chosen: bool, controller: C) -> u32 {
        let Some(from) = &self.macroflows[origin as usize] else { return origin };
        let mut new = Macroflow::new(from.place, controller, self.sharing);
        new.is_chosen = is_chosen;
        let known = (!is_chosen).then(|| self.destinations.enter(now, from.place));
        let history = known.as_ref().and_then(|known| known.history);
        if let Some(measured) = from.measured() {
            new.start(now, &Path::new(from.packet, measured.smoothed, history));
        } else if from.started {
            new.assume(now, from.packet, history, None);
        }
        let index = insert(&mut self.macroflows, &mut self.free_macroflows, new);
        if let Some(known) = known {
            known.macroflow = Some(index);
        }
        index
    }

    /// The flow is about to move: its bytes in flight become those of an earlier macroflow. Returns those that become its
    /// own again because it returns to the macroflow that sent them.
    fn leave_in_flight(&mut self, flow: FlowId, to: u32) -> Bytes {
        let Some(Some(f)) = self.flows.get_mut(flow.index()) else { return Bytes::ZERO };
        let returning = f.earlier.take_if(|earlier| earlier.macroflow == to);
        let Some(from) = &self.macroflows[f.macroflow as usize] else { return Bytes::ZERO };
        let end = from.next_number;
        let bytes = std::mem::take(&mut f.in_flight);
        if bytes > Bytes::ZERO {
            f.earlier = Some(Box::new(Earlier { macroflow: f.macroflow, bytes, end }));
        }
        if let Some(to) = &mut self.macroflows[to as usize] {
            to.next_number = to.next_number.max(end);
        }
        returning.map_or(Bytes::ZERO, |earlier| earlier.bytes)
    }

    /// [`Manager::update`] of a flow with bytes in flight in an earlier macroflow: each macroflow gets its part.
    pub(crate) fn update_both(&mut self, now: Time, flow: FlowId, update: &Update<'_>) {
        let Some(Some(f)) = self.flows.get_mut(flow.index()) else { return };
        let Some(Earlier { macroflow: index, bytes, end }) = f.earlier.as_deref().copied() else { return };
        let (old, own): (Vec<Arrival>, Vec<Arrival>) = update.arrivals.iter().partition(|arrival| arrival.number < end);
        let old_bytes = old.iter().fold(Bytes::ZERO, |sum, arrival| sum + arrival.bytes);
        // Without numbers the bytes sent first arrive first.
        let delivered = if update.arrivals.is_empty() { bytes } else { old_bytes }.min(update.delivered);
        let arrived = delivered.min(update.arrived_in_flight).min(bytes);
        // When a packet counts as lost, those sent before it have arrived or are lost, too.
        let lost = update.lost.min(bytes - arrived);
        let there = Update {
            arrived_in_flight: arrived,
            lost,
            delivered,
            arrivals: &old,
            loss: update
                .loss
                .filter(|loss| lost > Bytes::ZERO || loss.number < end)
                .map(|loss| UpdateLoss { number: loss.number.min(end.saturating_sub(1)), ..loss }),
            ..*update
        };
        let here = Update {
            arrived_in_flight: update.arrived_in_flight - arrived,
            lost: update.lost - lost,
            delivered: update.delivered - delivered,
            arrivals: &own,
            loss: update.loss.filter(|loss| loss.number >= end),
            ..*update
        };
        f.take_earlier(arrived + lost);
        let is_empty = |part: &Update<'_>| {
            part.delivered + part.lost == Bytes::ZERO && part.arrivals.is_empty() && part.loss.is_none()
        };
        // The round trip and what routers wrote are those of the last packet.
        let is_all_there = is_empty(&here) && !is_empty(&there);
        let (rtt, feedback) = if is_all_there { (update.rtt, update.feedback) } else { Default::default() };
        if !is_empty(&there)
            && let Some(Some(macroflow)) = self.macroflows.get_mut(index as usize)
        {
            macroflow.update(now, &Update { rtt, feedback, ..there });
            self.after_feedback(now, index);
        }
        if !is_all_there {
            self.update_own(now, flow, &here);
        }
    }
}
