//! The set of active flows of a link, judged by the times of their packets.
//!
//! A flow that sends at its fair share has one packet every `N P / C` (for `N` flows, packets of `P` bytes and link
//! rate `C`). A flow whose last two packets were within a few such packet times is *running*, and is removed after
//! missing a few of them; any other flow after a longer, fixed timeout. Packets that arrive or leave are the timer.

use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::disciplines::flow_table::FlowTable;
use crate::disciplines::indexed_heap::IndexedHeap;

/// The number of its packet times after which a running flow is removed: more than jitter and one loss cause.
const MAX_MISSED: u64 = 4;

/// The active flows of a link.
#[derive(Debug, Default)]
pub(crate) struct ActiveFlows {
    rate: Rate,
    /// The timeout of a flow that is not running.
    timeout: Duration,
    /// The size of the largest packet seen, `P`.
    largest: Bytes,
    /// The time of each flow's last packet.
    flows: FlowTable<Time>,
    /// The time at which each flow is removed.
    ends: IndexedHeap<Time>,
}

impl ActiveFlows {
    pub(crate) fn new(rate: Rate, timeout: Duration) -> Self {
        Self { rate, timeout, ..Self::default() }
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// A packet of `flow` arrives.
    pub(crate) fn on_packet(&mut self, now: Time, flow: u64, bytes: Bytes) {
        self.largest = self.largest.max(bytes);
        let is_new = self.flows.find(flow).is_none();
        let slot = self.flows.find_or_take(flow);
        let max_gap = self.max_gap();
        let is_running = !is_new && now.since(self.flows[slot]) <= max_gap;
        self.flows[slot] = now;
        self.ends.set(slot, now + if is_running { max_gap } else { self.timeout });
    }

    /// Removes the flows whose time is over by `now`, except those that have packets queued according to `is_queued`.
    pub(crate) fn remove_expired(&mut self, now: Time, is_queued: impl Fn(u64) -> bool) {
        while let Some((end, slot)) = self.ends.first() {
            if end > now {
                break;
            }
            if is_queued(self.flows.flow(slot)) {
                self.ends.set(slot, now + self.max_gap().max(Duration::from_nanos(1)));
            } else {
                self.ends.remove(slot);
                self.flows.release(slot);
            }
        }
    }

    /// The number of active flows.
    pub(crate) fn count(&self) -> u64 {
        self.flows.len() as u64
    }

    /// The maximum gap between two packets of a running flow: a few `N P / C`.
    fn max_gap(&self) -> Duration {
        let packets = MAX_MISSED * self.count();
        self.rate.time_to_send(self.largest * packets).min(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::tests::ms;

    const PACKET: Bytes = Bytes::new(1000); // 1 ms at 8 Mb/s

    fn flows() -> ActiveFlows {
        ActiveFlows::new(Rate::from_bps(8_000_000), Duration::from_millis(50))
    }

    fn count(flows: &mut ActiveFlows, now: Time, is_queued: impl Fn(u64) -> bool) -> u64 {
        flows.remove_expired(now, is_queued);
        flows.count()
    }

    #[test]
    fn a_running_flow_is_removed_after_four_packet_times() {
        let mut flows = flows();
        for n in 0..10 {
            flows.on_packet(ms(2 * n), 1, PACKET);
            flows.on_packet(ms(2 * n + 1), 2, PACKET);
        }
        // Two flows with one packet each every 2 ms. Flow 2 stops.
        flows.on_packet(ms(20), 1, PACKET);
        assert_eq!(count(&mut flows, ms(26), |_| false), 2);
        assert_eq!(count(&mut flows, ms(27), |_| false), 1);
    }

    #[test]
    fn a_million_short_flows_use_the_memory_of_one_timeout() {
        let mut flows = flows();
        for n in 0..1_000_000 {
            flows.on_packet(Time::from_nanos(n * 100_000), n, PACKET);
            flows.remove_expired(Time::from_nanos(n * 100_000), |_| false);
        }
        assert!(flows.flows.capacity() <= 501, "{}", flows.flows.capacity());
    }
}
