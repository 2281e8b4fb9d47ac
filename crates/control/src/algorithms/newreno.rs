//! TCP NewReno (RFC 6582) and SACK-based recovery (RFC 6675): one halving a window of data, for any number of losses.
//!
//! With `W` the window, `S` the slow-start threshold and `P` the largest packet, in whole bytes (RFC 5681):
//!
//! ```text
//! an acknowledgement arrives, W < S:   W += min(delivered, L P)          section 3.1, eq. (2); L = 1, or RFC 3465's
//!                           W >= S:    W += P P / W  per acknowledgement section 3.1, eq. (3)
//!                                      or W += P per W bytes acknowledged (RFC 3465)
//! a loss is detected:                  S = W = max(FlightSize / 2, 2 P)  section 3.2, eq. (4)
//! the timer expires:                   the same S, W = P                 section 3.1
//! ```
//!
//! *Deviation*: `FlightSize` is limited to `W`. With selective acknowledgements new data is sent while the first hole
//! is being retransmitted. If that retransmission is lost too, `FlightSize` grows to many windows, and half of it would
//! be more than `W`: one of 60 flows took a third of a 150 Mb/s link at a 6% drop rate.
//!
//! `episode.rs` decides which losses belong to one window of data. The transport decides how losses are detected and
//! retransmitted: `recovery = "newreno"` or `"sack"`.

use rampmeter_units::Bytes;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::check_first_window;
use crate::rules::{AckEvent, Amount, Congestion, Rules, SlowStart, Windowed};

/// `L` of byte counting: the maximum number of packets that an acknowledgement adds in slow start (RFC 3465 section 2.3).
const BYTE_COUNTING_LIMIT: u64 = 2;

/// TCP NewReno.
pub type NewReno = Windowed<NewRenoRules>;

/// Settings of Reno and NewReno.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets: RFC 6928's 10; the PCP paper's TCP starts with 1.
    #[default(10)]
    pub initial_window: u64,
    /// How the first slow start ends.
    pub slow_start: SlowStart,
    /// Increase the window by the bytes acknowledged (RFC 3465, as Linux does) instead of by the acknowledgement.
    pub byte_counting: bool,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)
    }
}

/// The window rules of TCP NewReno, or with `ONCE_A_WINDOW = false` of TCP Reno.
#[derive(Debug, Clone)]
pub struct NewRenoRules<const ONCE_A_WINDOW: bool = true> {
    config: Config,
    /// Congestion avoidance with byte counting: bytes delivered since the last increase of the window.
    delivered: Bytes,
}

impl<const ONCE_A_WINDOW: bool> Rules for NewRenoRules<ONCE_A_WINDOW> {
    type Config = Config;

    const ONCE_A_WINDOW: bool = ONCE_A_WINDOW;

    fn new(config: &Config) -> Self {
        Self { config: config.clone(), delivered: Bytes::ZERO }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn first_slow_start(config: &Config) -> SlowStart {
        config.slow_start
    }

    fn slow_start(&mut self, event: &AckEvent<'_>) -> Option<Amount> {
        let limit = if self.config.byte_counting { BYTE_COUNTING_LIMIT } else { 1 };
        Some(event.ack.delivered.min(event.packet * limit).into()) // RFC 5681 eq. (2)
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        if !self.config.byte_counting {
            let step = event.packet.as_u64() * event.packet.as_u64() / event.window_bytes.as_u64();
            return Bytes::new(step.max(1)).into(); // RFC 5681 eq. (3)
        }
        self.delivered += event.ack.delivered;
        if self.delivered < event.window_bytes {
            return Bytes::ZERO.into();
        }
        self.delivered -= event.window_bytes;
        event.packet.into()
    }

    fn decrease(&mut self, congestion: &Congestion) -> Amount {
        self.delivered = Bytes::ZERO;
        (congestion.flight_size.min(congestion.window_bytes) / 2).into() // RFC 5681 eq. (4)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Duration, Random, Time};

    use super::*;
    use crate::testing::{PACKET, ack, loss};
    use crate::{Ack, Algorithm, Controller, Loss, LossKind, Path};

    const LOSS: Loss = Loss { flight_size: Bytes::MAX, ..loss(LossKind::Transient, 3, 20) };

    fn started(config: &Config) -> NewReno {
        let mut newreno = NewReno::new(config, Random::from_seed(1));
        newreno.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(20), None));
        newreno
    }

    fn delivered(newreno: &mut NewReno, ack: &Ack<'_>) -> Bytes {
        newreno.on_ack(Time::ZERO, ack);
        newreno.window()
    }

    fn lost(newreno: &mut NewReno, loss: &Loss) -> Bytes {
        newreno.on_loss(Time::ZERO, loss);
        newreno.window()
    }

    #[test]
    fn slow_start_adds_one_packet_an_acknowledgement() {
        let mut newreno = started(&Config::default());
        assert_eq!(delivered(&mut newreno, &ack(2)), PACKET * 11);
        let part = Bytes::new(300);
        assert_eq!(delivered(&mut newreno, &Ack { delivered: part, ..ack(1) }), PACKET * 11 + part);
    }

    #[test]
    fn byte_counting_adds_the_bytes_acknowledged_up_to_its_limit() {
        let mut newreno = started(&Config { byte_counting: true, ..Config::default() });
        assert_eq!(delivered(&mut newreno, &ack(2)), PACKET * 12);
        assert_eq!(delivered(&mut newreno, &ack(5)), PACKET * 14);
    }

    #[test]
    fn congestion_avoidance_adds_one_packet_a_window() {
        for byte_counting in [false, true] {
            let mut newreno = started(&Config { initial_window: 20, byte_counting, ..Config::default() });
            assert_eq!(lost(&mut newreno, &LOSS), PACKET * 10);
            (0..10).for_each(|_| newreno.on_ack(Time::ZERO, &ack(1)));
            let grown = newreno.window() - PACKET * 10;
            assert!(grown > PACKET * 9 / 10 && grown <= PACKET, "{grown}");
            (0..11).for_each(|_| newreno.on_ack(Time::ZERO, &ack(1)));
            let grown = newreno.window() - PACKET * 10;
            assert!(grown > PACKET * 18 / 10 && grown <= PACKET * 2, "{grown}");
        }
    }

    #[test]
    fn a_loss_halves_the_flight_size_and_a_timeout_leaves_a_packet() {
        let config = Config { initial_window: 32, ..Config::default() };
        assert_eq!(lost(&mut started(&config), &Loss { flight_size: PACKET, ..LOSS }), PACKET * 2);
        assert_eq!(
            lost(&mut started(&config), &Loss { flight_size: PACKET * 100, ..LOSS }),
            PACKET * 16,
            "of the window"
        );
        let timeout = Loss { kind: LossKind::Persistent, flight_size: PACKET * 16, ..LOSS };
        let mut newreno = started(&config);
        assert_eq!(lost(&mut newreno, &timeout), PACKET);
        assert_eq!(lost(&mut newreno, &Loss { flight_size: PACKET * 2, repeated_timeout: true, ..timeout }), PACKET);
        (0..7).for_each(|_| newreno.on_ack(Time::ZERO, &ack(1)));
        assert_eq!(newreno.window(), PACKET * 8, "the threshold of the first timeout");
        assert!(delivered(&mut newreno, &ack(1)) < PACKET * 9);
    }
}
