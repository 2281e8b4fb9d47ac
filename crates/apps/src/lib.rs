//! Two applications of the Congestion Manager on real sockets (`congestion-manager.md`, section 3.2), for use and as
//! examples of its API.
//!
//! ```text
//! web     files over HTTP, through the kernel's TCP: requests, gets grants, reports TCP_INFO; chooses a
//!         representation by cm_query                                              an asynchronous sender
//! audio   datagrams by its own clock: chooses its encoding by cmapp_update         a synchronous sender
//! ```
//!
//! Both are clients of a running daemon (`rampmeter cm daemon`), like any other program.

pub mod audio;
mod error;
mod tcp_feedback;
pub mod web;

pub use error::AppError;
