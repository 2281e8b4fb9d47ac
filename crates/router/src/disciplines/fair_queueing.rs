//! Fair queueing: packets leave in the order in which a bit-by-bit round robin over the flows would finish them
//! (Demers, Keshav and Shenker, "Analysis and simulation of a fair queueing algorithm", SIGCOMM 1989, section 2). The
//! router of PCP section 4.2.2.
//!
//! Each packet has the round `F` in which the fluid server (`fluid.rs`) would send its last bit; the packet with the
//! smallest `F` leaves first. When the buffer is full, the longest queue, in packets if the limit is in packets, else
//! in bytes, loses its latest packet: a flow that sends too much harms only itself.
//!
//! **Bound.** Whenever a packet leaves, a flow's service is within one largest packet, `P`, of its fluid service:
//! - not more than `P` behind, by Parekh and Gallager 1993, theorem 2;
//! - not more than `P` ahead: a packet leaves with the smallest `F`. If its flow is ahead, some flow `j` is behind, so
//!   the round has passed the start of `j`'s first packet, `R > F_j - P >= F - P`. (This needs equal weights.)
//!
//! A packet that arrives during a transmission is added to the fluid server as of its end, when the next packet is
//! selected. A flow is removed when it has neither packets nor fluid left.
//!
//! *Deviations*: the paper's allowance `delta`, by which flows that send little are served earlier, is not implemented.

use std::cmp::Reverse;
use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Random, Time};

pub use crate::disciplines::buffer::Config;
use crate::disciplines::buffer::Room;
use crate::disciplines::flow_table::FlowTable;
use crate::disciplines::fluid::{Fluid, Round};
use crate::disciplines::indexed_heap::IndexedHeap;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Tally, Verdict};

/// The queue of one flow.
#[derive(Debug)]
struct Queue<P> {
    /// Packets with their finishing rounds and their arrival times.
    packets: VecDeque<(Round, Time, P)>,
    bytes: Bytes,
}

impl<P> Default for Queue<P> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: Bytes::ZERO }
    }
}

/// A fair queue.
#[derive(Debug)]
pub struct FairQueueing<P> {
    room: Room,
    flows: FlowTable<Queue<P>>,
    fluid: Fluid,
    /// Flows with packets, by the finishing round of their first packet.
    next: IndexedHeap<Round>,
    /// Flows with packets, the longest queue first.
    longest: IndexedHeap<Reverse<u64>>,
    backlog: Backlog,
    dropped_from_queue: u64,
    last_wait: Duration,
}

impl<P: Parcel> FairQueueing<P> {
    /// Bytes of `flow` in the queue.
    pub fn queued(&self, flow: u64) -> Bytes {
        self.flows.find(flow).map_or(Bytes::ZERO, |slot| self.flows[slot].bytes)
    }

    /// Drops the latest packet of the flow with the longest queue.
    fn drop_from_longest(&mut self) -> Option<(usize, P)> {
        let (_, slot) = self.longest.first()?;
        let (finish, _, packet) = self.flows[slot].packets.pop_back()?;
        self.fluid.remove_packet(slot, finish, packet.bytes());
        self.on_removed(slot, packet.bytes());
        Some((slot, packet))
    }

    /// A packet of `bytes` has left the queue in `slot`.
    fn on_removed(&mut self, slot: usize, bytes: Bytes) {
        self.flows[slot].bytes -= bytes;
        self.backlog.packets -= 1;
        self.backlog.bytes -= bytes;
        self.update_keys(slot);
        while let Some(finished) = self.fluid.advance() {
            if finished != slot {
                self.remove_if_idle(finished);
            }
        }
        self.remove_if_idle(slot);
    }

    /// Updates the keys of the flow in `slot`.
    fn update_keys(&mut self, slot: usize) {
        let queue = &self.flows[slot];
        let Some((finish, ..)) = queue.packets.front() else {
            self.next.remove(slot);
            self.longest.remove(slot);
            return;
        };
        self.next.set(slot, *finish);
        let counts_packets = self.room.packets < u64::MAX;
        let length = if counts_packets { queue.packets.len() as u64 } else { queue.bytes.as_u64() };
        self.longest.set(slot, Reverse(length));
    }

    fn remove_if_idle(&mut self, slot: usize) {
        if self.flows[slot].packets.is_empty() && !self.fluid.is_active(slot) {
            self.flows.release(slot);
        }
    }
}

impl<P: Parcel + Send> Discipline<P> for FairQueueing<P> {
    type Config = Config;

    fn new(config: &Config, _environment: Environment, _random: Random) -> Self {
        Self::with_room(config.packets, config.bytes)
    }
}

impl<P: Parcel> FairQueueing<P> {
    pub(crate) fn with_room(packets: Option<u64>, bytes: Option<Bytes>) -> Self {
        Self {
            room: Room::new(packets, bytes),
            flows: FlowTable::default(),
            fluid: Fluid::default(),
            next: IndexedHeap::default(),
            longest: IndexedHeap::default(),
            backlog: Backlog::default(),
            dropped_from_queue: 0,
            last_wait: Duration::ZERO,
        }
    }
}

