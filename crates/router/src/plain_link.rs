//! A *plain* link: one direction of a wire that never drops, marks or changes packets, has a constant rate, keeps their
//! order, and is not measured. A packet's arrival time is certain when it enters, so the link needs no queue.

use rampmeter_units::{Bytes, Duration, Time};

use crate::transit::Transit;
use crate::transmitter::Divider;
use crate::{LinkConfig, Parcel};

/// A plain link.
#[derive(Debug)]
pub struct PlainLink<P> {
    rate: Divider,
    delay: Duration,
    /// When the packets that have entered are transmitted.
    free_at: Time,
    transit: Transit<P>,
}

impl<P: Parcel> PlainLink<P> {
    /// A link with a rate above zero and without random loss.
    pub fn new(config: &LinkConfig) -> Self {
        Self { rate: Divider::new(config.rate), delay: config.delay, free_at: Time::ZERO, transit: Transit::default() }
    }

    /// A packet of `bytes` enters. Returns the time at which it reaches the far end: the caller delivers it then, or puts
    /// it in transit ([`PlainLink::put`]).
    #[inline]
    pub fn carry(&mut self, now: Time, bytes: Bytes) -> Time {
        self.free_at = self.free_at.max(now) + self.rate.time_to_send(bytes);
        self.free_at + self.delay
    }

    /// Puts a packet in transit that reaches the far end `at` this time.
    #[inline]
    pub fn put(&mut self, at: Time, packet: P) {
        self.transit.put(at, packet);
    }

    /// Whether no packet is in transit.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.transit.is_empty()
    }

    /// The next arrival of a packet in transit; [`Time::MAX`] if there is none.
    #[inline]
    pub fn next_event(&self) -> Time {
        self.transit.next()
    }

    /// A packet that has reached the far end by `now`.
    #[inline]
    pub fn arrive(&mut self, now: Time) -> Option<P> {
        self.transit.pop(now).map(|(_, packet)| packet)
    }
}
