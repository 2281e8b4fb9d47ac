//! What stops a connection from sending, other than its controller: the peer's receive window, the retransmission timer,
//! and acknowledgements that report packets without receipts. Linux measures the first one in the same way
//! (`tcp_chrono_start`; `tcpi_busy_time` and `tcpi_rwnd_limited` report it).

use rampmeter_units::{Bytes, Duration, Time, exact};
use serde::{Deserialize, Serialize};

use crate::scoreboard::Change;

/// How long a connection was kept from sending, and how many bytes were delivered without receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// The time with bytes to send or in flight.
    #[serde(with = "exact")]
    pub busy: Duration,
    /// The part of it in which unsent bytes waited for the peer's receive window, and nothing else could leave. While a
    /// hole in what has arrived keeps the window in its place, the time is that of the loss.
    #[serde(with = "exact")]
    pub receive_window: Duration,
    /// The part of it that retransmission timeouts took: from the last departure or the last delivery to the timeout.
    #[serde(with = "exact")]
    pub timeouts: Duration,
    /// Bytes reported as delivered, headers included.
    #[serde(with = "exact")]
    pub delivered: Bytes,
    /// The part of them in packets with a receipt: its arrival time and its ECN code.
    #[serde(with = "exact")]
    pub with_receipt: Bytes,
}

impl Limits {
    /// [`Limits::receive_window`] as a part of the busy time, 0 to 1; `None` if it was never busy.
    pub fn receive_window_share(&self) -> Option<f64> {
        share(self.receive_window.as_secs_f64(), self.busy.as_secs_f64())
    }

    /// [`Limits::timeouts`] as a part of the busy time, 0 to 1; `None` if it was never busy.
    pub fn timeout_share(&self) -> Option<f64> {
        share(self.timeouts.as_secs_f64(), self.busy.as_secs_f64())
    }

    /// The part of the delivered bytes without a receipt, 0 to 1; `None` if nothing was delivered.
    pub fn without_receipt_share(&self) -> Option<f64> {
        share(self.delivered.saturating_sub(self.with_receipt).as_f64(), self.delivered.as_f64())
    }
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Waits {
    /// The application: there is nothing to send, and nothing in flight.
    #[default]
    Application,
    /// The controller, or the peer.
    Network,
    /// Only the peer's receive window keeps it from sending.
    ReceiveWindow,
}

/// Measures the [`Limits`] of a connection.
#[derive(Debug, Default)]
pub(crate) struct LimitMeter {
    limits: Limits,
    waits: Waits,
    /// The time since which it waits for that.
    since: Time,
    /// The last departure or delivery.
    last_progress: Time,
    /// The last time at which the peer's window kept it from sending.
    blocked_at: Time,
}

impl LimitMeter {
    /// From now on the connection `waits` for this.
    #[inline]
    pub(crate) fn update(&mut self, now: Time, waits: Waits) {
        if waits == Waits::ReceiveWindow {
            self.blocked_at = now;
        }
        if self.waits != waits {
            self.limits = self.limits_at(now);
            (self.waits, self.since) = (waits, now);
        }
    }

    #[inline]
    pub(crate) fn on_departure(&mut self, now: Time) {
        self.last_progress = now;
    }

    #[inline]
    pub(crate) fn on_feedback(&mut self, now: Time, change: &Change) {
        if change.delivered > Bytes::ZERO {
            self.last_progress = now;
        }
        self.limits.delivered += change.delivered;
        for arrival in &*change.arrivals {
            self.limits.with_receipt += arrival.bytes;
        }
    }

    /// The retransmission timer has expired, and packets are lost.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        self.limits.timeouts += now.since(self.last_progress);
        self.last_progress = now;
    }

    /// Up to the last departure or delivery, or to the last time at which the peer's window was closed: one that never
    /// opens permits neither.
    pub(crate) fn limits(&self) -> Limits {
        self.limits_at(self.last_progress.max(self.blocked_at))
    }

    fn limits_at(&self, now: Time) -> Limits {
        let (mut limits, elapsed) = (self.limits, now.since(self.since));
        if self.waits != Waits::Application {
            limits.busy += elapsed;
        }
        if self.waits == Waits::ReceiveWindow {
            limits.receive_window += elapsed;
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_control::Arrival;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// Feedback on `bytes`, of which `with_receipt` have a receipt.
    fn delivered(bytes: u64, with_receipt: u64) -> Change {
        let mut change = Change::default();
        change.delivered += Bytes::new(bytes);
        change.arrivals.push(Arrival { bytes: Bytes::new(with_receipt), ..Arrival::default() });
        change
    }

    #[test]
    fn time_counts_for_what_the_connection_waits_for() {
        let mut meter = LimitMeter::default();
        meter.update(at(1), Waits::Application);
        meter.update(at(3), Waits::Network); // a write
        meter.update(at(4), Waits::ReceiveWindow);
        meter.update(at(8), Waits::Network); // it has opened
        meter.on_departure(at(9));
        assert_eq!(meter.limits().busy, Duration::from_secs(6));
        meter.update(at(11), Waits::Application); // all is acknowledged
        meter.update(at(20), Waits::Application);
        let limits = meter.limits();
        assert_eq!((limits.busy, limits.receive_window), (Duration::from_secs(8), Duration::from_secs(4)));
        assert_eq!((limits.receive_window_share(), limits.without_receipt_share()), (Some(0.5), None));
    }

    #[test]
    fn timeouts_count_from_the_last_departure_or_delivery() {
        let mut meter = LimitMeter::default();
        meter.on_departure(at(1));
        meter.on_timeout(at(2));
        meter.on_departure(at(3));
        meter.on_feedback(at(4), &delivered(1, 0));
        meter.on_feedback(at(5), &Change::default());
        meter.on_timeout(at(7));
        meter.on_timeout(at(11));
        assert_eq!(meter.limits().timeouts, Duration::from_secs(1 + 3 + 4));
    }

    #[test]
    fn deliveries_without_receipts_are_counted() {
        let mut meter = LimitMeter::default();
        meter.on_feedback(at(1), &delivered(400, 100));
        assert_eq!(meter.limits().without_receipt_share(), Some(0.75));
    }
}
