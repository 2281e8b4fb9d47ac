//! One stream: a reliable, ordered sequence of bytes in each direction.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rampmeter_net::Arrivals;
use rampmeter_transport::ConnectionId;
use rampmeter_units::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::link::Command;
use super::pipe::{Pipe, Polled, State};
use super::session::Session;

/// What the packets of a stream show of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathState {
    /// The minimum round-trip time.
    pub min_rtt: Duration,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The peer's packets that have arrived, and those that it has sent.
    pub arrivals: Arrivals,
}

/// A reliable, ordered sequence of bytes in each direction, between two hosts.
///
/// Reads and writes are those of tokio. A writer waits while the peer reads slowly. `shutdown` ends this side's bytes;
/// the peer reads them all, then the end, and can still write. A stream that is dropped before its `shutdown` is reset:
/// the peer's next read or write fails. After its `shutdown`, what it has written is still delivered.
///
/// The streams of a session share a macroflow, so they share one estimate of the path. A stream that waits for its peer
/// does not delay others.
#[derive(Debug)]
pub struct Stream {
    id: ConnectionId,
    session: Session,
    pipe: Arc<Pipe>,
}

impl Stream {
    pub(super) fn new(id: ConnectionId, session: Session, pipe: Arc<Pipe>) -> Self {
        Self { id, session, pipe }
    }

    /// The session of the stream.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// What its packets have shown of the path when it last moved bytes.
    pub fn path(&self) -> PathState {
        self.pipe.lock().path
    }

    /// Sets the stream's weight: beside others of its session it sends in proportion to it. It is 1 at first, and must
    /// be positive and finite; others are ignored.
    pub fn set_weight(&self, weight: f64) {
        if weight.is_finite() && weight > 0.0 {
            let ask = {
                let mut state = self.pipe.lock();
                state.weight = Some(weight);
                state.ask()
            };
            self.update_if(ask);
        }
    }

    fn update_if(&self, ask: bool) {
        if ask {
            self.session.link().push(Command::Update(self.id));
        }
    }

    fn poll<T>(&self, poll: impl FnOnce(&mut State) -> Polled<T>) -> Poll<io::Result<T>> {
        let (result, ask) = poll(&mut self.pipe.lock());
        self.update_if(ask);
        result
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll(|state| state.poll_read(context, out))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(|state| state.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|state| (Poll::Ready(Ok(())), state.finish()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let ask = {
            let mut state = self.pipe.lock();
            state.dropped = true;
            state.ask()
        };
        self.update_if(ask);
    }
}
