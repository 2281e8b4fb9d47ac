//! Wakes the other process if it sleeps. Costs no system call while the other process is awake.
//!
//! ```text
//! sleeper                              waker
//! flag := 1                            write the record, publish it
//! fence                                fence
//! check again; if nothing came: sleep  flag = 1?  flag := 0, write to the eventfd
//! ```
//!
//! Because of the two fences at least one side sees the other's write, so no side sleeps while a record is waiting.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::memory::Memory;

/// The wakeup of one side; both processes hold it.
#[derive(Debug)]
pub(crate) struct Wakeup {
    memory: Arc<Memory>,
    flag: usize,
    file: OwnedFd,
}

impl Wakeup {
    /// A wakeup whose sleeper sets the word `flag`.
    pub(crate) fn new(memory: Arc<Memory>, flag: usize, file: OwnedFd) -> Self {
        Self { memory, flag, file }
    }

    /// The eventfd of both sides. It never blocks: a process that fills it wakes only itself.
    pub(crate) fn event_file() -> io::Result<OwnedFd> {
        Ok(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?.into())
    }

    /// Wakes the sleeper if it sleeps.
    pub(crate) fn notify(&self) {
        fence(SeqCst);
        let flag = &self.memory.words()[self.flag];
        if flag.load(Relaxed) != 0 && flag.swap(0, Relaxed) != 0 {
            self.notify_always();
        }
    }

    /// Ends the sleeper's current or next sleep.
    pub(crate) fn notify_always(&self) {
        // A full counter means that the file is readable already.
        let _ = nix::unistd::write(&self.file, &1_u64.to_ne_bytes());
    }

    /// Announces that this side checks a last time and then sleeps.
    pub(crate) fn prepare_sleep(&self) {
        self.memory.words()[self.flag].store(1, Relaxed);
        fence(SeqCst);
    }

    /// Announces that this side is awake.
    pub(crate) fn end_sleep(&self) {
        self.memory.words()[self.flag].store(0, Relaxed);
    }

    /// Resets the eventfd.
    pub(crate) fn clear(&self) {
        let _: Result<usize, Errno> = nix::unistd::read(&self.file, &mut [0; 8]);
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
