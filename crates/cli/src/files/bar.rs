//! The progress bar over all files of a command. Unless standard error is a terminal, nothing is drawn; attempts that
//! failed and first contacts are reported either way.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rampmeter_files::{Progress, ProgressHandler};
use rampmeter_net::keys;

/// Draws a bar with this title, until it is dropped; a hidden one draws nothing.
pub(super) fn bar(title: &str, is_hidden: bool) -> ProgressHandler {
    let target = if is_hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = Bar::new(title, target);
    ProgressHandler::new(move |progress| bar.show(progress))
}

struct Bar(ProgressBar);

impl Bar {
    fn new(title: &str, target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        let form = "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        bar.set_prefix(title.to_owned());
        Self(bar)
    }

    fn show(&self, progress: &Progress) {
        let Self(bar) = self;
        match progress {
            Progress::Failed { reason, wait } => {
                // `println` of a hidden bar prints nothing.
                bar.suspend(|| eprintln!("rampmeter: {reason}; trying again in {} s", wait.as_secs_f64()));
            }
            Progress::FirstContact { server, key } => {
                let file = keys::default_known_servers().unwrap_or_else(|_| "known_servers".into());
                let stored = format!("its key {key} is now in {}", file.display());
                bar.suspend(|| {
                    eprintln!("rampmeter: first contact with {server}: {stored}; ask its operator whether it is right");
                });
            }
            _ if bar.is_hidden() => {}
            Progress::Moved { bytes, total, rtt, loss } => {
                let known = bar.length();
                if let Some(total) = total.filter(|&total| known != Some(total)) {
                    bar.set_length(total);
                    // What earlier transfers had moved says nothing about the rate.
                    if known.is_none() {
                        bar.reset_eta();
                    }
                }
                bar.set_position(*bytes);
                bar.set_message(format!("RTT {:.1} ms, loss {:.2}%", rtt.as_secs_f64() * 1e3, loss * 100.0));
            }
            _ => {}
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
