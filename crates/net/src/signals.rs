//! Signals of an operator.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGINT (Ctrl-C) and SIGTERM set. Both ends stop cleanly when it is set.
pub fn stop_on_interrupt() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second signal ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    #[test]
    fn an_interrupt_sets_the_flag() {
        let flag = super::stop_on_interrupt().unwrap();
        assert!(!flag.load(Ordering::Relaxed));
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGINT).unwrap();
        assert!(flag.load(Ordering::Relaxed));
    }
}
