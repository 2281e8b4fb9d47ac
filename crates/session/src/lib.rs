//! Encrypted sessions between two hosts: what is between the transport and a UDP socket. Sans-IO.
//!
//! A session carries all packets of all connections between two hosts. Each datagram is sealed with an AEAD: the header
//! of the datagram is associated data, the number of the packet is the nonce. The keys come from a Noise handshake,
//! which takes no round trip of its own if the initiator knows the responder's key.
//!
//! ```text
//! key known (IK):    Hello(transport's Syn) ──►      ◄── Answer + Sealed(SynAck)      Sealed ──►
//! key unknown (XX):  Hello ──►   ◄── Answer (key)   Finish + Sealed(Syn) ──►   ◄── Sealed(SynAck)
//! ```
//!
//! - `sessions`: all sessions of one host; what is done with each datagram
//! - `session`: one session              `route`: the addresses of its datagrams
//! - `handshake`: the Noise messages        `key`: keys and their text     `purpose`: what a session is for
//! - `datagram`: the format                 `frame`: messages between the sessions of two hosts
//! - `seal`: keys, nonces, renewal          `replay`: packets that have arrived already
//! - `stateless`: cookies and resets, which need no state
//! - `group`: hosts that share a port and limits
//! - `shares`: how other hosts share places     `fair_rate`: and handshakes
//!
//! **Nothing changes before a datagram is authentic**: no state of the transport, of the manager or of a session.
//! A datagram of an address that has not proved itself is answered with fewer bytes than it had.
//!
//! Sources: the Noise Protocol Framework, revision 34 (patterns IK and XX, sections 7.5 and 11.3); RFC 9000 sections
//! 8.1 (cookies; there, Retry), 9 (change of address) and 10.3 (stateless reset); RFC 6479 (replay window).

mod datagram;
mod fair_rate;
mod frame;
pub mod group;
mod handshake;
mod key;
mod purpose;
mod replay;
mod route;
mod seal;
mod session;
mod sessions;
pub mod shares;
mod stateless;

pub use datagram::{Denial, MAX_OVERHEAD, MIN_HELLO_BYTES};
pub use frame::Goodbye;
pub use group::Member;
pub use key::{BadKey, KeyPair, PublicKey};
pub use purpose::{Name, Purpose, Service};
pub use route::Route;
pub use seal::Suite;
pub use session::SessionId;
pub use sessions::{Clients, Config, Event, Opened, Openers, Refusal, Sessions};
