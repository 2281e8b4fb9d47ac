//! Where things are in the memory that a client and the daemon share. Words, not bytes.
//!
//! ```text
//!   0 .. 128   positions and flags, sixteen words apart: two cores that write never share a cache line
//! 128 ..       commands: slots of a ring, client to daemon
//!     ..       events: slots of a ring, daemon to client
//!     ..       data: what `cm_send` hands over, client to daemon
//! ```

/// Slots of each ring; a power of two.
pub(crate) const SLOTS: usize = 1024;
/// Words of a slot: one cache line.
pub(crate) const SLOT: usize = 8;
/// Words for data on its way to the daemon, which takes it out at once; a power of two.
pub(crate) const DATA: usize = 32 * 1024;

/// What is where for one ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Records ever written, by the producer.
    pub(crate) head: usize,
    /// Records ever taken, by the consumer.
    pub(crate) tail: usize,
    /// The first slot.
    pub(crate) slots: usize,
}

pub(crate) const COMMANDS: Place = Place { head: 0, tail: 16, slots: 128 };
pub(crate) const EVENTS: Place = Place { head: 32, tail: 48, slots: 128 + SLOTS * SLOT };
/// The data's head is not shared: each record that announces data says how much there is.
pub(crate) const DATA_TAIL: usize = 64;
pub(crate) const DATA_START: usize = 128 + 2 * SLOTS * SLOT;

/// Not zero while the daemon sleeps and wants its bell rung.
pub(crate) const DAEMON_SLEEPS: usize = 80;
/// Not zero while the client sleeps and wants its bell rung.
pub(crate) const CLIENT_SLEEPS: usize = 96;

/// All of it.
pub(crate) const WORDS: usize = DATA_START + DATA;
