//! Congestion controllers behind one trait, [`Controller`].
//!
//! A controller is told what happened (packets sent, acknowledged and lost; silence) and says how much may be
//! outstanding, when the next packet may leave and how big it may be. It owns no clock, no socket and no packet: the
//! same object runs in the simulator, in the emulated network and on the open wire.
//!
//! Window controllers bound [`Controller::window`] and let packets leave at any time; rate controllers leave the window
//! open and space the packets. All sizes are whole IP packets, headers included, because that is what a link carries.
//!
//! To add one: a file with a type that implements [`Algorithm`], a line in [`registry`], a row in `docs/controllers.md`.

mod controller;
mod episode;
mod history;
mod hystart;
mod line;
mod pacer;
pub mod registry;
mod reno_window;
pub mod rules;
mod spacing;

pub mod bic;
pub mod cm;
pub mod cubic;
pub mod cubic_2005;
pub mod fair_share;
pub mod fast;
pub mod fixed_rate;
pub mod hstcp;
pub mod htcp;
pub mod newreno;
pub mod pcp;
pub mod pcp_paper;
pub mod reno;
pub mod scalable;
pub mod stable;
pub mod vcp;
pub mod xcp;

pub use controller::{Ack, Algorithm, Arrival, Controller, Departure, Loss, LossKind, Path, Sent, Settings};
pub use history::History;
pub use pacer::Pacer;
pub use registry::{AnyController, Registry};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
