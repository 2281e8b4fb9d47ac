//! A flow: its name, what it asks for, what it is granted, and what its manager knows of it.

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};
use rampmeter_wire::RouterFeedback;

use crate::aging::HalfLife;
use crate::scheduler::{Scheduling, ServiceCurve};
use crate::treatment::Fared;

/// A flow's name at its manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(crate) u32);

impl FlowId {
    /// A small number for tables; that of a closed flow is used again.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which flows share a macroflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// Each flow is its own.
    #[default]
    PerFlow,
    /// All flows to one destination share one (the CM paper).
    PerDestination,
}

/// How a host's flows share its paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sharing {
    /// Which flows share a macroflow.
    pub grouping: Grouping,
    /// How those of one macroflow share it.
    pub scheduling: Scheduling,
    /// How fast a rate ages while nothing comes back.
    pub half_life: HalfLife,
    /// Flows that the network treats worse than others to the same destination get a macroflow of their own.
    pub segregation: bool,
}

/// What part of its macroflow a flow is to have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Relative to the other flows of its class.
    pub weight: f64,
    /// Its class's number and that class's weight, relative to other classes and to flows without one.
    pub class: Option<(u32, f64)>,
    /// What it is guaranteed before anything is shared; needs [`Scheduling::ServiceCurves`].
    pub curve: Option<ServiceCurve>,
}

impl Default for Share {
    /// Like everybody else's.
    fn default() -> Self {
        Self { weight: 1.0, class: None, curve: None }
    }
}

/// Leave to send one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The flow whose turn it is.
    pub flow: FlowId,
    /// The packet's number.
    pub number: u64,
    /// The largest it may be, headers included.
    pub bytes: Bytes,
    /// What to write into it for routers to answer.
    pub feedback: RouterFeedback,
    /// The ECN code that the controller wants it to leave with, if it cares.
    pub ecn: Option<Ecn>,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) macroflow: u32,
    pub(crate) in_flight: Bytes,
    pub(crate) asking: bool,
    pub(crate) urgent: bool,
    /// Where it is not like everybody else's.
    pub(crate) special: Option<Box<Share>>,
    pub(crate) watch: Option<Box<Watch>>,
    /// When its owner last called.
    pub(crate) last_used: Time,
    /// What became of its packets since its macroflow's flows were last compared.
    pub(crate) fared: Fared,
}

impl Flow {
    pub(crate) fn share(&self) -> Share {
        self.special.as_deref().copied().unwrap_or_default()
    }

    pub(crate) fn is_active(&self) -> bool {
        self.asking || self.in_flight > Bytes::ZERO
    }
}

/// How much a flow's share must change for it to be told (RFC 3124 section 3.4, `cm_thresh`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Told if the share falls below this times what was told last; in (0, 1].
    pub down: f64,
    /// Told if the share rises above this times what was told last; 1 or more.
    pub up: f64,
}

impl Default for Thresholds {
    /// An eighth either way.
    fn default() -> Self {
        Self { down: 0.875, up: 1.125 }
    }
}

/// A flow's share has changed (`cmapp_update`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Whose.
    pub flow: FlowId,
    /// What it may send.
    pub share: Rate,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
}

/// A flow that is told of changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    pub(crate) thresholds: Thresholds,
    /// What it was told last.
    pub(crate) told: Rate,
}

impl Watch {
    pub(crate) fn is_crossed(&self, share: Rate) -> bool {
        share < self.told.scale(self.thresholds.down) || share > self.told.scale(self.thresholds.up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_when_it_is_large_enough() {
        let watch = Watch { thresholds: Thresholds::default(), told: Rate::from_bps(1000) };
        let crossed = |bps| watch.is_crossed(Rate::from_bps(bps));
        assert!(!crossed(900) && !crossed(1100) && crossed(800) && crossed(1200));
    }
}
