//! What happens next: one wake-up per actor, soonest first, ties in the order of their scheduling.

use std::cmp::Reverse;

use dary_heap::QuaternaryHeap;
use rampmeter_units::Time;

/// A link, an endpoint or the script, by number.
pub(crate) type Actor = u32;

/// Wake-ups. One that moved to an earlier time leaves a stale entry behind, which is skipped.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Time, then order of scheduling, then actor, packed into one number: one comparison.
    heap: QuaternaryHeap<Reverse<u128>>,
    armed: Vec<Time>,
    scheduled: u64,
}

const ACTOR_BITS: u32 = 24;
const ORDER_BITS: u32 = 40;

impl Agenda {
    pub(crate) fn new(actors: usize) -> Self {
        assert!(actors < 1 << ACTOR_BITS, "too many links and hosts for one simulation");
        Self { heap: QuaternaryHeap::new(), armed: vec![Time::MAX; actors], scheduled: 0 }
    }

    /// Makes sure that `actor` is woken at `at` or earlier.
    pub(crate) fn arm(&mut self, actor: Actor, at: Time) {
        let armed = &mut self.armed[actor as usize];
        if at < *armed {
            *armed = at;
            let order = self.scheduled & ((1 << ORDER_BITS) - 1);
            self.scheduled += 1;
            let low = order << ACTOR_BITS | u64::from(actor);
            self.heap.push(Reverse(u128::from(at.as_nanos()) << 64 | u128::from(low)));
        }
    }

    /// The next wake-up. Its actor is armed no longer.
    pub(crate) fn pop(&mut self) -> Option<(Time, Actor)> {
        loop {
            let Reverse(key) = self.heap.pop()?;
            let (at, actor) = (Time::from_nanos((key >> 64) as u64), (key as u32) & ((1 << ACTOR_BITS) - 1));
            let armed = &mut self.armed[actor as usize];
            if *armed == at {
                *armed = Time::MAX;
                return Some((at, actor));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_come_in_order_and_ties_as_scheduled() {
        let at = Time::from_nanos;
        let mut agenda = Agenda::new(4);
        agenda.arm(2, at(5));
        agenda.arm(1, at(5));
        agenda.arm(3, at(9));
        agenda.arm(3, at(2)); // earlier: the entry at 9 is stale now
        agenda.arm(1, at(7)); // later: nothing changes
        let order: Vec<(Time, Actor)> = std::iter::from_fn(|| agenda.pop()).collect();
        assert_eq!(order, [(at(2), 3), (at(5), 2), (at(5), 1)]);
    }
}
