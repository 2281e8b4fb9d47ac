//! Which packets had left by when: for feedback that names times instead of packets.

use std::collections::VecDeque;

use rampmeter_units::{Duration, Time};

/// Marks kept: four round trips of them.
const MAX_MARKS: usize = 32;

/// Marks a round trip.
const MARKS_A_ROUND_TRIP: u32 = 8;

/// Packet numbers at some of the times when packets left.
#[derive(Debug, Default)]
pub(crate) struct Trail(VecDeque<(Time, u64)>);

impl Trail {
    /// Packet `number` leaves.
    pub(crate) fn sent(&mut self, now: Time, number: u64, rtt: Duration) {
        if self.0.back().is_some_and(|(last, _)| now.since(*last) < rtt / u64::from(MARKS_A_ROUND_TRIP)) {
            return;
        }
        if self.0.len() == MAX_MARKS {
            self.0.pop_front();
        }
        self.0.push_back((now, number));
    }

    /// A packet that left at `time` or not long before; none if all that is known left later.
    pub(crate) fn at(&self, time: Time) -> Option<u64> {
        self.0.iter().rev().find(|(at, _)| *at <= time).map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_names_the_last_marked_packet_before_it() {
        let (rtt, at) = (Duration::from_millis(80), |ms| Time::ZERO + Duration::from_millis(ms));
        let mut trail = Trail::default();
        (0..1000).for_each(|i| trail.sent(at(i), i, rtt));
        assert_eq!(trail.0.len(), MAX_MARKS);
        assert_eq!(trail.at(at(995)), Some(990));
        assert_eq!(trail.at(at(990)), Some(990));
        assert_eq!(trail.at(at(10)), None);
    }
}
