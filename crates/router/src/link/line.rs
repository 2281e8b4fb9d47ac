//! The transmitter of a link and the packets between its two ends.

use rampmeter_units::{Bytes, Duration, Rate, Time};

use super::{LinkConfig, Offered};
use crate::Parcel;
use crate::link::transit::Transit;
use crate::link::transmitter::Transmitter;

/// A link without a queue.
#[derive(Debug)]
pub(super) struct Line<P> {
    pub(super) transmitter: Transmitter,
    pub(super) delay: Duration,
    /// The time at which the transmitter is free; [`Time::MAX`] in an outage.
    pub(super) free_at: Time,
    pub(super) transit: Transit<P>,
}

impl<P: Parcel> Line<P> {
    pub(super) fn new(config: &LinkConfig) -> Self {
        Self {
            transmitter: Transmitter::new(config.rate, Time::ZERO),
            delay: config.delay,
            free_at: if config.rate == Rate::ZERO { Time::MAX } else { Time::ZERO },
            transit: Transit::default(),
        }
    }

    /// A packet of `bytes` enters `now`, and is sent after those before it. Returns when it starts to leave and when it
    /// reaches the far end.
    #[inline]
    pub(super) fn carry(&mut self, now: Time, bytes: Bytes) -> (Time, Time) {
        let leaves_at = self.free_at.max(now);
        self.free_at = self.transmitter.send(leaves_at, bytes).end;
        (leaves_at, self.free_at + self.delay)
    }

    /// A packet reaches the far end `at` this time, which is certain: see [`Link::offer`](super::Link::offer).
    #[inline]
    pub(super) fn pass(&mut self, at: Time, packet: &mut Option<P>, before: Time) -> Offered {
        if at < before && self.transit.is_empty() {
            return Offered::Arrives(at);
        }
        if let Some(packet) = packet.take() {
            self.transit.put(at, packet);
        }
        Offered::Queued
    }

    /// Changes the rate from the next packet on.
    pub(super) fn set_rate(&mut self, now: Time, rate: Rate) {
        let busy_until = match &self.transmitter {
            Transmitter::Constant(_) | Transmitter::Shaped(_) => self.free_at,
            Transmitter::Off { busy_until } => *busy_until,
            Transmitter::Scheduled(schedule) => schedule.busy_until(),
        };
        self.free_at = if rate == Rate::ZERO { Time::MAX } else { busy_until.max(now) };
        self.transmitter = Transmitter::new(rate, busy_until);
    }

    /// Whether packets that arrive `now` at the idle link wait for an opportunity. The earlier ones are lost.
    #[inline]
    pub(super) fn awaits_opportunity(&mut self, now: Time) -> bool {
        let Transmitter::Scheduled(schedule) = &mut self.transmitter else { return false };
        self.free_at = schedule.after(now);
        true
    }
}
