//! The borders of a VCP island (VCP section VI-D): all that crosses it from one border to another is one VCP flow, an
//! *aggregate*, whatever TCP flows it is made of. State is kept per aggregate, and at the borders alone; routers within are
//! VCP's as they are.
//!
//! ```text
//!   TCP packets                             island                            TCP packets
//!  ────────────► queue ──► window ──► header, low load ══► VCP routers ══► header off ────────►
//!                │         ▲      ingress                                  egress │
//!             drops and    └───────────── which arrived, with which codes ◄───────┘
//!             marks
//! ```
//!
//! The [`Ingress`] is a host of the Congestion Manager with one flow, the aggregate: a packet that waits leaves when the
//! flow is granted one, and the controller is VCP's own ([`rampmeter_control::vcp`]). It wraps each in a header of the
//! island's, with a number and the code of low load. The [`Egress`] takes the header off and answers each packet with a
//! [`Feedback`]. Nothing is repeated that is lost within: that is for TCP, and the window is halved as VCP has it.
//!
//! **ECN.** The TCP packet's own code is within and leaves as it came. So does every code that the island's routers write:
//! low and high load mean nothing outside. Overload is not handed on either: it has been answered, by the ingress,
//! with a window of 7/8; what TCP then sends too fast waits in the ingress's queue, which tells it by dropping or marking.
//! (RFC 9599 calls this the feed-backward mode. RFC 6040's rule, that the outer CE becomes the inner's, is for tunnels whose
//! ends answer nothing.) [`Egress::new`] can be told to hand it on all the same; then every flow answers again, for itself,
//! what the aggregate has answered.
//!
//! What the paper leaves open and what is chosen here: the aggregate is a tunnel, and headers are counted
//! ([`HEADER_BYTES`]); each packet is answered by one of [`Feedback::BYTES`]; acknowledgements of TCP, and all else that
//! brings an application nothing, pass by without a window, as VCP's own do (the caller does not offer them).

mod egress;
mod feedback;
mod ingress;
mod watch;

pub use egress::Egress;
pub use feedback::Feedback;
pub use ingress::{Ingress, Leaving};
pub use watch::Watch;

use rampmeter_wire::UDP_BYTES;

/// What the island's header adds to a packet: IP and UDP, and the packet's number.
pub const HEADER_BYTES: u64 = UDP_BYTES as u64 + 4;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
