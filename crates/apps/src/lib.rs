//! Two applications of the Congestion Manager on real sockets (`congestion-manager.md`, section 3.2), for use and as
//! worked examples of its API.
//!
//! ```text
//! web     files over HTTP, through the kernel's TCP: asks, is granted, reports what TCP_INFO says; picks a
//!         representation by cm_query                                              an asynchronous sender
//! audio   datagrams at times of its own: picks its encoding by cmapp_update       a synchronous sender
//! ```
//!
//! Both are plain clients of a running daemon (`rampmeter cm daemon`), as any other program is.

pub mod audio;
mod error;
mod tcp_feedback;
pub mod web;

pub use error::AppError;
