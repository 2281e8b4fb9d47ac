//! Hosts, files, streams and tunnels over loopback. One program for all files: each further program would compile the
//! generic code of the transport again.

mod common;
mod disks;
#[cfg(feature = "tunnel")]
mod false_servers;
mod files;
#[cfg(feature = "clear")]
mod hosts;
mod keys;
mod limits;
mod parts;
#[cfg(feature = "tunnel")]
mod services;
#[cfg(feature = "async")]
mod streams;
mod threads;
#[cfg(feature = "tunnel")]
mod tunnel;
