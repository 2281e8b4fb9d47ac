//! Progress and interruption of a sweep.
//!
//! The first Ctrl-C or SIGTERM stops the sweep; runs that are in progress are finished unless they stop immediately.
//! The second signal ends the process. Finished runs are on disk by then.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use indicatif::{ProgressBar, ProgressStyle};
use rampmeter_study::{Progress, RunningPoints};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The steps of the bar for each run.
const STEPS: f64 = 1000.0;

/// The time between two lines about the progress, where there is no terminal for a bar: in a log.
const LINES: Duration = Duration::from_secs(30);

/// Handles signals from its creation on.
#[derive(Debug)]
pub(crate) struct Interrupts {
    stop: Arc<AtomicBool>,
    /// The bar to clear and the message to print at the second signal, during a sweep.
    sweep: Arc<Mutex<Option<(ProgressBar, String)>>>,
}

impl Interrupts {
    pub(crate) fn listen() -> Self {
        let this = Self { stop: Arc::default(), sweep: Arc::default() };
        let (stop, sweep) = (Arc::clone(&this.stop), Arc::clone(&this.sweep));
        // Without signal handlers Ctrl-C only ends the process less gracefully: this is no error.
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return this };
        thread::spawn(move || {
            for signal in signals.forever() {
                if !stop.swap(true, Ordering::Relaxed) {
                    continue;
                }
                if let Some((bar, kept)) = &*sweep.lock().unwrap_or_else(PoisonError::into_inner) {
                    bar.finish_and_clear();
                    eprintln!("rampmeter: stopped; {kept}");
                }
                std::process::exit(128 + signal);
            }
        });
        this
    }

    /// Set by the first signal.
    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Creates the bar of a sweep; `kept` is a message about finished runs.
    pub(crate) fn bar(&self, hidden: bool, kept: &str) -> Bar {
        let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style = ProgressStyle::with_template("{bar:20} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = bar.with_style(style);
        *self.sweep.lock().unwrap_or_else(PoisonError::into_inner) = Some((bar.clone(), kept.to_owned()));
        let last_line = (!hidden && !io::stderr().is_terminal()).then(Instant::now);
        Bar { drawn: bar, last_line, has_announced: false }
    }
}

pub(crate) struct Bar {
    drawn: ProgressBar,
    /// Where there is no terminal, the time of the last line.
    last_line: Option<Instant>,
    has_announced: bool,
}

impl Bar {
    pub(crate) fn show(&mut self, progress: Progress) {
        self.drawn.set_length((progress.total as f64 * STEPS) as u64);
        self.drawn.set_position(((progress.done as f64 + progress.running_points.part) * STEPS) as u64);
        self.drawn.set_message(describe(progress));
        if let Some(last) = self.last_line.as_mut().filter(|last| last.elapsed() >= LINES) {
            *last = Instant::now();
            eprintln!("rampmeter: {}", describe(progress));
        }
        if progress.finishing && !self.has_announced {
            self.has_announced = true;
            self.drawn.suspend(|| eprintln!("rampmeter: finishing the current runs; Ctrl-C again stops at once"));
        }
    }

    pub(crate) fn clear(&self) {
        self.drawn.finish_and_clear();
    }
}

/// `3/12 runs, 2 running at 45 of 120 s, 8 s left`: the first times are simulated, the last is real.
fn describe(progress: Progress) -> String {
    let Progress { done, total, running_points: RunningPoints { points, seconds, of, .. }, left, .. } = progress;
    let running_points = (points > 0).then(|| format!(", {points} running at {seconds:.0} of {of:.0} s"));
    let left = left.map(|left| format!(", {} s left", left.as_secs()));
    format!("{done}/{total} runs{}{}", running_points.unwrap_or_default(), left.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn progress_is_shown_in_runs_and_within_runs() {
        let started = Progress { total: 12, ..Progress::default() };
        assert_eq!(describe(started), "0/12 runs");
        let running_points = RunningPoints { points: 2, part: 0.75, seconds: 45.2, of: 120.0 };
        let later = Progress { done: 3, running_points, left: Some(Duration::from_secs(8)), ..started };
        assert_eq!(describe(later), "3/12 runs, 2 running at 45 of 120 s, 8 s left");
    }
}
