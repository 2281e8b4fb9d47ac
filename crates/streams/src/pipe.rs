//! The bytes of one stream between a task, which reads and writes them, and the thread of the engine.
//!
//! ```text
//! task    ──► outgoing ──► send buffer of the connection ──► packets
//! task    ◄── incoming ◄── receive buffer                ◄── packets
//! ```
//!
//! Both buffers have at most [`CAPACITY`] bytes. What a task does not read stays in the receive buffer and closes the
//! peer's window; what the connection does not take stays here, and the task waits.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::ReadBuf;

use super::error::StreamEnd;
use super::stream::PathState;

/// The size of each buffer.
pub(super) const CAPACITY: usize = 256 * 1024;

#[derive(Debug, Default)]
pub(super) struct Pipe(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// Bytes of the peer that the task has not read.
    pub(super) incoming: VecDeque<u8>,
    /// Whether the peer's stream ends after them.
    pub(super) ended: bool,
    /// Whether the connection has more bytes for `incoming`.
    pub(super) has_more: bool,
    /// Bytes of the task that the connection has not taken.
    pub(super) outgoing: VecDeque<u8>,
    /// The task writes no more.
    pub(super) finished: bool,
    /// The stream was dropped.
    pub(super) dropped: bool,
    /// A new weight.
    pub(super) weight: Option<f64>,
    /// What its packets show of the path.
    pub(super) path: PathState,
    /// Why the connection ended.
    pub(super) end: Option<StreamEnd>,
    /// The engine has been asked to look at this pipe and has not done so yet.
    pub(super) queued: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The tasks to wake once the pipe is unlocked.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Woken(Option<Waker>, Option<Waker>);

impl Woken {
    pub(super) fn wake(self) {
        self.0.into_iter().chain(self.1).for_each(Waker::wake);
    }
}

/// The result of a poll, and whether the engine is to look at the pipe.
pub(super) type Polled<T> = (Poll<io::Result<T>>, bool);

impl Pipe {
    /// The state. No holder of the lock panics: it only copies bytes.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the engine has to be asked, for the first time since it looked.
    pub(super) fn ask(&mut self) -> bool {
        !std::mem::replace(&mut self.queued, true)
    }

    pub(super) fn poll_read(&mut self, context: &Context<'_>, out: &mut ReadBuf<'_>) -> Polled<()> {
        if !self.incoming.is_empty() {
            let (head, tail) = self.incoming.as_slices();
            let in_head = head.len().min(out.remaining());
            out.put_slice(&head[..in_head]);
            let in_tail = tail.len().min(out.remaining());
            out.put_slice(&tail[..in_tail]);
            self.incoming.drain(..in_head + in_tail);
            let wants_more = self.has_more && self.incoming.len() <= CAPACITY / 2;
            return (Poll::Ready(Ok(())), wants_more && self.ask());
        }
        match self.end {
            _ if self.ended => (Poll::Ready(Ok(())), false),
            Some(end) => (Poll::Ready(Err(end.into())), false),
            None => {
                self.reader = Some(context.waker().clone());
                (Poll::Pending, false)
            }
        }
    }

    pub(super) fn poll_write(&mut self, context: &Context<'_>, bytes: &[u8]) -> Polled<usize> {
        if self.finished {
            return (Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())), false);
        }
        if let Some(end) = self.end {
            return (Poll::Ready(Err(end.into())), false);
        }
        let count = CAPACITY.saturating_sub(self.outgoing.len()).min(bytes.len());
        if count == 0 && !bytes.is_empty() {
            self.writer = Some(context.waker().clone());
            return (Poll::Pending, false);
        }
        self.outgoing.extend(&bytes[..count]);
        (Poll::Ready(Ok(count)), self.ask())
    }

    /// The task will write no more. True if the engine is to look at the pipe.
    pub(super) fn finish(&mut self) -> bool {
        !std::mem::replace(&mut self.finished, true) && self.ask()
    }

    /// After the engine's work: the tasks that can go on.
    pub(super) fn woken(&mut self) -> Woken {
        let is_readable = !self.incoming.is_empty() || self.ended || self.end.is_some();
        let is_writable = self.outgoing.len() <= CAPACITY / 2 || self.end.is_some();
        let reader = if is_readable { self.reader.take() } else { None };
        Woken(reader, if is_writable { self.writer.take() } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(state: &mut State, len: usize) -> (usize, Polled<()>) {
        let mut bytes = vec![0; len];
        let mut out = ReadBuf::new(&mut bytes);
        let polled = state.poll_read(&Context::from_waker(Waker::noop()), &mut out);
        (out.filled().len(), polled)
    }

    #[test]
    fn a_pipe_takes_no_more_than_its_capacity() {
        let mut state = State::default();
        let context = Context::from_waker(Waker::noop());
        let bytes = vec![7; CAPACITY + 1];
        assert!(matches!(state.poll_write(&context, &bytes), (Poll::Ready(Ok(CAPACITY)), true)));
        assert!(matches!(state.poll_write(&context, &bytes), (Poll::Pending, false)));
        state.outgoing.drain(..1);
        assert!(matches!(state.poll_write(&context, &bytes), (Poll::Ready(Ok(1)), false)), "asked already");
    }

    #[test]
    fn the_engine_is_asked_for_more_once_half_is_read() {
        let mut state = State { has_more: true, ..State::default() };
        state.incoming.extend(vec![1; CAPACITY]);
        assert!(matches!(read(&mut state, CAPACITY / 2 - 1), (_, (Poll::Ready(Ok(())), false))));
        assert!(matches!(read(&mut state, 1), (1, (Poll::Ready(Ok(())), true))));
        assert!(matches!(read(&mut state, 1), (1, (Poll::Ready(Ok(())), false))), "asked already");
    }

    #[test]
    fn received_bytes_come_before_the_end_or_an_error() {
        let mut state = State { ended: true, end: Some(StreamEnd::Reset), ..State::default() };
        state.incoming.extend([1, 2]);
        assert_eq!(read(&mut state, 9).0, 2);
        assert!(matches!(read(&mut state, 9), (0, (Poll::Ready(Ok(())), _))));
        state.ended = false;
        assert!(matches!(read(&mut state, 9), (0, (Poll::Ready(Err(_)), _))));
    }

    #[test]
    fn nothing_is_written_after_the_end() {
        let mut state = State::default();
        assert!(state.finish() && !state.finish());
        let written = state.poll_write(&Context::from_waker(Waker::noop()), b"x");
        assert!(matches!(written, (Poll::Ready(Err(error)), _) if error.kind() == io::ErrorKind::BrokenPipe));
    }
}
