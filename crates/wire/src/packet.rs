//! A packet's header in memory.

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};

/// The maximum number of selective-acknowledgement blocks in a packet, as in TCP with timestamps (RFC 2018 section 3).
pub const MAX_SACKS: usize = 3;

/// The maximum number of receipts in a packet. An acknowledgement reports so many packets that a host has read
/// together; a delayed acknowledgement reports two.
pub const MAX_RECEIPTS: usize = 8;

/// The type of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Kind {
    /// Opens a connection; carries the initiator's connection id and first sequence number.
    Syn = 1,
    /// Answers a `Syn` and completes the two-way handshake.
    SynAck = 2,
    /// Carries stream bytes, acknowledgements, or both.
    #[default]
    Data = 3,
    /// Terminates a connection at once. With `fin`: its sender has received everything, and everything of its own stream
    /// was acknowledged.
    Reset = 4,
}

/// A range of stream bytes that the receiver holds beyond the cumulative acknowledgement: `start..end`, wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sack {
    /// The first sequence number of the range.
    pub start: u32,
    /// The sequence number after the range.
    pub end: u32,
}

/// The receiver's record of one data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receipt {
    /// The packet's number.
    pub number: u32,
    /// The ECN code it arrived with.
    pub ecn: Ecn,
    /// The arrival time on the receiver's clock, in 62 bits; of every packet, unlike in TCP (PCP section 3.1).
    pub received_at: Time,
}

/// A proof that packets have arrived, of many packets at once, for a sender whose packet numbers have a random byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proof {
    /// The number of the last packet, in the order of sending, that has arrived.
    pub number: u32,
    /// Which of the packets before it have arrived: bit `n` is the packet sent `n` packets before it. Bit 0 is set.
    pub arrived: u64,
    /// The exclusive or of the random bytes of all these packets' numbers.
    pub sum: u8,
}

/// The feedback of the routers on the path to the packet's flow, for schemes with explicit feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouterFeedback {
    /// No request and no feedback.
    #[default]
    None,
    /// Explicit fair queueing (PCP section 4.2): the sender's request, or the flow's fair share and its queue. The
    /// packet keeps the smallest share of its path.
    FairShare {
        /// The flow's fair share at the tightest link so far; [`Rate::MAX`] in a request.
        share: Rate,
        /// Bytes of this flow queued at that link.
        queue: Bytes,
    },
    /// XCP's congestion header (Katabi, Handley, Rohrs 2002, section 3.1): the sender's window and round-trip time, and
    /// the change of its window. The sender writes the change that it requests; routers only lower it.
    Xcp {
        /// The sender's congestion window (`H_cwnd`).
        window: Bytes,
        /// The sender's smoothed round-trip time (`H_rtt`); zero while it is unknown.
        rtt: Duration,
        /// The change of the window (`H_feedback`), in thousandths of a byte, negative for a decrease.
        change: i64,
    },
}

/// A short list stored in place, so that packets need no allocation. What is in memory beyond its end does not count.
#[derive(Clone, Copy)]
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

    /// Replaces the content with that of `other`, without what is beyond its end: most lists are short.
    #[inline]
    pub fn copy_from(&mut self, other: &Self) {
        for (index, item) in other.iter().enumerate() {
            self.items[index] = *item;
        }
        self.len = other.len;
    }

    /// Whether the list is full.
    pub fn is_full(&self) -> bool {
        usize::from(self.len) == N
    }

    /// Empties the list.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl<T: PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, const N: usize> Eq for List<T, N> {}

impl<T: std::fmt::Debug, const N: usize> std::fmt::Debug for List<T, N> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(out)
    }
}

impl<T, const N: usize> std::ops::Deref for List<T, N> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.items[..usize::from(self.len)]
    }
}

impl<T, const N: usize> std::ops::DerefMut for List<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items[..usize::from(self.len)]
    }
}

