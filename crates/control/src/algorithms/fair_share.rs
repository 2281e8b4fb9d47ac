//! Sends at the fair share that routers compute: the end host of the explicit fair queueing of PCP section 4.2,
//! "intended as a bound on what is possible". It needs a `fair-share` router at the bottleneck.
//!
//! "The endpoint transmits a control packet every RTT, and the router tags this packet with the flow's fair bandwidth
//! allocation and the current queue for the flow. The endpoint simply sends at its fair share rate while compensating
//! for queue buildups resulting from dynamic changes in the number of flows" (section 4.2).
//!
//! The handshake carries a request, so the first data packet can be sent at the fair share. After that one data packet
//! carries a request, and the first packet after its answer carries the next one. The answer has `share` and `queue`.
//! With `B` the bytes sent between request and answer, and `T` the time between them minus the queueing delay of the
//! request (its one-way delay minus the minimum),
//!
//! ```text
//! withheld = share T - (B - queue), at least 0                              (1)
//! excess   = queue - withheld - a packet, at least 0                        (2)
//! rate     = share - excess / RTT     until excess is drained, then share   (3)
//! ```
//!
//! which takes one RTT, or longer if the rate would be less than one packet an RTT, its minimum.
//!
//! The reason for (1): a rate change reaches the router after the delay of the forward path. A sender that slows down
//! and sends a request at once would receive the same queue again and compensate for it twice. So bytes withheld since
//! the request count as compensated. (`queue` is subtracted from `B`, because the bytes queued behind the request are
//! in both.) The sender does *not* predict a queue from having sent more than its share: while a new flow is in its
//! handshake, the link serves more than the share.
//!
//! Losses change nothing ("fair queueing can tolerate losses", section 4.2.5). When the timer expires twice, after an
//! idle time longer than the timer, and if no router answers, the flow sends one packet an RTT until a router answers.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};

use crate::parts::pacer::MIN_RATE;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Pacer, Path, Sent, Settings};

/// The feedback field of a packet that carries a request.
const REQUEST: RouterFeedback = RouterFeedback::FairShare { share: Rate::MAX, queue: Bytes::ZERO };

/// The fair-share sender has no settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

impl Settings for Config {}

/// A request in transit.
#[derive(Debug, Clone, Copy)]
struct FeedbackRequest {
    number: u64,
    requested_at: Time,
    /// `B`: bytes sent since, including the packet with the request.
    sent: Bytes,
}

/// A sender at its fair share.
#[derive(Debug, Clone)]
pub struct FairShare {
    packet: Bytes,
    /// Minimum round-trip time.
    rtt: Duration,
    /// Minimum one-way delay, clock offset included.
    min_delay: i64,
    share: Option<Rate>,
    rate: Rate,
    /// The time at which the queue that `rate` compensates for is drained.
    drained_at: Time,
    request: Option<FeedbackRequest>,
    last: Option<(Time, Bytes)>,
    pacer: Pacer,
}

impl FairShare {
    fn on_answer(&mut self, now: Time, request: &FeedbackRequest, waited: Duration, share: Rate, queue: Bytes) {
        let due = share.bytes_in(now.since(request.requested_at).saturating_sub(waited));
        let withheld = due.saturating_sub(request.sent.saturating_sub(queue)); // (1)
        let excess = queue.saturating_sub(withheld).saturating_sub(self.packet); // (2)
        let min_rate = Rate::of(self.packet, self.rtt).min(share); // a packet must carry the next request
        let rate = share.saturating_sub(Rate::of(excess, self.rtt)).max(min_rate); // (3)
        self.share = Some(share);
        self.drained_at = if excess == Bytes::ZERO { Time::MAX } else { now + (share - rate).time_to_send(excess) };
        self.set_rate(now, rate);
    }

    fn discard_share(&mut self, now: Time) {
        self.share = None;
        self.request = None;
        self.drained_at = Time::MAX;
        self.set_rate(now, Rate::of(self.packet, self.rtt));
    }

    /// Changes the rate, effective from the last packet sent.
    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.rate = rate.max(MIN_RATE);
        let next = self.last.map_or(now, |(sent_at, bytes)| sent_at + self.rate.time_to_send(bytes));
        self.pacer.reset(next.max(now));
    }
}

impl Algorithm for FairShare {
    type Config = Config;

    const NEEDS: Option<&'static str> = Some("needs fair-share routers; without them it sends almost nothing");

    fn new(_config: &Config, _random: Random) -> Self {
        Self {
            packet: Bytes::ZERO,
            rtt: Duration::ZERO,
            min_delay: i64::MAX,
            share: None,
            rate: Rate::ZERO,
            drained_at: Time::MAX,
            request: None,
            last: None,
            pacer: Pacer::default(),
        }
    }
}

