//! Bytes in transit to the daemon (`cm_send`): a ring of words beside the ring of commands. A command contains the
//! number of bytes that were written here, and the daemon reads them together with it, so the two rings stay in step.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::{DATA, DATA_START, DATA_TAIL};
use crate::memory::Memory;
use crate::ring::Broken;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Writer {
    memory: Arc<Memory>,
    head: u64,
}

impl Writer {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self { memory, head: 0 }
    }

    pub(crate) fn fits(&self, length: usize) -> Result<bool, Broken> {
        let tail = self.memory.words()[DATA_TAIL].load(Acquire);
        let used = self.head.checked_sub(tail).filter(|used| *used <= DATA as u64);
        Ok(used.ok_or(Broken)? + needed(length) <= DATA as u64)
    }

    /// Writes `bytes`; false if they do not fit. A command that announces them must follow.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<bool, Broken> {
        if !self.fits(bytes.len())? {
            return Ok(false);
        }
        let words = self.memory.words();
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            words[DATA_START + self.head as usize % DATA].store(u64::from_ne_bytes(word), Relaxed);
            self.head += 1;
        }
        Ok(true)
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Reader {
    memory: Arc<Memory>,
    tail: u64,
}

impl Reader {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self { memory, tail: 0 }
    }

    /// Reads the `length` bytes that a command announced. Fails if they are more than the ring can hold.
    pub(crate) fn read(&mut self, length: usize) -> Result<Vec<u8>, Broken> {
        if needed(length) > DATA as u64 {
            return Err(Broken);
        }
        let words = self.memory.words();
        let mut bytes = Vec::with_capacity(length + 8);
        for _ in 0..needed(length) {
            bytes.extend(words[DATA_START + self.tail as usize % DATA].load(Relaxed).to_ne_bytes());
            self.tail += 1;
        }
        bytes.truncate(length);
        words[DATA_TAIL].store(self.tail, Release);
        Ok(bytes)
    }
}

fn needed(length: usize) -> u64 {
    length.div_ceil(8) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::WORDS;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn bytes_are_read_as_written(lengths in prop::collection::vec(0..1500_usize, 1..400), wait in 1..100_usize) {
            let memory = Arc::new(Memory::create(WORDS).unwrap().1);
            let (mut writer, mut reader) = (Writer::new(Arc::clone(&memory)), Reader::new(memory));
            let mut inside = std::collections::VecDeque::new();
            for (n, length) in lengths.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..length).map(|i| (n + i) as u8).collect();
                if inside.len() > wait || !writer.write(&bytes).unwrap() {
                    while let Some(expected) = inside.pop_front() {
                        let expected: Vec<u8> = expected;
                        prop_assert_eq!(reader.read(expected.len()).unwrap(), expected);
                    }
                    prop_assert!(writer.write(&bytes).unwrap());
                }
                inside.push_back(bytes);
            }
        }

        #[test]
        fn invalid_positions_are_detected(tail in any::<u64>(), length in any::<usize>()) {
            let memory = Arc::new(Memory::create(WORDS).unwrap().1);
            let (mut writer, mut reader) = (Writer::new(Arc::clone(&memory)), Reader::new(Arc::clone(&memory)));
            memory.words()[DATA_TAIL].store(tail, Relaxed);
            prop_assert!(tail == 0 || writer.write(&[1]).is_err());
            prop_assert_eq!(reader.read(length).is_ok(), length <= DATA * 8);
        }
    }
}
