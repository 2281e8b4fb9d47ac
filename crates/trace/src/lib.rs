//! What flows and links did, and why: events, and the formats that everybody's tools read.
//!
//! ```text
//!   endpoint ──► Tap (Recorder) ──► FlowEvent ──┐
//!                                              Sink ──► qlog: a file for each end of a flow
//!   link ──────► Watch ──────────► LinkEvent ──┘   └──► pcapng: a file for each link
//! ```
//!
//! A host reports each packet that it sends or receives to its [`Tap`]. The [`Recorder`] is one: it compares the state of
//! the endpoint before and after, so that the endpoint itself has no code for traces. `()` is another, which does
//! nothing: both are chosen when a program is compiled, so a run without a trace has no instruction for one.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod directory;
mod event;
mod host;
mod pcapng;
pub mod qlog;
mod recorder;

pub use directory::{Directory, Selection};
pub use event::{
    ApplicationEvent, Capture, Cause, End, FlowEvent, Grant, LinkEvent, Metrics, Moment, Sink, Timer, Trace,
};
pub use host::HostTrace;
pub use pcapng::Pcapng;
pub use recorder::{Recorder, Tap};
