//! Who wakes up next.
//!
//! Actors are small numbers and have one wake-up each. The heap orders them by time and, at the same instant, by number,
//! packed into one integer that is compared at once. An actor that is to be woken earlier than it had asked for gets a
//! second entry; the first is recognised as stale when it surfaces.

use std::cmp::Reverse;

use dary_heap::{PeekMut, QuaternaryHeap};
use rampmeter_units::Time;

/// An actor's place in its simulation: links first, then hosts.
pub(crate) type Actor = u32;

type Key = Reverse<u128>;

#[derive(Debug)]
pub(crate) struct Agenda {
    heap: QuaternaryHeap<Key>,
    /// When each actor is to be woken; [`Time::MAX`] for never.
    wake_at: Vec<Time>,
}

fn key(at: Time, actor: Actor) -> Key {
    Reverse(u128::from(at.as_nanos()) << 32 | u128::from(actor))
}

fn unpack(Reverse(key): Key) -> (Time, Actor) {
    (Time::from_nanos((key >> 32) as u64), key as u32)
}

impl Agenda {
    pub(crate) fn new(actors: usize) -> Self {
        Self { heap: QuaternaryHeap::with_capacity(actors), wake_at: vec![Time::MAX; actors] }
    }

    /// Wakes `actor` at `at`, unless it wakes up earlier anyway.
    pub(crate) fn wake(&mut self, actor: Actor, at: Time) {
        let wake_at = &mut self.wake_at[actor as usize];
        if at < *wake_at {
            *wake_at = at;
            self.heap.push(key(at, actor));
        }
    }

    /// The next wake-up.
    pub(crate) fn next(&mut self) -> Option<(Time, Actor)> {
        loop {
            let (at, actor) = unpack(*self.heap.peek()?);
            if self.wake_at[actor as usize] == at {
                return Some((at, actor));
            }
            self.heap.pop();
        }
    }

    /// `actor`, woken by [`Agenda::next`] at `woken_at`, has done its work and wants to wake up at `at` next.
    pub(crate) fn done(&mut self, actor: Actor, woken_at: Time, at: Time) {
        self.wake_at[actor as usize] = at;
        if let Some(mut top) = self.heap.peek_mut() {
            if *top == key(woken_at, actor) {
                if at == Time::MAX {
                    PeekMut::pop(top);
                } else {
                    *top = key(at, actor); // sinks to its place when `top` goes
                }
                return;
            }
        }
        if at < Time::MAX {
            self.heap.push(key(at, actor));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_wake_by_time_then_by_number_and_once_only() {
        let at = Time::from_nanos;
        let mut agenda = Agenda::new(4);
        for (actor, time) in [(3, 5), (1, 5), (2, 9), (2, 7), (0, 20), (0, 30)] {
            agenda.wake(actor, at(time));
        }
        let mut woken = Vec::new();
        while let Some((now, actor)) = agenda.next() {
            woken.push((actor, now.as_nanos()));
            let again = if actor == 1 && now < at(8) { at(8) } else { Time::MAX };
            agenda.done(actor, now, again);
        }
        assert_eq!(woken, [(1, 5), (3, 5), (2, 7), (1, 8), (0, 20)]);
    }

    #[test]
    fn work_may_wake_others_at_once() {
        let at = Time::from_nanos;
        let mut agenda = Agenda::new(2);
        agenda.wake(1, at(5));
        let (now, actor) = agenda.next().unwrap();
        agenda.wake(0, at(5));
        agenda.done(actor, now, at(6));
        let mut woken = Vec::new();
        while let Some((now, actor)) = agenda.next() {
            woken.push((actor, now.as_nanos()));
            agenda.done(actor, now, Time::MAX);
        }
        assert_eq!(woken, [(0, 5), (1, 6)]);
    }
}
