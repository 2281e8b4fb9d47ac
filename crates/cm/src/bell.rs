//! A door bell: wakes the other side if it sleeps, and costs nothing while it is awake.
//!
//! ```text
//! sleeper                              ringer
//! flag := 1                            write the record, publish it
//! fence                                fence
//! look again; if nothing came: sleep   flag = 1?  flag := 0, write to the eventfd
//! ```
//!
//! With the two fences one of them sees the other, so nobody sleeps on a record.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::memory::Memory;

/// One side's bell, as either side holds it.
#[derive(Debug)]
pub(crate) struct Bell {
    memory: Arc<Memory>,
    flag: usize,
    file: OwnedFd,
}

impl Bell {
    /// A bell whose sleeper raises the word `flag`.
    pub(crate) fn new(memory: Arc<Memory>, flag: usize, file: OwnedFd) -> Self {
        Self { memory, flag, file }
    }

    /// A file to ring, for both sides. It never blocks: whoever fills it wakes only itself.
    pub(crate) fn file() -> io::Result<OwnedFd> {
        Ok(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?.into())
    }

    /// Wakes the sleeper if it sleeps.
    pub(crate) fn ring(&self) {
        fence(SeqCst);
        let flag = &self.memory.words()[self.flag];
        if flag.load(Relaxed) != 0 && flag.swap(0, Relaxed) != 0 {
            self.ring_anyway();
        }
    }

    /// Makes the sleeper's next sleep short, whether it sleeps yet or not.
    pub(crate) fn ring_anyway(&self) {
        // Full means that it has been rung already.
        let _ = nix::unistd::write(&self.file, &1_u64.to_ne_bytes());
    }

    /// The sleeper is about to look a last time and then to sleep.
    pub(crate) fn about_to_sleep(&self) {
        self.memory.words()[self.flag].store(1, Relaxed);
        fence(SeqCst);
    }

    /// The sleeper is awake.
    pub(crate) fn awake(&self) {
        self.memory.words()[self.flag].store(0, Relaxed);
    }

    /// Takes notice of the ringing.
    pub(crate) fn silence(&self) {
        let _: Result<usize, Errno> = nix::unistd::read(&self.file, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
