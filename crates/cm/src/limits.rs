//! How much of everything one process may have, and the ids of its flows.
//!
//! An id is a place in a table and a generation that tells the flows that have had that place apart, so that an id comes
//! again only after its place has been taken a hundred thousand times. Ids are positive, as `int` in C.

/// Flows that a process may have open at a time; a power of two.
pub const MAX_FLOWS: usize = 1 << 13;

/// Generations that a place can tell apart.
pub(crate) const GENERATIONS: u32 = 1 << 18;

/// Requests of a flow that may wait at a time.
pub const MAX_REQUESTS: u32 = 256;

/// Bytes that a flow can say it sent in one packet, whatever the path: the most that a UDP datagram carries.
pub const MAX_PACKET_BYTES: u64 = 65_507;

/// Bytes of `cm_send` that may wait, for each flow.
pub const MAX_QUEUED: u64 = 256 * 1024;

/// Datagrams of `cm_send` that may wait, for each flow.
pub const MAX_DATAGRAMS: usize = 1024;

/// Processes that a daemon serves at a time.
pub const MAX_CLIENTS: usize = 1024;

/// The place that an id stands for.
pub(crate) fn place(id: u32) -> usize {
    id as usize % MAX_FLOWS
}

/// The generation that an id stands for.
pub(crate) fn generation(id: u32) -> u32 {
    id / MAX_FLOWS as u32
}

/// The id of a place in a generation.
pub(crate) fn id(place: usize, generation: u32) -> u32 {
    generation % GENERATIONS * MAX_FLOWS as u32 + place as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_positive_in_c_and_say_what_they_stand_for() {
        let last = id(MAX_FLOWS - 1, GENERATIONS - 1);
        assert_eq!(last, i32::MAX as u32);
        assert_eq!((place(last), generation(last)), (MAX_FLOWS - 1, GENERATIONS - 1));
        assert_eq!(id(3, GENERATIONS), id(3, 0));
    }
}
