//! FQ-CoDel: deficit round robin over flows, each with a [CoDel](crate::codel) queue of its own (Høiland-Jørgensen and
//! others, RFC 8290).
//!
//! ```text
//!              hash of the flow           new queues: first        ┐
//! packet ────► one of `flows` queues ───► old queues: in turn      ┴─► CoDel ──► link
//! ```
//!
//! A queue with credit, in bytes, sends; a queue without receives a `quantum` and moves to the end of the old queues. A
//! queue that was empty is new, so a flow that sends less than a quantum a round hardly waits. A new queue that becomes
//! empty first becomes old; otherwise it could starve the old queues (section 4.2).
//!
//! With `isolation` hosts and not flows get equal shares ([`Isolation`], as in CAKE).
//!
//! When the buffer is full, the queue with the most bytes loses half of them or `batch` packets from its head (4.1).
//!
//! Flows are mapped to queues by a hash, salted by the router's random stream, so collisions differ between routers.
//! *Deviations*: none.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Random, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::codel::{self, State};
use crate::disciplines::buffer::Room;
use crate::disciplines::isolation::{Entries, HostTable};
use crate::disciplines::timed_queue::TimedQueue;
use crate::{Backlog, Discipline, Environment, Isolation, Parcel, Router, Settings, Tally, Verdict, ensure};

/// The maximum `quantum`: credit is a signed number of bytes. Slightly more than the megabyte that the error names.
const MAX_QUANTUM: Bytes = Bytes::new(1 << 20);

/// Credit has units of 1/65536 byte, so that parts of a quantum are exact.
const CREDIT_OF_A_BYTE: i64 = 1 << 16;

/// FQ-CoDel's settings.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queues of all flows together (RFC 8290, section 5.2.3).
    #[default(Some(10_240))]
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queues of all flows together.
    pub bytes: Option<Bytes>,
    /// CoDel's target (section 5.2.2).
    #[default(Duration::from_millis(5))]
    pub target: Duration,
    /// CoDel's interval (section 5.2.1).
    #[default(Duration::from_millis(100))]
    pub interval: Duration,
    /// Mark ECN-capable packets instead of dropping them (section 5.2.6).
    #[default(true)]
    pub ecn: bool,
    /// As in CoDel: mark every ECN-capable packet that waited longer than this; none: do not (section 5.2.7).
    pub ce_threshold: Option<Duration>,
    /// The number of queues into which flows are hashed (section 5.2.5).
    #[default(1024)]
    pub flows: u64,
    /// The bytes that a queue may send in its turn (section 5.2.4).
    #[default(Bytes::new(1514))]
    pub quantum: Bytes,
    /// Whose shares of the link are equal: those of flows, or those of hosts.
    pub isolation: Isolation,
    /// The maximum number of packets dropped at once when the buffer is full (section 4.1).
    #[default(64)]
    pub batch: u64,
}

impl Config {
    fn codel(&self) -> codel::Config {
        let Self { packets, bytes, target, interval, ecn, ce_threshold, .. } = *self;
        codel::Config { packets, bytes, target, interval, ecn, ce_threshold }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        ensure(
            (1..=65_536).contains(&self.flows),
            format!("`flows` of {}: write a number of queues from 1 to 65536; 1024 is recommended", self.flows),
        )?;
        ensure(
            self.quantum > Bytes::ZERO && self.quantum <= MAX_QUANTUM && self.batch > 0,
            "`quantum` must be above 0 and at most \"1 MB\", `batch` above 0: \"1514 B\" and 64 are recommended",
        )?;
        self.codel().check()
    }
}

/// The queue of one hash value.
#[derive(Debug)]
struct FlowQueue<P> {
    queue: TimedQueue<P>,
    codel: State,
    /// What it may still send in this turn; below 0 after a packet that was larger.
    credit: i64,
    /// Whether it is in the list of new or of old queues.
    listed: bool,
    /// The hosts of the packet with which it entered that list.
    hosts: Entries,
    /// Whether it counts as a busy queue of its hosts.
    busy: bool,
}

impl<P> Default for FlowQueue<P> {
    fn default() -> Self {
        let (queue, codel, hosts) = (TimedQueue::default(), State::default(), Entries::default());
        Self { queue, codel, credit: 0, listed: false, hosts, busy: false }
    }
}

/// An FQ-CoDel queue.
#[derive(Debug)]
pub struct FqCodel<P> {
    codel: codel::Config,
    room: Room,
    quantum: i64,
    batch: u64,
    salt: u64,
    flows: Vec<FlowQueue<P>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    hosts: HostTable,
    backlog: Backlog,
    /// The size of the largest packet seen.
    largest: Bytes,
    tally: Tally,
    last_wait: Duration,
}

