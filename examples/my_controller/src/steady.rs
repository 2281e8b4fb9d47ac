//! Steady: keeps the queue short by reacting to delay.
//!
//! With the window `W`, the packet size `P`, the queueing delay `d` (the latest round-trip time minus the minimum) and
//! the bound on that delay, `T`:
//!
//! ```text
//! d <= T:   W += P delivered / W   one packet per round trip; until `d` first exceeds T, W += delivered
//! d > T:    W *= 3/4               at most once per window of data
//! a loss:   W *= 1/2               likewise
//! ```
//!
//! All flows of a queue measure `d > T` at the same time, so the queue drains and new flows can measure the minimum
//! delay.

use rampmeter_control::units::{Bytes, Duration, Random, Rate, Time};
use rampmeter_control::{Ack, Algorithm, Controller, Departure, Loss, Path, RouterFeedback, Sent, Settings};
use serde::{Deserialize, Serialize};

/// Tunables of Steady.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The bound on the queueing delay.
    pub target: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { target: Duration::from_millis(5) }
    }
}

impl Settings for Config {}

/// Steady.
#[derive(Debug)]
pub struct Steady {
    target: Duration,
    packet: Bytes,
    window: f64,
    starting: bool,
    last_sent: u64,
    /// The first packet sent after the last cut of the window.
    cut_at: u64,
}

impl Steady {
    fn cut(&mut self, number: u64, factor: f64) {
        if number >= self.cut_at {
            self.window = (self.window * factor).max(2.0 * self.packet.as_f64());
            self.cut_at = self.last_sent + 1;
            self.starting = false;
        }
    }
}

impl Algorithm for Steady {
    type Config = Config;

    fn new(config: &Config, _random: Random) -> Self {
        Self { target: config.target, packet: Bytes::ZERO, window: 0.0, starting: true, last_sent: 0, cut_at: 0 }
    }
}

impl Controller for Steady {
    fn on_path(&mut self, _now: Time, path: &Path) {
        self.packet = path.packet;
        self.window = 10.0 * path.packet.as_f64();
    }

    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        self.last_sent = sent.number;
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        if let Some(marked) = ack.last_marked() {
            self.cut(marked, 0.5);
        }
        let (Some(rtt), Some(latest)) = (ack.rtt, ack.arrivals.last()) else { return };
        if rtt > ack.min_rtt + self.target {
            self.cut(latest.number, 0.75);
        } else if !ack.recovering && !ack.app_limited {
            let fraction = if self.starting { 1.0 } else { self.packet.as_f64() / self.window };
            self.window += fraction * ack.delivered.as_f64();
        }
    }

    fn on_loss(&mut self, _now: Time, loss: &Loss) {
        self.cut(loss.number, 0.5);
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.window as u64)
    }

    fn departure(&self) -> Departure {
        Departure { at: Time::ZERO, bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        None
    }
}