impl Controller for FairShare {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.packet = path.packet;
        self.rtt = path.rtt;
        self.discard_share(now);
        if let Some((share, _)) = share_and_queue(path.feedback) {
            self.share = Some(share);
            self.set_rate(now, share);
        }
    }

    fn on_packet_size(&mut self, _now: Time, packet: Bytes) {
        self.packet = packet;
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        match &mut self.request {
            Some(request) => request.sent += sent.bytes,
            None => self.request = Some(FeedbackRequest { number: sent.number, requested_at: now, sent: sent.bytes }),
        }
        self.last = Some((now, sent.bytes));
        self.pacer.sent(now, sent.bytes, self.rate);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.rtt = ack.min_rtt;
        for arrival in ack.arrivals {
            self.min_delay = self.min_delay.min(arrival.one_way_delay());
        }
        let Some(request) = self.request else { return };
        if let Some(arrival) = ack.arrivals.iter().find(|arrival| arrival.number == request.number) {
            self.request = None;
            if let Some((share, queue)) = share_and_queue(ack.feedback) {
                let waited = Duration::from_nanos(arrival.one_way_delay().abs_diff(self.min_delay));
                self.on_answer(now, &request, waited, share, queue);
            }
        } else if now.since(request.requested_at) > ack.smoothed_rtt * 2 {
            self.request = None; // the answer was lost
        }
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let is_request_lost = self.request.is_some_and(|request| request.number <= loss.number);
        match loss.kind {
            LossKind::Persistent if loss.repeated_timeout => self.discard_share(now),
            LossKind::Persistent | LossKind::Transient if is_request_lost => self.request = None,
            _ => {}
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            self.discard_share(now);
        }
    }

    fn on_deadline(&mut self, now: Time) {
        self.drained_at = Time::MAX;
        if let Some(share) = self.share {
            self.set_rate(now, share);
        }
    }

    fn deadline(&self) -> Time {
        self.drained_at
    }

    fn window(&self) -> Bytes {
        Bytes::MAX
    }

    fn departure(&self) -> Departure {
        let feedback = if self.request.is_none() { REQUEST } else { RouterFeedback::None };
        Departure { at: self.pacer.next(), bytes: self.packet, feedback }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn state(&self) -> &'static str {
        match self.share {
            None => "no_feedback",
            Some(_) if self.drained_at < Time::MAX => "drain",
            Some(_) => "router_feedback",
        }
    }

    fn requests_feedback(&self) -> bool {
        true
    }
}