impl<P: Parcel> FqCodel<P> {
    /// The index of a flow's queue.
    fn index(&self, flow: u64) -> usize {
        // Two rounds of multiply and fold (as in splitmix64) spread flows whose identifiers differ in few bits.
        let mut hash = flow ^ self.salt;
        for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            hash = (hash ^ (hash >> 31)).wrapping_mul(factor);
        }
        ((u128::from(hash) * self.flows.len() as u128) >> 64) as usize
    }

    /// Drops packets from the head of the queue with the most bytes: half of its bytes or a batch.
    fn drop_from_longest(&mut self, now: Time) -> Option<P> {
        let longest = self.flows.iter_mut().max_by_key(|flow| flow.queue.backlog().bytes)?;
        let before = longest.queue.backlog();
        let (_, first) = longest.queue.pop(now)?;
        for _ in 1..self.batch {
            if longest.queue.backlog().bytes <= before.bytes / 2 || longest.queue.pop(now).is_none() {
                break;
            }
            self.tally.dropped_from_queue += 1;
        }
        let after = longest.queue.backlog();
        self.backlog.packets -= before.packets - after.packets;
        self.backlog.bytes -= before.bytes - after.bytes;
        Some(first)
    }
}

impl<P: Parcel + Send> Discipline<P> for FqCodel<P> {
    type Config = Config;

