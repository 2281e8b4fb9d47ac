//! When packets leave: evenly spaced, but for one train in each round trip, and for bunches where a host cannot space
//! single packets ([`crate::Path::bunch`]).
//!
//! The last two packets of a train are a pair, which shows the capacity (`estimate`). Those before them use up the bucket
//! of a shaper, which lets some packets pass at once.

use rampmeter_units::{Duration, Rate, Time};

use super::Pcp;
use crate::Sent;

/// The delay of this host's timers that packets make up for, as a multiple of the time of a bunch.
const TIMER_SLACK: u64 = 2;

/// The maximum number of packets in a bunch: at 1500 bytes, what two buffers carry to the kernel.
const MAX_BUNCH: u64 = 88;

/// The maximum number of packets in a train. Linux's `tbf` lets at least two full packets pass at once, and three with the
/// burst of its manual's example.
const TRAIN: u64 = 4;

/// The maximum rate, in bits per second.
pub(super) const MAX_PACE: f64 = 100e9;

/// In competitive mode packets are paced at this multiple of the window per round trip, so that the window is the limit.
const SPACING: f64 = 1.2;

impl Pcp {
    /// The sending rate outside drains.
    pub(super) fn full_pace(&self) -> Rate {
        let (packets, time) =
            if self.cubic.is_some() { (self.window * SPACING, self.rtt) } else { (self.window, self.min_rtt) };
        Rate::from_bps_f64((packets / time * self.packet_bits()).clamp(1.0, MAX_PACE))
    }

    pub(super) fn pace(&self) -> Rate {
        self.full_pace().scale(self.drain.share(self.now)).max(Rate::from_bps(1))
    }

    /// The number of packets that leave together at `rate`.
    pub(super) fn bunch_at(&self, rate: Rate) -> u64 {
        (rate.bytes_in(self.bunch).as_u64() / self.packet.as_u64().max(1)).clamp(1, MAX_BUNCH)
    }

    /// Schedules the packet after this one, which leaves now.
    pub(super) fn space(&mut self, now: Time, sent: &Sent) {
        let rate = self.pace();
        self.pacer.set_slack(self.bunch * TIMER_SLACK);
        if self.rest_of_bunch > 0 {
            self.rest_of_bunch -= 1;
            // The first train delays nothing: until its packets have arrived, nothing else can be decided.
            if self.next_round > 0 {
                self.pacer.add_to_bunch(sent.bytes, rate);
            }
            return;
        }
        let is_train = self.train_due && self.train.is_none() && sent.bytes == self.packet;
        let train = if is_train { (self.window as u64).clamp(2, TRAIN) } else { 1 };
        let packets = self.bunch_at(rate).max(train);
        self.rest_of_bunch = packets - 1;
        if is_train {
            (self.train, self.train_due) = (Some((sent.number, sent.number.saturating_add(train - 1))), false);
        }
        let bunch = if packets == 1 || self.bunch == Duration::ZERO { sent.bytes } else { self.packet * packets };
        self.pacer.bunch_sent_at(now, sent.bytes, bunch, rate);
    }
}
