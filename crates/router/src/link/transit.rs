//! Packets between the two ends of a link, in the order of their arrival.

use std::collections::VecDeque;

use rampmeter_units::Time;

use crate::Parcel;
use crate::link::prefetch::{AHEAD, prefetch};

/// Packets with their arrival times.
#[derive(Debug)]
pub(crate) struct Transit<P>(VecDeque<(Time, P)>);

impl<P> Default for Transit<P> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<P: Parcel> Transit<P> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next arrival; [`Time::MAX`] if no packet is in transit.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.0.front().map_or(Time::MAX, |(at, _)| *at)
    }

    /// A packet reaches the far end `at` this time.
    #[inline]
    pub(crate) fn put(&mut self, at: Time, packet: P) {
        if self.0.back().is_none_or(|(last, _)| *last <= at) {
            self.0.push_back((at, packet));
        } else {
            self.insert(at, packet);
        }
    }

    /// The link's delay was reduced, or varies.
    #[cold]
    fn insert(&mut self, at: Time, packet: P) {
        let place = self.0.iter().rposition(|(earlier, _)| *earlier <= at).map_or(0, |last| last + 1);
        self.0.insert(place, (at, packet));
    }

    /// The next packet that reaches the far end by this time, and its arrival time.
    #[inline]
    pub(crate) fn pop(&mut self, by: Time) -> Option<(Time, P)> {
        if self.next() > by {
            return None;
        }
        self.prepare();
        self.0.pop_front()
    }

    /// Prepares for the departure of the first packet.
    fn prepare(&mut self) {
        trim(&mut self.0);
        // On long, fast paths packets have left the CPU caches before they arrive.
        self.0.get(1 + AHEAD).map(prefetch);
        if let Some((_, after)) = self.0.get(1) {
            after.prefetch();
        }
    }
}

/// Returns memory after a burst: a small ring stays in the cache, and thousands of links share the memory.
pub(crate) fn trim<T>(ring: &mut VecDeque<T>) {
    const SMALL: usize = 16;
    if ring.capacity() > SMALL && ring.len() < ring.capacity() / 8 {
        ring.shrink_to(SMALL.max(ring.len() * 2));
    }
}