impl<P: Parcel> Router<P> for FairQueueing<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        let bytes = packet.bytes();
        let slot = self.flows.find_or_take(packet.flow());
        let finish = self.fluid.arrive(slot, bytes);
        self.flows[slot].packets.push_back((finish, now, packet));
        self.flows[slot].bytes += bytes;
        self.backlog.packets += 1;
        self.backlog.bytes += bytes;
        self.update_keys(slot);
        if !self.room.is_exceeded(self.backlog) {
            return Verdict::Queued;
        }
        let Some((slot_of_dropped, packet)) = self.drop_from_longest() else { return Verdict::Queued };
        // A large packet may displace several small ones; the verdict contains only the first.
        while self.room.is_exceeded(self.backlog) && self.drop_from_longest().is_some() {
            self.dropped_from_queue += 1;
        }
        if slot_of_dropped == slot { Verdict::Dropped(packet) } else { Verdict::Displaced(packet) }
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let (_, slot) = self.next.first()?;
        let (_, arrived_at, packet) = self.flows[slot].packets.pop_front()?;
        self.last_wait = now.since(arrived_at);
        self.fluid.serve(packet.bytes());
        self.on_removed(slot, packet.bytes());
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn tally(&self) -> Tally {
        Tally { dropped_from_queue: self.dropped_from_queue, marked: 0 }
    }

    fn last_wait(&self) -> Option<Duration> {
        Some(self.last_wait)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::iter::repeat_n;

    use proptest::prelude::*;

    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    const LARGEST: u64 = 1500;

    fn queue(config: &Config) -> FairQueueing<TestParcel> {
        FairQueueing::new(config, ENVIRONMENT, Random::from_seed(1))
    }

    fn unlimited() -> FairQueueing<TestParcel> {
        queue(&Config::default())
    }

    /// Arrivals (flow and bytes), and departures in between.
    fn steps() -> impl Strategy<Value = Vec<Option<TestParcel>>> {
        let packet = (0u64..8, 40..=LARGEST).prop_map(|(flow, bytes)| TestParcel::new(flow, bytes));
        // Flow 0 sends more than the others.
        let greedy = (40..=LARGEST).prop_map(|bytes| TestParcel::new(0, bytes));
        prop::collection::vec(
            prop_oneof![2 => packet.prop_map(Some), 1 => greedy.prop_map(Some), 2 => Just(None)],
            1..400,
        )
    }

    /// Bit-by-bit round robin in its plain form, flow by flow and in floating point.
    #[derive(Default)]
    struct PlainFluid {
        left: BTreeMap<u64, f64>,
        served: BTreeMap<u64, f64>,
    }

    impl PlainFluid {
        fn serve(&mut self, mut bytes: f64) {
            while bytes > 1e-9 && !self.left.is_empty() {
                let smallest = self.left.values().copied().fold(f64::MAX, f64::min);
                let slice = smallest.min(bytes / self.left.len() as f64);
                for (flow, left) in &mut self.left {
                    *left -= slice;
                    *self.served.entry(*flow).or_default() += slice;
                    bytes -= slice;
                }
                self.left.retain(|_, left| *left > 1e-9);
            }
        }
    }

    proptest! {
        #[test]
        fn every_flow_is_within_one_largest_packet_of_the_fluid(steps in steps()) {
            let (mut queue, mut fluid) = (unlimited(), PlainFluid::default());
            let mut sent = BTreeMap::<u64, f64>::new();
            for step in steps.into_iter().chain(repeat_n(None, 400)) {
                if let Some(packet) = step {
                    *fluid.left.entry(packet.flow).or_default() += packet.bytes.as_f64();
                    prop_assert_eq!(queue.enqueue(Time::ZERO, packet), Verdict::Queued);
                } else if let Some(packet) = queue.dequeue(Time::ZERO) {
                    *sent.entry(packet.flow).or_default() += packet.bytes.as_f64();
                    fluid.serve(packet.bytes.as_f64());
                }
                for (flow, served) in &fluid.served {
                    let ahead = sent.get(flow).copied().unwrap_or_default() - served;
                    prop_assert!(ahead.abs() <= LARGEST as f64 + 1e-3, "flow {flow} is {ahead} bytes ahead");
                }
            }
            prop_assert_eq!(queue.flows.len(), 0);
        }
    }

    #[test]
    fn the_flow_with_the_longest_queue_loses_its_latest_packet() {
        let mut queue = queue(&Config { packets: Some(3), bytes: None });
        for bytes in [101, 102, 103] {
            assert_eq!(queue.enqueue(Time::ZERO, TestParcel::new(1, bytes)), Verdict::Queued);
        }
        assert_eq!(queue.enqueue(Time::ZERO, TestParcel::new(1, 104)), Verdict::Dropped(TestParcel::new(1, 104)));
        assert_eq!(queue.enqueue(Time::ZERO, TestParcel::new(2, 900)), Verdict::Displaced(TestParcel::new(1, 103)));
        assert_eq!(queue.queued(1), Bytes::new(203));
        assert_eq!(queue.queued(2), Bytes::new(900));
    }

    #[test]
    fn a_large_packet_displaces_as_many_small_ones_as_needed() {
        let mut queue = queue(&Config { packets: None, bytes: Some(Bytes::new(4000)) });
        for _ in 0..40 {
            assert_eq!(queue.enqueue(Time::ZERO, TestParcel::new(1, 100)), Verdict::Queued);
        }
        assert!(matches!(queue.enqueue(Time::ZERO, TestParcel::new(2, 1500)), Verdict::Displaced(_)));
        assert_eq!((queue.queued(1), queue.queued(2)), (Bytes::new(2500), Bytes::new(1500)));
        assert_eq!(queue.tally().dropped_from_queue, 14);
    }

    #[test]
    fn a_million_short_flows_leave_no_state() {
        let mut queue = unlimited();
        for flow in 0..1_000_000 {
            assert_eq!(queue.enqueue(Time::ZERO, TestParcel::new(flow, 100)), Verdict::Queued);
            if flow % 10 == 9 {
                while queue.dequeue(Time::ZERO).is_some() {}
            }
        }
        assert_eq!(queue.flows.len(), 0);
        assert!(queue.flows.capacity() <= 10, "{}", queue.flows.capacity());
    }
}
