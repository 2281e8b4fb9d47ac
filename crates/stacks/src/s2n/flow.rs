//! A flow: an endpoint with one connection, and on it one stream in each direction, because an end may use only streams
//! that it has opened, or whose first bytes have arrived.
//!
//! After each call of the endpoint its application polls all that it waits for. Only for received bytes it has a waker,
//! because a poll would read them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use rampmeter_scenario::port::{Event, Sent};
use rampmeter_scenario::stack::Peer;
use rampmeter_units::{Ecn, Time};
use rampmeter_workload::End;
use s2n_quic_core::application;
use s2n_quic_transport::connection::Connection;
use s2n_quic_transport::endpoint::connect::Attempt;
use s2n_quic_transport::endpoint::handle::Acceptor;
use s2n_quic_transport::stream::{ReceiveStream, SendStream, StreamType};

use super::driver::{Driver, Meter};

/// The bytes of one write.
static CHUNK: [u8; 16 * 1024] = [0; 16 * 1024];

/// Set when it is woken.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection that is not established yet.
pub(super) enum Pending {
    Opened(Attempt),
    Accepted(Acceptor),
}

/// A flow's endpoint, and its application.
pub(super) struct Flow {
    pub(super) index: u32,
    pub(super) peer: Peer,
    /// At the opener `Sender`.
    end: End,
    endpoint: Box<dyn Driver>,
    pending: Option<Pending>,
    connection: Option<Connection>,
    outgoing: Option<SendStream>,
    incoming: Option<ReceiveStream>,
    is_readable: Arc<Flag>,
    /// Bytes that the application has written, and that the stack has not taken.
    pub(super) unwritten: u64,
    pub(super) is_finishing: bool,
    /// Bytes of the peer's stream that have been read, and whether that is all.
    pub(super) read: u64,
    pub(super) has_ended: bool,
    packets: u64,
    /// As of the last call of the endpoint.
    pub(super) meter: Meter,
    /// [`Event::Closed`] was reported.
    is_closed: bool,
    /// It is in the list of those that may have something to send.
    pub(super) is_ready: bool,
    pub(super) deadline: Option<Time>,
}

impl Flow {
    pub(super) fn new(index: u32, peer: Peer, endpoint: Box<dyn Driver>, pending: Pending) -> Self {
        let end = match pending {
            Pending::Opened(_) => End::Sender,
            Pending::Accepted(_) => End::Receiver,
        };
        Self {
            index,
            peer,
            end,
            endpoint,
            pending: Some(pending),
            connection: None,
            outgoing: None,
            incoming: None,
            is_readable: Arc::default(),
            unwritten: 0,
            is_finishing: false,
            read: 0,
            has_ended: false,
            packets: 0,
            meter: Meter::default(),
            is_closed: false,
            is_ready: false,
            deadline: None,
        }
    }

    pub(super) fn receive(&mut self, now: Time, contents: &mut [u8], ecn: Ecn) {
        self.endpoint.receive(now, contents, ecn);
    }

    pub(super) fn on_deadline(&mut self, now: Time) {
        self.endpoint.on_deadline(now);
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.endpoint.deadline()
    }

    /// The next datagram to send, with its ECN code and its number of bytes of the application.
    pub(super) fn transmit(&mut self, now: Time) -> Option<(Vec<u8>, Ecn, u16)> {
        let before = self.endpoint.meter().data;
        let (contents, ecn) = self.endpoint.transmit(now)?;
        self.meter = *self.endpoint.meter();
        let data = (self.meter.data - before) as u16;
        self.packets += u64::from(data > 0);
        Some((contents, ecn, data))
    }

    /// Whether the stack has nothing more to do for its connection.
    pub(super) fn is_drained(&self) -> bool {
        self.meter.is_closed && self.next_deadline().is_none()
    }

    /// Passes events on between the application and the endpoint.
    pub(super) fn settle(&mut self, now: Time, events: &mut VecDeque<Event<u32>>) {
        loop {
            self.connect(events);
            self.use_streams(events);
            if !self.endpoint.wake(now) {
                break;
            }
        }
        if self.is_readable.0.swap(false, Ordering::Relaxed) {
            events.push_back(Event::Readable(self.index, self.end));
        }
        self.meter = *self.endpoint.meter();
        if self.meter.is_closed {
            events.extend(self.closed());
        }
    }

