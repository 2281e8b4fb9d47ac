//! Acknowledgements, losses and marks for tests, which override what they are about: `Ack { rtt, ..ack(1) }`.

use rampmeter_units::{Bytes, Duration};
use rampmeter_wire::RouterFeedback;

use crate::{Ack, Arrival, Counted, Loss, LossKind};

/// The size of the packets here.
pub const PACKET: Bytes = Bytes::new(1000);

/// The round trip of acknowledgements here.
pub const RTT: Duration = Duration::from_millis(20);

/// `packets` packets are acknowledged, of which nothing else is known.
pub const fn ack(packets: u64) -> Ack<'static> {
    Ack {
        acked: Bytes::new(1000 * packets),
        outstanding: Bytes::new(10_000),
        rtt: None,
        smoothed_rtt: RTT,
        min_rtt: RTT,
        arrivals: &[],
        counted: None,
        feedback: RouterFeedback::None,
        flight: Bytes::new(100_000),
        last_sent: 0,
        recovering: false,
        app_limited: false,
    }
}

/// These packets arrived, after a round trip of `rtt`.
pub fn arrived(arrivals: &[Arrival], rtt: Duration) -> Ack<'_> {
    let acked = arrivals.iter().map(|arrival| arrival.bytes).sum();
    Ack { acked, outstanding: Bytes::ZERO, rtt: Some(rtt), smoothed_rtt: rtt, min_rtt: rtt, arrivals, ..ack(0) }
}

/// One packet was marked: number `number` or one before it, when `last_sent` was the last one sent.
pub const fn mark(number: u64, last_sent: u64) -> Ack<'static> {
    Ack { counted: Some(Counted { marks: 1, number }), last_sent, ..ack(0) }
}

/// Packet `number` is lost when `last_sent` was the last one sent.
pub const fn loss(kind: LossKind, number: u64, last_sent: u64) -> Loss {
    let flight = Bytes::new(100_000);
    Loss { kind, bytes: PACKET, flight, number, last_sent, recovering: false, repeated: false }
}
