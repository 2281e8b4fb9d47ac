//! Responses about more flows than fit into one packet: several parts. Such a response counts when all parts have
//! arrived, or when the response to another probe arrives; then the packets of flows in missing parts have an unknown
//! outcome.

use std::collections::BTreeMap;

use rampmeter_units::Time;
use rampmeter_wire::{Count, Response};

use super::own_names::SLOTS;
use super::responder::MAX_FLOWS;

/// A response of which parts are missing.
#[derive(Debug)]
struct Partial {
    /// The time of the last part.
    arrived_at: Time,
    /// Without the counts.
    response: Response,
    counts: BTreeMap<u32, u32>,
}

impl Partial {
    fn end(self) -> (Time, Response) {
        let counts = self.counts.into_iter().map(|(flow, count)| Count { flow, count }).collect();
        (self.arrived_at, Response { counts, ..self.response })
    }
}

/// The parts of a response that have arrived.
#[derive(Debug, Default)]
pub(super) struct Parts(Option<Partial>);

impl Parts {
    /// Adds a part. Returns the responses that count now, each with the time of its last part.
    pub(super) fn add(&mut self, now: Time, part: &Response) -> Vec<(Time, Response)> {
        let is_other = |partial: &mut Partial| partial.response.this_probe != part.this_probe;
        let mut ready: Vec<(Time, Response)> = self.0.take_if(is_other).map(Partial::end).into_iter().collect();
        let mut counts = self.0.take().map(|earlier| earlier.counts).unwrap_or_default();
        counts.extend(part.counts.iter().map(|count| (count.flow, count.count)));
        // No receiver counts more flows.
        let is_whole = counts.len() >= usize::from(part.flows).min(MAX_FLOWS + SLOTS);
        let whole = Partial { arrived_at: now, response: Response { counts: Vec::new(), ..*part }, counts };
        if is_whole {
            ready.push(whole.end());
        } else {
            self.0 = Some(whole);
        }
        ready
    }

    /// Whether a part of the response to this probe, or to a later one, has arrived.
    pub(super) fn answers(&self, probe: u32) -> bool {
        let later = |partial: &Partial| partial.response.this_probe.wrapping_sub(probe) < 1 << 31;
        self.0.as_ref().is_some_and(later)
    }
}
