//! Transmissions that count as lost, in case their receipts come after all: the losses were spurious then.

use std::collections::VecDeque;

use rampmeter_units::Time;

/// The number of transmissions that are remembered. An older one that arrives is not recognized.
const MAX: usize = 256;

/// One transmission of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// Its number, counted per macroflow.
    pub(crate) number: u64,
    /// The same, counted per connection.
    pub(crate) order: u64,
    pub(crate) sent_at: Time,
}

#[derive(Debug, Default)]
pub(crate) struct PresumedLost {
    /// Oldest loss first, with its place among all losses.
    transmissions: VecDeque<(u64, Transmission)>,
    /// The number of losses so far.
    losses: u64,
}

impl PresumedLost {
    /// Adds a transmission, and returns the place of its loss among all losses.
    pub(crate) fn insert(&mut self, lost: Transmission) -> u64 {
        let place = self.next_place();
        self.insert_at(place, lost);
        place
    }

    /// A place for losses of which each is inserted only when its segment is sent again.
    pub(crate) fn next_place(&mut self) -> u64 {
        self.losses += 1;
        self.losses - 1
    }

    /// Adds a transmission that was lost at `place`.
    pub(crate) fn insert_at(&mut self, place: u64, lost: Transmission) {
        if self.transmissions.len() == MAX {
            self.transmissions.pop_front();
        }
        self.transmissions.push_back((place, lost));
    }

    /// The transmission that `has_arrived`, and the place of its loss. It counts as lost no more.
    pub(crate) fn take(&mut self, has_arrived: impl Fn(&Transmission) -> bool) -> Option<(u64, Transmission)> {
        let index = self.transmissions.iter().rposition(|(_, lost)| has_arrived(lost))?;
        self.transmissions.remove(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transmission_is_taken_once_and_few_are_remembered() {
        let mut lost = PresumedLost::default();
        for number in 0..1000 {
            assert_eq!(lost.insert(Transmission { number, order: number, sent_at: Time::ZERO }), number);
        }
        let is = |number| move |lost: &Transmission| lost.number == number;
        assert_eq!(lost.take(is(999)).map(|(place, lost)| (place, lost.order)), Some((999, 999)));
        assert_eq!(lost.take(is(999)), None);
        assert_eq!(lost.take(is(1000 - MAX as u64 - 1)), None);
        assert_eq!(lost.transmissions.len(), MAX - 1);
    }
}
