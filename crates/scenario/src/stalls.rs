//! Hosts that stall. A virtual machine is now and then not given a processor for a while. Packets that arrive meanwhile are
//! taken at the end, with the time of that, and what was due to leave leaves late. Real hosts do so by themselves; these
//! do as they are told, to see what controllers make of it.

use rampmeter_units::{Duration, Stream, Time};

/// How a host stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalls {
    /// The mean time from the end of a stall to the next one's begin, drawn from an exponential distribution.
    pub every: Duration,
    /// The mean time that one lasts, drawn likewise.
    pub lasting: Duration,
}

/// The stalls of one host, one after another.
#[derive(Debug, Clone)]
pub struct Stalling {
    stalls: Stalls,
    random: Stream,
    begin: Time,
    end: Time,
}

impl Stalling {
    /// A host that has not stalled yet.
    pub fn new(stalls: Stalls, random: Stream) -> Self {
        Self { stalls, random, begin: Time::ZERO, end: Time::ZERO }
    }

    /// When the stall ends that the host is in at `now`; none if it is awake. Time never goes back.
    pub fn until(&mut self, now: Time) -> Option<Time> {
        while self.end <= now {
            self.begin = self.end + self.draw(self.stalls.every);
            self.end = self.begin + self.draw(self.stalls.lasting);
        }
        (self.begin <= now).then_some(self.end)
    }

    /// A nanosecond at least, so that time goes on.
    fn draw(&mut self, mean: Duration) -> Duration {
        Duration::from_secs_f64(self.random.exponential(mean.as_secs_f64())).max(Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_as_frequent_and_as_long_as_told() {
        let stalls = Stalls { every: Duration::from_millis(9), lasting: Duration::from_millis(1) };
        let mut stalling = Stalling::new(stalls, Stream::from_seed(1));
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
        // Some are too short for a tick of a tenth of a millisecond to see.
        assert!((8_500..10_500).contains(&ends.len()), "{}", ends.len());
    }
}
