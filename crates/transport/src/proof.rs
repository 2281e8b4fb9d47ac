//! Proofs of arrival, against peers that acknowledge what they have not received (Savage, Cardwell, Wetherall and
//! Anderson, "TCP congestion control with a misbehaving receiver", 1999).
//!
//! A packet's number has a part that only its receiver knows:
//!
//! ```text
//! number = order << 8 | secret          order: counts the packets of the connection; secret: random
//! ```
//!
//! A receiver returns numbers in two ways. A receipt names one packet. A [`Proof`] names all of the last 64 packets that
//! have arrived, by the sum of their secrets; it is in every acknowledgement, so that lost acknowledgements lose
//! nothing.
//!
//! *Invariant*: a packet leaves the bytes in flight as delivered only if its arrival is proved. If the peer acknowledges
//! its bytes without a proof, it stays in flight until the proof arrives, or until it is lost by the rules of all
//! packets, by RACK's or by the timer. So a false acknowledgement makes no controller send more than it had without it.
//! A peer that guesses a secret is right once in 256 times; otherwise its connection is closed.
//!
//! What the peer acknowledges is not sent again, with or without a proof: a false acknowledgement costs the peer data.

use std::collections::{BTreeMap, VecDeque};

use rampmeter_units::{Bytes, Time};
use rampmeter_wire::{Packet, Proof};

use crate::rack::Deadline;

/// The bits of a number below its order.
const SECRET_BITS: u32 = 8;

/// The packets that a proof covers.
const COVERED: u64 = 64;

/// The packets that are kept before the first one whose outcome is not known, for late receipts and proofs.
const KEPT: u64 = 1024;

/// The other packets that repeat a proof after the last receipt.
const REPETITIONS: u8 = 8;

fn number(order: u64, secret: u8) -> u32 {
    (order as u32) << SECRET_BITS | u32::from(secret)
}

/// The order nearest to `near` in `number`; `None` if it is negative.
fn order(near: u64, number: u32) -> Option<u64> {
    let distance = number.wrapping_sub((near as u32) << SECRET_BITS) as i32 >> SECRET_BITS;
    near.checked_add_signed(distance.into())
}

/// The order nearest to `near` in `number`; of numbers before the first one, the first.
pub(crate) fn place(near: u64, number: u32) -> u64 {
    order(near, number).unwrap_or_default()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unknown,
    Arrived,
    /// It is lost, or its outcome does not matter any more.
    Closed,
}

/// A packet whose bytes are acknowledged without a proof.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    /// Its number at the manager.
    pub(crate) number: u64,
    pub(crate) bytes: Bytes,
    pub(crate) sent_at: Time,
}

/// The sender's side: the numbers of packets, and which of them have arrived.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    is_required: bool,
    /// The order of the first packet in `packets`.
    first: u64,
    /// The order of the first packet whose outcome is not known.
    open: u64,
    packets: VecDeque<(u8, Outcome)>,
    /// Those that have arrived, among the last ones.
    recent: Recent,
    /// By order.
    pending: BTreeMap<u64, Pending>,
    /// The pending packets whose proofs have arrived since the last [`Proofs::take_late`].
    late: Late,
}

/// Which of the 64 orders up to the highest one have arrived.
#[derive(Debug, Clone, Copy, Default)]
struct Recent {
    last: u64,
    /// As in [`Proof::arrived`].
    bits: u64,
}

impl Recent {
    fn insert(&mut self, order: u64) {
        let newer = order.saturating_sub(self.last);
        self.bits = if newer < COVERED { self.bits << newer } else { 0 };
        self.last += newer;
        let older = self.last - order;
        if older < COVERED {
            self.bits |= 1 << older;
        }
    }

    /// Whether all packets of a proof are known to have arrived. Nothing is known of those before the 64 orders.
    fn has_all(&self, last: u64, arrived: u64) -> bool {
        let older = self.last.checked_sub(last).filter(|&older| older < COVERED);
        older.is_some_and(|older| arrived & !(self.bits >> older) == 0)
    }
}

/// Pending packets whose proofs have arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Late {
    pub(crate) bytes: Bytes,
    /// The order and the departure of the one that was sent last.
    pub(crate) last: Option<(u64, Time)>,
}

impl Proofs {
    pub(crate) fn new(is_required: bool) -> Self {
        Self { is_required, ..Self::default() }
    }

    pub(crate) fn is_required(&self) -> bool {
        self.is_required
    }

