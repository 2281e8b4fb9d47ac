//! The slowdown of a transfer: its completion time divided by the time that it takes alone on the idle path, as used for
//! Homa (SIGCOMM 2018, section 5) and pFabric (SIGCOMM 2013, section 5).
//!
//! ```text
//! sender   Syn ┐        ┌ first ... last packet ┐          best time = round trip of the handshake + one-way delay
//!              └ SynAck ┘                       └              + bytes, with headers, at the rate of the slowest link
//! receiver                                                     + the last packet on each other link
//! ```
//!
//! No controller can be faster, so the slowdown is 1 at least, where the links have a constant rate.

use std::collections::HashMap;

use rampmeter_units::{Bytes, Duration};

use crate::{FlowPlan, NodeId, Plan};

/// The best times of transfers on the paths of a plan.
#[derive(Debug)]
pub(crate) struct BestTimes<'a> {
    plan: &'a Plan,
    paths: HashMap<(NodeId, NodeId), Option<BestPath>>,
}

#[derive(Debug, Clone, Copy)]
struct BestPath {
    /// The delays of a round trip and of one way more.
    delay: Duration,
    /// The seconds that a byte takes on the slowest link, and on all links together.
    slowest: f64,
    all: f64,
}

impl<'a> BestTimes<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        Self { plan, paths: HashMap::new() }
    }

    /// The best time of a flow of `bytes` in seconds.
    pub(crate) fn of(&mut self, flow: &FlowPlan, bytes: Bytes) -> Option<f64> {
        let plan = self.plan;
        let ends = (flow.from, flow.to);
        let path = (*self.paths.entry(ends).or_insert_with(|| BestPath::of(plan, ends)))?;
        let payload = plan.payload().as_u64();
        let packets = bytes.as_u64().div_ceil(payload).max(1);
        let headers = plan.packet.as_u64() - payload;
        let last = bytes.as_u64() - (packets - 1) * payload + headers;
        let on_wire = bytes.as_u64() + packets * headers;
        Some(path.delay.as_secs_f64() + on_wire as f64 * path.slowest + last as f64 * (path.all - path.slowest))
    }
}

impl BestPath {
    fn of(plan: &Plan, (from, to): (NodeId, NodeId)) -> Option<Self> {
        let [there, back] = [plan.path(from, to).ok()?, plan.path(to, from).ok()?];
        let delay = there.iter().chain(&back).chain(&there).map(|link| plan.links[link.0].config.delay);
        let times = there.iter().map(|link| 8.0 / plan.links[link.0].config.rate.as_bps_f64());
        Some(Self {
            delay: delay.fold(Duration::ZERO, |sum, delay| sum + delay),
            slowest: times.clone().fold(0.0, f64::max),
            all: times.sum(),
        })
    }
}
