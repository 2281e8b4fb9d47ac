//! The flows of this process by id: slots, generations, and the requests and data that wait for each flow.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rampmeter_manager::Share;

use super::own_socket::OwnFlow;
use crate::error::Error;
use crate::limits::{GENERATIONS, MAX_DATAGRAMS, MAX_FLOWS, MAX_QUEUED, generation, id, slot};
use crate::message::PathState;

/// The stage of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Opening,
    Open,
    /// The daemon ended it; the process has not closed it yet.
    Ended(Error),
}

#[derive(Debug)]
pub(super) struct ClientFlow {
    pub(super) stage: Stage,
    pub(super) mtu: u32,
    pub(super) state: PathState,
    pub(super) share: Share,
    pub(super) to: SocketAddr,
    /// The process sends from a socket of its own, with headers.
    pub(super) own_socket: Option<OwnFlow>,
    /// Requests without a grant so far.
    pub(super) pending_requests: u32,
    /// Bytes in the daemon's queue.
    pub(super) queued: u64,
    pub(super) datagrams: usize,
    /// The process got [`Error::Full`] and waits for [`Event::Room`](super::Event::Room).
    pub(super) awaits_room_event: bool,
    /// An update is waiting; the process gets the latest state when it asks.
    pub(super) has_update: bool,
    pub(super) has_room_event: bool,
}

impl ClientFlow {
    /// A flow that is being opened.
    pub(super) fn new(share: Share, to: SocketAddr) -> Self {
        Self {
            stage: Stage::Opening,
            mtu: 0,
            state: PathState::default(),
            share,
            to,
            own_socket: None,
            pending_requests: 0,
            queued: 0,
            datagrams: 0,
            awaits_room_event: false,
            has_update: false,
            has_room_event: false,
        }
    }

    /// Checks that a datagram of `length` bytes can be sent or queued.
    pub(super) fn check_datagram(&self, length: u64) -> Result<(), Error> {
        if self.to.port() == 0 {
            Err(Error::Destination)
        } else if length > self.mtu.into() {
            Err(Error::TooLarge)
        } else if self.queued + length > MAX_QUEUED || self.datagrams >= MAX_DATAGRAMS {
            Err(Error::Full)
        } else {
            Ok(())
        }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    flow: Option<ClientFlow>,
}

#[derive(Debug)]
pub(super) struct Flows {
    slots: Vec<Slot>,
    /// Free slots that were used before, the one freed first at the front.
    free: VecDeque<usize>,
    first_generation: u32,
}

impl Flows {
    /// An empty table; its ids differ from those of tables with other first generations.
    pub(super) fn new(first_generation: u32) -> Self {
        Self { slots: Vec::new(), free: VecDeque::new(), first_generation: first_generation % GENERATIONS }
    }

    /// Adds a flow in a free slot.
    pub(super) fn add(&mut self, flow: ClientFlow) -> Result<u32, Error> {
        // A slot is used again as late as possible, so that its old id stays invalid for a long time.
        let index = if self.slots.len() < MAX_FLOWS && self.free.len() < 64 {
            self.slots.push(Slot { generation: self.first_generation, flow: None });
            self.slots.len() - 1
        } else {
            let index = self.free.pop_front().ok_or(Error::TooManyFlows)?;
            self.slots[index].generation = (self.slots[index].generation + 1) % GENERATIONS;
            index
        };
        let slot = &mut self.slots[index];
        // Zero is not a valid id.
        if id(index, slot.generation) == 0 {
            slot.generation = 1;
        }
        slot.flow = Some(flow);
        Ok(id(index, slot.generation))
    }

    /// The flow with this id, in any stage.
    pub(super) fn get(&mut self, id: u32) -> Result<&mut ClientFlow, Error> {
        let slot = self.slots.get_mut(slot(id)).ok_or(Error::Unknown)?;
        match (&mut slot.flow, generation(id)) {
            (Some(flow), other) if other == slot.generation => Ok(flow),
            // Ids of earlier generations are closed; ids of later ones are unknown.
            (None, other) if other == slot.generation => Err(Error::Closed),
            (_, other) if (slot.generation + GENERATIONS - other) % GENERATIONS < GENERATIONS / 2 => {
                if other < self.first_generation && slot.generation >= self.first_generation {
                    return Err(Error::Unknown);
                }
                Err(Error::Closed)
            }
            _ => Err(Error::Unknown),
        }
    }

    pub(super) fn open(&mut self, id: u32) -> Result<&mut ClientFlow, Error> {
        let flow = self.get(id)?;
        match flow.stage {
            Stage::Open => Ok(flow),
            Stage::Opening => Err(Error::Unknown),
            Stage::Ended(error) => Err(error),
        }
    }

    /// The number of flows.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Removes a flow and frees its slot.
    pub(super) fn remove(&mut self, id: u32) -> Result<ClientFlow, Error> {
        self.get(id)?;
        let slot = slot(id);
        self.free.push_back(slot);
        self.slots[slot].flow.take().ok_or(Error::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> ClientFlow {
        ClientFlow { stage: Stage::Open, ..ClientFlow::new(Share::default(), ([127, 0, 0, 1], 9).into()) }
    }

    #[test]
    fn ids_are_reused_late_and_old_ones_stay_closed() {
        let mut flows = Flows::new(5);
        let first = flows.add(flow()).unwrap();
        flows.remove(first).unwrap();
        for _ in 0..10_000 {
            let id = flows.add(flow()).unwrap();
            assert_ne!(id, first);
            assert_eq!(flows.get(first).unwrap_err(), Error::Closed);
            flows.remove(id).unwrap();
            assert_eq!(flows.remove(id).unwrap_err(), Error::Closed);
        }
    }

    #[test]
    fn ids_that_were_never_used_are_unknown() {
        let mut flows = Flows::new(5);
        let id = flows.add(flow()).unwrap();
        for wrong in [0, 1, id + 1, id + MAX_FLOWS as u32, id - MAX_FLOWS as u32, i32::MAX as u32] {
            assert_eq!(flows.get(wrong).unwrap_err(), Error::Unknown, "{wrong}");
        }
        assert!(flows.get(id).is_ok());
    }

    #[test]
    fn the_number_of_flows_is_limited() {
        let mut flows = Flows::new(0);
        let ids: Vec<_> = (0..MAX_FLOWS).map(|_| flows.add(flow()).unwrap()).collect();
        assert!(ids.iter().all(|id| *id > 0));
        assert_eq!(flows.add(flow()).unwrap_err(), Error::TooManyFlows);
        flows.remove(ids[7]).unwrap();
        assert!(flows.add(flow()).is_ok());
    }
}
