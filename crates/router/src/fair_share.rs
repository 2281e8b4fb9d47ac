//! Fair queueing that tells: the explicit router of PCP section 4.2, "intended as a bound on what is possible".
//!
//! Packets are scheduled by [`FairQueueing`]. A packet that asks is tagged as it leaves, when its news is freshest, with
//! "the flow's fair bandwidth allocation and the current queue for the flow" (section 4.2):
//!
//! ```text
//! share = C / N,   queue = bytes of the flow that wait behind the packet
//! ```
//!
//! for link rate `C` and `N` active flows. Of several such routers on the path the smallest share stands, with the queue
//! at its link.
//!
//! **What counts as active.** The paper's router is central and knows. This one looks at packets. Active is a flow
//! - that has packets waiting here; or
//! - whose packets come as close as those of a flow at its fair share, until it misses `silence` of them; or
//! - any other that was seen in the last `memory`: it has just shaken hands, or sends little.
//!
//! Consequences: a flow counts from its first packet, so those that shake hands together are told of each other before
//! they send. One that stops is gone after a few packet times (`N` of them at 40 Mb/s: 1 ms for one flow, 10 ms for
//! ten), until when its share is unused. A flow that can't use its share counts as a whole one, so the rest of it is
//! unused too: shares are `C / N`, not max-min. A handshake that takes longer than `memory` is forgotten meanwhile.
//!
//! To count handshakes costs time and saves queue. 250 kB transfers that arrive at random, 90% load, 40 Mb/s, 25 ms,
//! senders as in the `fair-share` controller: on average 658 ms with 4 packets queued; 481 ms with 48 if `memory` is
//! 1 ms, so that only flows that send count; 436 ms for perfect processor sharing that needs no messages.

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};

use crate::active_flows::ActiveFlows;
use crate::fair_queueing::{self, FairQueueing};
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict};

/// Tunables of the router. Without a limit nothing is ever dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most packets that may wait, of all flows together.
    pub packets: Option<u64>,
    /// Most bytes that may wait, of all flows together.
    pub bytes: Option<Bytes>,
    /// How long a flow counts after a packet that isn't one of a stream at its fair share; longer than a round trip, so
    /// that a handshake is remembered until its data come.
    pub memory: Duration,
    /// How many packets a flow at its fair share must miss to be gone: more than jitter and a lost packet make it miss.
    pub silence: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { packets: None, bytes: None, memory: Duration::from_millis(50), silence: 4 }
    }
}

impl Config {
    fn queue(&self) -> fair_queueing::Config {
        fair_queueing::Config { packets: self.packets, bytes: self.bytes }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        if self.memory == Duration::ZERO {
            return Err(
                "memory is 0: every flow would be alone; use more than a round trip, for example \"50 ms\"".into()
            );
        }
        if self.silence < 2 {
            return Err("silence is below 2 packets: flows would come and go with each packet; 2 or more".into());
        }
        self.queue().check()
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
    fn forget_flows_that_stopped(&mut self, now: Time) {
        self.active.forget(now, |flow| self.queue.queued(flow) > Bytes::ZERO);
    }

    /// Writes the share into a packet that asks, unless a tighter link has done so.
    fn tag(&mut self, now: Time, packet: &mut P) {
        let RouterFeedback::FairShare { share: told, .. } = packet.feedback() else { return };
        self.forget_flows_that_stopped(now);
        let share = Rate::from_bps(self.rate.as_bps() / self.active.count().max(1)); // C / N
        if share < told {
            packet.set_feedback(RouterFeedback::FairShare { share, queue: self.queue.queued(packet.flow()) });
        }
    }
}

impl<P: Parcel + Send> Discipline<P> for FairShare<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Stream) -> Self {
        Self {
            rate: environment.rate,
            queue: FairQueueing::new(&config.queue(), environment, random),
            active: ActiveFlows::new(environment.rate, config.memory, config.silence),
        }
    }
}

