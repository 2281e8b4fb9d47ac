//! The deadlines of many applications, the earliest first. A deadline can move in both directions.

use std::collections::{BTreeMap, BTreeSet};

use rampmeter_units::Time;
use smart_default::SmartDefault;

/// Deadlines by key.
#[derive(Debug, SmartDefault)]
pub struct Alarms {
    by_time: BTreeSet<(Time, u32)>,
    by_key: BTreeMap<u32, Time>,
    /// The earliest deadline.
    #[default(Time::MAX)]
    next: Time,
}

impl Alarms {
    /// Sets the deadline of `key` to `at`; [`Time::MAX`] removes it.
    #[inline]
    pub fn set(&mut self, key: u32, at: Time) {
        if at < Time::MAX || self.next < Time::MAX {
            self.change(key, at);
        }
    }

    fn change(&mut self, key: u32, at: Time) {
        let before = if at < Time::MAX { self.by_key.insert(key, at) } else { self.by_key.remove(&key) };
        self.by_time.remove(&(before.unwrap_or(Time::MAX), key));
        if at < Time::MAX {
            self.by_time.insert((at, key));
        }
        self.next = self.by_time.first().map_or(Time::MAX, |(at, _)| *at);
    }

    /// The earliest deadline; [`Time::MAX`] if there is none.
    pub fn next(&self) -> Time {
        self.next
    }

    /// A key whose deadline is not after `now`.
    #[inline]
    pub fn due(&self, now: Time) -> Option<u32> {
        self.by_time.first().filter(|(at, _)| *at <= now).map(|(_, key)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_moves_in_both_directions() {
        let at = Time::from_nanos;
        let mut alarms = Alarms::default();
        alarms.set(7, Time::MAX);
        alarms.set(7, at(20));
        alarms.set(3, at(30));
        alarms.set(7, at(40));
        assert_eq!((alarms.next(), alarms.due(at(29)), alarms.due(at(30))), (at(30), None, Some(3)));
        alarms.set(7, at(10));
        assert_eq!((alarms.next(), alarms.due(at(50))), (at(10), Some(7)));
        alarms.set(7, Time::MAX);
        alarms.set(3, Time::MAX);
        assert_eq!(alarms.next(), Time::MAX);
    }
}
