//! The events, and who takes them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rampmeter_transport::EcnState;
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};
use rampmeter_wire::Packet;

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The host that opened it.
    Client,
    /// The host that accepted it.
    Server,
}

impl End {
    /// Its name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Why a host looked for packets to send: the last thing that happened there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cause {
    /// A packet arrived: an acknowledgement opened the window, or is due itself.
    #[default]
    Arrival,
    /// A timer expired, of pacing or of a connection.
    Timer,
    /// The application wrote.
    Application,
}

impl Cause {
    /// Its name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Timer => "timer",
            Self::Application => "application",
        }
    }
}

/// A time, by the run's clock and by that of the host whose event it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The run's time, which is the trace's.
    pub at: Time,
    /// The time of the host's endpoint.
    pub local: Time,
}

/// A timer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    /// Its name: `loss_timeout`.
    pub name: &'static str,
    /// How long it runs from now on; `None`: it was cancelled, or has expired.
    pub after: Option<Duration>,
    /// Whether it has expired now.
    pub has_expired: bool,
}

/// What changed of a sender.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metrics {
    /// The window; [`Bytes::MAX`]: none.
    pub window: Option<Bytes>,
    /// The rate; `Some(None)`: only the window limits it.
    pub rate: Option<Option<Rate>>,
    /// Bytes in flight.
    pub in_flight: Option<Bytes>,
    /// The smoothed round-trip time.
    pub smoothed_rtt: Option<Duration>,
    /// The round trip of the packet that was acknowledged last.
    pub latest_rtt: Option<Duration>,
    /// The minimum round-trip time.
    pub min_rtt: Option<Duration>,
    /// The controller's own values ([`Controller::record`](rampmeter_control::Controller::record)).
    pub own: Vec<(&'static str, f64)>,
}

impl Metrics {
    /// What differs from the values `before`, which become these. `own`: the controller's own values.
    pub(crate) fn changed(self, before: &mut Self, own: &[(&'static str, f64)]) -> Self {
        fn update<T: Copy + PartialEq>(now: Option<T>, before: &mut Option<T>) -> Option<T> {
            let changed = now.filter(|_| now != *before);
            *before = now.or(*before);
            changed
        }
        let mut changed = Self {
            window: update(self.window, &mut before.window),
            rate: update(self.rate, &mut before.rate),
            in_flight: update(self.in_flight, &mut before.in_flight),
            smoothed_rtt: update(self.smoothed_rtt, &mut before.smoothed_rtt),
            latest_rtt: self.latest_rtt,
            min_rtt: update(self.min_rtt, &mut before.min_rtt),
            own: Vec::new(),
        };
        for &(name, value) in own {
            let known = before.own.iter_mut().find(|(known, _)| *known == name);
            match known {
                Some((_, known)) if *known == value => continue,
                Some((_, known)) => *known = value,
                None => before.own.push((name, value)),
            }
            changed.own.push((name, value));
        }
        changed
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A permission to send that the Congestion Manager gave to a flow of a macroflow that several flows share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The number of the macroflow at its host.
    pub macroflow: u32,
    /// Flows that share it.
    pub flows: usize,
    /// Those of the other flows that have requested to send, and wait.
    pub waiting: usize,
    /// The macroflow's window; [`Bytes::MAX`]: none.
    pub window: Bytes,
    /// The macroflow's bytes in flight, with the packet of this grant.
    pub in_flight: Bytes,
}

/// What the application at an end of a flow did. A message is what it wrote at once: a request, a page, a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplicationEvent {
    /// The connection is established at this end.
    Opened,
    /// It wrote a message.
    Wrote {
        /// The offset of its first byte in the stream of this end.
        offset: u64,
        /// Its bytes; `None`: a long-lived flow writes until it is stopped.
        length: Option<u64>,
    },
    /// It has read all of a message of the other end.
    Received {
        /// The offset of its first byte in the stream of the other end.
        offset: u64,
        /// Its bytes.
        length: u64,
        /// The time since the other end wrote it.
        after: Duration,
    },
    /// It writes no more.
    Finished,
    /// It has read the whole stream of the other end, which writes no more.
    Ended,
    /// The receiver has all data of the flow.
    Completed {
        /// The time since the flow started.
        after: Duration,
    },
}

/// What happened at an end of a flow.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowEvent<'a> {
    /// A packet left.
    Sent {
        /// Its header.
        packet: &'a Packet,
        /// Its size, headers included.
        bytes: Bytes,
        /// Its ECN code.
        ecn: Ecn,
        /// The offset of its payload in the stream.
        offset: u64,
        /// Whether these bytes were sent before.
        is_repeated: bool,
        /// Why it left now.
        cause: Cause,
    },
    /// A packet arrived.
    Received {
        /// Its header.
        packet: &'a Packet,
        /// Its size, headers included.
        bytes: Bytes,
        /// The ECN code it arrived with.
        ecn: Ecn,
        /// The offset of its payload in the stream.
        offset: u64,
    },
    /// Packets with these numbers were acknowledged, each for the first time.
    Acknowledged(&'a [u32]),
    /// A packet counts as lost.
    Lost {
        /// Its number.
        number: u32,
        /// Whether the retransmission timer said so, and not later packets that arrived.
        by_timeout: bool,
    },
    /// Values of the sender changed.
    Metrics(&'a Metrics),
    /// The controller's state changed, from this one, if there was one, to that.
    State(Option<&'static str>, &'static str),
    /// What is known about ECN on the path changed, from this, if it was known, to that.
    EcnState(Option<EcnState>, EcnState),
    /// A timer changed.
    Timer(Timer),
    /// The Congestion Manager permitted the packet that leaves next.
    Granted(Grant),
    /// The application did something.
    Application(ApplicationEvent),
}

/// What happened to a packet at a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// It reached the near end, before which so many packets were queued.
    Offered {
        /// Packets in the queue.
        queued: u64,
    },
    /// It was dropped, for lack of room.
    Dropped,
    /// It reached the far end.
    Arrived,
    /// It leaves the queue, and the router has changed its ECN code.
    Marked {
        /// The code with which it came.
        from: Ecn,
        /// The code with which it leaves.
        to: Ecn,
        /// Packets in the queue that it leaves.
        queued: u64,
    },
}

/// A packet whose bytes a capture shows.
pub trait Capture {
    /// Appends the first bytes of the packet, from the network layer's header on. Returns its whole length.
    fn write(&self, out: &mut Vec<u8>) -> usize;
}

/// What takes the events of a run.
pub trait Sink: Send {
    /// An event at an end of the flow with this index in the plan.
    fn on_flow(&mut self, at: Time, flow: u32, end: End, event: &FlowEvent<'_>);

    /// The connection of an end of a flow is gone. Late packets may still come.
    fn on_flow_end(&mut self, _at: Time, _flow: u32, _end: End) {}

    /// An event at the link with this index in the plan.
    fn on_link(&mut self, at: Time, link: u32, event: LinkEvent, packet: &dyn Capture);
}

/// A sink that all hosts and links of a run share.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<dyn Sink>>);

impl Trace {
    /// Shares this sink, of which the caller keeps another handle.
    pub fn new<S: Sink + 'static>(sink: &Arc<Mutex<S>>) -> Self {
        Self(Arc::clone(sink) as Arc<Mutex<dyn Sink>>)
    }

    /// The sink. One that panicked in another thread goes on: a trace must not end a run.
    pub fn sink(&self) -> MutexGuard<'_, dyn Sink + 'static> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").finish_non_exhaustive()
    }
}
