//! A packet's header in memory.

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};

/// Selective-acknowledgement blocks a packet can carry, as in TCP with timestamps (RFC 2018 section 3).
pub const MAX_SACKS: usize = 3;

/// Receipts a packet can carry: what a receiver may leave unanswered while it delays an acknowledgement.
pub const MAX_RECEIPTS: usize = 2;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Kind {
    /// Opens a connection: carries the opener's connection id and first sequence number.
    Syn = 1,
    /// Answers a `Syn` and completes the two-way handshake.
    SynAck = 2,
    /// Carries stream bytes, acknowledgements, or both.
    #[default]
    Data = 3,
    /// Ends a connection at once.
    Reset = 4,
}

/// A run of stream bytes that the receiver holds beyond the cumulative acknowledgement: `start..end`, wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sack {
    /// First sequence number held.
    pub start: u32,
    /// First sequence number no longer held.
    pub end: u32,
}

/// What the receiver saw of one data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receipt {
    /// The packet's number.
    pub number: u32,
    /// The ECN code it arrived with.
    pub ecn: Ecn,
    /// When it arrived, on the receiver's clock, which differs from the sender's by an unknown offset. Every data packet
    /// is stamped, unlike TCP's timestamp option (PCP section 3.1). 62 bits travel.
    pub received_at: Time,
}

/// What a router on the path told this packet's flow, for schemes in which routers speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouterFeedback {
    /// Nothing asked, nothing said.
    #[default]
    None,
    /// The sender asks to be told (or a router has told) the flow's fair share and its own queue: PCP section 4.2,
    /// explicit fair queueing. The smallest share on the path stands.
    FairShare {
        /// The flow's fair share of the tightest link so far; [`Rate::MAX`] when no router has spoken.
        share: Rate,
        /// Bytes of this flow queued at that link.
        queue: Bytes,
    },
    /// XCP's congestion header (Katabi, Handley, Rohrs 2002, section 3.1): what the sender says of itself, and by how much
    /// its window is to change. It asks for what it would like; routers only lower that.
    Xcp {
        /// The sender's congestion window (`H_cwnd`).
        window: Bytes,
        /// The sender's smoothed round-trip time (`H_rtt`); zero before it is known.
        rtt: Duration,
        /// The change of the window (`H_feedback`), in thousandths of a byte, below zero for less.
        change: i64,
    },
}

/// A short list held in place: no allocation on the packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List<T, const N: usize> {
    items: [T; N],
    len: u8,
}

impl<T: Copy + Default, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self { items: [T::default(); N], len: 0 }
    }
}

impl<T: Copy + Default, const N: usize> List<T, N> {
    /// Appends `item`; false if the list is full.
    pub fn push(&mut self, item: T) -> bool {
        let Some(slot) = self.items.get_mut(usize::from(self.len)) else { return false };
        *slot = item;
        self.len += 1;
        true
    }

    /// Whether no more fits.
    pub fn is_full(&self) -> bool {
        usize::from(self.len) == N
    }

    /// Empties the list.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl<T, const N: usize> std::ops::Deref for List<T, N> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.items[..usize::from(self.len)]
    }
}

/// A packet without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet {
    /// The receiving endpoint's id for the connection; zero in a `Syn`, which has yet to learn it.
    pub connection: u32,
    /// In a `Syn` or `SynAck`: the sending endpoint's id for the connection. In `Data` with payload: the packet's number,
    /// new for every transmission and counted over the whole macroflow (CM Figure 10, `Sequence`).
    pub number: u32,
    /// Sequence number of the first payload byte. In a `Syn`, `SynAck` or `Reset`: the first one of the sender's stream,
    /// which strangers can't guess.
    pub sequence: u32,
    /// Next sequence number expected from the peer: everything before it has arrived. In a `Syn`: which attempt it is,
    /// from zero. In a `SynAck`: the `Syn`'s first sequence number, and its attempt added.
    pub acknowledgement: u32,
    /// Bytes the sender of this packet is ready to receive beyond `acknowledgement`.
    pub window: u32,
    /// Payload bytes.
    pub payload: u16,
    /// What the packet is for.
    pub kind: Kind,
    /// The stream ends after this packet's payload.
    pub fin: bool,
    /// Asks for an acknowledgement although there is no payload (a window probe).
    pub ping: bool,
    /// Receipts for data packets that this packet acknowledges, oldest first.
    pub receipts: List<Receipt, MAX_RECEIPTS>,
    /// Bytes held beyond `acknowledgement`, most recently changed first.
    pub sacks: List<Sack, MAX_SACKS>,
    /// What routers wrote into this packet on its way.
    pub feedback: RouterFeedback,
    /// What routers wrote into the packets that this one acknowledges, brought back to their sender.
    pub echoed_feedback: RouterFeedback,
}

impl Packet {
    /// Sequence numbers this packet takes up: its payload and, if it ends the stream, one more.
    pub fn sequence_len(&self) -> u64 {
        u64::from(self.payload) + u64::from(self.fin)
    }
}
