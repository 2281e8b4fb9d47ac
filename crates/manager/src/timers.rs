//! Many deadlines, one timer. A deadline that moves later, as a retransmission timer does with every acknowledgement,
//! costs nothing: the early wake-up happens, and its owner arms the timer again.

use std::cmp::Reverse;

use dary_heap::QuaternaryHeap;
use rampmeter_units::Time;

/// Deadlines by key; keys are small whole numbers.
#[derive(Debug, Default)]
pub struct Timers {
    heap: QuaternaryHeap<Reverse<(Time, u32)>>,
    /// The next wake-up of each key; [`Time::MAX`] for never.
    armed: Vec<Time>,
}

impl Timers {
    /// Ensures a wake-up of `key` at `at` or earlier; [`Time::MAX`] needs none.
    #[inline]
    pub fn arm(&mut self, key: u32, at: Time) {
        if at < self.armed.get(key as usize).copied().unwrap_or(Time::MAX) {
            self.arm_earlier(key, at);
        }
    }

    fn arm_earlier(&mut self, key: u32, at: Time) {
        let slot = key as usize;
        if self.armed.len() <= slot {
            self.armed.resize(slot + 1, Time::MAX);
        }
        self.armed[slot] = at;
        self.heap.push(Reverse((at, key)));
    }

    /// The time of the next wake-up; [`Time::MAX`] for never.
    #[inline]
    pub fn next(&self) -> Time {
        self.heap.peek().map_or(Time::MAX, |Reverse((at, _))| *at)
    }

    /// Returns a key that is due at `now`, and disarms it.
    pub fn due(&mut self, now: Time) -> Option<u32> {
        while self.next() <= now {
            let Reverse((at, key)) = self.heap.pop()?;
            if self.armed[key as usize] == at {
                self.armed[key as usize] = Time::MAX;
                return Some(key);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_wake_in_order_and_the_earliest_time_counts() {
        let at = Time::from_nanos;
        let mut timers = Timers::default();
        timers.arm(1, at(30));
        timers.arm(0, at(20));
        timers.arm(1, at(10));
        timers.arm(1, at(40)); // later: the wake-up at 10 comes first anyway
        assert_eq!(timers.next(), at(10));
        assert_eq!(timers.due(at(5)), None);
        assert_eq!(timers.due(at(25)), Some(1));
        assert_eq!(timers.due(at(25)), Some(0));
        assert_eq!(timers.due(at(99)), None);
        timers.arm(1, at(50));
        assert_eq!(timers.due(at(50)), Some(1));
    }
}
