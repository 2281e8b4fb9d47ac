//! Transmissions that have arrived by an acknowledgement without their receipts, in case these come later.
//!
//! Each receipt is sent once. On a path that reorders packets, a later acknowledgement overtakes the one with the
//! receipt. Without this list the arrival times of such packets would be unknown: a PCP that rejected probes with missing
//! receipts had a tenth of its goodput on a path with 5 ms of jitter (`studies/transport/disorder.toml`). Of a segment
//! that was sent again it is not known which transmission has arrived, so it is not in this list.

use std::collections::VecDeque;

use rampmeter_units::Bytes;

use crate::presumed_lost::Transmission;

/// The number of transmissions that are remembered. An older one has no receipt any more.
const MAX: usize = 256;

/// Oldest first, with the sizes of the packets.
#[derive(Debug, Default)]
pub(crate) struct Unreported(VecDeque<(Transmission, Bytes)>);

impl Unreported {
    /// A packet of `bytes` has arrived, and its receipt has not.
    pub(crate) fn insert(&mut self, arrived: Transmission, bytes: Bytes) {
        if self.0.len() == MAX {
            self.0.pop_front();
        }
        self.0.push_back((arrived, bytes));
    }

    /// The transmission that a receipt reports, and the size of its packet. It is reported only once.
    pub(crate) fn take(&mut self, is_reported: impl Fn(&Transmission) -> bool) -> Option<(Transmission, Bytes)> {
        let index = self.0.iter().rposition(|(arrived, _)| is_reported(arrived))?;
        self.0.remove(index)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Time;

    use super::*;

    #[test]
    fn a_transmission_is_reported_once_and_few_are_remembered() {
        let mut unreported = Unreported::default();
        for number in 0..1000 {
            unreported.insert(Transmission { number, order: number, sent_at: Time::ZERO }, Bytes::new(number));
        }
        let is = |number| move |arrived: &Transmission| arrived.number == number;
        assert_eq!(unreported.take(is(999)).map(|(_, bytes)| bytes), Some(Bytes::new(999)));
        assert_eq!(unreported.take(is(999)), None);
        assert_eq!(unreported.take(is(1000 - MAX as u64 - 1)), None);
        assert_eq!(unreported.0.len(), MAX - 1);
    }
}
