//! What rules of window schemes see: acknowledgements and congestion, each with the window at that time; and successive
//! round trips.

use rampmeter_units::{Bytes, Duration, Time};

use crate::Ack;

/// An acknowledgement, and the window at its arrival.
#[derive(Debug, Clone, Copy)]
pub struct AckEvent<'a> {
    /// When it arrived, on the sender's clock.
    pub now: Time,
    /// The acknowledgement.
    pub ack: &'a Ack<'a>,
    /// The window in packets.
    pub window: f64,
    /// The newly delivered bytes, in packets.
    pub delivered: f64,
    /// The window in whole bytes.
    pub window_bytes: Bytes,
    /// The largest packet.
    pub packet: Bytes,
}

/// A loss, a mark or a timeout that reduces the window, and the window at that time.
#[derive(Debug, Clone, Copy)]
pub struct Congestion {
    /// When it was detected, on the sender's clock.
    pub now: Time,
    /// The window in packets.
    pub window: f64,
    /// The window in whole bytes.
    pub window_bytes: Bytes,
    /// Bytes sent and not cumulatively acknowledged (RFC 5681, `FlightSize`).
    pub flight_size: Bytes,
    /// Whether it is a mark: no packet is lost.
    pub is_mark: bool,
}

/// Successive round trips. A round trip ends when a packet that was sent after its start is acknowledged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rounds {
    began: Time,
}

impl Rounds {
    /// The duration of the round trip that ends with this acknowledgement, if one does; the next one starts at once.
    /// The first acknowledgement always ends one.
    pub fn ended(&mut self, event: &AckEvent<'_>) -> Option<Duration> {
        let passed = event.now.since(self.began);
        let is_over = passed >= event.ack.rtt.unwrap_or(event.ack.smoothed_rtt);
        if is_over {
            self.began = event.now;
        }
        is_over.then_some(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PACKET, ack};

    #[test]
    fn a_round_trip_ends_when_a_packet_sent_in_it_is_acknowledged() {
        let mut rounds = Rounds::default();
        let rtt = Duration::from_millis(20);
        let mut ended = |millis: u64, rtt: Duration| {
            let ack = Ack { rtt: Some(rtt), ..ack(1) };
            let now = Time::ZERO + Duration::from_millis(millis);
            let (window_bytes, packet) = (PACKET * 10, PACKET);
            rounds.ended(&AckEvent { now, ack: &ack, window: 10.0, delivered: 1.0, window_bytes, packet })
        };
        assert!(ended(100, rtt).is_some());
        assert_eq!(ended(119, rtt), None);
        assert_eq!(ended(120, rtt), Some(rtt));
        assert_eq!(ended(145, rtt * 2), None, "it was sent at 105 ms, before the round trip started");
        assert_eq!(ended(160, rtt * 2), Some(rtt * 2));
    }
}
