//! Hosts that stall, as a virtual machine does when it gets no processor for a while. Packets that arrive during a
//! stall are received at its end, with that time as their arrival, and packets that are due leave late. The stalls of
//! simulated hosts are random, with given means, so that their effect on controllers can be measured.

use rampmeter_units::{Duration, Random, Time};

/// The stalls of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalls {
    /// The mean time from the end of a stall to the start of the next one, exponentially distributed.
    pub every: Duration,
    /// The mean length of a stall, exponentially distributed.
    pub duration: Duration,
}

/// The sequence of stalls of one host.
#[derive(Debug, Clone)]
pub struct Stalling {
    stalls: Stalls,
    random: Random,
    start: Time,
    end: Time,
}

impl Stalling {
    /// A host that has not stalled yet.
    pub fn new(stalls: Stalls, random: Random) -> Self {
        Self { stalls, random, start: Time::ZERO, end: Time::ZERO }
    }

    /// The end of the stall that the host is in at `now`; `None` outside stalls. `now` must not decrease.
    pub fn until(&mut self, now: Time) -> Option<Time> {
        while self.end <= now {
            self.start = self.end + self.draw(self.stalls.every);
            self.end = self.start + self.draw(self.stalls.duration);
        }
        (self.start <= now).then_some(self.end)
    }

    /// Draws a time of at least one nanosecond, so that time advances.
    fn draw(&mut self, mean: Duration) -> Duration {
        Duration::from_secs_f64(self.random.exponential(mean.as_secs_f64())).max(Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_have_the_given_frequency_and_length() {
        let stalls = Stalls { every: Duration::from_millis(9), duration: Duration::from_millis(1) };
        let mut stalling = Stalling::new(stalls, Random::from_seed(1));
        let (mut stalled, mut ends) = (0, std::collections::BTreeSet::new());
        for tick in 0..1_000_000 {
            let now = Time::from_nanos(tick * 100_000);
            if let Some(end) = stalling.until(now) {
                assert!(end > now);
                stalled += 1;
                ends.insert(end);
            }
        }
        let share = f64::from(stalled) / 1e6;
        assert!((0.09..0.11).contains(&share), "{share}");
        // Some stalls are shorter than a tick of 0.1 ms and remain unseen.
        assert!((8_500..10_500).contains(&ends.len()), "{}", ends.len());
    }
}
