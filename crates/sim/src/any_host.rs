//! A host of a run: our endpoint, or another transport's stack.

use rampmeter_control::AnyController;
use rampmeter_router::Parcel;
use rampmeter_run::{Event, Host, Name, Opening, PacketHost, Sent};
use rampmeter_scenario::stack::{Datagram, Setup, StackHost};
use rampmeter_scenario::{NodeId, Plan, Sender, SenderState};
use rampmeter_trace::Tap;
use rampmeter_units::{Bytes, Streams, Time};
use rampmeter_workload::Path;

use crate::host::OurHost;
use crate::packet::{InTransit, Pool};
use crate::paths::{PathId, reverse};

/// A host of any scheme.
#[allow(clippy::large_enum_variant, reason = "most hosts are ours, and a pointer to one costs time at each packet")]
pub(crate) enum AnyHost<T> {
    Ours(OurHost<T>),
    Stack(Box<StackHost>),
}

/// What a host calls its end of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AnyName {
    Ours(Name),
    /// The index of the flow.
    Stack(u32),
}

impl<T: Tap<AnyController, PathId>> AnyHost<T> {
    /// The host of a scheme of `plan` at `node`. `number` distinguishes it from the run's other hosts.
    pub(crate) fn new(plan: &Plan, node: NodeId, scheme: usize, number: u32, tap: T) -> Self {
        match &plan.schemes[scheme].sender {
            Sender::Stack { stack, controller } => {
                let random = Streams::new(plan.seed).stream("stack", number.into());
                Self::Stack(stack.host(controller, Setup { packet: plan.packet, random }))
            }
            _ => Self::Ours(OurHost::new(plan, node, scheme, number, tap)),
        }
    }
}

/// Calls a method of the host for a flow; `None` if the flow is not of this host.
macro_rules! of_flow {
    ($self:expr, $id:expr, |$host:ident, $name:ident| $call:expr) => {
        match ($self, $id) {
            (Self::Ours($host), AnyName::Ours($name)) => Some($call),
            (Self::Stack($host), AnyName::Stack($name)) => Some($call),
            _ => None,
        }
    };
}

impl<T: Tap<AnyController, PathId>> Host for AnyHost<T> {
    type Id = AnyName;
    type Address = PathId;

    fn open(&mut self, now: Time, opening: &Opening<PathId>) -> Option<AnyName> {
        match self {
            Self::Ours(host) => host.open(now, opening).map(AnyName::Ours),
            Self::Stack(host) => host.open(now, opening).map(AnyName::Stack),
        }
    }

    fn expect(&mut self, opening: &Opening<PathId>) {
        match self {
            Self::Ours(host) => host.expect(opening),
            Self::Stack(host) => host.expect(opening),
        }
    }

    fn write(&mut self, now: Time, id: AnyName, bytes: u64) {
        of_flow!(self, id, |host, name| host.write(now, name, bytes));
    }

    fn finish(&mut self, now: Time, id: AnyName) {
        of_flow!(self, id, |host, name| host.finish(now, name));
    }

    fn stop(&mut self, now: Time, id: AnyName) {
        of_flow!(self, id, |host, name| host.stop(now, name));
    }

    #[inline]
    fn read(&mut self, now: Time, id: AnyName, read: Bytes) -> Option<(Bytes, bool)> {
        of_flow!(self, id, |host, name| host.read(now, name, read))?
    }

    fn queue_datagrams(&mut self, now: Time, id: AnyName, count: u64) {
        of_flow!(self, id, |host, name| host.queue_datagrams(now, name, count));
    }

    fn send_datagram(&mut self, now: Time, id: AnyName) {
        of_flow!(self, id, |host, name| host.send_datagram(now, name));
    }

    fn path(&self, now: Time, id: AnyName) -> Path {
        of_flow!(self, id, |host, name| host.path(now, name)).unwrap_or_default()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event<AnyName>> {
        match self {
            Self::Ours(host) => host.poll_event().map(|event| event.named(AnyName::Ours)),
            Self::Stack(host) => host.poll_event().map(|event| event.named(AnyName::Stack)),
        }
    }

    fn state(&self, id: AnyName) -> Option<SenderState> {
        of_flow!(self, id, |host, name| host.state(name))?
    }

    fn sent(&self, id: AnyName) -> Option<Sent> {
        of_flow!(self, id, |host, name| host.sent(name))?
    }
}

impl<T: Tap<AnyController, PathId>> PacketHost for AnyHost<T> {
    type Packet = InTransit;
    type Shared = Pool;

    #[inline]
    fn receive(&mut self, now: Time, mut packet: InTransit, pool: &mut Pool) {
        let host = match self {
            Self::Ours(host) => return host.receive(now, packet, pool),
            Self::Stack(host) => host,
        };
        let ((path, flow), ecn, payload) = (packet.route(), packet.ecn(), packet.payload() as u16);
        if let Some(contents) = packet.take_foreign() {
            host.receive(now, Datagram { flow, peer: reverse(path), contents, payload, ecn }, &mut ());
        }
        pool.recycle(packet);
    }

    #[inline]
    fn transmit(&mut self, now: Time, pool: &mut Pool) -> Option<InTransit> {
        match self {
            Self::Ours(host) => host.transmit(now, pool),
            Self::Stack(host) => {
                let Datagram { flow, peer, contents, payload, ecn } = host.transmit(now, &mut ())?;
                Some(pool.foreign(flow, peer, contents, payload, ecn))
            }
        }
    }

    #[inline]
    fn deadline(&self) -> Time {
        match self {
            Self::Ours(host) => host.deadline(),
            Self::Stack(host) => host.deadline(),
        }
    }

    fn on_deadline(&mut self, now: Time) {
        match self {
            Self::Ours(host) => host.on_deadline(now),
            Self::Stack(host) => host.on_deadline(now),
        }
    }
}
