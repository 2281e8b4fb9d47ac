//! The progress bar of a download. Nothing is drawn unless standard error is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rampmeter_units::Duration;

use crate::stream::Arrivals;

/// A progress bar, perhaps hidden.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(shown: bool, name: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if !shown {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let form = "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        bar.set_prefix(name.to_owned());
        Self(bar)
    }

    pub(crate) fn start(&self, size: u64, received: u64) {
        self.0.set_length(size);
        self.0.set_position(received);
        self.0.reset_eta();
    }

    pub(crate) fn show(&self, received: u64, rtt: Duration, arrivals: Arrivals) {
        self.0.set_position(received);
        if !self.0.is_hidden() {
            let (rtt, loss) = (rtt.as_secs_f64() * 1e3, loss(arrivals) * 100.0);
            self.0.set_message(format!("RTT {rtt:.1} ms, loss {loss:.2}%"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The fraction of packets that did not arrive.
pub(crate) fn loss(arrivals: Arrivals) -> f64 {
    if arrivals.sent == 0 { 0.0 } else { arrivals.missing() as f64 / arrivals.sent as f64 }
}
