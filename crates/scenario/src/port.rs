//! The host port: what flows need of a host, and what a world that moves packets itself needs besides.
//!
//! Our endpoint implements it in the simulated world, our hosts on sockets and the kernel's sockets in the emulated one,
//! and other transports' stacks ([`crate::stack`]). All calls have the world's time; a host with a clock of its own
//! converts it. A flow is called by its index in the plan, because packets carry that, too.

use std::fmt::Debug;

use rampmeter_control::Fault;
use rampmeter_manager::Share;
use rampmeter_transport::{Limits, Statistics};
use rampmeter_units::{Bytes, Time};
use rampmeter_workload::{Carrier, End, Path};

use crate::SenderState;

/// A flow that a host opens.
#[derive(Debug, Clone, Copy)]
pub struct Opening<A> {
    /// Its index in the plan.
    pub flow: u32,
    /// Its receiver.
    pub to: A,
    /// How it carries its data.
    pub carrier: Carrier,
    /// Its share of its macroflow.
    pub share: Share,
    /// Whether its application uses [`Host::path`], and [`Event::ShareChanged`].
    pub uses_share: bool,
}

/// What happened at a host, for the application of a flow. `Id` is the host's name for its end of the flow.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<Id> {
    /// The connection of a flow that this host opened is established.
    Opened(u32),
    /// The connection of a flow to this host is established.
    Accepted(u32, Id),
    /// An end of a flow may have stream bytes to [read](Host::read), or the end of the stream.
    Readable(u32, End),
    /// A datagram of this size has arrived.
    Datagram(u32, Bytes),
    /// A flow's share of its path has changed.
    ShareChanged(u32, Path),
    /// A flow's controller cannot work as designed, and why; or it returns a wrong value.
    Degraded(u32, &'static str, Option<Fault>),
    /// The connection with this name has ended.
    Closed(u32, Id, Box<Sent>),
}

impl<Id> Event<Id> {
    /// The same event with another name for the end of a flow.
    pub fn named<Other>(self, name: impl FnOnce(Id) -> Other) -> Event<Other> {
        match self {
            Self::Opened(flow) => Event::Opened(flow),
            Self::Accepted(flow, id) => Event::Accepted(flow, name(id)),
            Self::Readable(flow, end) => Event::Readable(flow, end),
            Self::Datagram(flow, bytes) => Event::Datagram(flow, bytes),
            Self::ShareChanged(flow, path) => Event::ShareChanged(flow, path),
            Self::Degraded(flow, why, fault) => Event::Degraded(flow, why, fault),
            Self::Closed(flow, id, sent) => Event::Closed(flow, name(id), sent),
        }
    }
}

/// What the sender of a flow has sent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sent {
    /// Packets with payload, retransmissions included.
    pub packets: u64,
    /// Packets that retransmitted stream bytes; of another transport's stack, those that it declared lost.
    pub retransmitted: u64,
    /// What stopped it from sending, other than its controller.
    pub limits: Limits,
}

impl From<Statistics> for Sent {
    fn from(counts: Statistics) -> Self {
        Self { packets: counts.data_packets, retransmitted: counts.retransmitted, limits: counts.limits }
    }
}

/// What flows need of a host.
pub trait Host {
    /// The host's name for its end of a flow.
    type Id: Copy + PartialEq + Debug;
    /// The address of another host.
    type Address: Copy;

    /// Opens a flow. `None`: the host cannot.
    fn open(&mut self, now: Time, opening: &Opening<Self::Address>) -> Option<Self::Id>;

    /// Another host is about to open this flow to this host.
    fn expect(&mut self, _opening: &Opening<Self::Address>) {}

    /// The application adds `bytes` to the stream.
    fn write(&mut self, now: Time, id: Self::Id, bytes: u64);

    /// The application will write no more.
    fn finish(&mut self, now: Time, id: Self::Id);

    /// The application withdraws what has not been sent, and will write no more.
    fn stop(&mut self, now: Time, id: Self::Id);

    /// The application reads all that has arrived of the stream, of which it has already read `read` bytes. Returns the
    /// bytes read since the start, and whether the stream has ended. `None`: there is no such connection.
    fn read(&mut self, now: Time, id: Self::Id, read: Bytes) -> Option<(Bytes, bool)>;

    /// The application queues datagrams until its controller permits them.
    fn queue_datagrams(&mut self, _now: Time, _id: Self::Id, _count: u64) {}

    /// The application sends a datagram at once.
    fn send_datagram(&mut self, _now: Time, _id: Self::Id) {}

    /// The path of a flow, as its congestion control sees it.
    fn path(&self, _now: Time, _id: Self::Id) -> Path {
        Path::default()
    }

    /// The next event.
    fn poll_event(&mut self) -> Option<Event<Self::Id>>;

    /// The state of a flow's sender, if the flow sends.
    fn state(&self, id: Self::Id) -> Option<SenderState>;

    /// What a flow has sent so far; `None` if its connection has ended.
    fn sent(&self, id: Self::Id) -> Option<Sent>;
}

/// A host whose packets the world moves: packets and time in; packets, events and the next wake-up out.
pub trait PacketHost: Host {
    /// A packet in the world's form.
    type Packet;
    /// What all hosts of a run share, such as memory for packets.
    type Shared;

    /// A packet has arrived. Its events are in [`Host::poll_event`] afterwards.
    fn receive(&mut self, now: Time, packet: Self::Packet, shared: &mut Self::Shared);

    /// The next packet to send at `now`, if there is one.
    fn transmit(&mut self, now: Time, shared: &mut Self::Shared) -> Option<Self::Packet>;

    /// When [`PacketHost::on_deadline`] must be called; [`Time::MAX`] for never.
    fn deadline(&self) -> Time;

    /// Handles all deadlines up to `now`.
    fn on_deadline(&mut self, now: Time);
}
