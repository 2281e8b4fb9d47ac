//! A FIFO queue that drops arriving packets while it is full, as most Internet routers do and as PCP requires.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Random, Time};

pub use crate::disciplines::buffer::Config;
use crate::disciplines::buffer::Room;
use crate::link::prefetch::{AHEAD, prefetch};
use crate::{Backlog, Discipline, Environment, Parcel, Router, Verdict};

/// The capacity of a ring, in packets, that keeps its memory.
const SMALL: usize = 16;

/// A drop-tail queue.
#[derive(Debug)]
pub struct DropTail<P> {
    queue: VecDeque<P>,
    bytes: Bytes,
    room: Room,
}

impl<P: Parcel + Send> Discipline<P> for DropTail<P> {
    type Config = Config;

    fn new(config: &Config, _environment: Environment, _random: Random) -> Self {
        Self::with_room(config.packets, config.bytes)
    }
}

impl<P: Parcel> DropTail<P> {
    pub(crate) fn with_room(packets: Option<u64>, bytes: Option<Bytes>) -> Self {
        Self { queue: VecDeque::new(), bytes: Bytes::ZERO, room: Room::new(packets, bytes) }
    }

    /// The packet that leaves next.
    pub(crate) fn first(&self) -> Option<&P> {
        self.queue.front()
    }

    /// Queues a packet even if there is no room.
    pub(crate) fn push(&mut self, packet: P) {
        self.bytes += packet.bytes();
        self.queue.push_back(packet);
    }

    /// Its limits.
    pub(crate) fn room(&self) -> Room {
        self.room
    }

    /// Whether a packet of `bytes` would be queued.
    pub(crate) fn has_room(&self, bytes: Bytes) -> bool {
        self.room.fits(self.backlog(), bytes)
    }
}

impl<P: Parcel> Router<P> for DropTail<P> {
    fn enqueue(&mut self, _now: Time, packet: P) -> Verdict<P> {
        if !self.has_room(packet.bytes()) {
            return Verdict::Dropped(packet);
        }
        self.push(packet);
        Verdict::Queued
    }

    /// A packet that finds an empty queue bypasses it: thousands of links that are mostly idle need no memory.
    fn pass(&mut self, now: Time, packet: P) -> (Option<P>, Verdict<P>) {
        if self.queue.is_empty() && self.has_room(packet.bytes()) {
            return (Some(packet), Verdict::Queued);
        }
        let verdict = self.enqueue(now, packet);
        (self.dequeue(now), verdict)
    }

    fn dequeue(&mut self, _now: Time) -> Option<P> {
        let packet = self.queue.pop_front()?;
        self.bytes -= packet.bytes();
        if let Some(next) = self.queue.front() {
            next.prefetch();
        } else {
            self.queue.clear(); // restarts at the first place of the ring, which is still in the cache
            // The memory of a single burst is soon free for other links; repeated bursts cost one growth each.
            if self.queue.capacity() > SMALL {
                self.queue.shrink_to(self.queue.capacity() / 2);
            }
        }
        self.queue.get(AHEAD).map(prefetch);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    fn queue(config: &Config) -> DropTail<TestParcel> {
        DropTail::new(config, ENVIRONMENT, Random::from_seed(1))
    }

    #[test]
    fn packets_leave_in_order_and_the_last_is_dropped() {
        let mut queue = queue(&Config { packets: Some(2), bytes: None });
        let packets = [1, 2, 3].map(|flow| TestParcel::new(flow, 100));
        assert_eq!(queue.enqueue(Time::ZERO, packets[0]), Verdict::Queued);
        assert_eq!(queue.enqueue(Time::ZERO, packets[1]), Verdict::Queued);
        assert_eq!(queue.enqueue(Time::ZERO, packets[2]), Verdict::Dropped(packets[2]));
        assert_eq!(queue.backlog(), Backlog { packets: 2, bytes: Bytes::new(200) });
        assert_eq!(queue.dequeue(Time::ZERO), Some(packets[0]));
        assert_eq!(queue.dequeue(Time::ZERO), Some(packets[1]));
        assert_eq!(queue.dequeue(Time::ZERO), None);
    }

    #[test]
    fn the_memory_of_a_single_burst_is_returned() {
        let mut queue = queue(&Config::default());
        for packets in [10_000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] {
            (0..packets)
                .for_each(|flow| assert_eq!(queue.enqueue(Time::ZERO, TestParcel::new(flow, 1)), Verdict::Queued));
            while queue.dequeue(Time::ZERO).is_some() {}
        }
        assert!(queue.queue.capacity() <= SMALL, "{}", queue.queue.capacity());
    }
}
