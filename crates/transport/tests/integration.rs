//! Connections in virtual time. One program for all files: each further program would compile the generic code of the
//! connection again.

mod codes;
mod common;
mod delivery;
mod false_feedback;
mod limits;
mod packet_size;
mod recovery;
mod stamps;
mod timeouts;
mod untrusted_peers;
mod validation;
