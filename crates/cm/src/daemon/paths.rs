//! The daemon's calls of its manager about paths: the destination of a flow, its start, and its feedback.

use std::net::IpAddr;

use rampmeter_control::AnyController;
use rampmeter_manager::{Destination, FlowId, LossMode, Manager, Report};
use rampmeter_units::{Bytes, Duration, Time};

use crate::message::{Feedback, PathState};

/// The minimum round-trip time, even within a host; shorter reports are raised to it.
const MIN_RTT: Duration = Duration::from_micros(10);

/// A flow starts. There was no handshake: the state of its path comes from the history, or is assumed until the first
/// measurement.
pub(super) fn begin(manager: &mut Manager<AnyController>, now: Time, flow: FlowId, mtu: Bytes) {
    manager.assume_path(now, flow, mtu);
}

/// A flow's process reports feedback; `persistent_loss` says that it reported persistent loss before, and nothing
/// delivered since then.
pub(super) fn report(
    manager: &mut Manager<AnyController>,
    now: Time,
    flow: FlowId,
    feedback: &Feedback,
    persistent_loss: bool,
) {
    let &Feedback { received, lost, mode, rtt } = feedback;
    let rtt = rtt.map(|rtt| rtt.max(MIN_RTT));
    let repeated_timeout = persistent_loss && mode == Some(LossMode::Persistent);
    manager.report(now, flow, &Report { received, lost, mode, repeated_timeout, rtt, sent_by: None });
}

/// A flow's share of its path and the round-trip time.
pub(super) fn state(manager: &Manager<AnyController>, now: Time, flow: FlowId) -> PathState {
    manager
        .query(now, flow)
        .map_or_else(PathState::default, |status| PathState { rate: status.share, srtt: status.smoothed_rtt })
}

/// Flows to all ports of a host have the same destination.
pub(super) fn destination(ip: IpAddr) -> Destination {
    Destination(match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        IpAddr::V6(ip) => ip.into(),
    })
}

/// Whether the address is a single host: the paper covers unicast only.
pub(super) fn is_one_host(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || is_broadcast)
}
