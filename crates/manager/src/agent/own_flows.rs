//! The receiver's state of flows whose programs send from sockets of their own.

use std::collections::BTreeMap;

use rampmeter_wire::CmHeader;

use super::loss_detector::{LossDetector, MAX_JUMP};
use super::own_names::slot;

#[derive(Debug, Clone, Copy)]
struct OwnFlow {
    name: u32,
    numbers: LossDetector,
    /// Since the last probe: payload bytes that have arrived, and whether a mark has been reported.
    bytes: u32,
    marked: bool,
}

/// A sender's flows, one for each slot of names.
#[derive(Debug, Default)]
pub(super) struct OwnFlows(BTreeMap<u8, OwnFlow>);

impl OwnFlows {
    /// Counts a packet. Returns whether a mark has to be reported, and whether the number reveals a new loss.
    pub(super) fn on_packet(&mut self, header: &CmHeader, payload: usize, marked: bool) -> (bool, bool) {
        let new = OwnFlow { name: header.flow, numbers: LossDetector::new(header.sequence), bytes: 0, marked: false };
        let flow = self.0.entry(slot(header.flow)).or_insert(new);
        if header.flow < flow.name {
            return (false, false); // the flow has been closed, and another one uses the slot
        }
        if header.flow > flow.name {
            *flow = new;
        }
        // Nothing resets these numbers, so those after a long outage are a new start.
        if flow.numbers.distance(header.sequence) > MAX_JUMP {
            flow.numbers = new.numbers;
        }
        flow.bytes = flow.bytes.saturating_add(payload as u32);
        let is_new_mark = marked && !std::mem::replace(&mut flow.marked, true);
        (is_new_mark, flow.numbers.detects_loss(header.sequence))
    }

    /// The bytes of each flow since the last probe, for the answer to the next one.
    pub(super) fn take_counts(&mut self) -> impl Iterator<Item = (u32, u32)> {
        let counts = self.0.values_mut().map(|flow| {
            flow.marked = false;
            (flow.name, std::mem::take(&mut flow.bytes))
        });
        counts.filter(|(_, bytes)| *bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rampmeter_wire::CmKind;

    use super::super::own_names::SLOTS;
    use super::*;

    fn detects_loss(flows: &mut OwnFlows, flow: u32, sequence: u32) -> bool {
        let header = CmHeader { flow, ..CmHeader::control(CmKind::Data, sequence) };
        flows.on_packet(&header, 1000, false).1
    }

    #[test]
    fn packets_of_closed_flows_have_no_effect() {
        let mut flows = OwnFlows::default();
        let (open, closed) = (5 << 8 | 7, [7, 1 << 8 | 7, 4 << 8 | 7]);
        assert!(closed.iter().all(|flow| !detects_loss(&mut flows, *flow, 0)));
        for sequence in 0..10 {
            assert!(!detects_loss(&mut flows, open, sequence));
            assert!(closed.iter().all(|flow| !detects_loss(&mut flows, *flow, sequence * 100)));
        }
        assert!(detects_loss(&mut flows, open, 20));
        assert_eq!(flows.take_counts().collect::<Vec<_>>(), [(open, 11_000)]);
        assert_eq!(flows.take_counts().count(), 0, "nothing has arrived since");
    }

    #[test]
    fn gaps_are_detected_again_after_a_long_outage() {
        let mut flows = OwnFlows::default();
        assert!((0..10).chain(70_000..70_010).all(|sequence| !detects_loss(&mut flows, 1, sequence)));
        assert!(detects_loss(&mut flows, 1, 70_020));
        assert!(detects_loss(&mut flows, 1, 70_020 + MAX_JUMP) && !detects_loss(&mut flows, 1, 70_021 + 2 * MAX_JUMP));
    }

    proptest! {
        /// Any flows and numbers use bounded memory, and a flow that is not stored reports no loss at first.
        #[test]
        fn any_numbers_use_bounded_memory(packets in prop::collection::vec((0..2000_u32, any::<u32>()), 0..3000)) {
            let mut flows = OwnFlows::default();
            for (flow, sequence) in packets {
                let is_new = flows.0.get(&slot(flow)).is_none_or(|stored| stored.name != flow);
                prop_assert!(!(detects_loss(&mut flows, flow, sequence) && is_new));
                prop_assert!(flows.0.len() <= SLOTS);
            }
        }
    }
}
