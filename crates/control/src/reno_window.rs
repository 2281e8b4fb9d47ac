//! The window that TCPs share: slow start, congestion avoidance, halving (RFC 5681).
//!
//! With `W` the window, `S` the slow-start threshold and `P` the largest packet, all in bytes of whole IP packets (the
//! RFC counts payload; both sides of every equation scale alike):
//!
//! ```text
//! an acknowledgement arrives, W < S:   W += min(acked, L P)              section 3.1, eq. (2); L = 1, or RFC 3465's
//!                           W >= S:    W += P P / W  per acknowledgement section 3.1, eq. (3)
//!                                      or W += P per W bytes acknowledged (RFC 3465)
//! a loss is found:                     S = max(flight / 2, 2 P), W = S   section 3.2, eq. (4)
//! the timer runs out:                  S likewise, W = P                 section 3.1
//! ```
//!
//! *Deviation*: `flight` is bounded by `W`. With selective acknowledgements new data goes on leaving while the first hole
//! is repaired; if the repair is lost too, what is not cumulatively acknowledged grows to many windows, and half of it
//! would be more than `W`: one of 60 flows took a third of a 150 Mb/s link at a 6% drop rate.
//!
//! Schemes with rules of their own for congestion avoidance ([`crate::rules`]) move the same window by packets and parts
//! of packets: `step`, `lower_to`, `collapse_to`.
//!
//! The repair of losses is the connection's; whether a loss belongs to an episode that was already answered is for
//! [`crate::episode`] to say.

use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};

use crate::rules::check_first_window;
use crate::{Ack, Departure, Settings};

