//! Who runs first: the router before the hosts, both before the rest of the machine, where the system allows it.

use std::io;
use std::mem;

/// A real-time priority; higher runs first.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(crate) enum Priority {
    /// Senders and receivers.
    Hosts = 10,
    /// The network between them.
    Router = 20,
}

/// Runs this thread at `priority` from now on (`SCHED_FIFO`); its future children start at the usual one.
pub(crate) fn raise(priority: Priority) -> io::Result<()> {
    // Without real-time priority, sleepers wake up to 50 us late unless they ask not to.
    let _ = nix::sys::prctl::set_timerslack(1);
    // SAFETY: all zeros is a valid `sched_param`; zero means this thread.
    let result = unsafe {
        let mut parameters: libc::sched_param = mem::zeroed();
        parameters.sched_priority = priority as i32;
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