/// The share and the queue, if a router has answered.
fn share_and_queue(feedback: RouterFeedback) -> Option<(Rate, Bytes)> {
    match feedback {
        RouterFeedback::FairShare { share, queue } if share < Rate::MAX => Some((share, queue)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arrival;
    use crate::testing::{ack, loss, ms};

    const PACKET: Bytes = Bytes::new(1000);
    const RTT: Duration = Duration::from_millis(20);
    const MEGABIT: u64 = 1_000_000;

    fn answer(megabits: u64, queued: u64) -> RouterFeedback {
        RouterFeedback::FairShare { share: Rate::from_bps(megabits * MEGABIT), queue: PACKET * queued }
    }

    /// A sender whose handshake ended at time 0 with this feedback.
    fn sender(feedback: RouterFeedback) -> FairShare {
        sender_with(&Config::default(), feedback)
    }

    fn sender_with(config: &Config, feedback: RouterFeedback) -> FairShare {
        let mut sender = FairShare::new(config, Random::from_seed(1));
        sender.on_path(Time::ZERO, &Path { packet: PACKET, rtt: RTT, history: None, feedback, bunch: Duration::ZERO });
        sender
    }

    /// Sends all permitted packets before `end`, numbered from `number`. Returns the packets that carried a request.
    fn send(sender: &mut FairShare, mut number: u64, end: Time) -> Vec<u64> {
        let mut requests = Vec::new();
        while sender.departure().at < end {
            if sender.departure().feedback != RouterFeedback::None {
                requests.push(number);
            }
            sender.on_sent(sender.departure().at, &Sent { number, bytes: PACKET, in_flight: PACKET });
            number += 1;
        }
        requests
    }

    /// Acknowledges packet `number` at `now`, which was sent at `sent_at` and waited in the queue for `waited`.
    fn acknowledge(
        sender: &mut FairShare,
        (number, sent_at): (u64, Time),
        waited: Duration,
        now: Time,
        feedback: RouterFeedback,
    ) {
        let received_at = sent_at + RTT / 2 + waited;
        let arrivals = [Arrival { number, bytes: PACKET, sent_at, received_at, ecn: rampmeter_units::Ecn::NotEct }];
        sender.on_ack(now, &Ack { arrivals: &arrivals, feedback, ..ack(1) });
    }

    #[test]
    fn the_first_data_packets_are_sent_at_the_handshakes_share() {
        let mut sender = sender(answer(8, 0));
        assert!(sender.requests_feedback());
        assert_eq!(sender.window(), Bytes::MAX, "only the rate limits it");
        assert_eq!(send(&mut sender, 0, ms(20)), [0]);
        assert_eq!(sender.departure().at, ms(20)); // a packet a millisecond
    }

    #[test]
    fn one_packet_an_rtt_is_sent_until_the_first_answer() {
        let mut sender = sender(RouterFeedback::None);
        assert_eq!(send(&mut sender, 0, ms(20)), [0]);
        assert_eq!(sender.departure().at, ms(20));
        acknowledge(&mut sender, (0, ms(0)), Duration::ZERO, ms(20), answer(8, 0));
        assert_eq!(send(&mut sender, 1, ms(30)), [1]);
        assert_eq!(sender.departure().at, ms(30));
    }

    /// A sender at 8 Mb/s from time 0 on. The answer has the queue of its request: the bytes sent while it waits.
    fn sender_with_a_queue(packets: u64) -> FairShare {
        let mut sender = sender(answer(8, 0));
        sender.min_delay = (RTT / 2).as_nanos() as i64;
        let waited = Duration::from_millis(packets);
        send(&mut sender, 0, Time::ZERO + RTT + waited);
        acknowledge(&mut sender, (0, ms(0)), waited, Time::ZERO + RTT + waited, answer(8, packets));
        sender
    }

    // 4 of 5 packets are drained in an RTT: 4000 bytes in 20 ms, 1.6 Mb/s.
    #[test]
    fn a_reported_queue_is_drained_in_one_rtt() {
        let mut sender = sender_with_a_queue(5);
        assert_eq!(sender.rate(), Some(Rate::from_bps(6_400_000)));
        assert_eq!(sender.deadline(), ms(45));
        sender.on_deadline(ms(45));
        assert_eq!(sender.rate(), Some(Rate::from_bps(8 * MEGABIT)));
    }

    // The next request is sent when the sender slows down, and finds the queue unchanged. While it waits 5 ms, 4
    // packets arrive behind it at 6.4 Mb/s; 3 more are withheld before its answer. So about one packet of 4 remains.
    #[test]
    fn a_queue_reported_twice_is_drained_once() {
        let mut sender = sender_with_a_queue(5);
        let requested_at = sender.departure().at;
        send(&mut sender, 25, ms(45));
        sender.on_deadline(ms(45));
        let waited = Duration::from_millis(5);
        let now = requested_at + RTT + waited;
        send(&mut sender, 41, now);
        acknowledge(&mut sender, (25, requested_at), waited, now, answer(8, 4));
        assert!(sender.rate() >= Some(Rate::from_bps(8 * MEGABIT) - Rate::of(PACKET, RTT)));
    }

    #[test]
    fn at_any_queue_a_packet_an_rtt_carries_a_request() {
        let mut sender = sender(answer(80, 0));
        send(&mut sender, 0, ms(20));
        acknowledge(&mut sender, (0, ms(0)), Duration::ZERO, ms(20), answer(8, 100));
        assert_eq!(sender.rate(), Some(Rate::of(PACKET, RTT)));
        assert_eq!(sender.departure().feedback, REQUEST);
        // 99 packets take 99 ms at its share, and up to 5 ms more for the packets that it sends meanwhile.
        assert!(sender.deadline() > ms(20 + 99) && sender.deadline() < ms(20 + 105));
    }

    #[test]
    fn a_lost_request_and_a_lost_answer_cause_another_request() {
        let mut sender = sender(answer(8, 0));
        send(&mut sender, 0, ms(5));
        sender.on_loss(ms(25), &loss(LossKind::Transient, 0, 4));
        assert_eq!(sender.departure().feedback, REQUEST);
        assert_eq!(sender.rate(), Some(Rate::from_bps(8 * MEGABIT)));

        sender.on_sent(ms(25), &Sent { number: 5, bytes: PACKET, in_flight: PACKET });
        sender.on_loss(ms(26), &loss(LossKind::Transient, 4, 5));
        sender.on_ack(ms(25) + RTT * 2, &ack(1));
        assert_eq!(sender.departure().feedback, RouterFeedback::None, "the answer may still arrive");
        sender.on_ack(ms(66), &ack(1));
        assert_eq!(sender.departure().feedback, REQUEST);
    }
}
