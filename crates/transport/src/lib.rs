//! Connections: a two-way handshake, reliable byte streams both ways, flow control, a clean end. Sans-IO.
//!
//! A [`Connection`] repairs losses and never decides *when* to send: it asks the congestion manager for leave, also when
//! it is alone. An [`Endpoint`] is all of one host: its connections, its manager, their timers. A world hands it packets
//! and the time, takes packets from it, and stores the stream's bytes; here they are only counted, so that a simulated
//! gigabyte costs no memory. Worlds with real bytes keep them in [`SendBuffer`] and [`ReceiveBuffer`].
//!
//! The protocol is TCP's in all that matters to congestion control: cumulative and selective acknowledgements (RFC 2018),
//! delayed acknowledgements (RFC 5681 section 4.2), fast retransmit and recovery (RFC 5681, 6582, 6675), the timer of
//! RFC 6298. What differs is in `rampmeter-wire`: packet numbers, and a receipt for every packet. Flows of datagrams have
//! none of it: only their congestion is managed, with the feedback of the Congestion Manager's own protocol.

mod accepted;
mod address;
mod buffer;
mod clock;
mod config;
mod connection;
mod connection_id;
mod datagrams;
mod endpoint;
mod output;
mod range_set;
mod receiver;
mod scoreboard;
mod sender;

pub use address::Address;
pub use buffer::{ReceiveBuffer, SendBuffer};
pub use clock::Clock;
pub use config::{Config, EndpointConfig, Recovery};
pub use connection::{CloseReason, Connection, State, Statistics};
pub use connection_id::ConnectionId;
pub use datagrams::Message;
pub use endpoint::Endpoint;
pub use output::{Event, Received, Transmit};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