impl<P: Parcel> Router<P> for FairShare<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        self.forget_flows_that_stopped(now);
        self.active.see(now, packet.flow(), packet.bytes());
        self.queue.enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let mut packet = self.queue.dequeue(now)?;
        self.tag(now, &mut packet);
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
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    const ASKS: RouterFeedback = RouterFeedback::FairShare { share: Rate::MAX, queue: Bytes::ZERO };

    fn router() -> FairShare<TestParcel> {
        FairShare::new(&Config::default(), ENVIRONMENT, Stream::from_seed(1))
    }

    fn asking(flow: u64) -> TestParcel {
        TestParcel { feedback: ASKS, ..TestParcel::new(flow, 1000) }
    }

    /// A share in b/s and a queue in bytes.
    fn told(share: u64, queue: u64) -> RouterFeedback {
        RouterFeedback::FairShare { share: Rate::from_bps(share), queue: Bytes::new(queue) }
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    /// What a packet of `flow` is told that passes the idle link at `now`.
    fn ask(router: &mut FairShare<TestParcel>, now: Time, flow: u64) -> RouterFeedback {
        assert_eq!(router.enqueue(now, asking(flow)), Verdict::Queued);
        router.dequeue(now).unwrap().feedback
    }

    #[test]
    fn two_flows_are_told_half_the_link_each_and_a_third_makes_it_a_third() {
        let mut router = router();
        assert_eq!(ask(&mut router, ms(0), 1), told(8_000_000, 0));
        assert_eq!(ask(&mut router, ms(1), 2), told(4_000_000, 0));
        assert_eq!(ask(&mut router, ms(2), 1), told(4_000_000, 0));
        assert_eq!(ask(&mut router, ms(3), 3), told(2_666_666, 0));
        assert_eq!(ask(&mut router, ms(4), 1), told(2_666_666, 0));
    }

    #[test]
    fn a_flow_that_stops_gives_its_share_back_within_four_packet_times() {
        let mut router = router();
        for n in 0..20 {
            ask(&mut router, ms(2 * n), 1);
            ask(&mut router, ms(2 * n + 1), 2);
        }
        assert_eq!(ask(&mut router, ms(40), 1), told(4_000_000, 0));
        assert_eq!(ask(&mut router, ms(47), 1), told(8_000_000, 0));
    }

    #[test]
    fn the_queue_told_is_what_waits_behind_the_packet_of_its_own_flow() {
        let mut router = router();
        for flow in [1, 2, 1, 1] {
            let _ = router.enqueue(ms(0), asking(flow));
        }
        let mut answers = Vec::new();
        while let Some(packet) = router.dequeue(ms(1)) {
            answers.push((packet.flow, packet.feedback));
        }
        answers.sort_by_key(|(flow, _)| *flow);
        let half = |queue| told(4_000_000, queue);
        assert_eq!(answers, [(1, half(2000)), (1, half(1000)), (1, half(0)), (2, half(0))]);
    }

    #[test]
    fn who_does_not_ask_is_not_told_and_the_tightest_link_stands() {
        let mut router = router();
        let _ = router.enqueue(ms(0), TestParcel::new(1, 1000));
        assert_eq!(router.dequeue(ms(0)).unwrap().feedback, RouterFeedback::None);
        let tighter = told(1_000_000, 77);
        let _ = router.enqueue(ms(0), TestParcel { feedback: tighter, ..TestParcel::new(1, 1000) });
        assert_eq!(router.dequeue(ms(0)).unwrap().feedback, tighter);
    }

    #[test]
    fn flows_that_come_and_go_are_forgotten_even_if_none_ever_asks() {
        let mut router = router();
        for flow in 0..10_000 {
            let _ = router.enqueue(ms(flow), TestParcel::new(flow, 1000));
            let _ = router.dequeue(ms(flow));
        }
        assert!(router.active.count() <= 51, "{}", router.active.count());
    }

    #[test]
    fn a_change_of_the_links_rate_is_told_at_once() {
        let mut router = router();
        Router::<TestParcel>::on_rate(&mut router, ms(0), Rate::from_bps(2_000_000));
        assert_eq!(ask(&mut router, ms(0), 1), told(2_000_000, 0));
    }
}
