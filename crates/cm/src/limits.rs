//! The limits of one process and of all, and the ids of a process's flows. Of what all processes share, those of one
//! user have four fifths at most ([`rampmeter_manager::Quotas`]).
//!
//! An id is a slot of a table and a generation. The generation separates the flows that have used the slot one after
//! the other: an id is used again only after its slot has been used a hundred thousand times. Ids are positive, as
//! `int` in C.

/// The maximum number of open flows of a process; a power of two.
pub const MAX_FLOWS: usize = 1 << 13;

/// The number of generations of a slot.
pub(crate) const GENERATIONS: u32 = 1 << 18;

/// The maximum number of waiting requests of a flow.
pub const MAX_REQUESTS: u32 = 256;

/// The maximum number of bytes that a flow can report for one packet, on any path: the maximum of a UDP datagram.
pub const MAX_PACKET_BYTES: u64 = 65_507;

/// The maximum number of waiting bytes of `cm_send`, per flow.
pub const MAX_QUEUED: u64 = 256 * 1024;

/// The maximum number of waiting datagrams of `cm_send`, per flow.
pub const MAX_DATAGRAMS: usize = 1024;

/// The maximum number of open flows of all processes.
pub(crate) const MAX_ALL_FLOWS: u64 = 1 << 14;

/// The maximum number of waiting bytes of `cm_send`, of all flows.
pub(crate) const MAX_ALL_QUEUED: u64 = 1 << 26;

/// The maximum number of processes that a daemon serves at a time.
pub const MAX_CLIENTS: usize = 1024;

pub(crate) fn slot(id: u32) -> usize {
    id as usize % MAX_FLOWS
}

pub(crate) fn generation(id: u32) -> u32 {
    id / MAX_FLOWS as u32
}

pub(crate) fn id(slot: usize, generation: u32) -> u32 {
    generation % GENERATIONS * MAX_FLOWS as u32 + slot as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_positive_in_c_and_contain_slot_and_generation() {
        let last = id(MAX_FLOWS - 1, GENERATIONS - 1);
        assert_eq!(last, i32::MAX as u32);
        assert_eq!((slot(last), generation(last)), (MAX_FLOWS - 1, GENERATIONS - 1));
        assert_eq!(id(3, GENERATIONS), id(3, 0));
    }
}
