//! Sends at the fair share that routers tell: the end of PCP section 4.2's explicit fair queueing, "intended as a bound
//! on what is possible". It needs a `fair-share` router at the bottleneck.
//!
//! "The endpoint transmits a control packet every RTT, and the router tags this packet with the flow's fair bandwidth
//! allocation and the current queue for the flow. The endpoint simply sends at its fair share rate while compensating
//! for queue buildups resulting from dynamic changes in the number of flows" (section 4.2).
//!
//! The handshake asks, so the first data packet can leave at the fair share. After that one data packet asks, and the
//! first to leave after its answer asks next. The answer says `share` and `queue`. With `B` the bytes sent from
//! question to answer and `T` the time between them less what the question waited in the queue,
//!
//! ```text
//! withheld = share T - (B - queue), at least 0                              (1)
//! left     = queue - withheld, at least 0                                   (2)
//! rate     = share - left / RTT     until left is gone, then share          (3)
//! ```
//!
//! which takes one RTT, or longer if that would leave less than one packet an RTT, the least it sends.
//!
//! Why (1): an answer is as old as the way back, and a slower rate is felt at the router after the way there. A sender
//! that slows down and asks at once is told of the same queue again, and would take it off twice. So what it has already
//! held back since the question counts as taken off. (`B` without `queue`, because what waited behind the question is
//! part of both.) It does *not* foresee a queue because it sent more than its share since: as long as a newcomer only
//! shakes hands the link serves more than the share; if a queue does build up the next answer tells.
//!
//! The question's wait is its one-way delay less the least seen. One packet is no build-up.
//!
//! Loss changes nothing ("fair queueing can tolerate losses", section 4.2.5). When the timer runs out twice, or after a
//! silence longer than the timer, the share is out of date: a packet an RTT leaves until a router has answered again. The
//! same if no router answers at all; this controller has no opinion of its own on how fast to send.

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};

use crate::pacer::MIN_RATE;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Pacer, Path, Sent, Settings};

/// What a packet that asks carries.
const QUESTION: RouterFeedback = RouterFeedback::FairShare { share: Rate::MAX, queue: Bytes::ZERO };

/// Tunables of the fair-share sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Start at the share that the handshake was told; otherwise one data packet asks and the rest wait an RTT for its
    /// answer, which knows of all flows that began together.
    pub start_at_handshake_share: bool,
    /// Packets an RTT while no router has answered.
    pub unanswered_packets: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { start_at_handshake_share: true, unanswered_packets: 1 }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        if self.unanswered_packets == 0 {
            return Err("unanswered_packets is 0: nothing could ever ask; 1 or more".into());
        }
        Ok(())
    }
}

/// A question on its way.
#[derive(Debug, Clone, Copy)]
struct Question {
    number: u64,
    asked_at: Time,
    /// Bytes sent since, the asking packet included: `B`.
    sent: Bytes,
}

/// Sends at its fair share.
#[derive(Debug, Clone)]
pub struct FairShare {
    config: Config,
    packet: Bytes,
    /// Least round-trip time.
    rtt: Duration,
    /// Least one-way delay, clock offset included.
    min_delay: i64,
    share: Option<Rate>,
    rate: Rate,
    /// When the queue that `rate` makes up for is gone.
    drained_at: Time,
    question: Option<Question>,
    last: Option<(Time, Bytes)>,
    pacer: Pacer,
}

impl FairShare {
    fn answer(&mut self, now: Time, question: &Question, waited: Duration, share: Rate, queue: Bytes) {
        let due = share.bytes_in(now.since(question.asked_at).saturating_sub(waited));
        let withheld = due.saturating_sub(question.sent.saturating_sub(queue)); // (1)
        let left = queue.saturating_sub(withheld).saturating_sub(self.packet); // (2)
        let least = Rate::of(self.packet, self.rtt).min(share); // something must ask
        let rate = share.saturating_sub(Rate::of(left, self.rtt)).max(least); // (3)
        self.share = Some(share);
        self.drained_at = if left == Bytes::ZERO { Time::MAX } else { now + (share - rate).time_to_send(left) };
        self.set_rate(now, rate);
    }

    fn forget(&mut self, now: Time) {
        self.share = None;
        self.question = None;
        self.drained_at = Time::MAX;
        self.set_rate(now, Rate::of(self.packet * self.config.unanswered_packets, self.rtt));
    }

    /// Changes the rate, from the packet that left last on.
    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.rate = rate.max(MIN_RATE);
        let next = self.last.map_or(now, |(left_at, bytes)| left_at + self.rate.time_to_send(bytes));
        self.pacer.reset(next.max(now));
    }
}

impl Algorithm for FairShare {
    type Config = Config;

    /// It does as it is told, by routers if there are such, and by whoever claims to bring their words.
    const REACTS_TO_CONGESTION: bool = false;