    /// The number on the wire of the next packet, which the manager calls `plain`.
    pub(crate) fn add(&mut self, secret: u8, plain: u64) -> u32 {
        if !self.is_required {
            return plain as u32;
        }
        let order = self.first + self.packets.len() as u64;
        self.packets.push_back((secret, Outcome::Unknown));
        number(order, secret)
    }

    /// Checks the receipts and the proof of a packet, and records what has arrived. False if they name packets that
    /// were never sent.
    pub(crate) fn verify(&mut self, packet: &Packet) -> bool {
        !self.is_required || self.verify_all(packet).is_some()
    }

    fn verify_all(&mut self, packet: &Packet) -> Option<()> {
        for receipt in packet.receipts.iter() {
            let order = self.sent(receipt.number)?;
            if let Some(index) = self.index(order) {
                if self.packets[index].0 != receipt.number as u8 {
                    return None;
                }
                self.set(order, Outcome::Arrived);
            }
        }
        let Some(Proof { number, arrived, sum }) = packet.proof else { return Some(()) };
        let last = self.sent(number)?;
        if arrived & 1 == 0 || last < 63 - u64::from(arrived.leading_zeros()) {
            return None;
        }
        if self.recent.has_all(last, arrived) {
            return Some(()); // nothing new
        }
        let orders = (0..COVERED).filter(|n| arrived >> n & 1 == 1).map(|n| last - n);
        let mut expected = 0;
        for order in orders.clone() {
            let Some(index) = self.index(order) else { return Some(()) }; // too old to matter
            expected ^= self.packets[index].0;
        }
        if sum != expected || self.packets[self.index(last)?].0 != number as u8 {
            return None;
        }
        for order in orders {
            self.set(order, Outcome::Arrived);
        }
        Some(())
    }

    /// The order in `number`, if a packet with this order was sent.
    fn sent(&self, number: u32) -> Option<u64> {
        let next = self.first + self.packets.len() as u64;
        order(next, number).filter(|&order| order < next)
    }

    fn index(&self, order: u64) -> Option<usize> {
        order.checked_sub(self.first).map(|index| index as usize).filter(|&index| index < self.packets.len())
    }

    fn set(&mut self, order: u64, outcome: Outcome) {
        let Some(index) = self.index(order) else { return };
        self.packets[index].1 = outcome;
        if outcome == Outcome::Arrived {
            self.recent.insert(order);
            if let Some(Pending { bytes, sent_at, .. }) = self.pending.remove(&order) {
                self.late.bytes += bytes;
                self.late.last = self.late.last.max(Some((order, sent_at)));
            }
        }
        while self.index(self.open).is_some_and(|index| self.packets[index].1 != Outcome::Unknown) {
            self.open += 1;
        }
        while self.first + KEPT < self.open {
            self.packets.pop_front();
            self.first += 1;
        }
    }

    /// Whether the packet has provably arrived, or needs no proof.
    pub(crate) fn has_arrived(&self, order: u64) -> bool {
        !self.is_required || self.index(order).is_some_and(|index| self.packets[index].1 == Outcome::Arrived)
    }

    /// Whether a receipt with `receipt` is one of the packet that is called `number` and `order` here.
    pub(crate) fn is_of(&self, receipt: u32, number: u64, order: u64) -> bool {
        if self.is_required {
            self.sent(receipt) == Some(order) && self.index(order).is_some()
        } else {
            receipt == number as u32
        }
    }

    /// The packet is lost, or its segment has arrived in another packet.
    pub(crate) fn close(&mut self, order: u64) {
        if self.is_required && !self.has_arrived(order) {
            self.set(order, Outcome::Closed);
        }
    }

    /// The packet's bytes are acknowledged without a proof.
    pub(crate) fn wait_for(&mut self, order: u64, packet: Pending) {
        self.pending.insert(order, packet);
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty() || self.late.last.is_some()
    }

    /// Pending packets that have turned out to have arrived.
    pub(crate) fn take_late(&mut self) -> Late {
        std::mem::take(&mut self.late)
    }

    /// The next pending packet that is lost at `now`, by its deadline; all of them without one.
    pub(crate) fn pop_lost(&mut self, now: Time, deadline: Option<&Deadline>) -> Option<Pending> {
        let (&order, packet) = self.pending.first_key_value()?;
        if deadline.is_some_and(|deadline| deadline.of(order, packet.sent_at) > now) {
            return None;
        }
        let lost = self.pending.remove(&order);
        self.close(order);
        lost
    }

    /// When the next pending packet is lost.
    pub(crate) fn next_lost_at(&self, deadline: &Deadline) -> Time {
        self.pending.first_key_value().map_or(Time::MAX, |(&order, packet)| deadline.of(order, packet.sent_at))
    }
}

