//! Opens and reads files in threads of their own: a disk that is slow, or a network file system that does not answer,
//! delays only the clients that wait for it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::eventfd::{EfdFlags, EventFd};
use rampmeter_cm::PathState;
use rampmeter_net::Directory;
use rampmeter_units::Duration;

use super::answer::Answer;
use super::request::Request;

/// The number of threads.
const THREADS: usize = 4;

/// The maximum number of pieces of work that wait for a thread. More of them end their connections.
const MAX_WAITING: usize = 4096;

/// What a connection waits for.
#[derive(Debug)]
pub(crate) enum Work {
    /// The answer to a request of a flow with this path state.
    Answer(Request, PathState),
    /// Bytes of a file: the first one, and the number of bytes.
    Read(Arc<File>, u64, usize),
}

/// The result.
#[derive(Debug)]
pub(crate) enum Done {
    /// The answer, and the target of the request.
    Answer(Answer, String),
    /// The bytes.
    Read(io::Result<Vec<u8>>),
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Disk {
    work: SyncSender<(u64, Work)>,
    done: Receiver<(u64, Done)>,
    /// Readable when there are results.
    event: Arc<EventFd>,
}

/// What the threads share.
struct Shared {
    directory: Directory,
    within: Duration,
    work: Mutex<Receiver<(u64, Work)>>,
    event: Arc<EventFd>,
}

impl Disk {
    /// Starts the threads, which end with this value, or after the read that they wait for then.
    pub(crate) fn new(directory: Directory, within: Duration) -> io::Result<Self> {
        let event = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let (work, waiting) = sync_channel(MAX_WAITING);
        let (results, done) = channel();
        let shared = Arc::new(Shared { directory, within, work: Mutex::new(waiting), event: Arc::clone(&event) });
        for _ in 0..THREADS {
            let (shared, results) = (Arc::clone(&shared), results.clone());
            thread::Builder::new().name("disk".into()).spawn(move || shared.run(&results))?;
        }
        Ok(Self { work, done, event })
    }

    /// Starts `work` for the connection `number`. Returns false if too much work is waiting.
    pub(crate) fn start(&self, number: u64, work: Work) -> bool {
        self.work.try_send((number, work)).is_ok()
    }

    /// Resets the file that signals results, which must all be read then.
    pub(crate) fn clear(&self) {
        let _ = self.event.read();
    }

    /// The next result, and the connection that waits for it.
    pub(crate) fn next(&self) -> Option<(u64, Done)> {
        self.done.try_recv().ok()
    }
}

impl AsFd for Disk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Shared {
    fn run(&self, results: &Sender<(u64, Done)>) {
        loop {
            // One idle thread waits for work, the others for the lock.
            let next = self.work.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((number, work)) = next else { return };
            let done = match work {
                Work::Answer(request, path) => {
                    Done::Answer(Answer::to(&request, &self.directory, self.within, path), request.target)
                }
                Work::Read(file, first, length) => {
                    let mut bytes = vec![0; length];
                    Done::Read(file.read_exact_at(&mut bytes, first).map(|()| bytes))
                }
            };
            if results.send((number, done)).is_err() {
                return;
            }
            let _ = self.event.write(1);
        }
    }
}
