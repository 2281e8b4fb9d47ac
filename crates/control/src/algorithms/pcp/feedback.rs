//! What each packet that arrived shows, and each round trip of them.

use super::Pcp;
use super::estimate::Estimate;
use super::pace::MAX_PACE;
use crate::Arrival;

/// Two packets of a train left together if the time between them was at most this part of that between their arrivals.
const TOGETHER: f64 = 0.1;

impl Pcp {
    /// A packet arrived.
    pub(super) fn on_arrival(&mut self, arrival: &Arrival, estimate: Option<&Estimate>) {
        self.losses.on_arrival();
        // The share of a full packet that this one lacks: it takes less time.
        let missing = 1.0 - arrival.bytes.as_f64() / self.packet.as_f64();
        if missing != 0.0 && estimate.is_none() {
            if arrival.number >= self.next_round {
                self.end_round();
            }
            return;
        }
        let serialization = estimate.map_or(0.0, |estimate| 1.0 / estimate.by_pairs);
        let delay = arrival.one_way_delay().saturating_add((missing * serialization * 1e9) as i64);
        let known_queue = if self.past.is_some() {
            (self.rtt - self.min_rtt - serialization * (1.0 - missing)).max(0.0)
        } else {
            0.0
        };
        let wait = self.delays.wait_of(delay, known_queue);
        self.drain.rebase(self.delays.fell);
        let sent_at = arrival.sent_at.as_secs_f64();
        let shortest = self.packet_bits() / MAX_PACE;
        let apart = |first: &Arrival| arrival.received_at.since(first.received_at).as_secs_f64().max(shortest);
        // A packet of a train that the window held back is one like others.
        let train = self.train.filter(|(first, last)| (first + 1..=*last).contains(&arrival.number));
        let previous = self.last_arrival.filter(|previous| {
            let follows = previous.number.checked_add(1) == Some(arrival.number);
            train.is_some()
                && follows
                && arrival.sent_at.since(previous.sent_at).as_secs_f64() <= TOGETHER * apart(previous)
        });
        let is_last = train.is_some_and(|(_, last)| last == arrival.number);
        if let Some(first) = previous.filter(|first| is_last && [first.bytes, arrival.bytes] == [self.packet; 2]) {
            self.capacity.on_pair(apart(&first));
        }
        self.last_arrival = Some(*arrival);
        self.train = self.train.filter(|(_, last)| *last > arrival.number);
        while self.sent_with.get(1).is_some_and(|(from, _)| *from <= arrival.number) {
            self.sent_with.pop_front();
        }
        let window = self.sent_with.front().map_or(self.window, |(_, window)| *window);
        self.delays.add_to_round(sent_at, wait);
        if arrival.number >= self.next_round {
            self.end_round();
        }
        let Some(estimate) = estimate.filter(|_| previous.is_none()) else { return };
        self.delays.last_wait = wait;
        if self.drain.is_on() {
            self.drain.on_packet(sent_at, wait);
        } else if arrival.number >= self.counts_from {
            let is_busy = wait > estimate.busy_wait();
            self.delays.on_packet(sent_at, wait, window, is_busy, self.span(estimate));
        }
    }

    /// The time whose packets are judged, in seconds.
    pub(super) fn span(&self, estimate: &Estimate) -> f64 {
        (self.min_rtt / 2.0).max(4.0 * estimate.variation)
    }

    fn end_round(&mut self) {
        if self.next_round > self.reduced_at {
            self.before_loss = None; // the loss was real
        }
        let is_first = self.next_round == 0; // its first arrival ends it, so its count is no rate
        (self.next_round, self.train_due) = (self.last_sent.saturating_add(1), true);
        let time = self.now.since(self.round_began).as_secs_f64().max(1e-6);
        let (delivered, app_limited) = (std::mem::take(&mut self.delivered), std::mem::take(&mut self.app_limited));
        if !is_first {
            self.capacity.on_round(delivered / time, app_limited);
        }
        self.round_began = self.now;
        if self.drain.is_on() {
            return self.delays.begin_round();
        }
        self.delays.end_round();
    }
}
