//! What a macroflow does while nothing comes back: its rate ages ([`Aging`]), from when an answer is overdue, or flows
//! have said for a timeout that none comes, until there is news.

use rampmeter_control::{Controller, Loss, LossKind};
use rampmeter_units::{Bytes, Duration, Rate, Time};

use super::{ASSUMED_RTT, MIN_TIMEOUT, Macroflow};
use crate::aging::{Aging, HalfLife};

impl<C: Controller> Macroflow<C> {
    /// Something has come back.
    pub(super) fn hear(&mut self, now: Time) {
        self.heard = now;
        (self.aging, self.given_up) = (None, None);
    }

    /// What was asked at `asked` should have been answered by now. True if the rate ages from now on, because nothing
    /// else has come back either.
    pub(crate) fn fall_silent(&mut self, now: Time, asked: Time) -> bool {
        // Responses come twice a round trip: what answers earlier probes, or other flows, may have come since. What ended a
        // silence was late, and with another probe overdue there still is one.
        let quiet = self.heard <= asked || self.resumed || now.since(self.heard) >= self.smoothed_rtt() / 2;
        if self.aging.is_some() || !quiet || !self.started {
            return false;
        }
        let half_life = match self.half_life {
            HalfLife::MinRtt if self.assumed.is_none() => self.rtt.min(),
            _ => self.smoothed_rtt(),
        };
        self.aging = Some(Aging::new(now, self.allowed(), half_life));
        true
    }

    /// When the rate ages next.
    pub(crate) fn next_halving(&self, now: Time) -> Time {
        self.aging.map_or(Time::MAX, |aging| aging.next_halving(now))
    }

    /// Time passes without feedback. After a retransmission timeout of it the congestion is persistent (section 4.1).
    pub(crate) fn grow_old(&mut self, now: Time) {
        let timeout = self.rtt.timeout(ASSUMED_RTT, Duration::ZERO);
        let Some(aging) = self.aging.as_mut().filter(|aging| !aging.told && now.since(aging.since) >= timeout) else {
            return;
        };
        aging.told = true;
        let (flight_size, number) = (self.in_flight, self.last_sent());
        let kind = LossKind::Persistent;
        let loss = Loss {
            kind,
            bytes: Bytes::ZERO,
            flight_size,
            number,
            last_sent: number,
            recovering: false,
            repeated: false,
        };
        self.controller.on_loss(now, &loss);
    }

    /// A flow says that nothing comes back. A timeout after the first that did, and with nothing heard since by any
    /// flow, a packet a timeout is too much: the rate backs off as a timer does (RFC 6298 (5.5)). True if it ages from
    /// now on.
    pub(super) fn give_up(&mut self, now: Time) -> bool {
        let since = *self.given_up.get_or_insert(now);
        let timeout = self.rtt.timeout(ASSUMED_RTT, MIN_TIMEOUT);
        if self.aging.is_some() || !self.started || now.since(since) < timeout {
            return false;
        }
        let rate = self.allowed().min(Rate::of(self.packet, timeout));
        let mut aging = Aging::new(now, rate, timeout);
        aging.told = true;
        self.aging = Some(aging);
        true
    }
}
