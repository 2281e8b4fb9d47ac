//! Connections in virtual time. They are one program, as each of many would compile the connection again.

mod codes;
mod common;
mod delivery;
mod false_feedback;
mod packet_size;
mod recovery;
mod stamps;
mod untrusted_peers;
