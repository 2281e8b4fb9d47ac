//! A transmitter whose capacity is a sequence of opportunities.

use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::capacity::{Opportunities, Opportunity};

/// The transmission of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The time of its last bit.
    pub(crate) end: Time,
    /// The time at which the next packet can be taken from the queue.
    pub(crate) next: Time,
    /// Its delay in addition to the link's propagation delay.
    pub(crate) delay: Duration,
}

#[derive(Debug)]
pub(crate) struct Schedule {
    opportunities: Opportunities,
    mean: Rate,
    /// The opportunity that the next byte uses.
    current: Opportunity,
    /// The bytes of `current` that are not used yet.
    left: Bytes,
    /// The bytes of all opportunities before `current`.
    past: Bytes,
    /// The time of the last bit sent.
    busy_until: Time,
}

impl Schedule {
    pub(crate) fn new(mean: Rate, mut opportunities: Opportunities) -> Self {
        let current = opportunities.next();
        Self { opportunities, mean, current, left: current.bytes, past: Bytes::ZERO, busy_until: Time::ZERO }
    }

    pub(crate) fn mean(&self) -> Rate {
        self.mean
    }

    pub(crate) fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// When a packet can be taken from the queue that was empty up to `now`: the opportunities up to now are lost.
    pub(crate) fn after(&mut self, now: Time) -> Time {
        while self.current.at <= now {
            self.advance();
        }
        self.current.at
    }

    /// Sends a packet of `bytes` from the current opportunity on.
    pub(crate) fn send(&mut self, bytes: Bytes) -> Sent {
        let mut rest = bytes;
        while rest > self.left {
            rest -= self.left;
            self.advance();
        }
        self.left -= rest;
        let Opportunity { at: end, delay, .. } = self.current;
        self.busy_until = end;
        if self.left == Bytes::ZERO {
            self.advance();
        }
        Sent { end, next: self.current.at, delay }
    }

    /// The bytes of all opportunities up to `now`.
    pub(crate) fn granted(&self, now: Time) -> Bytes {
        let (mut sum, mut next, mut opportunities) = (self.past, self.current, self.opportunities.clone());
        while next.at <= now {
            sum += next.bytes;
            next = opportunities.next();
        }
        sum
    }

    fn advance(&mut self) {
        self.past += self.current.bytes;
        self.current = self.opportunities.next();
        self.left = self.current.bytes;
    }
}
