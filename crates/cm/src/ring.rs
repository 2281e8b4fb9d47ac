//! A ring of fixed-size records in shared memory: one process writes, the other reads, neither ever waits.
//!
//! Each side keeps its own position privately and only publishes it. It checks the other side's position: a distance
//! above the ring's size is [`Broken`]. A record is copied before it is decoded.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::{RingLayout, SLOT, SLOTS};
use crate::memory::Memory;

pub(crate) type Record = [u64; SLOT];

/// The other side has written an invalid position; the connection has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Producer {
    memory: Arc<Memory>,
    layout: RingLayout,
    head: u64,
    /// The reader's position at the last check.
    tail: u64,
}

impl Producer {
    pub(crate) fn new(memory: Arc<Memory>, layout: RingLayout) -> Self {
        Self { memory, layout, head: 0, tail: 0 }
    }

    pub(crate) fn fits(&mut self, records: u64) -> Result<bool, Broken> {
        if self.head - self.tail + records > SLOTS as u64 {
            let tail = self.memory.words()[self.layout.tail].load(Acquire);
            // The reader cannot have read more than was written, and its position never decreases.
            if tail < self.tail || tail > self.head {
                return Err(Broken);
            }
            self.tail = tail;
        }
        Ok(self.head - self.tail + records <= SLOTS as u64)
    }

    /// Appends a record; false if it does not fit.
    pub(crate) fn push(&mut self, record: &Record) -> Result<bool, Broken> {
        if !self.fits(1)? {
            return Ok(false);
        }
        let words = self.memory.words();
        let start = self.layout.slots + (self.head as usize % SLOTS) * SLOT;
        for (word, value) in words[start..start + SLOT].iter().zip(record) {
            word.store(*value, Relaxed);
        }
        self.head += 1;
        words[self.layout.head].store(self.head, Release);
        Ok(true)
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Consumer {
    memory: Arc<Memory>,
    layout: RingLayout,
    tail: u64,
}

impl Consumer {
    pub(crate) fn new(memory: Arc<Memory>, layout: RingLayout) -> Self {
        Self { memory, layout, tail: 0 }
    }

    /// Whether there is a record to read, or an invalid position.
    pub(crate) fn has_more(&self) -> bool {
        self.memory.words()[self.layout.head].load(Relaxed) != self.tail
    }

    /// A check for later records that does not borrow this end.
    pub(crate) fn poller(&self) -> impl Fn() -> bool + use<> {
        let (memory, head, tail) = (Arc::clone(&self.memory), self.layout.head, self.tail);
        move || memory.words()[head].load(Relaxed) != tail
    }

    /// Removes and returns the oldest record.
    pub(crate) fn pop(&mut self) -> Result<Option<Record>, Broken> {
        let words = self.memory.words();
        let head = words[self.layout.head].load(Acquire);
        match head.checked_sub(self.tail) {
            Some(0) => return Ok(None),
            Some(count) if count <= SLOTS as u64 => {}
            _ => return Err(Broken),
        }
        let start = self.layout.slots + (self.tail as usize % SLOTS) * SLOT;
        let mut record = [0; SLOT];
        for (value, word) in record.iter_mut().zip(&words[start..start + SLOT]) {
            *value = word.load(Relaxed);
        }
        self.tail += 1;
        words[self.layout.tail].store(self.tail, Release);
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::layout::{COMMANDS, WORDS};

    fn pair() -> (Producer, Consumer, Arc<Memory>) {
        let memory = Arc::new(Memory::create(WORDS).unwrap().1);
        (Producer::new(Arc::clone(&memory), COMMANDS), Consumer::new(Arc::clone(&memory), COMMANDS), memory)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Any order of writes and reads gives the results of a bounded queue.
        #[test]
        fn a_ring_is_a_bounded_queue(steps in prop::collection::vec((any::<bool>(), 1..700_usize), 1..40)) {
            let (mut producer, mut consumer, _) = pair();
            let (mut model, mut next) = (VecDeque::new(), 0_u64);
            for (push, times) in steps {
                for _ in 0..times {
                    if push {
                        let fits = producer.push(&[next; SLOT]).unwrap();
                        prop_assert_eq!(fits, model.len() < SLOTS);
                        if fits {
                            model.push_back(next);
                        }
                        next += 1;
                    } else {
                        prop_assert_eq!(consumer.has_more(), !model.is_empty());
                        prop_assert_eq!(consumer.pop().unwrap(), model.pop_front().map(|n| [n; SLOT]));
                    }
                }
            }
        }

        /// With any values from the other side nothing panics, and no more records are read than a ring holds.
        #[test]
        fn invalid_positions_never_panic(head in any::<u64>(), tail in any::<u64>(), written in 0..2000_u64) {
            let (mut producer, mut consumer, memory) = pair();
            for n in 0..written {
                let _ = producer.push(&[n; SLOT]);
            }
            memory.words()[COMMANDS.tail].store(tail, Relaxed);
            let pushed = (0..3 * SLOTS).map_while(|_| producer.push(&[0; SLOT]).ok().filter(|fits| *fits)).count();
            prop_assert!(pushed <= SLOTS);
            memory.words()[COMMANDS.head].store(head, Relaxed);
            let mut taken = 0;
            while let Ok(Some(_)) = consumer.pop() {
                taken += 1;
                prop_assert!(taken <= SLOTS);
            }
        }
    }

    #[test]
    fn records_pass_between_threads_in_order() {
        const COUNT: u64 = 50_000;
        let (mut producer, mut consumer, _) = pair();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..COUNT {
                    while !producer.push(&[n; SLOT]).unwrap() {
                        std::thread::yield_now();
                    }
                }
            });
            for n in 0..COUNT {
                let record = loop {
                    match consumer.pop().unwrap() {
                        Some(record) => break record,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(record, [n; SLOT]);
            }
        });
    }
}
