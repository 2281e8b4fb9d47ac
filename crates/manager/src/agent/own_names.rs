//! The names of flows whose programs send from sockets of their own.
//!
//! ```text
//! 1 | use, 23 bits | slot, 8 bits
//! ```
//!
//! A program keeps the tags of flows that it has closed. So slots are reused with a higher number of the use, and the
//! receiver stores one flow for each slot, that of the last use. Old tags have no effect on other flows.

use std::collections::BTreeMap;

use crate::flow::FlowId;

/// The maximum number of such flows from one host to another.
pub(crate) const SLOTS: usize = 256;

/// Other flows have names without this bit.
pub(crate) const OWN: u32 = 1 << 31;

/// Uses of all slots until another handshake is needed.
const MAX_USES: u32 = 1 << 23;

/// Whether the program of a flow with this name sends from a socket of its own.
pub(crate) fn is_own(name: u32) -> bool {
    name & OWN != 0
}

/// The slot of the flow with this name.
pub(crate) fn slot(name: u32) -> u8 {
    name as u8
}

/// The names assigned to flows to one receiver. They remain over handshakes.
#[derive(Debug, Default)]
pub(crate) struct OwnNames {
    flows: BTreeMap<u8, (u32, FlowId)>,
    uses: u32,
}

impl OwnNames {
    /// Assigns a name; none if there are too many flows.
    pub(crate) fn assign(&mut self, flow: FlowId) -> Option<u32> {
        let slot = (0..=u8::MAX).find(|slot| !self.flows.contains_key(slot)).filter(|_| !self.are_used_up())?;
        let name = OWN | self.uses << 8 | u32::from(slot);
        self.uses += 1;
        self.flows.insert(slot, (name, flow));
        Some(name)
    }

    /// Whether further names need another handshake, which makes the old ones invalid.
    pub(crate) fn are_used_up(&self) -> bool {
        self.uses >= MAX_USES
    }

    pub(crate) fn release(&mut self, name: u32) {
        self.flows.remove(&slot(name));
    }

    /// The flow that has this name.
    pub(crate) fn flow(&self, name: u32) -> Option<FlowId> {
        self.flows.get(&slot(name)).filter(|(own, _)| *own == name).map(|(_, flow)| *flow)
    }
}

#[cfg(test)]
impl OwnNames {
    /// Leaves one name.
    pub(super) fn use_up(&mut self) {
        self.uses = MAX_USES - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_one_flow_only() {
        let mut names = OwnNames::default();
        let first: Vec<u32> = (0..256).map(|flow| names.assign(FlowId(flow)).unwrap()).collect();
        assert_eq!(names.assign(FlowId(256)), None);
        assert!(first.iter().zip(0..).all(|(name, flow)| is_own(*name) && names.flow(*name) == Some(FlowId(flow))));
        names.release(first[7]);
        let next = names.assign(FlowId(256)).unwrap();
        assert!(slot(next) == slot(first[7]) && next > first[7]);
        assert_eq!((names.flow(first[7]), names.flow(next)), (None, Some(FlowId(256))));
    }

    #[test]
    fn names_are_used_up_before_they_repeat() {
        let mut names = OwnNames::default();
        names.use_up();
        let last = names.assign(FlowId(0)).unwrap();
        assert!(is_own(last) && names.are_used_up());
        names.release(last);
        assert_eq!(names.assign(FlowId(0)), None);
    }
}
