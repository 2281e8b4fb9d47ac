//! What a macroflow does without feedback: its rate ages ([`Aging`]) until feedback arrives. Aging begins when the
//! answer to a probe is overdue, or when flows have reported the absence of feedback for a timeout.

use rampmeter_control::{Controller, Loss, LossKind};
use rampmeter_units::{Bytes, Duration, Rate, Time};

use super::{ASSUMED_RTT, Macroflow};
use crate::aging::{Aging, HalfLife};

impl<C: Controller> Macroflow<C> {
    pub(super) fn on_feedback(&mut self, now: Time) {
        self.last_feedback_at = now;
        (self.aging, self.timeout_reported_at) = (None, None);
    }

    /// The answer to a request sent at `requested_at` is overdue. Returns whether the rate begins to age, which it does
    /// if no other feedback has arrived either.
    pub(crate) fn on_feedback_overdue(&mut self, now: Time, requested_at: Time) -> bool {
        // Responses arrive twice a round trip: answers to earlier probes or for other flows may have arrived since.
        // Feedback that ended a period of aging was late; with another probe overdue the period continues.
        let overdue = self.last_feedback_at <= requested_at
            || self.was_late
            || now.since(self.last_feedback_at) >= self.smoothed_rtt() / 2;
        if self.aging.is_some() || !overdue || !self.started {
            return false;
        }
        let half_life = match self.half_life {
            HalfLife::MinRtt if self.assumed_rtt.is_none() => self.rtt.min(),
            _ => self.smoothed_rtt(),
        };
        self.aging = Some(Aging::new(now, self.permitted_rate(), half_life));
        true
    }

    pub(crate) fn next_halving(&self, now: Time) -> Time {
        self.aging.map_or(Time::MAX, |aging| aging.next_halving(now))
    }

    /// Handles time that passes without feedback. After a retransmission timeout the congestion is persistent (section
    /// 4.1).
    pub(crate) fn on_aging_timer(&mut self, now: Time) {
        let timeout = self.rtt.timeout(ASSUMED_RTT, Duration::ZERO);
        let Some(aging) = self.aging.as_mut().filter(|aging| !aging.was_reported && now.since(aging.since) >= timeout)
        else {
            return;
        };
        aging.was_reported = true;
        self.first_windows.on_loss();
        let (kind, bytes, flight_size, number) = (LossKind::Persistent, Bytes::ZERO, self.in_flight, self.last_sent());
        let (last_sent, recovering, repeated_timeout) = (number, false, false);
        let loss = Loss { kind, bytes, flight_size, number, last_sent, recovering, repeated_timeout };
        self.controller.on_loss(now, &loss);
    }

    /// A flow reports that no feedback arrives. If no flow has received feedback for a timeout since the first such
    /// report, one packet per timeout is too much: the rate backs off as the retransmission timer does (RFC 6298
    /// (5.5)). Returns whether the rate begins to age.
    pub(super) fn on_feedback_timeout(&mut self, now: Time) -> bool {
        let since = *self.timeout_reported_at.get_or_insert(now);
        let timeout = self.timeout();
        if self.aging.is_some() || !self.started || now.since(since) < timeout {
            return false;
        }
        let rate = self.permitted_rate().min(Rate::of(self.packet, timeout));
        let mut aging = Aging::new(now, rate, timeout);
        aging.was_reported = true;
        self.aging = Some(aging);
        true
    }
}
