//! Acknowledgements, losses and marks for tests. A test overrides the fields that it examines: `Ack { rtt, ..ack(1) }`.

pub mod link;

use std::sync::{Arc, Mutex};

use delegate::delegate;
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

use crate::{Ack, Algorithm, Arrival, Controller, Departure, History, Loss, LossKind, MarkCount, Path, Sent};

/// The packet size.
pub const PACKET: Bytes = Bytes::new(1000);

/// The round-trip time of acknowledgements.
pub const RTT: Duration = Duration::from_millis(20);

/// A controller, and the arrivals that were reported to it.
#[derive(Debug)]
pub struct Recorder<C> {
    /// The controller.
    pub controller: C,
    /// The arrivals.
    pub arrivals: Arc<Mutex<Vec<Arrival>>>,
    /// The round-trip time that the controller gets instead of the measured one.
    pub rtt: Option<Duration>,
}

impl<C: Controller> Controller for Recorder<C> {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.controller.on_path(now, &Path { rtt: self.rtt.unwrap_or(path.rtt), ..path.clone() });
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.arrivals.lock().unwrap().extend(ack.arrivals);
        self.controller.on_ack(now, &Ack { smoothed_rtt: self.rtt.unwrap_or(ack.smoothed_rtt), ..*ack });
    }

    delegate! {
        to self.controller {
            fn on_sent(&mut self, now: Time, sent: &Sent);
            fn on_loss(&mut self, now: Time, loss: &Loss);
            fn window(&self) -> Bytes;
            fn departure(&self) -> Departure;
            fn rate(&self) -> Option<Rate>;
            fn ecn(&self) -> Option<Ecn>;
            fn has_own_codes(&self) -> bool;
        }
    }
}

/// So many milliseconds after the start.
pub fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

/// An acknowledgement of `packets` packets without further information.
pub const fn ack(packets: u64) -> Ack<'static> {
    Ack {
        delivered: Bytes::new(1000 * packets),
        in_flight: Bytes::new(10_000),
        rtt: None,
        smoothed_rtt: RTT,
        min_rtt: RTT,
        arrivals: &[],
        mark_count: None,
        feedback: RouterFeedback::None,
        flight_size: Bytes::new(100_000),
        last_sent: 0,
        recovering: false,
        app_limited: false,
        nothing_to_send: false,
    }
}

/// An acknowledgement of `arrivals` with a round-trip time of `rtt`.
pub fn arrived(arrivals: &[Arrival], rtt: Duration) -> Ack<'_> {
    let delivered = arrivals.iter().map(|arrival| arrival.bytes).sum();
    Ack { delivered, in_flight: Bytes::ZERO, rtt: Some(rtt), smoothed_rtt: rtt, min_rtt: rtt, arrivals, ..ack(0) }
}

/// An acknowledgement that counts one mark, on packet `number` or an earlier one, when `last_sent` was the last one
/// sent.
pub const fn mark(number: u64, last_sent: u64) -> Ack<'static> {
    Ack { mark_count: Some(MarkCount { marks: 1, number }), last_sent, ..ack(0) }
}

/// The loss of packet `number`, when `last_sent` was the last one sent.
pub const fn loss(kind: LossKind, number: u64, last_sent: u64) -> Loss {
    let flight_size = Bytes::new(100_000);
    Loss { kind, bytes: PACKET, flight_size, number, last_sent, recovering: false, repeated_timeout: false }
}

/// The time at which a packet was sent, its number and its size.
pub type Departed = (Time, u64, Bytes);

/// A sender that sends each packet as soon as permitted, on a path with a round-trip time of [`RTT`].
#[derive(Debug)]
pub struct World<S> {
    /// The controller.
    pub sender: S,
    /// The time of the next event.
    pub now: Time,
    /// The number of the next packet.
    pub next: u64,
}

impl<S: Algorithm> World<S> {
    /// A sender with the settings `config` that starts with `history`.
    pub fn with(config: &S::Config, history: Option<History>) -> Self {
        let mut sender = S::new(config, Random::from_seed(1));
        sender.on_path(Time::ZERO, &Path::new(PACKET, RTT, history));
        Self { sender, now: Time::ZERO, next: 0 }
    }

    /// Sends packets until `max` are sent or no more are permitted.
    pub fn send(&mut self, max: usize) -> Vec<Departed> {
        let mut departed = Vec::new();
        while departed.len() < max && self.sender.departure().at < Time::MAX {
            let Departure { at, bytes, .. } = self.sender.departure();
            self.now = self.now.max(at);
            departed.push((self.now, self.next, bytes));
            self.sender.on_sent(self.now, &Sent { number: self.next, bytes, in_flight: bytes });
            self.next += 1;
        }
        departed
    }

    /// Acknowledges packets: the first one a round trip after the last one was sent, the others with their original
    /// spacing. The delay of each is `growth` longer than that of the previous one.
    pub fn acknowledge(&mut self, packets: &[Departed], growth: Duration) {
        let start = self.now + RTT;
        for (i, &(sent_at, number, bytes)) in (0..).zip(packets) {
            self.now = start + sent_at.since(packets[0].0);
            let received_at = sent_at + RTT / 2 + growth * i;
            let arrivals = &[Arrival { number, bytes, sent_at, received_at, ecn: Ecn::NotEct }];
            self.sender.on_ack(self.now, &arrived(arrivals, RTT));
        }
    }

    /// Reports the loss of packet `number`.
    pub fn lose(&mut self, kind: LossKind, number: u64) {
        self.sender.on_loss(self.now, &loss(kind, number, self.next - 1));
    }
}
