//! Fair queueing with explicit feedback: the router of PCP section 4.2, "intended as a bound on what is possible".
//!
//! Packets are scheduled by [`FairQueueing`]. A packet with a request is tagged as it leaves, when the information is
//! most recent, with "the flow's fair bandwidth allocation and the current queue for the flow" (section 4.2):
//!
//! ```text
//! share = C / N,   queue = bytes of the flow that are queued behind the packet
//! ```
//!
//! for link rate `C` and `N` active flows. If a path has several such routers, the packet keeps the smallest share, and
//! the queue at that link.
//!
//! **Active flows.** The paper's router knows the active flows. This one infers them from packets. A flow is active
//! - while it has packets queued here; or
//! - while its packets arrive as often as those of a flow at its fair share, until it misses four of them; or
//! - in any other case for `flow_timeout` after its last packet: it is in its handshake, or sends little.
//!
//! A flow counts from its first packet, before it sends data. A flow that stops is removed after a few packet times
//! (`N` of them at 40 Mb/s: 1 ms for one flow, 10 ms for ten); until then its share is unused, as is what a flow cannot
//! use of its share: shares are `C / N`, not max-min. A handshake longer than `flow_timeout` does not count to its end.
//!
//! Counting handshakes increases completion times and reduces the queue. 250 kB transfers that arrive at random, 90%
//! load, 40 Mb/s, 25 ms, `fair-share` senders: 658 ms on average with 4 packets queued; 481 ms with 48 if
//! `flow_timeout` is 1 ms, so that only flows that send count; 436 ms for perfect processor sharing without messages.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::active_flows::ActiveFlows;
use crate::disciplines::buffer::Room;
use crate::fair_queueing::FairQueueing;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, ensure};

/// The router's settings. Without a limit no packet is dropped.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue, of all flows together.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue, of all flows together.
    pub bytes: Option<Bytes>,
    /// The time for which a flow that sends less than its share is active after a packet: longer than a round trip.
    #[default(Duration::from_millis(50))]
    pub flow_timeout: Duration,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        ensure(
            self.flow_timeout > Duration::ZERO,
            "flow_timeout is 0, so every flow would be alone: write more than a round trip, for example \"50 ms\"",
        )?;
        Room::check(self.packets, self.bytes)
    }
}

/// A fair queue that tags packets with their flow's fair share.
#[derive(Debug)]
pub struct FairShare<P> {
    rate: Rate,
    queue: FairQueueing<P>,
    active: ActiveFlows,
}

impl<P: Parcel> FairShare<P> {
    fn remove_expired_flows(&mut self, now: Time) {
        self.active.remove_expired(now, |flow| self.queue.queued(flow) > Bytes::ZERO);
    }
}

impl<P: Parcel + Send> Discipline<P> for FairShare<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, _random: Random) -> Self {
        Self {
            rate: environment.rate,
            queue: FairQueueing::with_room(config.packets, config.bytes),
            active: ActiveFlows::new(environment.rate, config.flow_timeout),
        }
    }
}

impl<P: Parcel> Router<P> for FairShare<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        self.remove_expired_flows(now);
        self.active.on_packet(now, packet.flow(), packet.bytes());
        self.queue.enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let mut packet = self.queue.dequeue(now)?;
        if let RouterFeedback::FairShare { share: previous, .. } = packet.feedback() {
            self.remove_expired_flows(now);
            let share = Rate::from_bps(self.rate.as_bps() / self.active.count().max(1)); // C / N
            if share < previous {
                packet.set_feedback(RouterFeedback::FairShare { share, queue: self.queue.queued(packet.flow()) });
            }
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn tally(&self) -> Tally {
        self.queue.tally()
    }

    fn on_rate(&mut self, _now: Time, rate: Rate) {
        self.rate = rate;
        self.active.set_rate(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel, ms};

    const REQUEST: RouterFeedback = RouterFeedback::FairShare { share: Rate::MAX, queue: Bytes::ZERO };

    fn router() -> FairShare<TestParcel> {
        FairShare::new(&Config::default(), ENVIRONMENT, Random::from_seed(1))
    }

    fn with_request(flow: u64) -> TestParcel {
        TestParcel { feedback: REQUEST, ..TestParcel::new(flow, 1000) }
    }

    /// Feedback with a share in b/s and a queue in bytes.
    fn feedback(share: u64, queue: u64) -> RouterFeedback {
        RouterFeedback::FairShare { share: Rate::from_bps(share), queue: Bytes::new(queue) }
    }

    /// The feedback in a packet of `flow` that passes the idle link at `now`.
    fn send(router: &mut FairShare<TestParcel>, now: Time, flow: u64) -> RouterFeedback {
        assert_eq!(router.enqueue(now, with_request(flow)), Verdict::Queued);
        router.dequeue(now).unwrap().feedback
    }

    #[test]
    fn the_share_is_the_links_rate_over_the_number_of_flows() {
        let mut router = router();
        assert_eq!(send(&mut router, ms(0), 1), feedback(8_000_000, 0));
        assert_eq!(send(&mut router, ms(1), 2), feedback(4_000_000, 0));
        assert_eq!(send(&mut router, ms(2), 1), feedback(4_000_000, 0));
        assert_eq!(send(&mut router, ms(3), 3), feedback(2_666_666, 0));
        assert_eq!(send(&mut router, ms(4), 1), feedback(2_666_666, 0));
    }

    #[test]
    fn a_stopped_flow_is_not_counted_after_four_packet_times() {
        let mut router = router();
        for n in 0..20 {
            send(&mut router, ms(2 * n), 1);
            send(&mut router, ms(2 * n + 1), 2);
        }
        assert_eq!(send(&mut router, ms(40), 1), feedback(4_000_000, 0));
        assert_eq!(send(&mut router, ms(47), 1), feedback(8_000_000, 0));
    }

    #[test]
    fn the_queue_is_that_of_the_flow_behind_the_packet() {
        let mut router = router();
        for flow in [1, 2, 1, 1] {
            let _ = router.enqueue(ms(0), with_request(flow));
        }
        let mut answers = Vec::new();
        while let Some(packet) = router.dequeue(ms(1)) {
            answers.push((packet.flow, packet.feedback));
        }
        answers.sort_by_key(|(flow, _)| *flow);
        let half = |queue| feedback(4_000_000, queue);
        assert_eq!(answers, [(1, half(2000)), (1, half(1000)), (1, half(0)), (2, half(0))]);
    }

    #[test]
    fn flows_are_removed_even_if_none_sends_a_request() {
        let mut router = router();
        for flow in 0..10_000 {
            let _ = router.enqueue(ms(flow), TestParcel::new(flow, 1000));
            let _ = router.dequeue(ms(flow));
        }
        assert!(router.active.count() <= 51, "{}", router.active.count());
    }
}
