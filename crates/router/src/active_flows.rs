//! Which flows use a link, judged by when their packets were last seen.
//!
//! A flow that sends at its fair share has a packet every `N P / C` (of `N` flows, `P` bytes a packet, link rate `C`). So
//! a flow whose last two packets were that close is *running*, and is gone as soon as it misses a few of these packet
//! times. Any other flow (it has just begun and waits for its handshake, or is slowed down from elsewhere) stays for a
//! longer, fixed time.
//!
//! Time is read when something happens, never by a timer: flows that are gone are found when a packet next comes or goes.

use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::flow_table::FlowTable;
use crate::indexed_heap::IndexedHeap;

/// The flows that use a link.
#[derive(Debug)]
pub(crate) struct ActiveFlows {
    rate: Rate,
    /// How long a flow that isn't running stays.
    memory: Duration,
    /// How many of its packet times a running flow may be silent.
    silence: u64,
    /// The largest packet seen, `P`.
    largest: Bytes,
    /// When each was last seen.
    flows: FlowTable<Time>,
    /// When each is gone.
    ends: IndexedHeap<Time>,
}

impl ActiveFlows {
    pub(crate) fn new(rate: Rate, memory: Duration, silence: u64) -> Self {
        Self { rate, memory, silence, largest: Bytes::ZERO, flows: FlowTable::default(), ends: IndexedHeap::default() }
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// A packet of `flow` arrives.
    pub(crate) fn see(&mut self, now: Time, flow: u64, bytes: Bytes) {
        self.largest = self.largest.max(bytes);
        let is_new = self.flows.find(flow).is_none();
        let slot = self.flows.find_or_take(flow);
        let pause = self.pause();
        let is_running = !is_new && now.since(self.flows[slot]) <= pause;
        self.flows[slot] = now;
        self.ends.set(slot, now + if is_running { pause } else { self.memory });
    }

    /// Forgets the flows that are gone by `now`; `waits` says whether a flow has packets waiting, which keeps it.
    pub(crate) fn forget(&mut self, now: Time, waits: impl Fn(u64) -> bool) {
        while let Some((end, slot)) = self.ends.first() {
            if end > now {
                break;
            }
            if waits(self.flows.flow(slot)) {
                self.ends.set(slot, now + self.pause().max(Duration::from_nanos(1)));
            } else {
                self.ends.remove(slot);
                self.flows.release(slot);
            }
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.flows.len() as u64
    }

    /// The longest a running flow may be silent: a few `N P / C`.
    fn pause(&self) -> Duration {
        let packets = self.silence * self.count();
        self.rate.time_to_send(self.largest * packets).min(self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1000); // 1 ms at 8 Mb/s

    fn flows() -> ActiveFlows {
        ActiveFlows::new(Rate::from_bps(8_000_000), Duration::from_millis(50), 4)
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    fn count(flows: &mut ActiveFlows, now: Time, waits: impl Fn(u64) -> bool) -> u64 {
        flows.forget(now, waits);
        flows.count()
    }

    #[test]
    fn a_running_flow_is_gone_after_four_of_its_packet_times() {
        let mut flows = flows();
        for n in 0..10 {
            flows.see(ms(2 * n), 1, PACKET);
            flows.see(ms(2 * n + 1), 2, PACKET);
        }
        // Two flows: a packet each every 2 ms. Flow 2 stops.
        flows.see(ms(20), 1, PACKET);
        assert_eq!(count(&mut flows, ms(26), |_| false), 2);
        assert_eq!(count(&mut flows, ms(27), |_| false), 1);
    }

    #[test]
    fn a_flow_that_has_just_begun_stays_for_the_memory() {
        let mut flows = flows();
        flows.see(ms(0), 1, PACKET);
        assert_eq!(count(&mut flows, ms(49), |_| false), 1);
        assert_eq!(count(&mut flows, ms(50), |_| false), 0);
    }

    #[test]
    fn a_flow_with_packets_waiting_is_active() {
        let mut flows = flows();
        flows.see(ms(0), 1, PACKET);
        assert_eq!(count(&mut flows, ms(500), |flow| flow == 1), 1);
        assert_eq!(count(&mut flows, ms(600), |_| false), 0);
    }

    #[test]
    fn a_million_flows_of_one_packet_cost_the_memory_of_fifty_milliseconds() {
        let mut flows = flows();
        for n in 0..1_000_000 {
            flows.see(Time::from_nanos(n * 100_000), n, PACKET);
            flows.forget(Time::from_nanos(n * 100_000), |_| false);
        }
        assert!(flows.flows.capacity() <= 501, "{}", flows.flows.capacity());
    }
}
