//! Memory of connections that have ended, returned to the system.
//!
//! The C library keeps what was freed: without this, a process that has once had many clients keeps most of their memory.

use std::thread::{Builder, sleep};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(30);

/// Returns free memory to the system every 30 seconds, in a thread of its own, until the process ends. With another C
/// library than GNU's it does nothing.
pub fn return_memory() {
    if cfg!(target_env = "gnu") {
        if let Err(error) = Builder::new().name("rampmeter-memory".into()).spawn(run) {
            tracing::warn!(%error, "free memory is not returned to the system");
        }
    }
}

fn run() {
    loop {
        sleep(INTERVAL);
        #[cfg(target_env = "gnu")]
        // SAFETY: the C library locks each of its arenas while it looks for whole free pages, and changes nothing else.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}
