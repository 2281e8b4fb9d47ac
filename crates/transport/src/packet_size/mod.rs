//! The largest packet that a path carries (RFC 8899, datagram packetization layer path MTU discovery).
//!
//! ```text
//! base ──► a full packet has arrived ──► a probe of the maximum. If it is lost three times: probes of common sizes
//!          between what fits and what does not, then of the middle
//!      ──► complete: less than 16 bytes between both. After ten minutes the maximum is tried again
//! black hole: packets above the base are lost twice, a round trip or a timeout apart, and none that was sent later has
//!      arrived ──► base, and a new search below
//! ```
//!
//! A probe is a packet of zeros that gets a receipt. It needs no permission of the controller and is not in flight for
//! it, and its loss is not congestion (section 4.1); one at a time, and only while full packets are sent. What routers
//! report about the size of packets (ICMP) is not used: anybody can forge it (section 4.6).
//!
//! *Deviations*: a search begins with the maximum and not with small steps, because most paths carry it. The base is not
//! probed: the packets of the transfer are of its size.

use std::collections::BTreeMap;

use rampmeter_units::{Bytes, Duration, Time};

use crate::address::Address;
use crate::scoreboard::Change;

/// The losses after which a size does not fit (section 5.1.2, `MAX_PROBES`).
const MAX_PROBES: u8 = 3;

/// The search ends when sizes this far apart fit and do not fit.
const STEP: u64 = 16;

/// Sizes of many links and tunnels, IP header included: IPv6's minimum, `WireGuard`, DSL, IP in IP, `PPPoE`, Ethernet,
/// jumbo frames.
const COMMON: [u64; 10] = [1280, 1400, 1420, 1452, 1460, 1480, 1492, 1500, 4352, 9000];

/// The time after which a larger size is tried again (section 5.1.1, `PMTU_RAISE_TIMER`).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// The losses that show a black hole.
const BLACK_HOLE: u8 = 2;

/// The search for the size of packets on one path.
#[derive(Debug, Clone)]
pub(crate) struct PacketSize {
    base: u64,
    /// Packets are not larger, on any path.
    allowed: u64,
    /// Packets of this path are not larger.
    max: u64,
    /// The interface has limited `max`.
    is_limited: bool,
    /// The largest size that is known to fit, and the smallest one that is known not to fit.
    fits: u64,
    too_large: u64,
    /// A packet of the present size has arrived.
    is_confirmed: bool,
    /// A probe is in flight, or waits to leave.
    is_probing: bool,
    /// The losses of probes of one size.
    losses: u8,
    /// When the next probe may leave.
    next_at: Time,
    /// The departure of the last packet above the base that has arrived.
    arrived: Time,
    /// Losses of packets above the base that were sent later, and when the last one was detected.
    losses_in_a_row: u8,
    last_loss_at: Time,
}

impl PacketSize {
    /// Every path carries `base`; packets have up to `max`, if that is more.
    pub(crate) fn new(base: Bytes, max: Bytes) -> Self {
        let base = base.as_u64();
        let max = max.as_u64().max(base);
        Self {
            base,
            allowed: max,
            max,
            is_limited: false,
            fits: base,
            too_large: max + 1,
            is_confirmed: false,
            is_probing: false,
            losses: 0,
            next_at: Time::ZERO,
            arrived: Time::ZERO,
            losses_in_a_row: 0,
            last_loss_at: Time::ZERO,
        }
    }

    pub(crate) fn size(&self) -> Bytes {
        Bytes::new(self.fits)
    }

    /// The interface takes packets of up to `max`, which is called once for a path: larger ones are not probed.
    pub(crate) fn limit(&mut self, max: impl FnOnce() -> Bytes) {
        if !std::mem::replace(&mut self.is_limited, true) {
            self.max = max().as_u64().clamp(self.fits, self.max);
            self.too_large = self.too_large.min(self.max + 1);
        }
    }

    fn is_complete(&self) -> bool {
        self.fits == self.max || self.too_large - self.fits <= STEP
    }

