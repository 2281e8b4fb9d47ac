//! A flow: its name, its share and grants, and the manager's state of it.

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};
use rampmeter_wire::RouterFeedback;

use crate::aging::HalfLife;
use crate::choice::Earlier;
use crate::scheduler::{Scheduling, ServiceCurve};
use crate::treatment::Counts;

/// A flow's name at its manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(crate) u32);

impl FlowId {
    /// An index for tables. The index of a closed flow is reused.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which flows share a macroflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// Each flow has its own macroflow.
    #[default]
    PerFlow,
    /// All flows to one destination share one macroflow (the CM paper). Flows of another owner have another one.
    PerDestination,
    /// The same for sessions, which are owners: once the macroflow has ended, nothing is known of the destination.
    PerSession,
}

impl Grouping {
    pub(crate) fn is_shared(self) -> bool {
        self != Self::PerFlow
    }
}

/// How the flows of a host share its paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// Which flows share a macroflow.
    pub grouping: Grouping,
    /// How the flows of a macroflow share it.
    pub scheduling: Scheduling,
    /// The half-life of a rate while no feedback arrives.
    pub half_life: HalfLife,
    /// Flows that the network treats worse than others to the same destination get a separate macroflow.
    pub segregation: bool,
    /// How long the window of a macroflow may help later ones to the same destination start (Careful Resume, RFC 9959).
    /// `None`: not at all.
    pub careful_resume: Option<Duration>,
    /// The time whose packets controllers may send together ([`rampmeter_control::Path`]).
    pub bunch: Duration,
    /// The maximum number of flows that have a first window each, as TCP connections have; zero and one: all flows share
    /// one. For flows that take the place of TCP connections.
    pub first_windows: usize,
    /// The minimum retransmission timeout of its macroflows. After an idle time of a timeout controllers start over (RFC
    /// 5681 section 4.1).
    pub min_rto: Duration,
    /// How long a flow may send before it is the turn of the next one, but no more than
    /// [`MAX_TURN`](crate::MAX_TURN); zero: one packet. With [`Scheduling::RoundRobin`] only.
    pub turn: Duration,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            grouping: Grouping::default(),
            scheduling: Scheduling::default(),
            half_life: HalfLife::default(),
            segregation: false,
            careful_resume: None,
            bunch: Duration::ZERO,
            first_windows: 0,
            min_rto: Duration::from_millis(200), // as Linux
            turn: Duration::ZERO,
        }
    }
}

/// A flow's share of its macroflow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The weight relative to the other flows of its class.
    pub weight: f64,
    /// The number and the weight of its class. The weight is relative to other classes and to flows without one.
    pub class: Option<(u32, f64)>,
    /// A guarantee that precedes the division by weight; needs [`Scheduling::ServiceCurves`].
    pub curve: Option<ServiceCurve>,
}

impl Default for Share {
    /// Weight 1, without a class and without a guarantee.
    fn default() -> Self {
        Self { weight: 1.0, class: None, curve: None }
    }
}

/// Permission to send one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The flow that may send.
    pub flow: FlowId,
    /// The packet's number.
    pub number: u64,
    /// The maximum size, headers included.
    pub bytes: Bytes,
    /// The header field that requests router feedback.
    pub feedback: RouterFeedback,
    /// The ECN code that the controller requires, if any.
    pub ecn: Option<Ecn>,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) macroflow: u32,
    /// Its bytes in flight in its macroflow.
    pub(crate) in_flight: Bytes,
    /// Those of the macroflow that it was in before.
    pub(crate) earlier: Option<Box<Earlier>>,
    pub(crate) requested: bool,
    pub(crate) retransmission: bool,
    /// Its share, if it differs from the default.
    pub(crate) custom_share: Option<Box<Share>>,
    pub(crate) watch: Option<Box<ShareWatch>>,
    /// What happened to its bytes since the last comparison of its macroflow's flows, if flows are segregated.
    pub(crate) counts: Option<Box<Counts>>,
}

impl Flow {
    pub(crate) fn share(&self) -> Share {
        self.custom_share.as_deref().copied().unwrap_or_default()
    }

    /// Its bytes in flight, in both macroflows.
    pub(crate) fn all_in_flight(&self) -> Bytes {
        self.in_flight + self.earlier.as_ref().map_or(Bytes::ZERO, |earlier| earlier.bytes)
    }

    /// Counts the time of its bytes in flight. To be called before their number changes.
    pub(crate) fn count_time(&mut self, now: Time) {
        if let Some(counts) = &mut self.counts {
            counts.advance(now, self.in_flight);
        }
    }

    /// What happened before no longer counts.
    pub(crate) fn restart_counts(&mut self, now: Time) {
        if let Some(counts) = &mut self.counts {
            **counts = Counts::since(now);
        }
    }

    /// Counts a report of bytes that arrived and bytes that were lost.
    pub(crate) fn count(&mut self, received: Bytes, lost: Bytes) {
        if let Some(counts) = &mut self.counts {
            counts.add(received, lost);
        }
    }

    /// Whether it has requested to send, and has no grant yet.
    pub(crate) fn waits(&self) -> bool {
        self.requested || self.retransmission
    }

    pub(crate) fn is_active(&self) -> bool {
        self.requested || self.in_flight > Bytes::ZERO
    }
}

/// The change of a flow's share that is reported to it (RFC 3124 section 3.4, `cm_thresh`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// A share below this multiple of the last reported one is reported; in (0, 1].
    pub down: f64,
    /// A share above this multiple of the last reported one is reported; at least 1.
    pub up: f64,
}

impl Default for Thresholds {
    /// An eighth in both directions.
    fn default() -> Self {
        Self { down: 0.875, up: 1.125 }
    }
}

/// A flow's share has changed (`cmapp_update`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The flow.
    pub flow: FlowId,
    /// Its new share.
    pub share: Rate,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
}

/// A flow that receives reports of changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareWatch {
    pub(crate) thresholds: Thresholds,
    /// The share that was reported last.
    pub(crate) reported: Rate,
}

impl ShareWatch {
    pub(crate) fn exceeds_threshold(&self, share: Rate) -> bool {
        share < self.reported.scale(self.thresholds.down) || share > self.reported.scale(self.thresholds.up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_reported_when_it_is_large_enough() {
        let watch = ShareWatch { thresholds: Thresholds::default(), reported: Rate::from_bps(1000) };
        let crossed = |bps| watch.exceeds_threshold(Rate::from_bps(bps));
        assert!(!crossed(875) && !crossed(1125) && crossed(874) && crossed(1126));
    }
}
