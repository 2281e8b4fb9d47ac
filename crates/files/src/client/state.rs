//! What is known of all files of a call while they arrive, for the progress and the report.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rampmeter_net::Arrivals;
use rampmeter_streams::PathState;
use rampmeter_units::Duration;

use crate::error::Received;
use crate::part::Part;
use crate::progress::Progress;

#[derive(Debug)]
pub(super) struct State(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    files: Vec<(Received, Arrivals)>,
    /// The controller that sends the files.
    controller: String,
    min_rtt: Duration,
    rtt: Duration,
}

/// What the packets have shown.
pub(super) struct Measured {
    pub(super) controller: String,
    pub(super) min_rtt: Duration,
    pub(super) rtt: Duration,
    /// The fraction of the server's packets that did not arrive.
    pub(super) loss: f64,
}

impl State {
    pub(super) fn new(files: usize) -> Self {
        let none = (Received { resumable: true, ..Received::default() }, Arrivals::default());
        Self(Mutex::new(Known { files: vec![none; files], ..Known::default() }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_controller(&self, name: String) {
        self.known().controller = name;
    }

    /// What has arrived of a file of this size.
    pub(super) fn note(&self, file: usize, part: &Part, size: u64, path: PathState) {
        let mut known = self.known();
        let received = Received { got: part.len, size: Some(size), resumable: part.is_resumable() };
        known.files[file] = (received, path.arrivals);
        (known.min_rtt, known.rtt) = (path.min_rtt, path.rtt);
    }

    /// A file has failed: nothing more of it will arrive.
    pub(super) fn discard(&self, file: usize) {
        self.known().files[file].0 = Received { got: 0, size: Some(0), resumable: true };
    }

    /// What has arrived of all files.
    pub(super) fn received(&self) -> Received {
        let all = Received { got: 0, size: Some(0), resumable: true };
        self.known().files.iter().fold(all, |sum, (one, _)| Received {
            got: sum.got + one.got,
            size: sum.size.zip(one.size).map(|(sum, size)| sum.saturating_add(size)),
            resumable: sum.resumable && one.resumable,
        })
    }

    pub(super) fn measured(&self) -> Measured {
        let known = self.known();
        let count = |of: fn(&Arrivals) -> u64| known.files.iter().map(|(_, arrivals)| of(arrivals)).sum::<u64>();
        let (sent, missing) = (count(|arrivals| arrivals.sent), count(Arrivals::missing));
        let loss = if sent == 0 { 0.0 } else { missing as f64 / sent as f64 };
        Measured { controller: known.controller.clone(), min_rtt: known.min_rtt, rtt: known.rtt, loss }
    }

    pub(super) fn progress(&self) -> Progress {
        let (received, Measured { rtt, loss, .. }) = (self.received(), self.measured());
        Progress::Moved { bytes: received.got, total: received.size, rtt, loss }
    }
}
