//! The sender's books: what is under way, and what acknowledgements say of it, as `cm_update` wants it.
//!
//! A datagram is lost when one that was sent three later has arrived. When nothing at all has come back for long, all is.

use std::collections::BTreeMap;

use rampmeter_cm::{Feedback, LossMode};
use rampmeter_units::{Bytes, Duration, Time};

use super::datagram::Acknowledgement;

/// A datagram is lost when one so much later has arrived.
const REORDERING: u64 = 3;

/// Nothing has come back for so long, at the least, when all is given up.
const MIN_PATIENCE: Duration = Duration::from_secs(1);

/// Datagrams under way, by their place among all.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The number of the first datagram: what a stranger would have to guess.
    first: u32,
    next: u64,
    under_way: BTreeMap<u64, (Bytes, Time)>,
    /// The latest that has arrived.
    highest: u64,
    /// When something last came back; before that, when the first left.
    heard: Option<Time>,
    srtt: Duration,
    /// Datagrams that were lost.
    pub(super) lost: u64,
}

impl Ledger {
    pub(super) fn new(first: u32) -> Self {
        let under_way = BTreeMap::new();
        Self { first, next: 0, under_way, highest: 0, heard: None, srtt: Duration::ZERO, lost: 0 }
    }

    /// The next datagram's number.
    pub(super) fn number(&self) -> u32 {
        self.first.wrapping_add(self.next as u32)
    }

    /// That datagram, of `bytes`, leaves.
    pub(super) fn sent(&mut self, now: Time, bytes: Bytes) {
        if self.under_way.is_empty() {
            self.heard = Some(now);
        }
        self.under_way.insert(self.next, (bytes, now));
        self.next += 1;
    }

    /// What an acknowledgement says that is new.
    pub(super) fn acknowledged(&mut self, now: Time, acknowledgement: Acknowledgement) -> Option<Feedback> {
        let latest = self.place(acknowledgement.number)?;
        let mut feedback = Feedback::default();
        for number in acknowledgement.numbers() {
            let Some((bytes, sent)) = self.place(number).and_then(|place| self.under_way.remove(&place)) else {
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
        self.heard = Some(now);
        self.highest = self.highest.max(latest);
        let lost = self.under_way.range(..(self.highest + 1).saturating_sub(REORDERING));
        let lost: Vec<u64> = lost.map(|(place, _)| *place).collect();
        if !lost.is_empty() {
            (feedback.lost, feedback.mode) = (self.lose(lost), Some(LossMode::Transient));
        }
        Some(feedback)
    }

    /// When silence becomes a loss of all; [`Time::MAX`] while nothing is under way.
    pub(super) fn deadline(&self) -> Time {
        let heard = self.heard.filter(|_| !self.under_way.is_empty());
        heard.map_or(Time::MAX, |heard| heard + MIN_PATIENCE.max(self.srtt * 4))
    }

    /// All is lost, if nothing has come back for long.
    pub(super) fn silence(&mut self, now: Time) -> Option<Feedback> {
        if now < self.deadline() {
            return None;
        }
        let all: Vec<u64> = self.under_way.keys().copied().collect();
        let lost = self.lose(all);
        Some(Feedback { lost, mode: Some(LossMode::Persistent), ..Feedback::default() })
    }

    fn lose(&mut self, places: Vec<u64>) -> Bytes {
        self.lost += places.len() as u64;
        places
            .into_iter()
            .filter_map(|place| self.under_way.remove(&place))
            .fold(Bytes::ZERO, |sum, (bytes, _)| sum + bytes)
    }

    /// The place of the datagram with this number; none of one that was never sent.
    fn place(&self, number: u32) -> Option<u64> {
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

    fn sending(count: u64) -> Ledger {
        let mut ledger = Ledger::new(u32::MAX);
        (0..count).for_each(|n| ledger.sent(at(n), SIZE));
        ledger
    }

    fn acknowledge(ledger: &mut Ledger, place: u32, before: u64) -> Option<Feedback> {
        ledger.acknowledged(at(100), Acknowledgement { number: u32::MAX.wrapping_add(place), before })
    }

    #[test]
    fn what_arrives_is_told_once_with_its_round_trip() {
        let mut ledger = sending(3);
        let feedback = acknowledge(&mut ledger, 1, 1).unwrap();
        assert_eq!((feedback.received, feedback.rtt), (SIZE * 2, Some(Duration::from_millis(99))));
        assert_eq!(acknowledge(&mut ledger, 1, 1), None);
        assert_eq!(acknowledge(&mut ledger, 3, 0), None, "never sent");
        assert_eq!(acknowledge(&mut ledger, 2, 0).unwrap().mode, None);
    }

    #[test]
    fn three_later_ones_show_a_loss() {
        let mut ledger = sending(5);
        assert_eq!(acknowledge(&mut ledger, 2, 1).unwrap().lost, Bytes::ZERO);
        let feedback = acknowledge(&mut ledger, 3, 0b11).unwrap();
        assert_eq!((feedback.lost, feedback.mode), (SIZE, Some(LossMode::Transient)));
        assert_eq!(acknowledge(&mut ledger, 4, u64::MAX).unwrap().lost, Bytes::ZERO);
    }

    #[test]
    fn silence_loses_all() {
        let mut ledger = sending(2);
        assert_eq!(ledger.silence(at(900)), None);
        let feedback = ledger.silence(at(1100)).unwrap();
        assert_eq!((feedback.lost, feedback.mode), (SIZE * 2, Some(LossMode::Persistent)));
        assert_eq!((ledger.deadline(), ledger.lost), (Time::MAX, 2));
    }
}