    fn new(config: &Config, _environment: Environment, mut random: Random) -> Self {
        Self {
            codel: config.codel(),
            room: Room::new(config.packets, config.bytes),
            quantum: config.quantum.as_u64() as i64 * CREDIT_OF_A_BYTE,
            batch: config.batch,
            salt: random.below(u64::MAX),
            flows: (0..config.flows).map(|_| FlowQueue::default()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            hosts: HostTable::new(config.isolation),
            backlog: Backlog::default(),
            largest: Bytes::ZERO,
            tally: Tally::default(),
            last_wait: Duration::ZERO,
        }
    }
}

impl<P: Parcel> Router<P> for FqCodel<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        let (index, hosts, bytes) = (self.index(packet.flow()), packet.hosts(), packet.bytes());
        self.largest = self.largest.max(bytes);
        self.backlog = Backlog { packets: self.backlog.packets + 1, bytes: self.backlog.bytes + bytes };
        let flow = &mut self.flows[index];
        flow.queue.push(now, packet);
        if !flow.listed {
            (flow.listed, flow.hosts) = (true, self.hosts.enter(hosts));
            flow.credit = self.hosts.quantum(self.quantum, flow.hosts);
            self.new.push_back(index);
        }
        if !self.room.is_exceeded(self.backlog) {
            return Verdict::Queued;
        }
        let Some(first) = self.drop_from_longest(now) else { return Verdict::Queued };
        // A large packet may displace several small ones.
        while self.room.is_exceeded(self.backlog) && self.drop_from_longest(now).is_some() {
            self.tally.dropped_from_queue += 1;
        }
        let is_empty = self.flows[index].queue.backlog().packets == 0;
        if is_empty { Verdict::Dropped(first) } else { Verdict::Displaced(first) }
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        loop {
            // The queue whose turn it is (section 4.2).
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = &mut self.flows[index];
            if flow.credit <= 0 {
                if !flow.busy && flow.queue.backlog().packets > 0 {
                    flow.busy = true;
                    self.hosts.on_busy(flow.hosts);
                }
                flow.credit += self.hosts.quantum(self.quantum, flow.hosts);
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let before = flow.queue.backlog();
            let packet = flow.codel.dequeue(now, &self.codel, &mut flow.queue, self.largest, &mut self.tally);
            let after = flow.queue.backlog();
            self.backlog.packets -= before.packets - after.packets;
            self.backlog.bytes -= before.bytes - after.bytes;
            if let Some(packet) = packet {
                self.last_wait = flow.codel.waited;
                flow.credit -= packet.bytes().as_u64() as i64 * CREDIT_OF_A_BYTE;
                return Some(packet);
            }
            list.pop_front();
            flow.listed = is_new && !self.old.is_empty();
            if flow.listed {
                self.old.push_back(index);
            } else {
                self.hosts.leave(flow.hosts, std::mem::take(&mut flow.busy));
            }
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn last_wait(&self) -> Option<Duration> {
        Some(self.last_wait)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Ecn;

    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    fn fq(config: &Config) -> FqCodel<TestParcel> {
        config.check().unwrap();
        FqCodel::new(config, ENVIRONMENT, Random::from_seed(1))
    }

    /// Offers packets (flow and bytes) at time zero.
    fn offer(fq: &mut FqCodel<TestParcel>, packets: &[(u64, u64)]) {
        for (flow, bytes) in packets {
            assert_eq!(fq.enqueue(Time::ZERO, TestParcel::new(*flow, *bytes)), Verdict::Queued);
        }
    }

    fn flows_that_leave(fq: &mut FqCodel<TestParcel>, packets: usize) -> Vec<u64> {
        (0..packets).map(|_| fq.dequeue(Time::ZERO).unwrap().flow).collect()
    }

    #[test]
    fn flows_take_turns_by_bytes() {
        // A turn of 1500 bytes is one packet of flow 1 or three of flow 2.
        let mut fq = fq(&Config { quantum: Bytes::new(1500), ..Config::default() });
        offer(&mut fq, &[(1, 1500); 3]);
        offer(&mut fq, &[(2, 500); 9]);
        assert_eq!(flows_that_leave(&mut fq, 12), [1, 2, 2, 2, 1, 2, 2, 2, 1, 2, 2, 2]);
        assert_eq!((fq.dequeue(Time::ZERO), fq.backlog()), (None, Backlog::default()));
    }

    #[test]
    fn a_new_flow_goes_first_but_not_twice() {
        let mut fq = fq(&Config::default());
        offer(&mut fq, &[(1, 1500); 6]);
        assert_eq!(flows_that_leave(&mut fq, 2), [1, 1]); // 14 bytes of credit remained
        offer(&mut fq, &[(2, 100)]);
        assert_eq!(flows_that_leave(&mut fq, 1), [2]);
        // Flow 2 is empty and now old: its next packet waits for flow 1's turn.
        offer(&mut fq, &[(1, 1500), (2, 100)]);
        assert_eq!(flows_that_leave(&mut fq, 2), [2, 1]);
    }

    #[test]
    fn a_large_packet_displaces_as_many_small_ones_as_needed() {
        let mut fq = fq(&Config { bytes: Some(Bytes::new(4000)), batch: 1, ..Config::default() });
        offer(&mut fq, &[(1, 100); 40]);
        assert!(matches!(fq.enqueue(Time::ZERO, TestParcel::new(2, 1500)), Verdict::Displaced(_)));
        // 15 packets, of which the verdict contains one.
        assert_eq!((fq.backlog().bytes, fq.tally().dropped_from_queue), (Bytes::new(4000), 14));
    }

    #[test]
    fn a_full_buffer_drops_half_the_longest_queue_or_a_batch() {
        for (batch, lost) in [(64, 4), (2, 2)] {
            let mut fq = fq(&Config { packets: Some(10), batch, ..Config::default() });
            offer(&mut fq, &[(1, 1000); 8]);
            offer(&mut fq, &[(2, 1000); 2]);
            let verdict = fq.enqueue(Time::ZERO, TestParcel::new(2, 1000));
            assert_eq!(verdict, Verdict::Displaced(TestParcel::new(1, 1000)));
            // The verdict contains only one of them.
            assert_eq!((fq.backlog().packets, fq.tally().dropped_from_queue), (11 - lost, lost - 1));
        }
    }

    #[test]
    fn only_the_flow_with_a_standing_queue_is_marked() {
        // Flow 1 keeps 20 packets queued; flow 2's packets leave as they arrive.
        for (ecn, expected) in [(Ecn::Ect0, [1, 0]), (Ecn::NotEct, [0, 1])] {
            let mut fq = fq(&Config::default());
            let mut marked_flows = Vec::new();
            for n in 0..121 {
                let now = Time::ZERO + Duration::from_millis(n);
                let _ = fq.enqueue(now, TestParcel { ecn, ..TestParcel::new(1, 1000) });
                let _ = fq.enqueue(now, TestParcel { ecn, ..TestParcel::new(2, 100) });
                while fq.backlog().packets > 20 {
                    marked_flows
                        .extend(fq.dequeue(now).filter(|packet| packet.ecn == Ecn::Ce).map(|packet| packet.flow));
                }
            }
            assert_eq!([fq.tally().marked, fq.tally().dropped_from_queue], expected);
            assert!(marked_flows.iter().all(|flow| *flow == 1));
        }
    }

    #[test]
    fn hashes_spread_flows_evenly() {
        // 1024 flows in 1024 queues leave (1 - 1/1024)^1024 = 1/e of them empty, within 0.05.
        let fq = fq(&Config::default());
        for identifiers in [|n: u64| n, |n: u64| n << 32, |n: u64| n << 54, |n: u64| n * 0x1_0001] {
            let mut places: Vec<_> = (0..1024).map(|n| fq.index(identifiers(n))).collect();
            places.sort_unstable();
            places.dedup();
            let used = places.len() as f64 / 1024.0;
            assert!((used - (1.0 - 1.0 / std::f64::consts::E)).abs() < 0.05, "{used}");
        }
    }
}
