//! The flows of this process by id: places, generations, and what a flow may have waiting.

use std::collections::VecDeque;

use rampmeter_manager::Share;

use crate::error::Error;
use crate::limits::{GENERATIONS, MAX_DATAGRAMS, MAX_FLOWS, MAX_QUEUED, generation, id, place};
use crate::message::PathState;

/// How far a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Opening,
    Open,
    /// The daemon ended it; the process has yet to close it.
    Over(Error),
}

#[derive(Debug)]
pub(super) struct Flow {
    pub(super) stage: Stage,
    pub(super) mtu: u32,
    pub(super) state: PathState,
    pub(super) share: Share,
    /// It can be sent to (`cm_send`).
    pub(super) has_port: bool,
    /// Requests that no grant has come for.
    pub(super) wanted: u32,
    /// Data that the daemon holds.
    pub(super) queued: u64,
    pub(super) datagrams: usize,
    /// The process was told that there is no room.
    pub(super) wants_room: bool,
    /// News of its path wait for the process, which gets the latest when it asks.
    pub(super) has_update: bool,
    /// That there is room again waits for the process.
    pub(super) has_room: bool,
}

impl Flow {
    /// One that is being opened.
    pub(super) fn new(share: Share, has_port: bool) -> Self {
        Self {
            stage: Stage::Opening,
            mtu: 0,
            state: PathState::default(),
            share,
            has_port,
            wanted: 0,
            queued: 0,
            datagrams: 0,
            wants_room: false,
            has_update: false,
            has_room: false,
        }
    }

    /// Whether it may leave a datagram of so many bytes with the daemon.
    pub(super) fn takes(&self, length: u64) -> Result<(), Error> {
        if !self.has_port {
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
    flow: Option<Flow>,
}

#[derive(Debug)]
pub(super) struct Flows {
    slots: Vec<Slot>,
    /// Places that were used, the one left longest ago first.
    free: VecDeque<usize>,
    first_generation: u32,
}

impl Flows {
    /// No flows yet; ids differ from those of tables with other first generations.
    pub(super) fn new(first_generation: u32) -> Self {
        Self { slots: Vec::new(), free: VecDeque::new(), first_generation: first_generation % GENERATIONS }
    }

    /// Takes a place.
    pub(super) fn add(&mut self, flow: Flow) -> Result<u32, Error> {
        // A place is taken again only when there is no other: its old id stays wrong for as long as can be.
        let place = if self.slots.len() < MAX_FLOWS && self.free.len() < 64 {
            self.slots.push(Slot { generation: self.first_generation, flow: None });
            self.slots.len() - 1
        } else {
            let place = self.free.pop_front().ok_or(Error::TooManyFlows)?;
            self.slots[place].generation = (self.slots[place].generation + 1) % GENERATIONS;
            place
        };
        let slot = &mut self.slots[place];
        // Zero is nobody's id.
        if id(place, slot.generation) == 0 {
            slot.generation = 1;
        }
        slot.flow = Some(flow);
        Ok(id(place, slot.generation))
    }

    /// The flow that goes by `id`, whatever its stage.
    pub(super) fn get(&mut self, id: u32) -> Result<&mut Flow, Error> {
        let slot = self.slots.get_mut(place(id)).ok_or(Error::Unknown)?;
        match (&mut slot.flow, generation(id)) {
            (Some(flow), asked) if asked == slot.generation => Ok(flow),
            // Those before it have been closed; those to come are unknown.
            (None, asked) if asked == slot.generation => Err(Error::Closed),
            (_, asked) if (slot.generation + GENERATIONS - asked) % GENERATIONS < GENERATIONS / 2 => {
                if asked < self.first_generation && slot.generation >= self.first_generation {
                    return Err(Error::Unknown);
                }
                Err(Error::Closed)
            }
            _ => Err(Error::Unknown),
        }
    }

    /// The flow that goes by `id`, if it can be used.
    pub(super) fn open(&mut self, id: u32) -> Result<&mut Flow, Error> {
        let flow = self.get(id)?;
        match flow.stage {
            Stage::Open => Ok(flow),
            Stage::Opening => Err(Error::Unknown),
            Stage::Over(error) => Err(error),
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Gives a place back.
    pub(super) fn remove(&mut self, id: u32) -> Result<Flow, Error> {
        self.get(id)?;
        let place = place(id);
        self.free.push_back(place);
        self.slots[place].flow.take().ok_or(Error::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow { stage: Stage::Open, ..Flow::new(Share::default(), true) }
    }

    #[test]
    fn ids_come_again_late_and_old_ones_stay_closed() {
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
    fn ids_that_never_were_are_unknown() {
        let mut flows = Flows::new(5);
        let id = flows.add(flow()).unwrap();
        for wrong in [0, 1, id + 1, id + MAX_FLOWS as u32, id - MAX_FLOWS as u32, i32::MAX as u32] {
            assert_eq!(flows.get(wrong).unwrap_err(), Error::Unknown, "{wrong}");
        }
        assert!(flows.get(id).is_ok());
    }

    #[test]
    fn there_is_an_end_to_flows() {
        let mut flows = Flows::new(0);
        let ids: Vec<_> = (0..MAX_FLOWS).map(|_| flows.add(flow()).unwrap()).collect();
        assert!(ids.iter().all(|id| *id > 0));
        assert_eq!(flows.add(flow()).unwrap_err(), Error::TooManyFlows);
        flows.remove(ids[7]).unwrap();
        assert!(flows.add(flow()).is_ok());
    }
}
