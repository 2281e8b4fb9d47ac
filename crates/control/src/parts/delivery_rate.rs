//! Samples of the rate at which a path delivers packets (draft-ietf-ccwg-bbr-06, section "Delivery Rate Samples").
//!
//! ```text
//! P is sent:        P records C.delivered, the time of C's last delivery, and the send time of the packet that
//!                   was delivered then (`P.delivered`, `P.delivered_at`, `P.first_sent_at`)
//! P is delivered:   delivered = C.delivered - P.delivered
//!                   interval  = max(now - P.delivered_at, P.sent_at - P.first_sent_at)
//!                   rate      = delivered / interval
//! ```
//!
//! The first part of the maximum is the time in which acknowledgements arrived, the second one that in which the packets
//! left: data is not delivered faster than it was sent, so acknowledgements that arrive in a burst do not count as a
//! fast path. A sample whose packets the application limited says less than the path can deliver, and is marked so.
//!
//! A controller that needs samples has a [`DeliveryRate`] and passes its own events to it. Other controllers do no extra work.
//!
//! *Deviations*: an acknowledgement that reports only packets older than those before gives no sample. Feedback that
//! lists no packets is attributed to the last packet sent a round trip before.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::{Ack, Loss, Sent};

/// The state at the time at which a packet was sent.
#[derive(Debug, Clone, Copy)]
struct Packet {
    number: u64,
    sent_at: Time,
    /// `P.delivered`: bytes delivered before.
    delivered: Bytes,
    /// `P.delivered_time`: when the last of them was delivered.
    delivered_at: Time,
    /// `P.first_send_time`: when that one was sent.
    first_sent_at: Time,
    /// `P.lost`: bytes lost before.
    lost: Bytes,
    /// `P.tx_in_flight`: bytes in flight, this packet included.
    in_flight: Bytes,
    is_app_limited: bool,
}

/// The delivery between the sending of a packet and its acknowledgement (`RS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateSample {
    /// Bytes delivered in this time; zero if there is no sample.
    pub delivered: Bytes,
    /// Their rate. `None` without a sample, and if the interval is below the minimum round-trip time, which no path can
    /// cause.
    pub rate: Option<Rate>,
    /// Bytes delivered before the packet was sent.
    pub prior_delivered: Bytes,
    /// Bytes in flight when it was sent, itself included.
    pub in_flight: Bytes,
    /// Bytes that were found lost in this time.
    pub lost: Bytes,
    /// The application limited the rate when it was sent.
    pub is_app_limited: bool,
}

/// The state of a packet that was lost, at the time at which it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostPacket {
    /// Bytes in flight when it was sent, itself included.
    pub in_flight: Bytes,
    /// Bytes found lost since it was sent, itself included.
    pub lost: Bytes,
    /// The application limited the rate when it was sent.
    pub is_app_limited: bool,
}

/// Computes samples of the delivery rate.
#[derive(Debug, Clone, Default)]
pub struct DeliveryRate {
    /// The packets in flight, in the order of their numbers.
    packets: VecDeque<Packet>,
    /// Bytes in flight after the last event.
    in_flight: Bytes,
    /// `C.delivered`.
    delivered: Bytes,
    /// `C.lost`.
    lost: Bytes,
    /// `C.delivered_time`: when `delivered` grew last.
    delivered_at: Time,
    /// `C.first_send_time`: when the packet that was delivered last was sent.
    first_sent_at: Time,
    /// `C.app_limited`: the value of `delivered` up to which packets were sent while the application limited the rate.
    app_limited_until: Option<Bytes>,
}

