//! The packets of a socket. The kernel counts what was sent, has arrived, was marked and was lost; a controller gets
//! packets with numbers. They arrive and are lost in the order in which they were sent, as far as counts show.

use std::collections::VecDeque;

use crate::shared::Event;

/// Sent packets that may still arrive, in the order of their sending.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// The number of each.
    packets: VecDeque<u64>,
    sent: u32,
    delivered: u32,
    marked: u32,
    lost: u32,
}

/// What happened since the last event, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) sent: u32,
    pub(crate) delivered: u32,
    pub(crate) marked: u32,
    pub(crate) lost: u32,
}

/// So many changes at once are no report of this socket: a place that was used again.
const MAX_CHANGE: u32 = 1 << 20;

impl InFlight {
    /// A socket that has sent packets before, of which nothing is reported.
    pub(crate) fn from(event: &Event) -> Self {
        Self {
            packets: VecDeque::new(),
            sent: event.sent,
            delivered: event.delivered,
            marked: event.marked,
            lost: event.lost,
        }
    }

    pub(crate) fn update(&mut self, event: &Event) -> Changes {
        let change = |before: &mut u32, now: u32| {
            let change = now.wrapping_sub(std::mem::replace(before, now));
            if change <= MAX_CHANGE { change } else { 0 }
        };
        Changes {
            sent: change(&mut self.sent, event.sent),
            delivered: change(&mut self.delivered, event.delivered),
            marked: change(&mut self.marked, event.marked),
            lost: change(&mut self.lost, event.lost),
        }
    }

    pub(crate) fn add(&mut self, number: u64) {
        self.packets.push_back(number);
    }

    /// The oldest packet arrived, or was lost.
    pub(crate) fn remove(&mut self) -> Option<u64> {
        self.packets.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// The kernel has only so many in flight: the others arrived twice, or were lost and arrived after all. Returns how
    /// many there are too many.
    pub(crate) fn limit(&mut self, in_flight: u32) -> usize {
        let excess = self.packets.len().saturating_sub(in_flight as usize);
        self.packets.drain(..excess);
        excess
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sent: u32, delivered: u32, lost: u32) -> Event {
        Event { sent, delivered, lost, ..Event::default() }
    }

    #[test]
    fn counters_may_wrap_and_places_may_be_used_again() {
        let mut packets = InFlight::from(&event(u32::MAX, 0, 0));
        assert_eq!(packets.update(&event(1, 2, 0)), Changes { sent: 2, delivered: 2, marked: 0, lost: 0 });
        assert_eq!(packets.update(&event(0, 2, 1)), Changes { sent: 0, delivered: 0, marked: 0, lost: 1 });
    }

    #[test]
    fn the_kernel_limits_what_is_in_flight() {
        let mut packets = InFlight::default();
        (0..5).for_each(|number| packets.add(number));
        assert_eq!((packets.limit(3), packets.limit(3), packets.remove()), (2, 0, Some(2)));
    }
}
