//! What the daemon tells its manager of a path: where it goes, how it begins, and what applications say became of their
//! packets.

use std::net::IpAddr;

use rampmeter_control::AnyController;
use rampmeter_manager::{Destination, FlowId, LossMode, Manager, Report};
use rampmeter_units::{Bytes, Duration, Time};

use crate::message::{Feedback, PathState};

/// Nothing goes to another process and back sooner, even within a host: what is said of less is a mistake.
const MIN_RTT: Duration = Duration::from_micros(10);

/// A flow begins. Nobody has shaken hands: what its path is like is remembered, or assumed until the first measurement.
pub(super) fn begin(manager: &mut Manager<AnyController>, now: Time, flow: FlowId, mtu: Bytes) {
    manager.assume_path(now, flow, mtu);
}

/// A flow's process says how its packets fared; `silent` says that it reported persistent loss before, and since then
/// nothing that arrived.
pub(super) fn report(manager: &mut Manager<AnyController>, now: Time, flow: FlowId, feedback: &Feedback, silent: bool) {
    let &Feedback { received, lost, mode, rtt } = feedback;
    let rtt = rtt.map(|rtt| rtt.max(MIN_RTT));
    let repeated = silent && mode == Some(LossMode::Persistent);
    manager.report(now, flow, &Report { received, lost, mode, repeated, rtt, sent_by: None });
}

/// A flow's part of its path.
pub(super) fn state(manager: &Manager<AnyController>, now: Time, flow: FlowId) -> PathState {
    manager
        .query(now, flow)
        .map_or_else(PathState::default, |status| PathState { rate: status.share, srtt: status.smoothed_rtt })
}

/// Congestion is a matter of the host, whatever the port.
pub(super) fn destination(ip: IpAddr) -> Destination {
    Destination(match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        IpAddr::V6(ip) => ip.into(),
    })
}

/// The paper speaks of unicast only.
pub(super) fn is_one_host(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || is_broadcast)
}