    const NEEDS: Option<&'static str> = Some("needs routers that answer, and sends next to nothing without");

    fn new(config: &Config, _random: Stream) -> Self {
        Self {
            config: config.clone(),
            packet: Bytes::ZERO,
            rtt: Duration::ZERO,
            min_delay: i64::MAX,
            share: None,
            rate: Rate::ZERO,
            drained_at: Time::MAX,
            question: None,
            last: None,
            pacer: Pacer::default(),
        }
    }
}

impl Controller for FairShare {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.packet = path.packet;
        self.rtt = path.rtt;
        self.forget(now);
        if let (true, Some((share, _))) = (self.config.start_at_handshake_share, told(path.feedback)) {
            self.share = Some(share);
            self.set_rate(now, share);
        }
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        match &mut self.question {
            Some(question) => question.sent += sent.bytes,
            None => self.question = Some(Question { number: sent.number, asked_at: now, sent: sent.bytes }),
        }
        self.last = Some((now, sent.bytes));
        self.pacer.sent(now, sent.bytes, self.rate);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.rtt = ack.min_rtt;
        for arrival in ack.arrivals {
            self.min_delay = self.min_delay.min(arrival.one_way_delay());
        }
        let Some(question) = self.question else { return };
        if let Some(asked) = ack.arrivals.iter().find(|arrival| arrival.number == question.number) {
            self.question = None;
            if let Some((share, queue)) = told(ack.feedback) {
                let waited = Duration::from_nanos(asked.one_way_delay().abs_diff(self.min_delay));
                self.answer(now, &question, waited, share, queue);
            }
        } else if now.since(question.asked_at) > ack.smoothed_rtt * 2 {
            self.question = None; // the answer was lost
        }
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let question_lost = self.question.is_some_and(|question| question.number <= loss.number);
        match loss.kind {
            LossKind::Persistent if loss.repeated => self.forget(now),
            LossKind::Persistent | LossKind::Transient if question_lost => self.question = None,
            _ => {}
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            self.forget(now);
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
        let feedback = if self.question.is_none() { QUESTION } else { RouterFeedback::None };
        Departure { at: self.pacer.next(), bytes: self.packet, feedback }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn requests_feedback(&self) -> bool {
        true
    }
}

/// Share and queue, if a router has spoken.
fn told(feedback: RouterFeedback) -> Option<(Rate, Bytes)> {
    match feedback {
        RouterFeedback::FairShare { share, queue } if share < Rate::MAX => Some((share, queue)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arrival;
    use crate::testing::{ack, loss};

    const PACKET: Bytes = Bytes::new(1000);
    const RTT: Duration = Duration::from_millis(20);
    const MEGABIT: u64 = 1_000_000;

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    fn answer(megabits: u64, queued: u64) -> RouterFeedback {
        RouterFeedback::FairShare { share: Rate::from_bps(megabits * MEGABIT), queue: PACKET * queued }
    }

    /// A sender whose handshake ended at time 0 with this feedback.
    fn sender(feedback: RouterFeedback) -> FairShare {
        let mut sender = FairShare::new(&Config::default(), Stream::from_seed(1));
        sender.on_path(Time::ZERO, &Path { packet: PACKET, rtt: RTT, history: None, idle_for: None, feedback });
        sender
    }

    /// Sends what may leave before `end`, numbered from `number`; says which packets asked.
    fn send(sender: &mut FairShare, mut number: u64, end: Time) -> Vec<u64> {
        let mut asked = Vec::new();
        while sender.departure().at < end {
            if sender.departure().feedback != RouterFeedback::None {
                asked.push(number);
            }
            sender.on_sent(sender.departure().at, &Sent { number, bytes: PACKET, in_flight: PACKET });
            number += 1;
        }
        asked
    }

    /// Packet `number`, sent at `sent_at`, was `waited` in the queue and is answered at `now`.
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
    fn the_first_data_packets_leave_at_the_share_that_the_handshake_was_told() {
        let mut sender = sender(answer(8, 0));
        assert!(sender.requests_feedback());
        assert_eq!(send(&mut sender, 0, ms(20)), [0]);
        assert_eq!(sender.departure().at, ms(20)); // a packet a millisecond
    }

    #[test]
    fn unanswered_it_sends_one_packet_an_rtt_and_takes_up_its_share_with_the_answer() {
        let mut sender = sender(RouterFeedback::None);
        assert_eq!(send(&mut sender, 0, ms(20)), [0]);
        assert_eq!(sender.departure().at, ms(20));
        acknowledge(&mut sender, (0, ms(0)), Duration::ZERO, ms(20), answer(8, 0));
        assert_eq!(send(&mut sender, 1, ms(30)), [1]);
        assert_eq!(sender.departure().at, ms(30));
    }

    #[test]
    fn a_path_without_such_a_router_is_left_at_one_packet_an_rtt() {
        let sender = sender(QUESTION);
        assert_eq!(sender.rate(), Some(Rate::of(PACKET, RTT)));
    }

    #[test]
    fn at_a_steady_share_nothing_is_taken_off() {
        let mut sender = sender(answer(8, 0));
        send(&mut sender, 0, ms(20));
        acknowledge(&mut sender, (0, ms(0)), Duration::ZERO, ms(20), answer(8, 0));
        assert_eq!((sender.rate(), sender.deadline()), (Some(Rate::from_bps(8 * MEGABIT)), Time::MAX));
    }

    /// Sends at 8 Mb/s from time 0 on and is told of the queue that the question meets: what 8 Mb/s send while it waits.
    fn sender_told_of_a_queue(packets: u64) -> FairShare {
        let mut sender = sender(answer(8, 0));
        sender.min_delay = (RTT / 2).as_nanos() as i64;
        let waited = Duration::from_millis(packets);
        send(&mut sender, 0, Time::ZERO + RTT + waited);
        acknowledge(&mut sender, (0, ms(0)), waited, Time::ZERO + RTT + waited, answer(8, packets));
        sender
    }

    // All of 5 packets but one are taken off in an RTT: 4000 bytes in 20 ms, 1.6 Mb/s.
    #[test]
    fn the_queue_it_is_told_of_is_drained_in_one_rtt() {
        let mut sender = sender_told_of_a_queue(5);
        assert_eq!(sender.rate(), Some(Rate::from_bps(6_400_000)));
        assert_eq!(sender.deadline(), ms(45));
        sender.on_deadline(ms(45));
        assert_eq!(sender.rate(), Some(Rate::from_bps(8 * MEGABIT)));
    }

    // The next question leaves as the sender slows down and meets the queue as it was. While it waits 5 ms, 4 packets
    // come behind it at 6.4 Mb/s; 3 more are held back by its answer. What is left of 4 is a packet, give or take one.
    #[test]
    fn a_queue_told_twice_is_taken_off_once() {
        let mut sender = sender_told_of_a_queue(5);
        let asked_at = sender.departure().at;
        send(&mut sender, 25, ms(45));
        sender.on_deadline(ms(45));
        let waited = Duration::from_millis(5);
        let now = asked_at + RTT + waited;
        send(&mut sender, 41, now);
        acknowledge(&mut sender, (25, asked_at), waited, now, answer(8, 4));
        assert!(sender.rate() >= Some(Rate::from_bps(8 * MEGABIT) - Rate::of(PACKET, RTT)));
    }

    #[test]
    fn a_smaller_share_without_a_queue_is_just_the_smaller_share() {
        let mut sender = sender(answer(8, 0));
        send(&mut sender, 0, ms(20));
        acknowledge(&mut sender, (0, ms(0)), Duration::ZERO, ms(20), answer(6, 0));
        assert_eq!((sender.rate(), sender.deadline()), (Some(Rate::from_bps(6 * MEGABIT)), Time::MAX));
    }

    #[test]
    fn however_long_the_queue_a_packet_an_rtt_still_asks() {
        let mut sender = sender(answer(80, 0));
        send(&mut sender, 0, ms(20));
        acknowledge(&mut sender, (0, ms(0)), Duration::ZERO, ms(20), answer(8, 100));
        assert_eq!(sender.rate(), Some(Rate::of(PACKET, RTT)));
        assert_eq!(sender.departure().feedback, QUESTION);
        // 99 packets take 99 ms at its share, and 5 more for those it sends meanwhile.
        assert!(sender.deadline() > ms(20 + 99) && sender.deadline() < ms(20 + 105));
    }

    #[test]
    fn a_lost_question_and_a_lost_answer_are_asked_again() {
        let mut sender = sender(answer(8, 0));
        send(&mut sender, 0, ms(5));
        sender.on_loss(ms(25), &loss(LossKind::Transient, 0, 4));
        assert_eq!(sender.departure().feedback, QUESTION);
        assert_eq!(sender.rate(), Some(Rate::from_bps(8 * MEGABIT)));

        sender.on_sent(ms(25), &Sent { number: 5, bytes: PACKET, in_flight: PACKET });
        sender.on_ack(ms(60), &ack(1));
        assert_eq!(sender.departure().feedback, RouterFeedback::None);
        sender.on_ack(ms(66), &ack(1));
        assert_eq!(sender.departure().feedback, QUESTION);
    }

    #[test]
    fn a_long_silence_puts_the_share_out_of_date() {
        let mut sender = sender(answer(8, 0));
        let timeout = Duration::from_millis(200);
        sender.on_idle(ms(100), Duration::from_millis(100), timeout);
        assert_eq!(sender.rate(), Some(Rate::from_bps(8 * MEGABIT)));
        sender.on_idle(ms(1000), Duration::from_millis(300), timeout);
        assert_eq!(sender.rate(), Some(Rate::of(PACKET, RTT)));
    }
}
