//! An endpoint in virtual time. In s2n-quic one loop gives an endpoint received datagrams, room for datagrams to send,
//! wake-ups by its application, and the time (`io/event_loop.rs` of `s2n-quic-core`). Here each of these is a call, and a
//! queue holds one datagram: longer queues of datagrams to send gave the same bytes at the same times.
//!
//! Times of s2n-quic are multiples of one microsecond, and it handles what is due within the next millisecond at once.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::task::{Context, Poll, Waker};

use rampmeter_units::{Duration, Ecn, Time};
use s2n_quic_core::endpoint::Endpoint;
use s2n_quic_core::event::Subscriber;
use s2n_quic_core::event::api::{
    ConnectionClosed, ConnectionInfo, ConnectionMeta, Frame, FrameSent, PacketLost, RecoveryMetrics,
};
use s2n_quic_core::inet::datagram::Header;
use s2n_quic_core::inet::{ExplicitCongestionNotification, SocketAddressV4};
use s2n_quic_core::io::{rx, tx};
use s2n_quic_core::path::RemoteAddress;
use s2n_quic_core::time::{Clock as _, NoopClock, Timestamp};

/// Room for the largest datagram.
const ROOM: usize = 1500;

/// The address of every peer: an endpoint has one, and its host knows to where the datagrams go.
pub(super) fn peer() -> SocketAddressV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4433).into()
}

/// The instant zero of virtual time: the first one of s2n-quic's.
fn zero() -> Timestamp {
    NoopClock.get_time()
}

fn timestamp(now: Time) -> Timestamp {
    zero() + std::time::Duration::from_nanos(now.since(Time::ZERO).as_nanos())
}

fn time(at: Timestamp) -> Time {
    Time::ZERO + Duration::from_nanos(at.saturating_duration_since(zero()).as_nanos() as u64)
}

/// What an endpoint, which has one connection, reports about it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Meter {
    /// In bytes.
    pub(super) window: u64,
    /// The smoothed round-trip time.
    pub(super) rtt: std::time::Duration,
    /// Packets declared lost, without those that probe for the path's packet size.
    pub(super) lost: u64,
    /// The bytes of streams in all packets sent.
    pub(super) data: u64,
    pub(super) is_closed: bool,
}

impl Subscriber for Meter {
    type ConnectionContext = ();

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo<'_>) {}

    fn on_frame_sent(&mut self, (): &mut (), _: &ConnectionMeta, event: &FrameSent) {
        if let Frame::Stream { len, .. } = event.frame {
            self.data += u64::from(len);
        }
    }

    fn on_packet_lost(&mut self, (): &mut (), _: &ConnectionMeta, event: &PacketLost<'_>) {
        self.lost += u64::from(!event.is_mtu_probe);
    }

    fn on_recovery_metrics(&mut self, (): &mut (), _: &ConnectionMeta, event: &RecoveryMetrics<'_>) {
        self.window = event.congestion_window.into();
        self.rtt = event.smoothed_rtt;
    }

    fn on_connection_closed(&mut self, (): &mut (), _: &ConnectionMeta, _: &ConnectionClosed) {
        self.is_closed = true;
    }
}

/// A received datagram.
struct Incoming<'a>(Ecn, Option<&'a mut [u8]>);

impl rx::Queue for Incoming<'_> {
    type Handle = RemoteAddress;

    fn for_each<F: FnMut(Header<RemoteAddress>, &mut [u8])>(&mut self, mut on_packet: F) {
        if let Some(contents) = self.1.take() {
            let ecn = ExplicitCongestionNotification::new(self.0.bits());
            on_packet(Header { path: peer().into(), ecn }, contents);
        }
    }

    fn is_empty(&self) -> bool {
        self.1.is_none()
    }
}

/// A place for a datagram to send.
#[derive(Debug)]
struct Outgoing {
    has_room: bool,
    sent: Option<(Vec<u8>, Ecn)>,
}

impl tx::Queue for Outgoing {
    type Handle = RemoteAddress;

    const SUPPORTS_ECN: bool = true;

    fn push<M: tx::Message<Handle = RemoteAddress>>(&mut self, mut message: M) -> Result<tx::Outcome, tx::Error> {
        if !self.has_room {
            return Err(tx::Error::AtCapacity);
        }
        let ecn = Ecn::from_bits(message.ecn() as u8);
        let mut contents = vec![0; ROOM];
        let len = message.write_payload(tx::PayloadBuffer::new(&mut contents), 0)?;
        contents.truncate(len);
        self.has_room = false;
        self.sent = Some((contents, ecn));
        Ok(tx::Outcome { len, index: 0 })
    }

    fn capacity(&self) -> usize {
        usize::from(self.has_room)
    }
}

/// An endpoint of either end, with any controller.
pub(super) trait Driver {
    fn receive(&mut self, now: Time, contents: &mut [u8], ecn: Ecn);

    /// The next datagram to send, and its ECN code.
    fn transmit(&mut self, now: Time) -> Option<(Vec<u8>, Ecn)>;

    /// Handles what is due.
    fn on_deadline(&mut self, now: Time);

    /// Handles what the application has asked for, and returns whether there was anything.
    fn wake(&mut self, now: Time) -> bool;

    /// When [`Driver::on_deadline`] must be called.
    fn deadline(&self) -> Option<Time>;

    fn meter(&mut self) -> &mut Meter;
}

impl<E: Endpoint<PathHandle = RemoteAddress, Subscriber = Meter>> Driver for E {
    fn receive(&mut self, now: Time, contents: &mut [u8], ecn: Ecn) {
        Endpoint::receive(self, &mut Incoming(ecn, Some(contents)), &timestamp(now));
    }

    fn transmit(&mut self, now: Time) -> Option<(Vec<u8>, Ecn)> {
        let mut place = Outgoing { has_room: true, sent: None };
        Endpoint::transmit(self, &mut place, &timestamp(now));
        place.sent
    }

    fn on_deadline(&mut self, now: Time) {
        // An endpoint handles its timers before it looks for room.
        Endpoint::transmit(self, &mut Outgoing { has_room: false, sent: None }, &timestamp(now));
    }

    fn wake(&mut self, now: Time) -> bool {
        matches!(self.poll_wakeups(&mut Context::from_waker(Waker::noop()), &timestamp(now)), Poll::Ready(Ok(_)))
    }

    fn deadline(&self) -> Option<Time> {
        self.timeout().map(time)
    }

    fn meter(&mut self) -> &mut Meter {
        self.subscriber()
    }
}
