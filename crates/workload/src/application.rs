//! The seam: what an application learns of its flow, and what it answers.
//!
//! One object is the application at both ends of a flow: it takes the place of the two programs and of the bytes that they
//! would exchange, because a simulated packet has none. It keeps to what each end can know: what one end asks for, the
//! other end uses only once the bytes of the request have arrived. Calls come in the order of time at each end; one end
//! may be ahead of the other.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration, Rate, Settings, Time};
use serde::{Deserialize, Serialize};

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The host that opens the flow and sends its data.
    Sender,
    /// The host that gets the data.
    Receiver,
}

impl End {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Sender, Self::Receiver];
}

/// How a flow carries its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// A connection: a reliable stream each way.
    Stream,
    /// Datagrams of this size from the sender to the receiver.
    Datagrams(Bytes),
}

/// What the sender's Congestion Manager says of the path (`cm_query`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    /// The flow's share of its macroflow's rate.
    pub share: Rate,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
}

/// Something that happened at one end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The connection is open. The path is known at the sender of a workload that [uses it](Workload::USES_SHARE); elsewhere
    /// it is the default.
    Opened(Path),
    /// The application has read the stream of the other end.
    Read {
        /// Up to here, counted from the beginning of the stream.
        total: Bytes,
        /// The other end has finished its stream and all of it has been read.
        ended: bool,
    },
    /// The flow's share of its path has changed (`cmapp_update`).
    ShareChanged(Path),
}

/// What an application does, at the end where it learned something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Reply {
    /// Bytes to append to this end's stream.
    pub write: u64,
    /// This end writes no more: its stream ends after what has been written.
    pub finish: bool,
    /// Datagrams to queue until the congestion controller permits them.
    pub queue_datagrams: u64,
    /// A datagram to send at once, because the application paces itself.
    pub send_datagram: bool,
    /// The receiver has all that the flow is to transfer.
    pub complete: bool,
}

impl Reply {
    /// Nothing.
    pub const NONE: Self = Self { write: 0, finish: false, queue_datagrams: 0, send_datagram: false, complete: false };

    /// Appends `bytes` to the stream.
    pub fn write(bytes: u64) -> Self {
        Self { write: bytes, ..Self::NONE }
    }

    /// Ends the stream if `finish`.
    pub fn finish_if(finish: bool) -> Self {
        Self { finish, ..Self::NONE }
    }
}

/// How a flow went, as its application sees it. What a workload does not measure is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Layered audio: the part of its time in the encoding just below its mean share of the macroflow.
    pub just_below_share: Option<f64>,
    /// Video: seconds from the flow's start until playback begins; `None` also if it never did.
    pub startup_s: Option<f64>,
    /// Video: how often playback stalled after it had begun.
    pub stalls: Option<u64>,
    /// Video: seconds that it stalled for.
    pub stalled_s: Option<f64>,
    /// Video: mean bitrate of the segments that arrived.
    pub bitrate_mean_bps: Option<f64>,
    /// Video: how often the bitrate changed from one segment to the next.
    pub switches: Option<u64>,
}

/// An application. Each call gets the time and, where both ends have something to do, the end that it happens at.
pub trait Application: Debug {
    /// The sender opens the flow. What is written now leaves when the connection is open.
    fn on_start(&mut self, now: Time, path: Path) -> Reply;

    /// Something happened at `end`.
    fn on_event(&mut self, now: Time, end: End, event: &Event) -> Reply;

    /// When [`Application::on_deadline`] is due at `end`; [`Time::MAX`] for never.
    fn deadline(&self, _end: End) -> Time {
        Time::MAX
    }

    /// The deadline of `end` has come.
    fn on_deadline(&mut self, _now: Time, _end: End) -> Reply {
        Reply::NONE
    }

    /// The flow is stopped: the sender's stream ends with what has left, and no more datagrams leave. What is in transit
    /// still arrives.
    fn on_stop(&mut self, _now: Time) {}

    /// How it went up to `now`, while it lasts.
    fn report(&mut self, _now: Time) -> Report {
        Report::default()
    }
}

/// An application that can be made from its settings.
pub trait Workload: Application + Sized + Send + 'static {
    /// Its tunables.
    type Config: Settings + PartialEq;

    /// What it needs of the sender's Congestion Manager, for refusals ("traffic `x` sends datagrams by a scheme of the
    /// kernel"); `None` if it runs over the operating system's TCP, too.
    const NEEDS_MANAGER: Option<&'static str> = None;

    /// Whether it chooses what to send by its share of the path: it then learns the path, and changes of its share.
    const USES_SHARE: bool = false;

    /// How its flows carry their data.
    fn carrier(_config: &Self::Config) -> Carrier {
        Carrier::Stream
    }

    /// A fresh application for a flow that transfers `size`, if that is known before it starts.
    fn new(config: &Self::Config, size: Option<Bytes>) -> Self;
}
