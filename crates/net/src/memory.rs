//! Memory of connections that have ended, returned to the system; memory with keys, hidden.
//!
//! The C library keeps what was freed: without this, a process that has once had many clients keeps most of their memory.
//! And once it has freed a large buffer, it takes later ones of that size from its heaps, where small ones that live long
//! are left between them. A fixed threshold keeps large buffers out of the heaps.

#[cfg(target_env = "gnu")]
use std::time::Duration;

#[cfg(target_env = "gnu")]
const INTERVAL: Duration = Duration::from_secs(30);

/// Larger buffers are returned when they are freed. Pieces of files, which servers read again and again, are smaller.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 256 * 1024;

/// Returns free memory to the system, that of small buffers every 30 seconds, in a thread of its own. With another C
/// library than GNU's it does nothing.
pub fn return_memory() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the C library locks its first arena while it sets a number.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
        if let Err(error) = std::thread::Builder::new().name("rampmeter-memory".into()).spawn(run) {
            tracing::warn!(%error, "free memory is not returned to the system");
        }
    }
}

/// From now on no core dump has this process's memory, in which keys are, and no other process of its user reads it.
pub fn hide_memory() {
    // It fails for no value that it is given here.
    let _ = nix::sys::prctl::set_dumpable(false);
}

#[cfg(target_env = "gnu")]
fn run() {
    loop {
        std::thread::sleep(INTERVAL);
        // SAFETY: the C library locks each of its arenas while it looks for whole free pages, and changes nothing else.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn hidden_memory_is_not_dumped() {
        assert_eq!(nix::sys::prctl::get_dumpable(), Ok(true));
        super::hide_memory();
        assert_eq!(nix::sys::prctl::get_dumpable(), Ok(false));
    }
}
