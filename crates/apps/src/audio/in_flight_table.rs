//! The sender's table of datagrams in flight. It turns acknowledgements into the feedback of `cm_update`.
//!
//! A datagram is lost when one that was sent three later has arrived. After a feedback timeout all datagrams in flight
//! are lost.

use std::collections::BTreeMap;

use rampmeter_cm::{Feedback, LossMode};
use rampmeter_units::{Bytes, Duration, Time};

use super::datagram::Acknowledgement;

/// The number of later datagrams, one of which has to arrive before a datagram is lost.
const REORDERING: u64 = 3;

const MIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The datagrams in flight, by their index in the stream.
#[derive(Debug)]
pub(super) struct InFlightTable {
    /// The number of the first datagram; random, so that acknowledgements are hard to forge.
    first: u32,
    next: u64,
    in_flight: BTreeMap<u64, (Bytes, Time)>,
    /// The highest index that has arrived.
    highest: u64,
    /// The time of the last acknowledgement; before the first one, the time at which the first datagram was sent.
    last_feedback: Option<Time>,
    srtt: Duration,
    pub(super) lost: u64,
}

impl InFlightTable {
    pub(super) fn new(first: u32) -> Self {
        let in_flight = BTreeMap::new();
        Self { first, next: 0, in_flight, highest: 0, last_feedback: None, srtt: Duration::ZERO, lost: 0 }
    }

    /// The next datagram's number.
    pub(super) fn number(&self) -> u32 {
        self.first.wrapping_add(self.next as u32)
    }

    /// The next datagram, of `bytes`, is sent.
    pub(super) fn on_sent(&mut self, now: Time, bytes: Bytes) {
        if self.in_flight.is_empty() {
            self.last_feedback = Some(now);
        }
        self.in_flight.insert(self.next, (bytes, now));
        self.next += 1;
    }

    /// The new feedback from an acknowledgement.
    pub(super) fn on_acknowledgement(&mut self, now: Time, acknowledgement: Acknowledgement) -> Option<Feedback> {
        let latest = self.index(acknowledgement.number)?;
        let mut feedback = Feedback::default();
        for number in acknowledgement.numbers() {
            let Some((bytes, sent)) = self.index(number).and_then(|index| self.in_flight.remove(&index)) else {
                continue;
            };
            feedback.received += bytes;
            if number == acknowledgement.number {
                let rtt = now.since(sent).max(Duration::from_nanos(1));
                self.srtt = if self.srtt == Duration::ZERO { rtt } else { self.srtt.scale(0.875) + rtt.scale(0.125) };
                feedback.rtt = Some(rtt);
            }
        }
        if feedback.received == Bytes::ZERO {
            return None;
        }
        self.last_feedback = Some(now);
        self.highest = self.highest.max(latest);
        let lost = self.in_flight.range(..(self.highest + 1).saturating_sub(REORDERING));
        let lost: Vec<u64> = lost.map(|(index, _)| *index).collect();
        if !lost.is_empty() {
            (feedback.lost, feedback.mode) = (self.remove_lost(lost), Some(LossMode::Transient));
        }
        Some(feedback)
    }

    /// The time of the feedback timeout; [`Time::MAX`] while nothing is in flight.
    pub(super) fn deadline(&self) -> Time {
        let last_feedback = self.last_feedback.filter(|_| !self.in_flight.is_empty());
        last_feedback.map_or(Time::MAX, |last_feedback| last_feedback + MIN_TIMEOUT.max(self.srtt * 4))
    }

    /// After the feedback timeout, all datagrams in flight are lost.
    pub(super) fn on_feedback_timeout(&mut self, now: Time) -> Option<Feedback> {
        if now < self.deadline() {
            return None;
        }
        let all: Vec<u64> = self.in_flight.keys().copied().collect();
        let lost = self.remove_lost(all);
        Some(Feedback { lost, mode: Some(LossMode::Persistent), ..Feedback::default() })
    }

    fn remove_lost(&mut self, indexes: Vec<u64>) -> Bytes {
        self.lost += indexes.len() as u64;
        indexes
            .into_iter()
            .filter_map(|index| self.in_flight.remove(&index))
            .fold(Bytes::ZERO, |sum, (bytes, _)| sum + bytes)
    }

    /// The index of the datagram with this number; none if it was never sent.
    fn index(&self, number: u32) -> Option<u64> {
        let back = self.number().wrapping_sub(number);
        self.next.checked_sub(u64::from(back)).filter(|_| back > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Bytes = Bytes::new(1000);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn sending(count: u64) -> InFlightTable {
        let mut table = InFlightTable::new(u32::MAX);
        (0..count).for_each(|n| table.on_sent(at(n), SIZE));
        table
    }

    fn acknowledge(table: &mut InFlightTable, index: u32, before: u64) -> Option<Feedback> {
        table.on_acknowledgement(at(100), Acknowledgement { number: u32::MAX.wrapping_add(index), before })
    }

    #[test]
    fn delivered_bytes_are_reported_once_with_a_round_trip_time() {
        let mut table = sending(3);
        let feedback = acknowledge(&mut table, 1, 1).unwrap();
        assert_eq!((feedback.received, feedback.rtt), (SIZE * 2, Some(Duration::from_millis(99))));
        assert_eq!(acknowledge(&mut table, 1, 1), None);
        assert_eq!(acknowledge(&mut table, 3, 0), None, "never sent");
        assert_eq!(acknowledge(&mut table, 2, 0).unwrap().mode, None);
    }

    #[test]
    fn three_later_arrivals_show_a_loss() {
        let mut table = sending(5);
        assert_eq!(acknowledge(&mut table, 2, 1).unwrap().lost, Bytes::ZERO);
        let feedback = acknowledge(&mut table, 3, 0b11).unwrap();
        assert_eq!((feedback.lost, feedback.mode), (SIZE, Some(LossMode::Transient)));
        assert_eq!(acknowledge(&mut table, 4, u64::MAX).unwrap().lost, Bytes::ZERO);
    }

    #[test]
    fn the_feedback_timeout_loses_all() {
        let mut table = sending(2);
        assert_eq!(table.on_feedback_timeout(at(900)), None);
        let feedback = table.on_feedback_timeout(at(1100)).unwrap();
        assert_eq!((feedback.lost, feedback.mode), (SIZE * 2, Some(LossMode::Persistent)));
        assert_eq!((table.deadline(), table.lost), (Time::MAX, 2));
    }
}
