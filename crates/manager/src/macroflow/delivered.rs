//! How fast a path has been seen to deliver, where feedback names no packets.
//!
//! A window over a round trip is a rate only where the window is used and the round trip is the path's. Of such feedback
//! neither is sure: what was lost and is not told counts as under way for long and passes for use, and programs that read
//! their acknowledgements in batches measure round trips of microseconds and of milliseconds. What arrived does not lie. In
//! slow start a window is up to three times what arrives in a round trip; nothing beyond four times is believed.
//!
//! *Choice*: the paper believes what `cm_update` says (section 3.1). This is RFC 7661's idea (section 4.2, `pipeACK`), but of the
//! path, not of the application: the fastest ever counts, not that of late.

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// Arrivals are counted over a round trip, or over this long: what is read in one go came over a longer time.
const MIN_SPAN: Duration = Duration::from_millis(10);

/// After a silence of so many spans counting begins anew: how fast what ended it came, nobody knows.
const SILENCE: u64 = 3;

/// How many times what has arrived is believed of a path.
const BELIEF: u64 = 4;

/// The fastest that a path has delivered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Delivered {
    /// Since when `bytes` have arrived; `None` before anything has.
    since: Option<Time>,
    bytes: Bytes,
    /// When something last did.
    last: Time,
    /// How long is counted, for the last round trip that was told.
    span: Duration,
    /// Zero before a span has been seen whole.
    best: Rate,
    /// What others learnt of the path.
    remembered: Rate,
}

impl Delivered {
    /// Others before have found the path to take `rate`.
    pub(super) fn recall(&mut self, rate: Rate) {
        self.remembered = self.remembered.max(rate);
    }

    /// `bytes` have arrived, told at `now`.
    pub(super) fn add(&mut self, now: Time, bytes: Bytes, rtt: Duration) {
        self.span = rtt.max(MIN_SPAN);
        let silence = now.since(std::mem::replace(&mut self.last, now));
        let Some(since) = self.since.filter(|_| silence <= self.span * SILENCE) else {
            (self.since, self.bytes) = (Some(now), Bytes::ZERO);
            return;
        };
        self.bytes += bytes;
        let span = now.since(since);
        if span >= self.span {
            self.best = self.best.max(Rate::of(self.bytes, span));
            (self.since, self.bytes) = (Some(now), Bytes::ZERO);
        }
    }

    /// Whether anything has been told.
    pub(super) fn is_told(&self) -> bool {
        self.since.is_some()
    }

    /// The most that may be believed of the path; [`Rate::MAX`] before anything is known.
    pub(super) fn most(&self) -> Rate {
        if self.best == Rate::ZERO {
            return Rate::MAX;
        }
        let seen = self.best.max(Rate::of(self.bytes, self.span));
        Rate::from_bps(seen.as_bps().saturating_mul(BELIEF)).max(self.remembered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    #[test]
    fn four_times_the_fastest_that_arrived_is_believed() {
        let mut delivered = Delivered::default();
        for ms in 0..=40 {
            assert!(delivered.most() == Rate::MAX || ms > 20);
            delivered.add(Time::ZERO + Duration::from_millis(ms), Bytes::new(1000), RTT);
        }
        assert_eq!(delivered.most(), Rate::from_bps(32_000_000));
        delivered.add(Time::ZERO + Duration::from_secs(9), Bytes::new(1000), RTT);
        assert_eq!(delivered.most(), Rate::from_bps(32_000_000), "what it once took it may take again");
        delivered.recall(Rate::from_bps(50_000_000));
        assert_eq!(delivered.most(), Rate::from_bps(50_000_000));
    }

    #[test]
    fn what_ends_a_silence_tells_nothing() {
        let mut delivered = Delivered::default();
        for second in 0..5 {
            delivered.add(Time::ZERO + Duration::from_secs(second), Bytes::new(1000), RTT);
        }
        assert_eq!(delivered.most(), Rate::MAX);
    }

    #[test]
    fn what_is_read_in_one_go_is_no_fast_path() {
        let mut delivered = Delivered::default();
        // A packet takes 20 us; a hundred at a time are read, a microsecond apart, every 5 ms.
        for n in 0..1000 {
            let at = Duration::from_millis(5) * (n / 100) + Duration::from_micros(n % 100);
            delivered.add(Time::ZERO + at, Bytes::new(1000), Duration::from_micros(20));
        }
        let most = delivered.most().as_bps_f64() / 4.0;
        assert!((150e6..250e6).contains(&most), "{most} b/s, 160 Mb/s arrived");
    }
}
