//! Tunnels over loopback. One program for all files: each further program would compile the generic code of the
//! transport again.

mod common;
mod connections;
mod false_server;
mod listeners;
mod refusals;
mod server_gone;
mod services;
