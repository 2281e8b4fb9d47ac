//! The queue of a link that foresees its departures: it is first in, first out, drops only packets that arrive while it
//! is full, and the link's rate is constant. Then the time at which a packet leaves is certain when it arrives. The link
//! puts it in transit at once, and the queue only keeps when it leaves, how long it waits, and its size.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Time};

use crate::Backlog;
use crate::disciplines::buffer::Room;
use crate::link::transit::trim;

/// A packet that has not left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Departing {
    /// When it leaves.
    pub(crate) at: Time,
    /// How long it waits until then.
    pub(crate) wait: Duration,
    bytes: u32,
}

impl Departing {
    pub(crate) fn new(now: Time, at: Time, bytes: Bytes) -> Self {
        Self { at, wait: at.since(now), bytes: bytes.as_u64() as u32 }
    }

    pub(crate) fn bytes(self) -> Bytes {
        Bytes::new(self.bytes.into())
    }
}

/// The packets that have not left.
#[derive(Debug)]
pub(crate) struct Departures {
    queued: VecDeque<Departing>,
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

    /// A packet arrives that leaves after all others.
    pub(crate) fn push(&mut self, packet: Departing) {
        debug_assert!(self.queued.back().is_none_or(|last| last.at <= packet.at));
        self.queued.push_back(packet);
        self.bytes += packet.bytes();
    }

    /// The next packet that has left by `now`.
    #[inline]
    pub(crate) fn pop(&mut self, now: Time) -> Option<Departing> {
        let packet = *self.queued.front().filter(|packet| packet.at <= now)?;
        self.queued.pop_front();
        trim(&mut self.queued);
        self.bytes -= packet.bytes();
        Some(packet)
    }

    pub(crate) fn backlog(&self) -> Backlog {
        Backlog { packets: self.queued.len() as u64, bytes: self.bytes }
    }
}