    /// The size of the next probe.
    fn next_size(&self) -> u64 {
        if self.too_large > self.max {
            return self.max;
        }
        let first = COMMON.partition_point(|&size| size <= self.fits);
        let end = COMMON.partition_point(|&size| size < self.too_large);
        COMMON[first..end.max(first)]
            .get((end - first.min(end)) / 2)
            .copied()
            .unwrap_or(self.fits.midpoint(self.too_large))
    }

    /// The size of a probe that may leave now. [`PacketSize::on_probe`] or [`PacketSize::on_dropped`] must follow.
    pub(crate) fn due(&mut self, now: Time) -> Option<Bytes> {
        if self.is_complete() && self.next_at <= now {
            self.too_large = self.max + 1; // the path may have changed
        }
        let is_due = self.is_confirmed && !self.is_probing && !self.is_complete() && self.next_at <= now;
        self.is_probing |= is_due;
        is_due.then(|| Bytes::new(self.next_size()))
    }

    /// A probe of `size` has arrived, or is lost.
    pub(crate) fn on_probe(&mut self, now: Time, size: Bytes, has_arrived: bool) {
        let size = size.as_u64();
        self.is_probing = false;
        if has_arrived {
            (self.fits, self.losses) = (self.fits.max(size.min(self.max)), 0);
            // The probe may have left before a black hole was seen.
            if self.too_large <= self.fits {
                self.too_large = self.max + 1;
            }
        } else if size > self.fits {
            self.losses += 1;
            if self.losses == MAX_PROBES {
                (self.too_large, self.losses) = (self.too_large.min(size), 0);
            }
        }
        if self.is_complete() {
            self.next_at = now + RAISE_AFTER;
        }
    }

    /// The probe has not left, or its connection has ended before its outcome was known.
    pub(crate) fn on_dropped(&mut self) {
        self.is_probing = false;
    }

    /// Uses what packets of the path show. Returns true if packets above the base get lost: the size has become the base
    /// again.
    pub(crate) fn on_feedback(&mut self, now: Time, change: &Change) -> bool {
        for arrival in change.arrivals.iter() {
            self.is_confirmed |= arrival.bytes.as_u64() >= self.fits;
            if arrival.bytes.as_u64() > self.base {
                self.arrived = self.arrived.max(arrival.sent_at);
                self.losses_in_a_row = 0;
            }
        }
        let is_new = |sent_at: Time| sent_at > self.arrived && sent_at >= self.last_loss_at;
        if self.fits == self.base || !change.large_lost.is_some_and(is_new) {
            return false;
        }
        (self.losses_in_a_row, self.last_loss_at) = (self.losses_in_a_row + 1, now);
        if self.losses_in_a_row < BLACK_HOLE {
            return false;
        }
        (self.too_large, self.fits) = (self.fits, self.base);
        (self.is_confirmed, self.losses, self.losses_in_a_row, self.next_at) = (false, 0, 0, now);
        true
    }

    /// The path has changed.
    pub(crate) fn on_new_path(&mut self) {
        *self = Self { is_probing: self.is_probing, ..Self::new(Bytes::new(self.base), Bytes::new(self.allowed)) };
    }
}

/// The sizes of packets on the paths to the peers of one host.
#[derive(Debug)]
pub(crate) struct PacketSizes<A>(BTreeMap<A, Shared>);

/// The size of one path, and the number of connections that use it.
#[derive(Debug)]
struct Shared {
    size: PacketSize,
    connections: usize,
}

impl<A: Address> PacketSizes<A> {
    pub(crate) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// A connection begins. Returns the size of its packets.
    pub(crate) fn join(&mut self, peer: A, base: Bytes, max: Bytes) -> Bytes {
        let new = || Shared { size: PacketSize::new(base, max), connections: 0 };
        let shared = self.0.entry(peer).or_insert_with(new);
        shared.connections += 1;
        shared.size.size()
    }

    /// A connection has ended.
    pub(crate) fn leave(&mut self, peer: A) {
        if let Some(shared) = self.0.get_mut(&peer) {
            shared.connections -= 1;
            if shared.connections == 0 {
                self.0.remove(&peer);
            }
        }
    }

    pub(crate) fn get_mut(&mut self, peer: A) -> Option<&mut PacketSize> {
        self.0.get_mut(&peer).map(|shared| &mut shared.size)
    }
}

#[cfg(test)]
mod tests;
