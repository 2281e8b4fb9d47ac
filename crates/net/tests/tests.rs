//! Hosts, files, streams and tunnels over loopback. They are one program, as each of many would compile the transport
//! again.

mod common;
#[cfg(feature = "tunnel")]
mod false_servers;
mod files;
#[cfg(feature = "clear")]
mod hosts;
mod keys;
mod limits;
mod many;
mod parts;
#[cfg(feature = "tunnel")]
mod services;
#[cfg(feature = "async")]
mod streams;
mod threads;
#[cfg(feature = "tunnel")]
mod tunnel;
