//! The rules in which window schemes differ: how many packets an acknowledgement adds to the window, and the window after
//! a loss. Most high-speed TCPs are described by them; [`Windowed`] has the parts that all of them share.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration, Ecn, Time};

pub use crate::parts::slow_start::SlowStart;
pub use crate::parts::window::Amount;
pub use crate::parts::windowed::Windowed;
#[cfg(test)]
pub(crate) use crate::parts::windowed::tests;
use crate::{Ack, Settings};

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

/// The rules in which window schemes differ.
pub trait Rules: Debug + Clone + Send + 'static {
    /// Its settings.
    type Config: Settings + Default;

    /// Whether all losses of one window of data cause one reaction (RFC 6582). Marks always do (RFC 3168 section
    /// 6.1.2).
    const ONCE_A_WINDOW: bool = true;

    /// Whether the window does not grow in the round trip after a reaction to marks. Acknowledgements with an ECN-Echo do
    /// not increase it (RFC 3168 section 6.1.2), and receivers echo a mark until a packet reports the reaction.
    const STOPS_AFTER_MARKS: bool = true;

    /// The ECN code of its packets, if it needs one ([`crate::Controller::ecn`]).
    const ECN: Option<Ecn> = None;

    /// See [`crate::Algorithm::NEEDS`].
    const NEEDS: Option<&'static str> = None;

    /// The rules at the start of a path.
    fn new(config: &Self::Config) -> Self;

    /// The window was replaced, or is counted in packets of another size, on the same path. What the rules know of the
    /// path may stay.
    fn restart(&mut self, config: &Self::Config)
    where
        Self: Sized,
    {
        *self = Self::new(config);
    }

    /// The first window, in packets.
    fn first_window(config: &Self::Config) -> u64;

    /// How the first slow start ends.
    fn first_slow_start(_config: &Self::Config) -> SlowStart {
        SlowStart::Standard
    }

    /// Called first for every acknowledgement, before its marks reduce the window: rules may count them themselves.
    fn count_marks(&mut self, _now: Time, _ack: &Ack<'_>, _packet: Bytes) {}

    /// Called for every acknowledgement before it increases the window, also for those that do not increase the window.
    fn observe(&mut self, _seen: &AckEvent<'_>) {}

    /// Slow start: how much the acknowledgement adds, or `None` if slow start ends here.
    fn slow_start(&mut self, event: &AckEvent<'_>) -> Option<Amount> {
        Some(Amount::Packets(event.delivered.min(1.0))) // RFC 5681 eq. (2)
    }

    /// Congestion avoidance: how much the acknowledgement adds.
    fn increase(&mut self, event: &AckEvent<'_>) -> Amount;

    /// The window after a loss or a mark.
    fn decrease(&mut self, congestion: &Congestion) -> Amount;

    /// The timer expired, and [`Rules::decrease`] has returned the slow-start threshold.
    fn on_timeout(&mut self) {}

    /// The name of their state ([`crate::Controller::state`]). `None`: that of the window, which is in slow start up to
    /// its threshold and then in congestion avoidance.
    fn state(&self) -> Option<&'static str> {
        None
    }

    /// The flow was idle or application-limited for `span`. Schemes that depend on elapsed time exclude that time.
    fn pause(&mut self, _span: Duration) {}
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
mod rounds_tests {
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
