//! Clearing: now and then all flows make way for a moment, so that each sees how long the path takes without a queue.
//!
//! Flows that tolerate a queue keep one between them as long as they last. Who joins meanwhile takes it for the path's own
//! delay and adds a queue of its own, and who was there before forgets how short the path is (`min_delay_expiry`). Left
//! alone, ten long flows push the queue to the end of the buffer and lose 26% of their packets; with clearing they lose
//! none, and Jain's index is 0.99 (40 Mb/s, 60 s).
//!
//! A flow that has not seen an empty queue for a while (`clear_after`) sends at a fraction of its rate for some round trips
//! and does not probe. No message is needed for all to do so at once: an empty queue is seen by all, and all wait for
//! the same time from there. Who sees the queue fall although it makes no way joins those who do: without that, 50 flows
//! clear in groups, each in vain. BBR's probing for the round-trip time works alike.

use rampmeter_units::{Duration, Time};

use super::Config;

/// Short round trips may be too short for others with longer ones to see.
const LEAST: Duration = Duration::from_millis(50);

/// A queue that falls to this part of what it was is being cleared by others: join them.
const DIP: f64 = 0.4;

/// A queue of less than this, in what is as good as none, falls by chance.
const STANDS: f64 = 8.0;

#[derive(Debug, Clone, Default)]
pub(super) struct Clearing {
    empty_at: Time,
    /// The highest of the shortest waits since then.
    highest: Duration,
    until: Option<Time>,
}

impl Clearing {
    /// A path whose queue nothing is known of.
    pub(super) fn new(now: Time) -> Self {
        Self { empty_at: now, ..Self::default() }
    }

    /// The shortest wait of the last round trip was `least`, and `near` is as good as none. Until when to make way, if
    /// that begins now, `out_of_turn` or not.
    pub(super) fn begins(
        &mut self,
        config: &Config,
        now: Time,
        rtt: Duration,
        least: Duration,
        near: Duration,
        out_of_turn: bool,
    ) -> Option<Time> {
        let after = config.clear_after?;
        self.highest = self.highest.max(least);
        if least <= near {
            (self.empty_at, self.highest) = (now, least);
        }
        let since = now.since(self.empty_at);
        let fell = self.highest >= near.scale(STANDS) && least <= self.highest.scale(DIP);
        let others_do = since > after / 2 && fell;
        if since <= after && !others_do && !out_of_turn {
            return None;
        }
        (self.empty_at, self.highest) = (now, least);
        self.until = Some(now + rtt.scale(config.clear_rounds).max(LEAST));
        self.until
    }

    /// Whether to make way still.
    pub(super) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Time goes on.
    pub(super) fn poll(&mut self, now: Time) {
        self.until = self.until.filter(|until| now < *until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn a_queue_that_stands_is_cleared_and_an_empty_one_is_not() {
        let config = Config { clear_after: Some(Duration::from_secs(2)), clear_rounds: 1.5, ..Config::default() };
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        let (wait, near) = (Duration::from_millis(3), Duration::from_millis(1));
        let mut clearing = Clearing::new(Time::ZERO);
        assert_eq!(clearing.begins(&config, ms(1900), RTT, Duration::ZERO, near, false), None);
        assert_eq!(clearing.begins(&config, ms(3900), RTT, wait, near, false), None);
        assert_eq!(clearing.begins(&config, ms(3901), RTT, wait, near, false), Some(ms(4051)));
        clearing.poll(ms(4050));
        assert!(clearing.is_on());
        clearing.poll(ms(4051));
        assert!(!clearing.is_on());
        assert_eq!(clearing.begins(&config, ms(5901), RTT, wait, near, false), None);
    }

    #[test]
    fn who_suspects_rivals_clears_out_of_turn() {
        let config = Config { clear_after: Some(Duration::from_secs(2)), clear_rounds: 1.5, ..Config::default() };
        let (wait, near) = (Duration::from_millis(3), Duration::from_millis(1));
        let mut clearing = Clearing::new(Time::ZERO);
        assert!(clearing.begins(&config, Time::ZERO + RTT, RTT, wait, near, true).is_some());
        assert_eq!(clearing.begins(&config, Time::ZERO + RTT * 3, RTT, wait, near, false), None);
    }

    #[test]
    fn who_sees_others_clear_joins_them() {
        let config = Config { clear_after: Some(Duration::from_secs(2)), clear_rounds: 1.5, ..Config::default() };
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        let near = Duration::from_millis(1);
        let mut clearing = Clearing::new(Time::ZERO);
        let mut begins = |at, wait| clearing.begins(&config, ms(at), RTT, Duration::from_millis(wait), near, false);
        assert_eq!(begins(500, 20), None);
        assert_eq!(begins(900, 8), None, "too soon");
        assert_eq!(begins(1100, 9), None);
        assert_eq!(begins(1200, 8), Some(ms(1350)));
    }
}
