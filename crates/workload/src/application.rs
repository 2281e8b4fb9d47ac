//! The interface between an application and its flow: events, and the application's replies.
//!
//! One object is the application at both ends of a flow, because a simulated packet carries no data. Each end uses only
//! its own information: a request is known at the other end after its bytes have arrived. Calls come in the order of
//! time at each end; one end may be ahead of the other.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration, Random, Rate, Settings, Time};
use serde::{Deserialize, Serialize};

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The host that opens the flow and sends its data.
    Sender,
    /// The host that receives the data.
    Receiver,
}

impl End {
    /// Both ends.
    pub const ALL: [Self; 2] = [Self::Sender, Self::Receiver];

    /// The other end.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

/// How a flow carries its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// A connection: a reliable stream each way.
    Stream,
    /// Datagrams of this size from the sender to the receiver.
    Datagrams(Bytes),
}

/// The state of the path that the sender's Congestion Manager reports (`cm_query`).
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
    /// The connection is open. The path is the default, except at a sender that [uses it](Workload::USES_SHARE).
    Opened(Path),
    /// The application has read the stream of the other end.
    Read {
        /// The number of bytes read since the start of the stream.
        total: Bytes,
        /// Whether the other end has finished its stream and all of it has been read.
        ended: bool,
    },
    /// The flow's share of its path has changed (`cmapp_update`).
    ShareChanged(Path),
}

/// What an application does, at the end of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Reply {
    /// Bytes to append to this end's stream.
    pub write: u64,
    /// Ends this end's stream after what has been written.
    pub finish: bool,
    /// Datagrams to queue until the congestion controller permits them.
    pub queue_datagrams: u64,
    /// A datagram to send at once, because the application paces itself.
    pub send_datagram: bool,
    /// The receiver has all data of the flow.
    pub complete: bool,
}

impl Reply {
    /// No action.
    pub const NONE: Self = Self { write: 0, finish: false, queue_datagrams: 0, send_datagram: false, complete: false };

    /// Appends `bytes` to the stream.
    pub fn write(bytes: u64) -> Self {
        Self { write: bytes, ..Self::NONE }
    }
}

/// The measurements of an application. Values that a workload does not measure are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Layered audio: fraction of time in the highest encoding below the flow's mean share of the macroflow.
    pub just_below_share: Option<f64>,
    /// Layered audio: bits per second of the encoding used for most of the time.
    pub main_encoding_bps: Option<f64>,
    /// Layered audio: fraction of time in that encoding.
    pub main_encoding_share: Option<f64>,
    /// Video: seconds from the flow's start until playback begins; `None` also if it did not begin.
    pub startup_s: Option<f64>,
    /// Video: number of stalls after playback began.
    pub stalls: Option<u64>,
    /// Video: seconds in stalls.
    pub stalled_s: Option<f64>,
    /// Video: mean bitrate of the segments that arrived.
    pub bitrate_mean_bps: Option<f64>,
    /// Video: number of changes of bitrate between segments.
    pub switches: Option<u64>,
    /// Media: number of frames that arrived or are late.
    pub frames: Option<u64>,
    /// Media: share of these frames that are late.
    pub late_share: Option<f64>,
    /// Media: median of the delays of these frames.
    pub frame_delay_p50_s: Option<f64>,
    /// Media: 99th percentile of the delays of these frames.
    pub frame_delay_p99_s: Option<f64>,
}

/// An application. Each call has the time and, where both ends can act, the end.
pub trait Application: Debug {
    /// The sender opens the flow. Data written here is sent when the connection is open.
    fn on_start(&mut self, now: Time, path: Path) -> Reply;

    /// An event at `end`.
    fn on_event(&mut self, now: Time, end: End, event: &Event) -> Reply;

    /// The time of the next [`Application::on_deadline`] at `end`; [`Time::MAX`] for none.
    fn deadline(&self, _end: End) -> Time {
        Time::MAX
    }

    /// The deadline of `end` has passed.
    fn on_deadline(&mut self, _now: Time, _end: End) -> Reply {
        Reply::NONE
    }

    /// The flow is stopped: the sender's stream ends with the data already sent, and no more datagrams leave.
    fn on_stop(&mut self, _now: Time) {}

    /// The measurements up to `now`, also while the flow is active.
    fn report(&mut self, _now: Time) -> Report {
        Report::default()
    }
}

/// An application that can be created from its settings.
pub trait Workload: Application + Sized + Send + 'static {
    /// Its settings.
    type Config: Settings + PartialEq;

    /// Its use of the sender's Congestion Manager, for errors ("traffic `x` sends datagrams by a scheme of the
    /// kernel"); `None` if it also runs over the operating system's TCP.
    const NEEDS_MANAGER: Option<&'static str> = None;

    /// Whether it chooses its data by its share of the path. It then receives the path and changes of its share.
    const USES_SHARE: bool = false;

    /// How its flows carry their data.
    fn carrier(_config: &Self::Config) -> Carrier {
        Carrier::Stream
    }

    /// The mean size of its transfers, if the workload itself draws their sizes.
    fn mean_transfer(_config: &Self::Config) -> Option<Bytes> {
        None
    }

    /// The size of the transfer that [`Workload::new`] draws from the same `random`.
    fn draw_transfer(_config: &Self::Config, _random: Random) -> Option<Bytes> {
        None
    }

    /// Creates the application of a flow that transfers `size`, if that is known at the start. All its random draws are
    /// from `random`, which no other flow uses.
    fn new(config: &Self::Config, size: Option<Bytes>, random: Random) -> Self;
}
