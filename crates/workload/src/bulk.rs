//! Bulk data: a long-lived flow that always has more to send, until it is stopped.

use rampmeter_units::{Bytes, Random, Time};

pub use crate::transfer::Config;
use crate::{Application, End, Event, Path, Reply, Workload, transfer};

/// More bytes or datagrams than any run can send.
pub const UNLIMITED: u64 = 1 << 62;

/// A flow of bulk data.
#[derive(Debug)]
pub struct Bulk;

impl Workload for Bulk {
    type Config = Config;

    fn new(_: &Config, _: Option<Bytes>, _: Random) -> Self {
        Self
    }
}

impl Application for Bulk {
    fn on_start(&mut self, _: Time, _: Path) -> Reply {
        Reply::write(UNLIMITED)
    }

    fn on_event(&mut self, _: Time, end: End, event: &Event) -> Reply {
        transfer::receive(end, event, Bytes::MAX)
    }
}
