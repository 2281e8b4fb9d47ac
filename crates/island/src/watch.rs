//! The measurements of an aggregate: counts and its ingress's queue, as of a link.

use rampmeter_router::{Backlog, Counts, QueueMeter, QueueSummary, Tally};
use rampmeter_units::{Bytes, Time};

/// Counts, and the queue since the measurement started.
#[derive(Debug, Default)]
pub struct Watch {
    pub(crate) counts: Counts,
    at_start: Counts,
    meter: Option<Box<QueueMeter>>,
}

impl Watch {
    pub(crate) fn start(&mut self, now: Time, tally: Tally, backlog: Backlog) {
        self.at_start = self.counts.with(tally);
        self.meter = Some(Box::new(QueueMeter::new(now, backlog)));
    }

    pub(crate) fn on_change(&mut self, now: Time, backlog: Backlog) {
        if let Some(meter) = &mut self.meter {
            meter.on_change(now, backlog);
        }
    }

    pub(crate) fn transmitted(&mut self, bytes: Bytes) {
        self.counts.transmitted += 1;
        self.counts.transmitted_bytes += bytes;
    }

    /// The counts since the measurement started.
    pub(crate) fn since_start(&self, tally: Tally) -> Counts {
        self.counts.with(tally).since(self.at_start)
    }

    pub(crate) fn queue(&self, now: Time) -> QueueSummary {
        self.meter.as_ref().map(|meter| meter.summary(now)).unwrap_or_default()
    }
}
