//! The names of flows whose programs send from sockets of their own.
//!
//! ```text
//! 1 | use, 23 bits | slot, 8 bits
//! ```
//!
//! A program keeps the tags of flows that it has closed. So slots are reused with a higher number of the use, and the
//! receiver stores one flow for each slot, that of the last use. Old tags have no effect on other flows.

use std::collections::BTreeMap;

use crate::destinations::Owner;
use crate::flow::FlowId;
use crate::quotas::Quotas;

/// The maximum number of such flows from one host to another.
pub(crate) const SLOTS: usize = 256;

/// Other flows have names without this bit.
pub(crate) const OWN: u32 = 1 << 31;

/// Uses of all slots until another handshake is needed.
const MAX_USES: u32 = 1 << 23;

/// Whether the program of a flow with this name on the wire sends from a socket of its own.
pub fn is_own_name(name: u32) -> bool {
    name & OWN != 0
}

/// The slot of the flow with this name.
pub(crate) fn slot(name: u32) -> u8 {
    name as u8
}

/// The names assigned to flows to one receiver. They remain over handshakes.
#[derive(Debug)]
pub(crate) struct OwnNames {
    flows: BTreeMap<u8, (u32, FlowId, Owner)>,
    slots: Quotas,
    uses: u32,
}

impl Default for OwnNames {
    fn default() -> Self {
        Self { flows: BTreeMap::new(), slots: Quotas::new(SLOTS as u64), uses: 0 }
    }
}

impl OwnNames {
    /// Assigns a name; none if there are too many flows, of its owner or of all.
    pub(crate) fn assign(&mut self, flow: FlowId, owner: Owner) -> Option<u32> {
        if self.are_used_up() || !self.slots.take(owner, 1) {
            return None;
        }
        let slot = (0..=u8::MAX).find(|slot| !self.flows.contains_key(slot))?;
        let name = OWN | self.uses << 8 | u32::from(slot);
        self.uses += 1;
        self.flows.insert(slot, (name, flow, owner));
        Some(name)
    }

    /// Whether further names need another handshake, which makes the old ones invalid.
    pub(crate) fn are_used_up(&self) -> bool {
        self.uses >= MAX_USES
    }

    pub(crate) fn release(&mut self, name: u32) {
        if let Some((_, _, owner)) = self.flows.remove(&slot(name)) {
            self.slots.give_back(owner, 1);
        }
    }

    /// The flow that has this name.
    pub(crate) fn flow(&self, name: u32) -> Option<FlowId> {
        self.flows.get(&slot(name)).filter(|(own, ..)| *own == name).map(|(_, flow, _)| *flow)
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
        let first: Vec<u32> = (0..204).map(|flow| names.assign(FlowId(flow), Owner(1)).unwrap()).collect();
        assert_eq!(names.assign(FlowId(256), Owner(1)), None);
        let others = (300..400).map_while(|flow| names.assign(FlowId(flow), Owner(2)));
        assert_eq!(others.count(), 41, "of the 52 that one owner must leave");
        assert!(
            first.iter().zip(0..).all(|(name, flow)| is_own_name(*name) && names.flow(*name) == Some(FlowId(flow)))
        );
        names.release(first[7]);
        let next = names.assign(FlowId(256), Owner(2)).unwrap();
        assert!(slot(next) == slot(first[7]) && next > first[7]);
        assert_eq!((names.flow(first[7]), names.flow(next)), (None, Some(FlowId(256))));
    }

    #[test]
    fn names_are_used_up_before_they_repeat() {
        let mut names = OwnNames::default();
        names.use_up();
        let last = names.assign(FlowId(0), Owner(1)).unwrap();
        assert!(is_own_name(last) && names.are_used_up());
        names.release(last);
        assert_eq!(names.assign(FlowId(0), Owner(1)), None);
    }
}
