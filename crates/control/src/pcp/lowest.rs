//! The lowest value of a recent time.

use rampmeter_units::{Duration, Time};

/// The lowest value of a recent time: of the current half of it and the half before.
#[derive(Debug, Clone, Default)]
pub(super) struct Lowest {
    since: Time,
    current: Option<i64>,
    previous: Option<i64>,
}

impl Lowest {
    pub(super) fn get(&self) -> Option<i64> {
        self.current.into_iter().chain(self.previous).min()
    }

    /// Adds a value, of which half of `expiry` is the minimum age at which it expires. Returns the lowest one.
    pub(super) fn update(&mut self, now: Time, value: i64, expiry: Duration) -> i64 {
        if now.since(self.since) > expiry / 2 {
            (self.since, self.previous, self.current) = (now, self.current, None);
        }
        let current = self.current.map_or(value, |current| current.min(value));
        self.current = Some(current);
        self.previous.map_or(current, |previous| previous.min(current))
    }
}
