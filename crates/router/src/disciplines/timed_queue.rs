//! A FIFO queue that records arrival times, for disciplines that act on the sojourn time of packets.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Time};

use crate::{Backlog, Parcel};

/// Packets with their arrival times.
#[derive(Debug)]
pub(crate) struct TimedQueue<P> {
    packets: VecDeque<(Time, P)>,
    bytes: Bytes,
}

impl<P> Default for TimedQueue<P> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: Bytes::ZERO }
    }
}

impl<P: Parcel> TimedQueue<P> {
    pub(crate) fn push(&mut self, now: Time, packet: P) {
        self.bytes += packet.bytes();
        self.packets.push_back((now, packet));
    }

    /// The packet that arrived first, and its sojourn time.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Duration, P)> {
        let (arrived_at, packet) = self.packets.pop_front()?;
        self.bytes -= packet.bytes();
        Some((now.since(arrived_at), packet))
    }

    /// When the first packet arrived.
    pub(crate) fn first_arrival(&self) -> Option<Time> {
        self.packets.front().map(|(arrived_at, _)| *arrived_at)
    }

    pub(crate) fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u64, bytes: self.bytes }
    }
}
