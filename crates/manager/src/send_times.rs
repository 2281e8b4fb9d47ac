//! The packet numbers that had been sent by a given time: for feedback with times instead of packet numbers.

use std::collections::VecDeque;

use rampmeter_units::{Duration, Time};

/// The maximum number of samples: four round trips of them.
const MAX_SAMPLES: usize = 32;

const SAMPLES_PER_RTT: u32 = 8;

/// The send times and numbers of some packets.
#[derive(Debug, Default)]
pub(crate) struct SendTimes(VecDeque<(Time, u64)>);

impl SendTimes {
    /// Packet `number` leaves.
    pub(crate) fn sent(&mut self, now: Time, number: u64, rtt: Duration) {
        if self.0.back().is_some_and(|(last, _)| now.since(*last) < rtt / u64::from(SAMPLES_PER_RTT)) {
            return;
        }
        if self.0.len() == MAX_SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back((now, number));
    }

    /// The last sampled packet sent at `time` or earlier; none if all samples are later.
    pub(crate) fn at(&self, time: Time) -> Option<u64> {
        self.0.iter().rev().find(|(at, _)| *at <= time).map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_gives_the_last_sampled_packet_before_it() {
        let (rtt, at) = (Duration::from_millis(80), |ms| Time::ZERO + Duration::from_millis(ms));
        let mut times = SendTimes::default();
        (0..1000).for_each(|i| times.sent(at(i), i, rtt));
        assert_eq!(times.0.len(), MAX_SAMPLES);
        assert_eq!(times.at(at(989)), Some(980), "eight samples a round trip");
        assert_eq!(times.at(at(990)), Some(990));
        assert_eq!(times.at(at(10)), None);
    }
}
