//! Who wakes up next: a calendar queue (Brown, *Calendar queues*, CACM 31(10), 1988), simplified.
//!
//! ```text
//!   now                                      horizon
//!    │today│ day │ day │ day │  ...  │ day │    │ later
//!    sorted  unsorted, in a ring of days        a heap
//! ```
//!
//! Time is cut into days of a few microseconds. A wake-up is thrown into its day; a day is sorted when it begins. So a
//! wake-up costs the same whether ten actors are awake or ten thousand. What lies beyond the ring, above all
//! retransmission timers, waits in a heap and joins its day when that begins.
//!
//! Actors are small numbers and have one wake-up each. At the same instant the lower number comes first. An actor that is
//! to be woken earlier than it had asked for gets a second entry; the first is recognised as stale when it surfaces.

use std::cmp::Reverse;

use dary_heap::QuaternaryHeap;
use rampmeter_units::Time;

/// An actor's place in its simulation: links first, then hosts.
pub(crate) type Actor = u32;

/// Time and actor in one integer, so that a comparison is one.
type Key = u128;

/// Days in the ring.
const DAYS: u64 = 1 << 12;

/// A day's length is two to this power, in nanoseconds.
const DAY_BITS: u32 = 13;

#[derive(Debug)]
pub(crate) struct Agenda {
    /// When each actor is to be woken; [`Time::MAX`] for never.
    wake_at: Vec<Time>,
    /// The day that `today` holds, counted from time zero.
    day: u64,
    /// Wake-ups of this day and of those before, the next one last.
    today: Vec<Key>,
    /// The days after it, each in any order.
    days: Vec<Vec<Key>>,
    /// A bit for each of these days that has wake-ups.
    busy: Vec<u64>,
    /// Wake-ups after those days.
    later: QuaternaryHeap<Reverse<Key>>,
}

fn key(at: Time, actor: Actor) -> Key {
    u128::from(at.as_nanos()) << 32 | u128::from(actor)
}

fn unpack(key: Key) -> (Time, Actor) {
    (Time::from_nanos((key >> 32) as u64), key as u32)
}

fn day_of(key: Key) -> u64 {
    (key >> (32 + DAY_BITS)) as u64
}

impl Agenda {
    pub(crate) fn new(actors: usize) -> Self {
        Self {
            wake_at: vec![Time::MAX; actors],
            day: 0,
            today: Vec::new(),
            days: vec![Vec::new(); DAYS as usize],
            busy: vec![0; (DAYS / 64) as usize],
            later: QuaternaryHeap::new(),
        }
    }

    /// Wakes `actor` at `at`, unless it wakes up earlier anyway.
    pub(crate) fn wake(&mut self, actor: Actor, at: Time) {
        let wake_at = &mut self.wake_at[actor as usize];
        if at < *wake_at {
            *wake_at = at;
            self.insert(key(at, actor));
        }
    }

    /// The next wake-up. It stays until [`Agenda::done`].
    pub(crate) fn next(&mut self) -> Option<(Time, Actor)> {
        loop {
            let Some(&next) = self.today.last() else {
                self.begin_next_day()?;
                continue;
            };
            let (at, actor) = unpack(next);
            if self.wake_at[actor as usize] == at {
                return Some((at, actor));
            }
            self.today.pop();
        }
    }

    /// `actor`, woken by [`Agenda::next`] at `woken_at`, has done its work and wants to wake up at `at` next.
    pub(crate) fn done(&mut self, actor: Actor, woken_at: Time, at: Time) {
        self.wake_at[actor as usize] = at;
        if self.today.last() == Some(&key(woken_at, actor)) {
            self.today.pop();
        }
        if at < Time::MAX {
            self.insert(key(at, actor));
        }
    }

    fn insert(&mut self, key: Key) {
        let day = day_of(key);
        if day <= self.day {
            let place = self.today.iter().rposition(|&later| later > key).map_or(0, |last| last + 1);
            self.today.insert(place, key);
        } else if day < self.day + DAYS {
            let slot = (day % DAYS) as usize;
            self.days[slot].push(key);
            self.busy[slot / 64] |= 1 << (slot % 64);
        } else {
            self.later.push(Reverse(key));
        }
    }

    /// Goes on to the next day with wake-ups; `None` if there is none.
    fn begin_next_day(&mut self) -> Option<()> {
        let later = self.later.peek().map(|&Reverse(key)| day_of(key));
        self.day = self.next_busy_day().into_iter().chain(later).min()?;
        let slot = (self.day % DAYS) as usize;
        // The rooms of yesterday and of the new day change places, so that neither is ever freed.
        std::mem::swap(&mut self.today, &mut self.days[slot]);
        self.busy[slot / 64] &= !(1 << (slot % 64));
        while let Some(&Reverse(key)) = self.later.peek().filter(|&&Reverse(key)| day_of(key) == self.day) {
            self.later.pop();
            self.today.push(key);
        }
        self.today.sort_unstable_by(|a, b| b.cmp(a));
        Some(())
    }

    /// The first day after this one that has wake-ups in the ring.
    fn next_busy_day(&self) -> Option<u64> {
        let first = self.day + 1;
        let (word, bit) = ((first % DAYS / 64) as usize, first % 64);
        let words = self.busy.len();
        // Once around: the first word's upper bits, all others, the first word's lower bits.
        (0..=words).find_map(|n| {
            let bits = self.busy[(word + n) % words];
            let bits = match n {
                0 => bits >> bit << bit,
                n if n == words => bits & !(u64::MAX << bit),
                _ => bits,
            };
            let ahead = (n * 64) as u64 + u64::from(bits.trailing_zeros()) - bit;
            (bits != 0).then_some(first + ahead)
        })
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Stream;

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

    /// Against a list that is searched: spans from within a day to far beyond the ring.
    #[test]
    fn it_behaves_like_a_list() {
        let mut random = Stream::from_seed(3);
        let mut agenda = Agenda::new(40);
        let mut list = vec![Time::MAX; 40];
        let mut now = Time::ZERO;
        for _ in 0..20_000 {
            let scale = random.below(26);
            let span = Time::from_nanos(now.as_nanos() + random.below(16 << scale));
            let actor = random.below(40) as usize;
            agenda.wake(actor as Actor, span);
            list[actor] = list[actor].min(span);
            if random.chance(0.9) {
                let (at, woken) = agenda.next().unwrap();
                let first = (0..40).min_by_key(|&actor| (list[actor], actor)).unwrap();
                assert_eq!((at, woken as usize), (list[first], first));
                now = at;
                list[first] = if random.chance(0.3) {
                    Time::MAX
                } else {
                    Time::from_nanos(now.as_nanos() + random.below(1 << 14))
                };
                agenda.done(woken, at, list[first]);
            }
        }
    }
}
