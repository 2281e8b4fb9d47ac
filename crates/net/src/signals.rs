//! Signals of an operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How often a thread looks whether a signal has come.
const INTERVAL: Duration = Duration::from_millis(200);

/// A flag that SIGINT (Ctrl-C) and SIGTERM set. Both ends stop cleanly when it is set.
pub fn stop_on_interrupt() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::default();
    set_on(SIGINT, &flag)?;
    set_on(SIGTERM, &flag)?;
    Ok(flag)
}

/// A flag that SIGINT sets, for a server that is to stop at once, and one that SIGTERM sets, for a server that is to end
/// once it has done what it has begun.
pub fn stop_or_drain() -> io::Result<(Arc<AtomicBool>, Arc<AtomicBool>)> {
    let (stop, drain) = (Arc::default(), Arc::default());
    set_on(SIGINT, &stop)?;
    set_on(SIGTERM, &drain)?;
    Ok((stop, drain))
}

/// Lets a signal set a flag; a second one ends the process at once.
fn set_on(signal: i32, flag: &Arc<AtomicBool>) -> io::Result<()> {
    signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(flag))?;
    signal_hook::flag::register(signal, Arc::clone(flag))?;
    Ok(())
}

/// Each SIGHUP from now on, which no longer ends the process.
#[derive(Debug)]
pub struct Hangups(Arc<AtomicBool>);

impl Hangups {
    /// To be called before anything takes long.
    pub fn catch() -> io::Result<Self> {
        let flag = Arc::default();
        signal_hook::flag::register(SIGHUP, Arc::clone(&flag))?;
        Ok(Self(flag))
    }

    /// Calls `act` soon after each, in a thread of its own; soon after this call if one has come already.
    pub fn on_each(self, act: impl Fn() + Send + 'static) -> io::Result<()> {
        let run = move || {
            loop {
                if self.0.swap(false, Ordering::Relaxed) {
                    act();
                }
                thread::sleep(INTERVAL);
            }
        };
        thread::Builder::new().name("rampmeter-hangup".into()).spawn(run).map(drop)
    }
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
