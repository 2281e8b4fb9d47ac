//! Connections: a two-way handshake, reliable byte streams in both directions, flow control, a clean end. Sans-IO.
//!
//! A [`Connection`] repairs losses and never decides *when* to send: it requests permission from the Congestion
//! Manager, even if it is the only flow. An [`Endpoint`] is one host: its connections, its manager, their timers. A
//! world passes packets and the time in, takes packets out, and stores the bytes of the streams; the endpoint only
//! counts them, so that a simulated gigabyte needs no memory. Worlds with real bytes keep them in [`SendBuffer`] and
//! [`ReceiveBuffer`].
//!
//! The protocol is TCP's in all that affects congestion control: cumulative and selective acknowledgements (RFC 2018),
//! delayed acknowledgements (RFC 5681 section 4.2), fast retransmit and recovery (RFC 5681, 6582, 6675, 8985), the timer
//! of RFC 6298. The differences are in `rampmeter-wire`: packet numbers, and a receipt for every packet. Datagram flows
//! have only congestion control, with the feedback of the Congestion Manager's own protocol.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod accepted;
mod address;
mod buffer;
mod clock;
mod config;
mod connection;
mod connection_id;
mod datagrams;
mod ecn_validation;
mod endpoint;
mod finished;
mod limits;
mod output;
mod packet_size;
mod presumed_lost;
mod proof;
mod rack;
mod range_set;
mod receiver;
mod resets;
mod scoreboard;
mod sender;
mod size_probe;
mod tail_probe;
mod unreported;

pub use address::{Address, network};
pub use buffer::{ReceiveBuffer, SendBuffer};
pub use clock::Clock;
pub use config::{Config, EndpointConfig, Recovery};
pub use connection::{CloseReason, Connection, State, Statistics};
pub use connection_id::ConnectionId;
pub use datagrams::Message;
pub use ecn_validation::EcnState;
pub use endpoint::Endpoint;
pub use limits::Limits;
pub use output::{Envelope, Event, Received, Transmit};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
