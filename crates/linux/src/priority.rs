//! Thread priorities: the router runs before the hosts, and both run before other programs, if the system allows it.

use std::io;
use std::mem;

/// A real-time priority. Higher values run first.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(crate) enum Priority {
    /// Senders and receivers.
    Hosts = 10,
    /// The network between them.
    Router = 20,
}

/// Sets the priority of this thread (`SCHED_FIFO`). Its future children start with the default priority.
pub(crate) fn raise(priority: Priority) -> io::Result<()> {
    // Without real-time priority, a sleeping thread wakes up to 50 us late unless it reduces its timer slack.
    let _ = nix::sys::prctl::set_timerslack(1);
    // SAFETY: all zeros is a valid `sched_param`; zero means this thread.
    let result = unsafe {
        let mut parameters: libc::sched_param = mem::zeroed();
        parameters.sched_priority = priority as i32;
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
