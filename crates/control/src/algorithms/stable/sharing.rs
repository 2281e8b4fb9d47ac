//! A rule that finds the sharing constant `S` from the queueing delay, for routers that need a queue to mark (chosen;
//! the report has one constant and its own router).
//!
//! A flow needs `S (1 - p)` marks a second. CoDel and PIE get to that many only with a longer queue or by dropping
//! packets, so there `S` should be small; a virtual queue marks without a queue, and a large `S` then uses more of the
//! link. So `S` rises while no queue stands at the bottleneck, and falls in proportion to the excess of the delay:
//!
//! ```text
//! dS/dt = 0.5 - 0.5 S min(4, (d - 5 ms) / 5 ms)      the second term only if d > 5 ms; d: mean delay over a second
//! ```
//!
//! Flows of one queue see the same `d`. The increase is the same for all and the decrease is in proportion to `S`, so
//! their `S` become equal (Chiu and Jain), within seconds. `docs/stable-tcp.md` has how it was chosen, and its limits.

use rampmeter_units::{Duration, Time};

use crate::Ack;

/// Delay that is no standing queue: CoDel's target (RFC 8289), the lowest of the usual markers.
const TARGET: Duration = Duration::from_millis(5);
/// Increase a second, in packets a second.
const RISE: f64 = 0.5;
/// Relative decrease a second, for a delay of twice the target.
const FALL: f64 = 0.5;
/// The maximum excess of the delay, in targets.
const MAX_EXCESS: f64 = 4.0;
/// The minimum of `S`: a mark in ten seconds.
const MIN: f64 = 0.1;

#[derive(Debug, Clone)]
pub(super) struct Sharing {
    /// `S`, in packets a second.
    pub(super) value: f64,
    max: f64,
    /// `d`: the mean queueing delay over about a second, in seconds.
    delay: f64,
    as_of: Time,
}

impl Sharing {
    pub(super) fn new(max: f64) -> Self {
        Self { value: max, max, delay: 0.0, as_of: Time::ZERO }
    }

    pub(super) fn start(&mut self, now: Time) {
        self.as_of = now;
    }

    /// Adapts `S` to the delay that an acknowledgement measures.
    pub(super) fn adapt(&mut self, now: Time, ack: &Ack<'_>) {
        let Some(rtt) = ack.rtt else { return };
        let seconds = now.since(self.as_of).as_secs_f64().min(1.0);
        self.as_of = now;
        let delay = (rtt.as_secs_f64() - ack.min_rtt.as_secs_f64()).max(0.0);
        self.delay += (delay - self.delay) * seconds;
        let excess = (self.delay / TARGET.as_secs_f64() - 1.0).clamp(0.0, MAX_EXCESS);
        let change = seconds * (RISE - FALL * excess * self.value);
        self.value = (self.value + change).clamp(MIN.min(self.max), self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::arrived;

    const MS: Duration = Duration::from_millis(1);

    /// Acknowledges a packet each 10 ms for `seconds`, with a queueing delay of `delay` ms.
    fn run(sharing: &mut Sharing, from: u64, seconds: u64, delay: u64) {
        for n in 1..=seconds * 100 {
            let ack = Ack { min_rtt: MS * 40, ..arrived(&[], MS * (40 + delay)) };
            sharing.adapt(Time::ZERO + Duration::from_secs(from) + MS * 10 * n, &ack);
        }
    }

    #[test]
    fn a_standing_queue_lowers_s_and_its_end_raises_it() {
        let mut sharing = Sharing::new(30.0);
        run(&mut sharing, 0, 60, 4);
        assert_eq!(sharing.value, 30.0, "4 ms are no standing queue");
        run(&mut sharing, 60, 60, 15);
        assert!((sharing.value - 0.5).abs() < 0.01, "0.5 = 0.5 S (15 - 5) / 5: {}", sharing.value);
        run(&mut sharing, 120, 30, 1);
        assert!((13.0..15.5).contains(&sharing.value), "it rises by a half a second: {}", sharing.value);
        run(&mut sharing, 150, 60, 1000);
        assert!((0.2..0.3).contains(&sharing.value), "0.5 = 0.5 S 4: {}", sharing.value);
    }

    #[test]
    fn flows_that_see_the_same_delay_get_the_same_s() {
        let (mut high, mut low) = (Sharing::new(30.0), Sharing { value: 0.1, ..Sharing::new(30.0) });
        for second in 0..60 {
            for sharing in [&mut high, &mut low] {
                run(sharing, second, 1, if second % 3 == 0 { 12 } else { 6 });
            }
        }
        assert!((high.value / low.value - 1.0).abs() < 0.01, "{} and {}", high.value, low.value);
    }
}