/// Tunables of Reno and NewReno.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets: RFC 6928's 10; the PCP paper's TCP starts with 1.
    pub initial_window: u64,
    /// Grow by the bytes an acknowledgement reports (RFC 3465, as Linux does) instead of by the acknowledgement.
    pub byte_counting: bool,
    /// Slow start with byte counting: most packets an acknowledgement adds (RFC 3465 section 2.3, `L`).
    pub byte_counting_limit: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { initial_window: 10, byte_counting: false, byte_counting_limit: 2 }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        if self.byte_counting_limit == 0 {
            return Err("byte_counting_limit is 0: the window could never grow; 1 or more".into());
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct RenoWindow {
    config: Config,
    packet: Bytes,
    window: Bytes,
    threshold: Bytes,
    /// Congestion avoidance with byte counting: bytes acknowledged since the window last grew.
    counted: Bytes,
    /// The part of a byte that [`RenoWindow::step`] has still to add.
    fraction: f64,
}

impl RenoWindow {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            packet: Bytes::ZERO,
            window: Bytes::ZERO,
            threshold: Bytes::MAX,
            counted: Bytes::ZERO,
            fraction: 0.0,
        }
    }

    pub(crate) fn start(&mut self, packet: Bytes) {
        self.packet = packet;
        self.window = packet * self.config.initial_window;
    }

    /// Whether `ack` lets the window grow: not while losses are repaired, nor while it is not the window that bounds the
    /// flow.
    pub(crate) fn counts(ack: &Ack<'_>) -> bool {
        !ack.recovering && !ack.app_limited && ack.acked > Bytes::ZERO
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    pub(crate) fn leave_slow_start(&mut self) {
        self.threshold = self.window;
    }

    /// Goes on with `window`, if that is more than a first one, as if that had been found by congestion avoidance.
    pub(crate) fn resume(&mut self, window: Bytes) {
        if window > self.window {
            (self.window, self.threshold) = (window, window);
        }
    }

    /// Makes `window` the window, whatever TCP has to say of it.
    pub(crate) fn replace(&mut self, window: Bytes) {
        self.window = window;
    }

    pub(crate) fn grow(&mut self, ack: &Ack<'_>) {
        if !Self::counts(ack) {
            return;
        }
        if self.in_slow_start() {
            let most = if self.config.byte_counting { self.config.byte_counting_limit } else { 1 };
            self.window += ack.acked.min(self.packet * most); // RFC 5681 eq. (2)
        } else if self.config.byte_counting {
            self.counted += ack.acked;
            if self.counted >= self.window {
                self.counted -= self.window;
                self.window += self.packet;
            }
        } else {
            let step = self.packet.as_u64() * self.packet.as_u64() / self.window.as_u64();
            self.window += Bytes::new(step.max(1)); // RFC 5681 eq. (3)
        }
    }

    pub(crate) fn halve(&mut self, flight: Bytes) {
        self.lower_threshold(flight);
        self.window = self.threshold;
        self.counted = Bytes::ZERO;
    }

    fn lower_threshold(&mut self, flight: Bytes) {
        self.threshold = (flight.min(self.window) / 2).max(self.packet * 2); // RFC 5681 eq. (4)
    }

    pub(crate) fn collapse(&mut self, flight: Bytes, repeated: bool) {
        if !repeated {
            self.lower_threshold(flight);
        }
        self.window = self.packet;
        (self.counted, self.fraction) = (Bytes::ZERO, 0.0);
    }

    /// The window in packets.
    pub(crate) fn packets(&self) -> f64 {
        (self.window.as_f64() + self.fraction) / self.packet.as_f64()
    }

    /// Adds `packets`, which may be a small part of one or negative; one packet remains at least.
    pub(crate) fn step(&mut self, packets: f64) {
        self.put(self.packets() + packets, 1.0);
    }

    /// Makes `packets` the window and the threshold, or two if that is less: RFC 5681 eq. (4)'s bound.
    pub(crate) fn lower_to(&mut self, packets: f64) {
        self.put(packets, 2.0);
        self.threshold = self.window;
    }

    /// The timer ran out: one packet, and slow start up to `packets`, or two if that is less.
    pub(crate) fn collapse_to(&mut self, packets: f64) {
        self.lower_to(packets);
        self.collapse(self.window, true);
    }

    /// Makes `packets` the window, or `least` if that is less.
    fn put(&mut self, packets: f64, least: f64) {
        let bytes = packets.max(least) * self.packet.as_f64();
        self.window = Bytes::new(bytes as u64);
        self.fraction = bytes - self.window.as_f64();
    }

    /// RFC 5681 section 4.1: after a silence longer than the timer, at most the first window (`RW = min(IW, cwnd)`).
    pub(crate) fn restart(&mut self, idle: Duration, timeout: Duration) {
        if idle > timeout {
            let first = self.packet * self.config.initial_window;
            if self.window > first {
                (self.window, self.fraction) = (first, 0.0);
            }
        }
    }

    pub(crate) fn window(&self) -> Bytes {
        self.window
    }

    pub(crate) fn departure(&self) -> Departure {
        Departure { at: Time::ZERO, bytes: self.packet, feedback: RouterFeedback::None }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const PACKET: Bytes = Bytes::new(1000);

    /// An acknowledgement of `packets` packets with nothing else to say.
    pub(crate) fn ack(packets: u64) -> Ack<'static> {
        Ack {
            acked: PACKET * packets,
            outstanding: PACKET * 10,
            rtt: None,
            smoothed_rtt: Duration::from_millis(20),
            min_rtt: Duration::from_millis(20),
            arrivals: &[],
            named: false,
            feedback: RouterFeedback::None,
            recovering: false,
            app_limited: false,
        }
    }

    fn window(config: &Config) -> RenoWindow {
        let mut window = RenoWindow::new(config);
        window.start(PACKET);
        window
    }

    #[test]
    fn slow_start_adds_one_packet_an_acknowledgement() {
        let mut w = window(&Config::default());
        w.grow(&ack(2));
        assert_eq!(w.window(), PACKET * 11);
        w.grow(&Ack { acked: Bytes::new(300), ..ack(1) });
        assert_eq!(w.window(), PACKET * 11 + Bytes::new(300));
    }

    #[test]
    fn byte_counting_adds_what_was_acknowledged_up_to_its_limit() {
        let mut w = window(&Config { byte_counting: true, ..Config::default() });
        w.grow(&ack(2));
        assert_eq!(w.window(), PACKET * 12);
        w.grow(&ack(5));
        assert_eq!(w.window(), PACKET * 14);
    }

    #[test]
    fn congestion_avoidance_adds_one_packet_a_window() {
        for byte_counting in [false, true] {
            let mut w = window(&Config { initial_window: 20, byte_counting, ..Config::default() });
            w.halve(PACKET * 20);
            assert_eq!(w.window(), PACKET * 10);
            for _ in 0..10 {
                w.grow(&ack(1));
            }
            let grown = w.window().saturating_sub(PACKET * 10);
            assert!(grown > PACKET * 9 / 10 && grown <= PACKET, "{grown}");
        }
    }

    #[test]
    fn two_packets_are_the_least_a_loss_leaves_and_a_timeout_leaves_one() {
        let mut w = window(&Config { initial_window: 32, ..Config::default() });
        w.halve(PACKET);
        assert_eq!(w.window(), PACKET * 2);
        let mut w = window(&Config { initial_window: 32, ..Config::default() });
        w.collapse(PACKET * 16, false);
        assert_eq!(w.window(), PACKET);
        w.collapse(PACKET * 2, true); // the threshold stays at 8
        for _ in 0..7 {
            w.grow(&ack(1));
        }
        assert_eq!(w.window(), PACKET * 8);
        w.grow(&ack(1));
        assert!(w.window() < PACKET * 9);
    }

    #[test]
    fn what_is_outstanding_beyond_the_window_does_not_count() {
        let mut w = window(&Config::default());
        w.halve(PACKET * 100);
        assert_eq!(w.window(), PACKET * 5);
    }

    #[test]
    fn parts_of_packets_add_up() {
        let mut w = window(&Config::default());
        for _ in 0..100_000 {
            w.step(1e-5); // a hundredth of a byte
        }
        assert!((w.packets() - 11.0).abs() < 1e-6, "{}", w.packets());
        w.step(-20.0);
        assert_eq!(w.window(), PACKET);
    }

    #[test]
    fn a_timeout_leaves_a_packet_and_slow_start_up_to_where_it_is_told() {
        let mut w = window(&Config::default());
        w.collapse_to(7.5);
        assert_eq!(w.window(), PACKET);
        for _ in 0..7 {
            assert!(w.in_slow_start());
            w.grow(&ack(1));
        }
        assert!(!w.in_slow_start());
    }

    #[test]
    fn nothing_grows_in_recovery_or_when_the_application_is_the_limit() {
        let mut w = window(&Config::default());
        w.grow(&Ack { recovering: true, ..ack(1) });
        w.grow(&Ack { app_limited: true, ..ack(1) });
        assert_eq!(w.window(), PACKET * 10);
    }
}