/// The receiver's side: the secrets of the last packets that have arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    last: u64,
    /// As in [`Proof::arrived`].
    bits: u64,
    /// The secrets, by order modulo their count.
    secrets: [u8; COVERED as usize],
    sum: u8,
    repetitions: u8,
}

impl Default for Arrived {
    fn default() -> Self {
        Self { last: 0, bits: 0, secrets: [0; COVERED as usize], sum: 0, repetitions: 0 }
    }
}

impl Arrived {
    pub(crate) fn insert(&mut self, number: u32) {
        self.repetitions = REPETITIONS;
        let Some(order) = order(self.last, number) else { return };
        if order >= self.last + COVERED {
            (self.last, self.bits, self.sum) = (order, 0, 0);
        }
        while self.last < order {
            if self.bits >> (COVERED - 1) == 1 {
                self.sum ^= self.secret(self.last + 1); // of the packet that is covered no more
            }
            self.bits <<= 1;
            self.last += 1;
        }
        let behind = self.last - order;
        if behind < COVERED && self.bits >> behind & 1 == 0 {
            self.bits |= 1 << behind;
            self.secrets[(order % COVERED) as usize] = number as u8;
            self.sum ^= number as u8;
        }
    }

    fn secret(&self, order: u64) -> u8 {
        self.secrets[(order % COVERED) as usize]
    }

    /// The proof for a packet; `None` if nothing has arrived, or if enough packets without a receipt, which
    /// `has_receipt`, have repeated it.
    pub(crate) fn proof(&mut self, has_receipt: bool) -> Option<Proof> {
        if self.bits == 0 || self.repetitions == 0 {
            return None;
        }
        self.repetitions -= u8::from(!has_receipt);
        Some(Proof { number: number(self.last, self.secret(self.last)), arrived: self.bits, sum: self.sum })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rampmeter_wire::Receipt;

    use super::*;

    /// A packet with this proof.
    fn with(proof: Proof) -> Packet {
        Packet { proof: Some(proof), ..Packet::default() }
    }

    proptest! {
        #[test]
        fn the_proof_of_any_arrivals_is_accepted_and_no_other_one(
            secrets in prop::collection::vec(any::<u8>(), 1..200),
            arrivals in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
            lie in 0u64..COVERED,
        ) {
            let mut proofs = Proofs::new(true);
            let numbers: Vec<u32> = secrets.iter().map(|&secret| proofs.add(secret, 7)).collect();
            let mut arrived = Arrived::default();
            for at in arrivals {
                arrived.insert(numbers[at.index(numbers.len())]);
                let proof = arrived.proof(true).unwrap();
                prop_assert!(proofs.verify(&with(proof)));
            }
            let proof = arrived.proof(true).unwrap();
            let last = u64::from(proof.number >> SECRET_BITS);
            prop_assume!(proof.arrived >> lie & 1 == 0);
            let is_lucky = last.checked_sub(lie).is_some_and(|order| secrets[order as usize] == 0);
            let false_proof = Proof { arrived: proof.arrived | 1 << lie, ..proof };
            prop_assume!(last.checked_sub(lie).is_none_or(|order| !proofs.has_arrived(order)));
            prop_assert_eq!(proofs.verify(&with(false_proof)), is_lucky);
        }
    }

    #[test]
    fn orders_wrap_around_24_bits() {
        for near in [0u64, 5, (1 << 24) - 1, 1 << 24, 1 << 40] {
            for distance in [-5i64, -1, 0, 1, 1000] {
                let expected = near.checked_add_signed(distance);
                let wire = number((near as i64 + distance) as u64, 9);
                assert_eq!(order(near, wire), expected, "{near} {distance}");
            }
        }
    }

    #[test]
    fn few_packets_are_kept() {
        let mut proofs = Proofs::new(true);
        for n in 0..100_000u32 {
            let number = proofs.add(n as u8, 0);
            let mut packet = Packet::default();
            if n % 3 == 0 {
                proofs.close(n.into()); // it is lost
                continue;
            }
            packet.receipts.push(Receipt { number, ..Receipt::default() });
            assert!(proofs.verify(&packet));
        }
        assert!(proofs.packets.len() as u64 <= KEPT + 1, "{}", proofs.packets.len());
    }

    #[test]
    fn a_proof_is_repeated_in_few_packets() {
        let mut arrived = Arrived::default();
        assert_eq!(arrived.proof(true), None);
        arrived.insert(number(0, 3));
        assert!((0..REPETITIONS).all(|_| arrived.proof(false).is_some()));
        assert_eq!(arrived.proof(false), None);
    }
}
