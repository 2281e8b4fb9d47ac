//! Losses without a queue: the path carries less than its pairs show, as behind a policer.
//!
//! Single losses change nothing. If on average a tenth of the packets is lost, what arrives is all that the path carries:
//!
//! ```text
//! W <= R delivered (1 + (t / drain_every)^3)      t after that, with the higher rate of the last two round trips
//! ```
//!
//! Like CUBIC's window, this limit stays for a while near what filled the path, and then searches for more.

use rampmeter_units::{Duration, Time};

/// The average loss from which the path carries no more than what arrives. Random losses of 5% hardly ever reach it.
const MAX_LOSS: f64 = 0.1;

/// The minimum limit, in packets per second, so that it grows.
const MIN_LIMIT: f64 = 1.0;

/// The weight of a packet in the average loss.
const WEIGHT: f64 = 1.0 / 64.0;

#[derive(Debug, Clone, Copy)]
pub(super) struct Losses {
    average: f64,
    /// The limit when it was set, in packets per second.
    limit: f64,
    set_at: Time,
}

impl Default for Losses {
    fn default() -> Self {
        Self { average: 0.0, limit: f64::INFINITY, set_at: Time::ZERO }
    }
}

impl Losses {
    /// A packet arrived.
    pub(super) fn on_arrival(&mut self) {
        self.average *= 1.0 - WEIGHT;
    }

    /// So many packets were lost.
    pub(super) fn on_loss(&mut self, packets: f64) {
        self.average += (1.0 - self.average) * (packets * WEIGHT).min(0.5);
    }

    /// Whether the path carries no more than what arrives.
    pub(super) fn are_many(&self) -> bool {
        self.average > MAX_LOSS
    }

    /// So many packets arrived in a second, and more are lost.
    pub(super) fn set_limit(&mut self, now: Time, delivered: f64) {
        (self.limit, self.set_at) = (delivered.max(MIN_LIMIT), now);
    }

    /// The limit of the sending rate, in packets per second.
    pub(super) fn limit(&self, now: Time, drain_every: Duration) -> f64 {
        let age = now.since(self.set_at).as_secs_f64() / drain_every.as_secs_f64();
        self.limit * (1.0 + age * age * age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(2);

    #[test]
    fn losses_are_many_above_a_tenth() {
        for (one_in, many) in [(20, false), (5, true)] {
            let mut losses = Losses::default();
            for number in 1..1000 {
                if number % one_in == 0 { losses.on_loss(1.0) } else { losses.on_arrival() }
            }
            assert_eq!(losses.are_many(), many, "one in {one_in}");
        }
    }

    #[test]
    fn the_limit_grows_slowly_and_then_fast() {
        let mut losses = Losses::default();
        assert_eq!(losses.limit(Time::ZERO, EVERY), f64::INFINITY);
        losses.set_limit(Time::ZERO, 1000.0);
        let after = |seconds| losses.limit(Time::ZERO + Duration::from_secs(seconds), EVERY);
        assert_eq!([0, 1, 2, 4].map(after), [1000.0, 1125.0, 2000.0, 9000.0]);
    }
}
