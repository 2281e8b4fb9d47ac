//! What travels between two Rampmeter endpoints, and its bytes.
//!
//! [`Packet`] is the header in memory: plain numbers, no payload. Simulated links carry it as it is; real ones carry the
//! bytes that [`encode`] makes of it, with the payload behind. Nothing here keeps state or reads a clock.
//!
//! The protocol is TCP's byte stream (32-bit sequence numbers that wrap, selective acknowledgements, a window) with two
//! things TCP lacks and a rate-based controller needs: every data packet has a *number* of its own, so that a
//! retransmission is told from the original, and every acknowledgement carries a [`Receipt`] (receiver's clock and ECN
//! code) for each packet it answers.
//!
//! Datagrams that promise nothing travel under the Congestion Manager's own header, [`CmMessage`].

mod cm;
mod codec;
mod packet;
mod sequence;

pub use cm::{
    CM_HEADER_BYTES, CM_VERSION, CmHeader, CmKind, CmMessage, Count, MAX_COUNTS, Response, cm_decode, cm_encode,
    cm_encoded_len,
};
pub use codec::{DecodeError, HEADER_BYTES, UDP_BYTES, VERSION, decode, encode, encoded_len};
pub use packet::{Kind, List, MAX_RECEIPTS, MAX_SACKS, Packet, Receipt, RouterFeedback, Sack};
pub use sequence::{unwrap, wrap};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
