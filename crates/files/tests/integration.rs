//! Files over loopback. One program for all files: each further program would compile the generic code of the transport
//! again.

mod common;
mod disks;
mod false_servers;
mod files;
mod keys;
mod limits;
mod parts;
mod threads;