/// A packet's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet {
    /// The receiving endpoint's id of the connection; zero in a `Syn`, whose sender does not know it yet.
    pub connection: u32,
    /// In a `Syn` or `SynAck`: the sending endpoint's id of the connection. In `Data` with payload, and in a probe: the packet's
    /// number, new for every transmission and counted over the whole macroflow (CM Figure 10, `Sequence`).
    pub number: u32,
    /// The sequence number of the first payload byte. In a `Syn`, `SynAck` or `Reset`: the first one of the sender's
    /// stream, which off-path attackers cannot guess.
    pub sequence: u32,
    /// The next sequence number expected from the peer: all bytes before it have arrived. In a `Syn`: the number of the
    /// attempt, from zero. In a `SynAck`: the `Syn`'s first sequence number plus its attempt.
    pub acknowledgement: u32,
    /// The receive window: bytes that the sender of this packet accepts beyond `acknowledgement`.
    pub window: u32,
    /// The number of payload bytes.
    pub payload: u16,
    /// The type of the packet.
    pub kind: Kind,
    /// Whether the stream ends after this packet's payload.
    pub fin: bool,
    /// Whether the packet requests an acknowledgement although it has no payload (a window probe).
    pub ping: bool,
    /// Whether the packet tests if packets of its size arrive: it has no payload, zeros follow it in its datagram, and it
    /// has a number and gets a receipt like a packet with payload.
    pub probe: bool,
    /// Receipts of the data packets that this packet acknowledges, oldest first.
    pub receipts: List<Receipt, MAX_RECEIPTS>,
    /// Ranges received beyond `acknowledgement`, most recently changed first.
    pub sacks: List<Sack, MAX_SACKS>,
    /// The proof that the peer's latest packets have arrived. It repeats what lost acknowledgements reported.
    pub proof: Option<Proof>,
    /// The feedback that routers wrote into this packet.
    pub feedback: RouterFeedback,
    /// The feedback that routers wrote into the packets that this one acknowledges, echoed to their sender.
    pub echoed_feedback: RouterFeedback,
}

impl Packet {
    /// Makes this the default packet, in place: memory beyond the ends of lists is not written. The pattern names all
    /// fields, so that the compiler finds one that is missing here.
    #[inline]
    pub fn reset(&mut self) {
        let Self {
            connection,
            number,
            sequence,
            acknowledgement,
            window,
            payload,
            kind,
            fin,
            ping,
            probe,
            receipts,
            sacks,
            proof,
            feedback,
            echoed_feedback,
        } = self;
        for field in [connection, number, sequence, acknowledgement, window] {
            *field = 0;
        }
        (*payload, *kind, *fin, *ping, *probe) = (0, Kind::Data, false, false, false);
        receipts.clear();
        sacks.clear();
        (*proof, *feedback, *echoed_feedback) = (None, RouterFeedback::None, RouterFeedback::None);
    }

    /// The number of sequence numbers that this packet consumes: its payload and, if it ends the stream, one more.
    pub fn sequence_len(&self) -> u64 {
        u64::from(self.payload) + u64::from(self.fin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_packet_is_equal_to_a_new_one() {
        let mut packet = Packet { number: 3, fin: true, kind: Kind::Reset, ..Packet::default() };
        assert!(packet.receipts.push(Receipt { number: 7, ..Receipt::default() }));
        let copy = &mut Packet::default();
        copy.receipts.copy_from(&packet.receipts);
        assert_eq!(copy.receipts, packet.receipts);
        packet.reset();
        assert_eq!(packet, Packet::default());
        assert_ne!(packet, *copy);
    }

    #[test]
    fn a_list_is_what_is_before_its_end() {
        let list = |numbers: &[u32]| {
            let mut list = List::<u32, 4>::default();
            assert!(numbers.iter().all(|number| list.push(*number)));
            list
        };
        let mut long = list(&[1, 2, 3]);
        long.copy_from(&list(&[7, 8]));
        assert_eq!((long, format!("{long:?}")), (list(&[7, 8]), "[7, 8]".to_owned()));
        assert_ne!(long, list(&[7, 9]));
        assert_ne!(long, list(&[7]));
    }
}
