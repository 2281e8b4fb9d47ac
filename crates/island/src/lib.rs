//! The borders of a VCP island (VCP section VI-D): all traffic that crosses the island between two borders is one VCP
//! flow, an *aggregate*, whatever TCP flows it consists of. State is kept per aggregate, and only at the borders; the
//! routers of the island are ordinary VCP routers. `docs/vcp-islands.md` has a figure and measurements.
//!
//! The [`Ingress`] uses a Congestion Manager with one flow, the aggregate: a waiting packet is sent when the flow gets
//! a grant, and the controller is VCP's ([`rampmeter_control::vcp`]). It adds the island's header to each packet, with
//! a number and the code of low load. The [`Egress`] removes the header and answers each packet with a [`EgressFeedback`].
//! Packets lost within the island are not retransmitted, which is left to TCP; the window is halved as in VCP.
//!
//! **ECN.** The TCP packet's own code is in the inner header and does not change. Codes that the island's routers write
//! stay in the island. Overload is not copied either, because the ingress has reacted to it, with a window of 7/8; if
//! TCP then sends too fast, the ingress's queue drops or marks its packets. (RFC 9599 calls this the feed-backward
//! mode. RFC 6040's rule, that an outer CE becomes the inner one, is for tunnels without answers.) With an option of
//! [`Egress::new`] each flow reacts again to what the aggregate has reacted to.
//!
//! Choices that the paper leaves open: the aggregate is a tunnel, and headers are counted ([`HEADER_BYTES`]); each
//! packet is answered by one of [`EgressFeedback::BYTES`]; TCP acknowledgements and other packets without application data
//! pass without a window, as VCP's own do (the caller does not offer them).

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod egress;
mod feedback;
mod ingress;
mod watch;

pub use egress::Egress;
pub use feedback::EgressFeedback;
pub use ingress::{EnteringPacket, Ingress};
pub use watch::Watch;

use rampmeter_wire::UDP_BYTES;

/// The size of the island's header: IP, UDP and the packet's number.
pub const HEADER_BYTES: u64 = UDP_BYTES as u64 + 4;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
