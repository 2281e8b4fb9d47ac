//! The queue of a link that foresees its departures: it is first in, first out, drops only packets that arrive while it
//! is full, and the link's rate is constant. Then the time at which a packet leaves is certain when it arrives. The link
//! puts it in transit at once, and the queue only keeps when it leaves and its size.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Time};

use crate::Backlog;
use crate::disciplines::buffer::Room;
use crate::link::transit::trim;

/// The packets that have not left.
#[derive(Debug)]
pub(crate) struct Departures {
    /// When each packet leaves, and its bytes.
    queued: VecDeque<(Time, u32)>,
    bytes: Bytes,
    room: Room,
}

impl Departures {
    /// An empty queue with these limits.
    pub(crate) fn new(room: Room) -> Self {
        Self { queued: VecDeque::new(), bytes: Bytes::ZERO, room }
    }

    pub(crate) fn has_room(&self, bytes: Bytes) -> bool {
        self.room.fits(self.backlog(), bytes)
    }

    /// A packet of `bytes` leaves `at` this time, after all others.
    pub(crate) fn push(&mut self, at: Time, bytes: Bytes) {
        debug_assert!(self.queued.back().is_none_or(|(last, _)| *last <= at));
        self.queued.push_back((at, bytes.as_u64() as u32));
        self.bytes += bytes;
    }

    /// The next packet that has left by `now`: when it left, and its bytes.
    #[inline]
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, Bytes)> {
        let (at, bytes) = *self.queued.front().filter(|(at, _)| *at <= now)?;
        self.queued.pop_front();
        trim(&mut self.queued);
        let bytes = Bytes::new(bytes.into());
        self.bytes -= bytes;
        Some((at, bytes))
    }

    pub(crate) fn backlog(&self) -> Backlog {
        Backlog { packets: self.queued.len() as u64, bytes: self.bytes }
    }
}
