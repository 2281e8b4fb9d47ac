//! Differences between the bytes of flows that were counted and those that were sent.

use std::collections::BTreeMap;

use rampmeter_units::Time;

use super::probes::{Name, Sent};
use crate::flow::FlowId;

/// Some bytes of a flow, all sent by `sent_by`, and the number of responses since.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) sent: Sent,
    pub(super) sent_by: Time,
    pub(super) age: u8,
}

/// The differences of each flow, oldest first.
#[derive(Debug, Default)]
pub(super) struct Differences(BTreeMap<Name, Vec<Difference>>);

impl Differences {
    pub(super) fn add(&mut self, sent: Sent, sent_by: Time) {
        self.0.entry(sent.name).or_default().push(Difference { sent, sent_by, age: 0 });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The flow that has this name on the wire, if there are differences of it.
    pub(super) fn name(&self, wire: u32) -> Option<Name> {
        let first = Name { wire, flow: FlowId(0) };
        self.0.range(first..).next().map(|(name, _)| *name).filter(|name| name.wire == wire)
    }

    /// Removes up to `payload` payload bytes of `name`. Returns the bytes removed, without and with headers.
    pub(super) fn take(&mut self, name: Name, payload: u64) -> (u64, u64) {
        let (mut left, mut wire_bytes) = (payload, 0);
        for difference in self.0.get_mut(&name).into_iter().flatten() {
            let before = difference.sent.payload;
            wire_bytes += difference.sent.take(left);
            left -= before - difference.sent.payload;
        }
        (payload - left, wire_bytes)
    }

    /// One response later: keeps those for which `is_open` returns true and whose bytes have not all been taken.
    pub(super) fn retain(&mut self, mut is_open: impl FnMut(&Difference) -> bool) {
        self.0.retain(|_, list| {
            list.retain_mut(|difference| {
                difference.age += 1;
                difference.sent.payload > 0 && is_open(difference)
            });
            !list.is_empty()
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Difference> {
        self.0.values().flatten()
    }
}