    fn connect(&mut self, events: &mut VecDeque<Event<u32>>) {
        let context = &mut Context::from_waker(Waker::noop());
        let connection = match &mut self.pending {
            Some(Pending::Opened(attempt)) => match Pin::new(attempt).poll(context) {
                Poll::Ready(Ok(connection)) => connection,
                Poll::Ready(Err(_)) => {
                    self.pending = None;
                    events.extend(self.closed());
                    return;
                }
                Poll::Pending => return,
            },
            Some(Pending::Accepted(acceptor)) => match acceptor.poll_accept(context) {
                Poll::Ready(Some(connection)) => connection,
                _ => return,
            },
            None => return,
        };
        self.pending = None;
        if self.is_closed {
            connection.close(application::Error::UNKNOWN); // its application has stopped before it was established
        } else {
            let _ = connection.keep_alive(true); // an error means that it is closed, which is reported
            events.push_back(match self.end {
                End::Sender => Event::Opened(self.index),
                End::Receiver => Event::Accepted(self.index, self.index),
            });
        }
        self.connection = Some(connection);
    }

    fn use_streams(&mut self, events: &mut VecDeque<Event<u32>>) {
        let Some(connection) = self.connection.as_mut().filter(|_| !self.is_closed) else { return };
        let context = &mut Context::from_waker(Waker::noop());
        if self.outgoing.is_none()
            && let Poll::Ready(Ok(stream)) = connection.poll_open_stream(StreamType::Unidirectional, context)
        {
            self.outgoing = Some(stream.into());
        }
        if self.incoming.is_none()
            && let Poll::Ready(Ok(Some(stream))) = connection.poll_accept(Some(StreamType::Unidirectional), context)
        {
            self.incoming = Some(stream.into());
            events.push_back(Event::Readable(self.index, self.end));
        }
        events.extend(self.write());
    }

    /// Gives the stack as much as it takes, and closes the connection of an opener whose data has all been acknowledged.
    fn write(&mut self) -> Option<Event<u32>> {
        let stream = self.outgoing.as_mut()?;
        let context = &mut Context::from_waker(Waker::noop());
        while self.unwritten > 0 {
            let size = CHUNK.len().min(self.unwritten as usize);
            let Poll::Ready(Ok(())) = stream.poll_send(&mut Bytes::from_static(&CHUNK[..size]), context) else {
                return None;
            };
            self.unwritten -= size as u64;
        }
        if !self.is_finishing {
            return None;
        }
        let Poll::Ready(outcome) = stream.poll_close(context) else { return None };
        self.is_finishing = false;
        (outcome.is_ok() && self.end == End::Sender).then(|| self.close())?
    }

    pub(super) fn read(&mut self) {
        let Some(stream) = self.incoming.as_mut().filter(|_| !self.has_ended) else { return };
        let waker = self.is_readable.clone().into();
        let context = &mut Context::from_waker(&waker);
        loop {
            match stream.poll_receive(context) {
                Poll::Ready(Ok(Some(chunk))) => self.read += chunk.len() as u64,
                Poll::Ready(Ok(None)) => {
                    self.has_ended = true;
                    return;
                }
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
        }
    }

    pub(super) fn sent(&self) -> Sent {
        Sent { packets: self.packets, retransmitted: self.meter.lost, ..Sent::default() }
    }

    /// Ends the connection, whatever has not been acknowledged.
    pub(super) fn close(&mut self) -> Option<Event<u32>> {
        if let Some(connection) = &self.connection {
            connection.close(application::Error::UNKNOWN);
        }
        self.closed()
    }

    /// The event that the connection has ended, once.
    fn closed(&mut self) -> Option<Event<u32>> {
        self.meter = *self.endpoint.meter();
        let is_first = !std::mem::replace(&mut self.is_closed, true);
        is_first.then(|| Event::Closed(self.index, self.index, Box::new(self.sent())))
    }
}
