//! The bytes of the streams, for worlds with real ones.

use std::collections::VecDeque;

/// The memory that an empty send buffer keeps.
const KEPT: usize = 64 * 1024;

/// Bytes written and not yet acknowledged.
///
/// A ring: pieces that come and go with the bytes would take new memory from the kernel again and again.
#[derive(Debug, Clone, Default)]
pub struct SendBuffer {
    bytes: VecDeque<u8>,
    /// The offset of the first byte kept.
    start: u64,
}

impl SendBuffer {
    /// Appends bytes to the stream.
    pub fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Appends `offset..offset + len` of the stream to `out`. If a part of it is not kept, appends nothing and returns
    /// false.
    pub fn copy(&self, offset: u64, len: usize, out: &mut Vec<u8>) -> bool {
        let from = offset.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        let Some((from, to)) = from.and_then(|from| Some((from, from.checked_add(len)?))) else { return false };
        if to > self.bytes.len() {
            return false;
        }
        let (head, tail) = self.bytes.as_slices();
        let middle = head.len();
        out.extend_from_slice(&head[from.min(middle)..to.min(middle)]);
        out.extend_from_slice(&tail[from.max(middle) - middle..to.max(middle) - middle]);
        true
    }

    /// Discards everything before `offset`, which has been delivered.
    pub fn release(&mut self, offset: u64) {
        let count = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes.drain(..count);
        self.start += count as u64;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT);
        }
    }

    /// The number of bytes kept.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no bytes are kept.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Bytes received and not yet read, holes included.
#[derive(Debug, Clone, Default)]
pub struct ReceiveBuffer {
    bytes: VecDeque<u8>,
    /// Offset of the first byte kept.
    start: u64,
}

impl ReceiveBuffer {
    /// Stores bytes at `offset`. The connection has checked that they are within its window.
    pub fn store(&mut self, offset: u64, bytes: &[u8]) {
        let skip = usize::try_from(self.start.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
        let bytes = &bytes[skip..];
        if bytes.is_empty() {
            return;
        }
        let at = (offset + skip as u64 - self.start) as usize;
        if at >= self.bytes.len() {
            self.bytes.resize(at, 0);
            self.bytes.extend(bytes); // without zeros first: most packets arrive in order
            return;
        }
        if self.bytes.len() < at + bytes.len() {
            self.bytes.resize(at + bytes.len(), 0);
        }
        let (head, tail) = self.bytes.as_mut_slices();
        let in_head = head.len().saturating_sub(at).min(bytes.len());
        if in_head > 0 {
            head[at..at + in_head].copy_from_slice(&bytes[..in_head]);
        }
        if in_head < bytes.len() {
            let at = at.saturating_sub(head.len());
            tail[at..at + bytes.len() - in_head].copy_from_slice(&bytes[in_head..]);
        }
    }

    /// Moves everything before `arrived` to the end of `out`, and returns its length.
    pub fn read(&mut self, arrived: u64, out: &mut impl for<'a> Extend<&'a u8>) -> usize {
        let ready = usize::try_from(arrived.saturating_sub(self.start)).unwrap_or(usize::MAX).min(self.bytes.len());
        // In two runs: a drain would move the bytes one by one.
        let (head, tail) = self.bytes.as_slices();
        let middle = ready.min(head.len());
        out.extend(&head[..middle]);
        out.extend(&tail[..ready - middle]);
        self.bytes.drain(..ready);
        self.start += ready as u64;
        ready
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_in_any_order_make_the_stream(
            stream in prop::collection::vec(any::<u8>(), 1..400),
            part in 1usize..90,
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 1usize..90), 0..60),
        ) {
            let (mut sender, mut receiver) = (SendBuffer::default(), ReceiveBuffer::default());
            stream.chunks(part).for_each(|part| sender.write(part));
            let mut have = vec![false; stream.len()];
            let mut read = Vec::new();
            for (at, len) in cuts {
                let at = at.index(stream.len());
                let len = len.min(stream.len() - at);
                let mut piece = Vec::new();
                prop_assert!(sender.copy(at as u64, len, &mut piece));
                receiver.store(at as u64, &piece);
                have[at..at + len].fill(true);
                let arrived = have.iter().position(|&h| !h).unwrap_or(stream.len());
                receiver.read(arrived as u64, &mut read);
            }
            prop_assert_eq!(&read[..], &stream[..read.len()]);
        }
    }

    #[test]
    fn released_bytes_are_not_available() {
        let mut buffer = SendBuffer::default();
        buffer.write(b"abcdef");
        buffer.release(2);
        let mut out = Vec::new();
        assert!(!buffer.copy(1, 2, &mut out));
        assert!(buffer.copy(2, 3, &mut out));
        assert_eq!(out, b"cde");
        assert!(!buffer.copy(5, 2, &mut out));
        assert_eq!(buffer.len(), 4);
    }
}
