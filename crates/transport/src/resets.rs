//! Resets of connections that this host has ended. A lost one would leave the connection open at the peer, which may have
//! nothing to send and so no way to notice. Nothing acknowledges a reset, so each is sent several times: at once, after
//! [`FIRST_INTERVAL`], and then at intervals that double. And whenever the peer still sends.

use std::collections::{BTreeMap, VecDeque};

use rampmeter_units::{Duration, Time};
use rampmeter_wire::Packet;

use crate::connection_id::ConnectionId;

/// The time between the first two copies: longer than most round trips.
const FIRST_INTERVAL: Duration = Duration::from_millis(200);

/// The copies of a reset that are sent without a packet of the peer, within 12.6 seconds. With 30% loss all are lost once
/// in 5000 times.
const COPIES: u32 = 7;

/// The resets that are kept. Beyond them the oldest one of the peer with the most is discarded.
const MAX_KEPT: usize = 256;

/// A reset, the peer that it is for, and the connection that it ends.
pub(crate) type Reset<A> = (A, Packet, ConnectionId);

#[derive(Debug)]
struct Kept<A> {
    reset: Reset<A>,
    copies: u32,
    /// When the next copy is sent.
    due: Time,
}

#[derive(Debug)]
pub(crate) struct Resets<A> {
    /// To be sent now.
    queue: VecDeque<Reset<A>>,
    /// The latest ones, oldest first.
    kept: VecDeque<Kept<A>>,
    deadline: Time,
}

impl<A: Copy + Ord> Resets<A> {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new(), kept: VecDeque::new(), deadline: Time::MAX }
    }

    pub(crate) fn send(&mut self, now: Time, reset: Reset<A>) {
        if self.kept.len() >= MAX_KEPT {
            self.discard_one();
        }
        let due = now + FIRST_INTERVAL;
        self.kept.push_back(Kept { reset, copies: 1, due });
        self.queue.push_back(reset);
        self.deadline = self.deadline.min(due);
    }

    fn discard_one(&mut self) {
        let mut counts = BTreeMap::new();
        self.kept.iter().for_each(|kept| *counts.entry(kept.reset.0).or_insert(0) += 1);
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(peer, _)| peer);
        let oldest = self.kept.iter().position(|kept| Some(kept.reset.0) == most);
        oldest.map(|at| self.kept.remove(at));
    }

    /// The peer at `from` still sends to this host's connection with this number: its reset was lost, or is in transit.
    pub(crate) fn repeat(&mut self, from: A, connection: u32) {
        let is_of = |(to, _, id): &Reset<A>| id.number() == connection && *to == from;
        self.queue.extend(self.kept.iter().map(|kept| kept.reset).find(is_of));
    }

    /// Sends this one once.
    pub(crate) fn answer(&mut self, reset: Reset<A>) {
        self.queue.push_back(reset);
    }

    /// The next one to send.
    pub(crate) fn poll(&mut self) -> Option<Reset<A>> {
        self.queue.pop_front()
    }

    /// When [`Resets::on_deadline`] must be called; [`Time::MAX`] for never.
    pub(crate) fn deadline(&self) -> Time {
        self.deadline
    }

    pub(crate) fn on_deadline(&mut self, now: Time) {
        if now < self.deadline {
            return;
        }
        for kept in self.kept.iter_mut().filter(|kept| kept.due <= now) {
            self.queue.push_back(kept.reset);
            kept.copies += 1;
            kept.due = if kept.copies < COPIES { now + FIRST_INTERVAL * (1 << (kept.copies - 1)) } else { Time::MAX };
        }
        self.deadline = self.kept.iter().map(|kept| kept.due).min().unwrap_or(Time::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connection `number`'s reset, for the peer at 5.
    fn reset(number: u32) -> Reset<u32> {
        (5, Packet::default(), ConnectionId::from_number(number))
    }

    #[test]
    fn a_peer_with_many_resets_displaces_its_own() {
        let mut resets = Resets::new();
        resets.send(Time::ZERO, (6, Packet::default(), ConnectionId::from_number(1)));
        (0..1000).for_each(|number| resets.send(Time::ZERO, reset(number)));
        assert_eq!((resets.kept.len(), resets.kept[0].reset.0), (MAX_KEPT, 6));
    }

    /// The milliseconds at which resets are sent, and the numbers of their connections.
    fn run(resets: &mut Resets<u32>) -> Vec<(u64, u32)> {
        let mut sent = Vec::new();
        let mut now = Time::ZERO;
        while now < Time::MAX {
            resets.on_deadline(now);
            while let Some((_, _, id)) = resets.poll() {
                sent.push(((now.since(Time::ZERO).as_secs_f64() * 1e3).round() as u64, id.number()));
            }
            now = resets.deadline();
        }
        sent
    }

    #[test]
    fn a_reset_is_sent_seven_times() {
        let mut resets = Resets::new();
        resets.send(Time::ZERO, reset(1));
        let times: Vec<u64> = run(&mut resets).into_iter().map(|(time, _)| time).collect();
        assert_eq!(times, [0, 200, 600, 1400, 3000, 6200, 12600]);
    }
}
