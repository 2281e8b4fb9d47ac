//! The layout of the memory that a client and the daemon share. All numbers are words, not bytes.
//!
//! ```text
//!   0 .. 128   positions and flags, sixteen words apart: two cores that write never share a cache line
//! 128 ..       commands: slots of a ring, client to daemon
//!     ..       events: slots of a ring, daemon to client
//!     ..       data: the bytes of `cm_send`, client to daemon
//! ```

/// The number of slots of each ring; a power of two.
pub(crate) const SLOTS: usize = 1024;
/// The number of words of a slot: one cache line.
pub(crate) const SLOT: usize = 8;
/// The number of words for data in transit to the daemon, which removes it at once; a power of two.
pub(crate) const DATA: usize = 32 * 1024;

/// The positions of one ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingLayout {
    /// The word that counts the records written, by the producer.
    pub(crate) head: usize,
    /// The word that counts the records read, by the consumer.
    pub(crate) tail: usize,
    /// The first slot.
    pub(crate) slots: usize,
}

pub(crate) const COMMANDS: RingLayout = RingLayout { head: 0, tail: 16, slots: 128 };
pub(crate) const EVENTS: RingLayout = RingLayout { head: 32, tail: 48, slots: 128 + SLOTS * SLOT };
/// The head of the data is not shared: each record that announces data contains its length.
pub(crate) const DATA_TAIL: usize = 64;
pub(crate) const DATA_START: usize = 128 + 2 * SLOTS * SLOT;

/// Not zero while the daemon sleeps and has to be woken.
pub(crate) const DAEMON_SLEEPS: usize = 80;
/// Not zero while the client sleeps and has to be woken.
pub(crate) const CLIENT_SLEEPS: usize = 96;

/// The total number of words.
pub(crate) const WORDS: usize = DATA_START + DATA;
