//! A device, a pipe or standard output, which a thread of its own writes. Its reader may pause for as long as it likes,
//! and the connection goes on meanwhile: its receive window closes, and the sender probes it (RFC 9293 section 3.8.6.1).

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rampmeter_net::Alarm;

/// So many bytes may wait for the thread before no more are read from the network. What one read brings is added.
const MAX_WAITING: usize = 1 << 20;

/// An output that is written in the background.
#[derive(Debug)]
pub(super) struct StreamOutput {
    pieces: Sender<Vec<u8>>,
    shared: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that are not written.
    waiting: usize,
    /// Why no more can be written. The thread has ended then.
    error: Option<io::Error>,
    has_failed: bool,
    /// Rung when fewer bytes wait.
    alarm: Option<Alarm>,
}

impl StreamOutput {
    pub(super) fn new(mut file: File) -> io::Result<Self> {
        let (pieces, to_write) = channel::<Vec<u8>>();
        let shared = Arc::<Mutex<State>>::default();
        let own = Arc::clone(&shared);
        std::thread::Builder::new().name("rampmeter-output".into()).spawn(move || {
            for piece in to_write {
                let result = file.write_all(&piece);
                let mut state = locked(&own);
                state.waiting -= piece.len();
                let has_failed = result.is_err();
                (state.error, state.has_failed) = (result.err(), has_failed);
                let wakes = has_failed || state.waiting <= MAX_WAITING / 2;
                if let Some(alarm) = state.alarm.take_if(|_| wakes) {
                    alarm.ring();
                }
                if has_failed {
                    return;
                }
            }
        })?;
        Ok(Self { pieces, shared })
    }

    /// Writes `bytes` later. An error may be of earlier ones.
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        locked(&self.shared).waiting += bytes.len();
        self.pieces.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// The error of an earlier write.
    pub(super) fn check(&self) -> io::Result<()> {
        let mut state = locked(&self.shared);
        if !state.has_failed {
            return Ok(());
        }
        Err(state.error.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()))
    }

    /// Whether as many bytes wait as may. If so, `alarm` rings when there are fewer.
    pub(super) fn is_full(&self, alarm: &Alarm) -> bool {
        self.waits(MAX_WAITING, alarm)
    }

    /// Whether bytes wait. If so, `alarm` rings when there are fewer.
    pub(super) fn is_writing(&self, alarm: &Alarm) -> bool {
        self.waits(1, alarm)
    }

    fn waits(&self, bytes: usize, alarm: &Alarm) -> bool {
        let mut state = locked(&self.shared);
        let waits = !state.has_failed && state.waiting >= bytes;
        state.alarm = waits.then(|| alarm.clone());
        waits
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rampmeter_control::newreno::NewReno;
    use rampmeter_net::EventLoop;

    use super::*;
    use crate::pool::tests::wait_until;

    #[test]
    fn a_reader_that_pauses_fills_the_output_and_blocks_nobody() {
        let mut net = EventLoop::<NewReno>::new(1500).unwrap();
        let alarm = net.alarm().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let output = StreamOutput::new(std::os::fd::OwnedFd::from(writer).into()).unwrap();
        let piece = vec![7; MAX_WAITING];
        for _ in 0..2 {
            output.append(&piece).unwrap();
        }
        assert!(output.is_full(&alarm));
        reader.read_exact(&mut vec![0; 2 * MAX_WAITING]).unwrap();
        wait_until(|| !output.is_writing(&alarm));
        drop(output);
        assert_eq!(reader.read(&mut [0; 9]).unwrap(), 0, "the thread has ended");
    }

    #[test]
    fn a_reader_that_is_gone_is_an_error_and_not_a_wait() {
        let mut net = EventLoop::<NewReno>::new(1500).unwrap();
        let alarm = net.alarm().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = StreamOutput::new(std::os::fd::OwnedFd::from(writer).into()).unwrap();
        output.append(&vec![7; 2 * MAX_WAITING]).unwrap();
        wait_until(|| !output.is_writing(&alarm));
        assert_eq!(output.check().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(output.append(&[7]).is_err());
    }
}