impl DeliveryRate {
    /// Bytes delivered so far.
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }

    /// Bytes in flight after the last event.
    pub fn in_flight(&self) -> Bytes {
        self.in_flight
    }

    /// A packet was sent.
    pub fn on_sent(&mut self, now: Time, sent: &Sent) {
        if sent.in_flight <= sent.bytes {
            (self.first_sent_at, self.delivered_at) = (now, now);
            self.packets.clear(); // they were lost, or no feedback covers them
        }
        self.in_flight = sent.in_flight;
        while self.packets.front().is_some_and(|first| self.left_since(first) > first.in_flight * 2) {
            self.packets.pop_front();
        }
        self.packets.push_back(Packet {
            number: sent.number,
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost: self.lost,
            in_flight: sent.in_flight,
            is_app_limited: self.is_app_limited(),
        });
    }

    /// An acknowledgement arrived. Returns its sample.
    pub fn on_ack(&mut self, now: Time, ack: &Ack<'_>) -> RateSample {
        if ack.nothing_to_send {
            self.on_app_limited();
        }
        self.in_flight = ack.in_flight;
        if ack.delivered == Bytes::ZERO {
            return RateSample::default();
        }
        self.delivered += ack.delivered;
        self.delivered_at = ack.arrived_at(now);
        let packet = self.newest_of(ack);
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        let Some(packet) = packet else { return RateSample::default() };
        let sent_for = packet.sent_at.since(packet.first_sent_at);
        let interval = sent_for.max(self.delivered_at.since(packet.delivered_at));
        let delivered = self.delivered.saturating_sub(packet.delivered);
        self.first_sent_at = packet.sent_at;
        RateSample {
            delivered,
            rate: (interval >= ack.min_rtt && interval > Duration::ZERO).then(|| Rate::of(delivered, interval)),
            prior_delivered: packet.delivered,
            in_flight: packet.in_flight,
            lost: self.lost.saturating_sub(packet.lost),
            is_app_limited: packet.is_app_limited,
        }
    }

    /// Packets were lost. Returns the state of the one with the highest number.
    pub fn on_loss(&mut self, loss: &Loss) -> Option<LostPacket> {
        self.lost += loss.bytes;
        self.in_flight = self.in_flight.saturating_sub(loss.bytes);
        let at = self.packets.binary_search_by_key(&loss.number, |packet| packet.number).ok()?;
        let Packet { in_flight, lost, is_app_limited, .. } = self.packets[at];
        Some(LostPacket { in_flight, lost: self.lost.saturating_sub(lost), is_app_limited })
    }

    /// The application limits the rate: samples of the packets in flight, and of those sent until they have left the
    /// path, are marked.
    pub fn on_app_limited(&mut self) {
        self.app_limited_until = Some(self.delivered + self.in_flight);
    }

    /// Whether packets sent now are marked.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// Bytes delivered and lost since `packet` was sent. If they are more than were in flight then, it is among them.
    fn left_since(&self, packet: &Packet) -> Bytes {
        (self.delivered + self.lost).saturating_sub(packet.delivered + packet.lost)
    }

    /// The packet that was sent last among those that `ack` reports, if it was sent after all reported before. Packets
    /// sent a round trip before it and earlier are discarded: they are delivered or lost.
    fn newest_of(&mut self, ack: &Ack<'_>) -> Option<Packet> {
        let at = if let Some(number) = ack.arrivals.iter().map(|arrival| arrival.number).max() {
            self.packets.binary_search_by_key(&number, |packet| packet.number).ok()?
        } else {
            let age = ack.rtt.unwrap_or(ack.smoothed_rtt);
            self.packets.partition_point(|packet| packet.sent_at + age <= self.delivered_at).checked_sub(1)?
        };
        let packet = self.packets[at];
        while self.packets.front().is_some_and(|first| first.sent_at + ack.smoothed_rtt < packet.sent_at) {
            self.packets.pop_front();
        }
        (packet.sent_at >= self.first_sent_at).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PACKET, RTT, arrived, loss, ms};
    use crate::{Arrival, LossKind};

    /// Sends packets `numbers` at one time.
    fn send(rate: &mut DeliveryRate, at: Time, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let in_flight = rate.in_flight + PACKET;
            rate.on_sent(at, &Sent { number, bytes: PACKET, in_flight });
        }
    }

    /// Acknowledges one packet.
    fn acknowledge(rate: &mut DeliveryRate, at: Time, number: u64, app_limited: bool) -> RateSample {
        let arrivals = [Arrival { number, bytes: PACKET, sent_at: at - RTT, ..Arrival::default() }];
        let in_flight = rate.in_flight.saturating_sub(PACKET);
        rate.on_ack(at, &Ack { in_flight, nothing_to_send: app_limited, ..arrived(&arrivals, RTT) })
    }

    #[test]
    fn samples_have_the_rate_of_the_bottleneck() {
        // Forty packets leave at once; a link of 1 packet a ms delivers them from 20 ms on, and each acknowledgement
        // releases another one. A packet sent then is acknowledged 40 ms later, with 39 others.
        let mut rate = DeliveryRate::default();
        send(&mut rate, ms(0), 0..40);
        let mut samples = Vec::new();
        for n in 0..60 {
            samples.push(acknowledge(&mut rate, ms(20 + n), n, false));
            send(&mut rate, ms(20 + n), 40 + n..41 + n);
        }
        assert_eq!(samples[0].rate, Some(Rate::of(PACKET, RTT)), "one packet in a round trip");
        let sample = samples[50];
        assert_eq!((sample.delivered, sample.in_flight), (PACKET * 40, PACKET * 40));
        assert_eq!(sample.rate, Some(Rate::of(PACKET, Duration::from_millis(1))));
    }

    #[test]
    fn a_burst_of_acknowledgements_is_not_a_fast_path() {
        // Packets leave one a ms. The acknowledgements of 20 packets arrive at once.
        let mut rate = DeliveryRate::default();
        (0..40).for_each(|n| send(&mut rate, ms(n), n..n + 1));
        (0..20).for_each(|n| {
            acknowledge(&mut rate, ms(40), n, false);
        });
        let sample = acknowledge(&mut rate, ms(41), 30, false);
        assert!(sample.rate.unwrap() <= Rate::of(PACKET, Duration::from_millis(1)), "{sample:?}");
    }

    #[test]
    fn an_interval_shorter_than_the_round_trip_has_no_rate() {
        for (millis, min_rtt, has_rate) in [(19, 20, false), (20, 20, true), (0, 0, false), (1, 0, true)] {
            let mut rate = DeliveryRate::default();
            send(&mut rate, ms(50), 0..1);
            let arrivals = [Arrival { bytes: PACKET, sent_at: ms(50), ..Arrival::default() }];
            let ack = Ack { min_rtt: Duration::from_millis(min_rtt), ..arrived(&arrivals, RTT) };
            assert_eq!(rate.on_ack(ms(50 + millis), &ack).rate.is_some(), has_rate, "{millis} ms");
        }
    }

    #[test]
    fn delivered_packets_are_discarded() {
        let mut rate = DeliveryRate::default();
        for n in 0..1000 {
            send(&mut rate, ms(n), n..n + 1);
            if n >= 20 {
                acknowledge(&mut rate, ms(n), n - 20, false);
            }
        }
        assert!(rate.packets.len() < 50, "{}", rate.packets.len());
    }

    #[test]
    fn packets_are_discarded_where_reports_name_none() {
        // A program reports a round-trip time longer than the flow is old.
        for lost in [0, 1] {
            let mut rate = DeliveryRate::default();
            send(&mut rate, ms(0), 0..20);
            for n in (20..5000).step_by(3) {
                (0..lost).for_each(|_| _ = rate.on_loss(&loss(LossKind::Transient, n - 20, n)));
                let (rtt, delivered) = (Some(Duration::from_secs(600)), PACKET * (3 - lost));
                rate.on_ack(ms(n), &Ack { delivered, in_flight: PACKET * 17, rtt, ..arrived(&[], RTT) });
                send(&mut rate, ms(n), n..n + 3);
            }
            assert!(rate.packets.len() < 100, "{}", rate.packets.len());
        }
    }
}
