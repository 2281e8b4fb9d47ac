//! A packet of one connection that tests whether its path carries packets of some size.

use rampmeter_units::{Bytes, Time};

use crate::sender::Sender;

/// A probe, from the decision to send it until its outcome is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeProbe {
    pub(crate) size: Bytes,
    secret: u8,
    /// Its order, and when it is lost. `None` before it has left.
    sent: Option<(u64, Time)>,
}

impl SizeProbe {
    pub(crate) fn new(size: Bytes, secret: u8) -> Self {
        Self { size, secret, sent: None }
    }

    /// It waits to leave.
    pub(crate) fn is_waiting(&self) -> bool {
        self.sent.is_none()
    }

    /// It leaves. Returns its number on the wire.
    pub(crate) fn leave(&mut self, now: Time, sender: &mut Sender) -> u32 {
        let (order, number) = sender.scoreboard.on_empty(self.secret);
        self.sent = Some((order, now + sender.timeout()));
        number
    }

    /// When it is lost.
    pub(crate) fn deadline(&self) -> Time {
        self.sent.map_or(Time::MAX, |(_, lost_at)| lost_at)
    }

    /// Ends the probe if its outcome is known. Returns its size, and whether it has arrived.
    pub(crate) fn poll(probe: &mut Option<Self>, now: Time, sender: &mut Sender) -> Option<(Bytes, bool)> {
        let Self { size, sent, .. } = (*probe)?;
        let (order, lost_at) = sent?;
        let has_arrived = sender.scoreboard.proofs.has_arrived(order);
        if !has_arrived && lost_at > now {
            return None;
        }
        sender.scoreboard.proofs.close(order);
        *probe = None;
        Some((size, has_arrived))
    }
}
