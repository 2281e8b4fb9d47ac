//! Datagrams at the rate that the congestion controller permits, until the flow is stopped. Losses are final.

use std::ops::RangeInclusive;

use rampmeter_units::{Bytes, Random, Time};
use serde::{Deserialize, Serialize};

use crate::{Application, Carrier, End, Event, Path, Reply, Settings, Workload, bulk, ensure};

/// The valid sizes of a datagram in bytes, without the headers of the Congestion Manager, UDP and IP.
const SIZES: RangeInclusive<u64> = 8..=9000;

/// A flow of datagrams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Bytes of each datagram.
    pub datagrams: Bytes,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_size(self.datagrams)
    }
}

/// Refuses sizes that are too small or too large.
pub(crate) fn check_size(size: Bytes) -> Result<(), String> {
    ensure(
        SIZES.contains(&size.as_u64()),
        format!("`datagrams` of {size}; use {} to {} bytes", SIZES.start(), SIZES.end()),
    )
}

/// A flow of datagrams.
#[derive(Debug)]
pub struct Datagrams;

impl Workload for Datagrams {
    type Config = Config;
    const NEEDS_MANAGER: Option<&'static str> = Some("sends datagrams");

    fn carrier(config: &Config) -> Carrier {
        Carrier::Datagrams(config.datagrams)
    }

    fn new(_: &Config, _: Option<Bytes>, _: Random) -> Self {
        Self
    }
}

impl Application for Datagrams {
    fn on_start(&mut self, _: Time, _: Path) -> Reply {
        Reply { queue_datagrams: bulk::UNLIMITED, ..Reply::NONE }
    }

    fn on_event(&mut self, _: Time, _: End, _: &Event) -> Reply {
        Reply::NONE
    }
}
