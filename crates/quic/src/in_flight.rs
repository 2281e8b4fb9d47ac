//! The numbers of packets by the time at which they were sent: stacks report what was acknowledged or lost by that time
//! alone.
//!
//! Packets of one instant are a batch. They are acknowledged in their order, so the n-th that is acknowledged counts as
//! the n-th that was sent. Where some of them were lost, numbers are wrong by less than a batch.

use std::collections::VecDeque;

use rampmeter_units::Time;

/// The maximum number of batches. The oldest are discarded; acknowledgements of their packets count as nothing. The adapter
/// bounds only the packets that are smaller than a full one; windows bound the others.
const MAX_BATCHES: usize = 1 << 16;

#[derive(Debug)]
struct Batch {
    sent: Time,
    /// The number of its first packet.
    first: u64,
    packets: u32,
    acked: u32,
}

/// Packets that may be acknowledged.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// By increasing times and numbers.
    batches: VecDeque<Batch>,
    /// The number of the next packet.
    next: u64,
}

impl InFlight {
    /// The number of the next packet.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The highest number so far.
    pub(crate) fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// A packet was sent; returns its number.
    pub(crate) fn add(&mut self, sent: Time) -> u64 {
        let number = self.next;
        self.next += 1;
        if let Some(batch) = self.batches.back_mut().filter(|batch| batch.sent == sent) {
            batch.packets += 1;
            return number;
        }
        if self.batches.len() == MAX_BATCHES {
            self.batches.pop_front();
        }
        self.batches.push_back(Batch { sent, first: number, packets: 1, acked: 0 });
        number
    }

    /// A packet sent at this time was acknowledged; returns its number. `None` for packets that were not added: probes of
    /// the path's packet size, which leave at the time of the batch before them, and further parts of a datagram, which
    /// count as packets.
    pub(crate) fn acknowledge(&mut self, sent: Time) -> Option<u64> {
        let index = self.batches.partition_point(|batch| batch.sent < sent);
        let batch = self.batches.get_mut(index).filter(|batch| batch.sent == sent && batch.acked < batch.packets)?;
        batch.acked += 1;
        Some(batch.first + u64::from(batch.acked - 1))
    }

    /// The highest number sent by this time.
    pub(crate) fn last_by(&self, time: Time) -> u64 {
        let index = self.batches.partition_point(|batch| batch.sent <= time);
        let next = self.batches.get(index).map_or(self.next, |batch| batch.first);
        next.saturating_sub(1)
    }

    /// Packets that were sent before this time will not be acknowledged.
    pub(crate) fn discard_before(&mut self, time: Time) {
        while self.batches.front().is_some_and(|batch| batch.sent < time) {
            self.batches.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn sent(times: &[u64]) -> InFlight {
        let mut in_flight = InFlight::default();
        for (number, &time) in (0..).zip(times) {
            assert_eq!(in_flight.add(at(time)), number);
        }
        in_flight
    }

    #[test]
    fn packets_of_one_instant_are_acknowledged_in_order() {
        let mut in_flight = sent(&[1, 5, 5, 5, 9]);
        assert_eq!([5, 9, 5, 1].map(|time| in_flight.acknowledge(at(time))), [1, 4, 2, 0].map(Some));
        assert_eq!(in_flight.acknowledge(at(6)), None);
    }

    #[test]
    fn acknowledgements_beyond_the_packets_count_as_nothing() {
        let mut in_flight = sent(&[5, 5]);
        assert_eq!([5, 5, 5].map(|time| in_flight.acknowledge(at(time))), [Some(0), Some(1), None]);
    }

    #[test]
    fn a_time_without_packets_has_the_number_before_it() {
        let mut in_flight = sent(&[1, 5, 5, 9]);
        assert_eq!([1, 4, 5, 20].map(|time| in_flight.last_by(at(time))), [0, 0, 2, 3]);
        in_flight.discard_before(at(9));
        assert_eq!([1, 9].map(|time| in_flight.last_by(at(time))), [2, 3], "discarded ones");
        assert_eq!(InFlight::default().last_by(at(1)), 0);
    }

    #[test]
    fn packets_that_are_never_acknowledged_take_bounded_memory() {
        let mut in_flight = InFlight::default();
        for time in 0..=MAX_BATCHES as u64 {
            in_flight.add(at(time));
        }
        assert_eq!(in_flight.batches.len(), MAX_BATCHES);
        assert_eq!([0, 1].map(|time| in_flight.acknowledge(at(time))), [None, Some(1)]);
    }
}
