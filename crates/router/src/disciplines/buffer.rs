//! Buffer limits, for disciplines that have no other limit.

use rampmeter_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Backlog, Settings, ensure};

/// The smallest packet of scenarios, headers included.
const MIN_PACKET: Bytes = Bytes::new(64);

/// The limits of the buffer, for all flows together. Without either limit no packet is dropped for lack of room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        Room::check(self.packets, self.bytes)
    }
}

/// The room of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) packets: u64,
    bytes: Bytes,
}

impl Room {
    /// A buffer with these limits; without a limit there is always room.
    pub(crate) fn new(packets: Option<u64>, bytes: Option<Bytes>) -> Self {
        Self { packets: packets.unwrap_or(u64::MAX), bytes: bytes.unwrap_or(Bytes::MAX) }
    }

    /// Refuses limits that no packet fits into.
    pub(crate) fn check(packets: Option<u64>, bytes: Option<Bytes>) -> Result<(), String> {
        ensure(
            packets != Some(0) && bytes.is_none_or(|bytes| bytes >= MIN_PACKET),
            "the buffer holds no packet: write packets = 1 or more, or bytes = \"1500 B\" or more",
        )
    }

    /// Whether there is always room.
    pub(crate) fn is_unlimited(self) -> bool {
        self == Self::new(None, None)
    }

    /// Whether the backlog exceeds a limit.
    pub(crate) fn is_exceeded(self, backlog: Backlog) -> bool {
        backlog.packets > self.packets || backlog.bytes > self.bytes
    }

    /// Whether a packet of `bytes` fits into the buffer.
    pub(crate) fn fits(self, backlog: Backlog, bytes: Bytes) -> bool {
        backlog.packets < self.packets && backlog.bytes + bytes <= self.bytes
    }
}
