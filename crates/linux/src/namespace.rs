//! Network namespaces.
//!
//! A thread unshares its network namespace and opens the file that refers to the new one. The namespace exists as long
//! as that file, or a socket or device inside it, is open, and as long as a process runs in it. The system closes all of
//! these files when the process ends; [`Keeper`](crate::keeper::Keeper) ends the processes.

use std::fs::File;
use std::io;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// A new namespace, with a loopback device that is down.
    pub(crate) fn new() -> io::Result<Self> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net").map(Self)
        })
    }

    /// The file that refers to the namespace.
    pub(crate) fn file(&self) -> &File {
        &self.0
    }

    /// Moves this thread into the namespace. Sockets and devices that it creates from now on belong there.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(setns(&self.0, CloneFlags::CLONE_NEWNET)?)
    }

    /// Runs `work` in the namespace, on a new thread.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_a_thread(|| {
            self.enter()?;
            work()
        })
    }
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
