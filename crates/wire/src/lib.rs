//! The packets between two Rampmeter endpoints, and their encoding.
//!
//! [`Packet`] is the header in memory. Simulated links carry it as it is; real links carry the bytes that [`encode`]
//! writes, followed by the payload. Unreliable datagrams have the Congestion Manager's header, [`CmMessage`].
//!
//! The protocol is TCP's byte stream (32-bit sequence numbers that wrap, selective acknowledgements, a receive window)
//! with two additions for rate-based controllers: every data packet has a *number* of its own, which distinguishes a
//! retransmission from the original, and every acknowledgement carries a [`Receipt`] (the receiver's timestamp and the
//! ECN code) of each packet that it acknowledges.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod checksum;

mod cm;
mod codec;
mod packet;
mod sequence;

pub use cm::{
    CM_HEADER_BYTES, CM_VERSION, CmHeader, CmKind, CmMessage, Count, MAX_COUNTS, Response, cm_decode, cm_encode,
    cm_encoded_len,
};
pub use codec::{DecodeError, HEADER_BYTES, UDP_BYTES, VERSION, decode, decode_first, encode, encoded_len};
pub use packet::{Kind, List, MAX_RECEIPTS, MAX_SACKS, Packet, Proof, Receipt, RouterFeedback, Sack};
pub use sequence::{unwrap, wrap};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
