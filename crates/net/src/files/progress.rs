//! The progress bar over all files. Nothing is drawn unless standard error is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rampmeter_units::Duration;

/// A progress bar, perhaps hidden.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    total: Option<u64>,
}

impl Progress {
    pub(crate) fn new(shown: bool, title: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if !shown {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let form = "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        bar.set_prefix(title.to_owned());
        Self { bar, total: None }
    }

    /// Shows the bytes moved so far, of a total that may become known later.
    pub(crate) fn show(&mut self, moved: u64, total: Option<u64>, rtt: Duration, loss: f64) {
        if self.bar.is_hidden() {
            return;
        }
        if let Some(total) = total.filter(|_| total != self.total) {
            self.bar.set_length(total);
            // What earlier transfers had moved says nothing about the rate.
            if self.total.is_none() {
                self.bar.reset_eta();
            }
            self.total = Some(total);
        }
        self.bar.set_position(moved);
        self.bar.set_message(format!("RTT {:.1} ms, loss {:.2}%", rtt.as_secs_f64() * 1e3, loss * 100.0));
    }

    /// Prints a line above the bar, if the bar is drawn.
    pub(crate) fn note(&self, text: &str) {
        if !self.bar.is_hidden() {
            self.bar.println(format!("rampmeter: {text}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
