//! One stream at the engine: moves bytes between its pipe and its connection, and makes its receive window and its send
//! buffer larger. The sum of all windows, and of what send buffers have beyond their first size, has a limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rampmeter_control::AnyController;
use rampmeter_manager::Share;
use rampmeter_net::{Host, MAX_WINDOW};
use rampmeter_session::SessionId;
use rampmeter_session::shares::{Sharer, Shares};
use rampmeter_transport::{ConnectionId, State};
use rampmeter_units::{Bytes, Duration, Time};

use super::error::StreamEnd;
use super::pipe::{CAPACITY, Pipe, State as PipeState};
use super::stream::PathState;
use crate::receive_window::ReceiveWindow;

/// The first receive window of a stream, unless the transport settings have another.
pub(super) const FIRST_WINDOW: Bytes = Bytes::new(256 * 1024);

/// The first send buffer of a stream.
pub(super) const FIRST_SEND_BUFFER: Bytes = Bytes::new(4 << 20);

/// The receive windows of all streams, and what send buffers have beyond their first size, of all threads of a server.
/// Its clients share them.
#[derive(Debug)]
pub(super) struct Windows(Mutex<Free>);

#[derive(Debug)]
struct Free {
    left: Bytes,
    shares: Shares,
}

impl Windows {
    pub(super) fn new(max: Bytes) -> Self {
        Self(Mutex::new(Free { left: max, shares: Shares::new(max.as_u64()) }))
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `more` for a stream of `sharer`, if that is allowed. A client's streams share with nobody: they may take
    /// all.
    pub(super) fn take(&self, sharer: Option<Sharer>, more: Bytes) -> bool {
        let mut free = self.free();
        let is_permitted = more <= free.left && sharer.is_none_or(|sharer| free.shares.take(sharer, more.as_u64()));
        if is_permitted {
            free.left -= more;
        }
        is_permitted
    }

    /// Gives back what was taken for `sharer`.
    pub(super) fn give_back(&self, sharer: Option<Sharer>, bytes: Bytes) {
        let mut free = self.free();
        free.left += bytes;
        if let Some(sharer) = sharer {
            free.shares.give_back(sharer, bytes.as_u64());
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) session: SessionId,
    sharer: Option<Sharer>,
    pub(super) pipe: Arc<Pipe>,
    window: ReceiveWindow,
    /// Bytes by which the send buffer is larger than at first.
    more_to_send: Bytes,
    finished: bool,
    /// When the peer took bytes last, and how many it has taken until then.
    progress: (Time, u64),
    /// Why its session has ended.
    session_end: Option<StreamEnd>,
}

impl Entry {
    pub(super) fn new(
        now: Time,
        session: SessionId,
        sharer: Option<Sharer>,
        pipe: Arc<Pipe>,
        first_window: Bytes,
    ) -> Self {
        let window = ReceiveWindow::new(now, first_window);
        let (more_to_send, progress) = (Bytes::ZERO, (now, 0));
        Self { session, sharer, pipe, window, more_to_send, finished: false, progress, session_end: None }
    }

    /// Moves what can be moved.
    pub(super) fn advance(&mut self, now: Time, id: ConnectionId, host: &mut Host<AnyController>, windows: &Windows) {
        let mut state = self.pipe.lock();
        state.queued = false;
        if state.dropped && !state.finished {
            drop(state);
            host.abort(now, id);
            return;
        }
        if let Some(weight) = state.weight.take() {
            host.share(id, Share { weight, ..Share::default() });
        }
        while !state.outgoing.is_empty() {
            while host.is_full(id) && take_send_buffer(&mut self.more_to_send, self.sharer, windows) {
                host.extend_send_buffer(id, FIRST_SEND_BUFFER.as_u64() as usize);
            }
            let (head, _) = state.outgoing.as_slices();
            let (count, wanted) = (host.write(now, id, head), head.len());
            state.outgoing.drain(..count);
            if count < wanted {
                break;
            }
        }
        if state.finished && state.outgoing.is_empty() && !std::mem::replace(&mut self.finished, true) {
            host.finish(now, id);
        }
        let mut moved = 0;
        if !state.dropped {
            // What is read counts as the receive window does: no more than a window of it waits here.
            let capacity = CAPACITY.min(self.window.size().as_u64() as usize);
            let space = capacity.saturating_sub(state.incoming.len());
            if space > 0 {
                moved = host.read_up_to(now, id, space, &mut state.incoming);
            }
            state.has_more = moved == space;
            state.ended = host.is_read_to_end(id);
        }
        note_path(&mut state, id, host);
        let woken = state.woken();
        drop(state);
        woken.wake();
        self.raise_window(now, id, host, windows, moved as u64);
    }

    fn raise_window(
        &mut self,
        now: Time,
        id: ConnectionId,
        host: &mut Host<AnyController>,
        windows: &Windows,
        moved: u64,
    ) {
        let Some(connection) = host.endpoint().connection(id) else { return };
        let (rtt, size) = (connection.statistics().smoothed_rtt, self.window.size());
        if self.window.on_read(now, moved, rtt) {
            let mut sizes = self.window.larger().into_iter();
            if let Some(larger) = sizes.find(|larger| windows.take(self.sharer, *larger - size)) {
                self.window.raise(larger);
                host.endpoint_mut().raise_receive_window(id, larger);
            }
        }
    }

    /// Whether its owner has dropped it, all that it has written is delivered, and the peer still writes.
    pub(super) fn is_abandoned(&self, id: ConnectionId, host: &Host<AnyController>) -> bool {
        let Some(connection) = host.endpoint().connection(id) else { return false };
        self.pipe.lock().dropped && connection.is_delivered() && connection.state() == State::Open
    }

    /// Whether it waits for its peer, which has taken nothing for `max`.
    pub(super) fn is_stalled(
        &mut self,
        now: Time,
        id: ConnectionId,
        host: &Host<AnyController>,
        max: Duration,
    ) -> bool {
        let Some(connection) = host.endpoint().connection(id) else { return false };
        let taken = connection.acknowledged();
        let waits = connection.state() == State::Open && (self.finished || !self.pipe.lock().outgoing.is_empty());
        if !waits || taken > self.progress.1 {
            self.progress = (now, taken);
        }
        now.since(self.progress.0) >= max
    }

    /// Whether something that its owner has written and finished is still to be delivered.
    pub(super) fn is_delivering(&self, id: ConnectionId, host: &Host<AnyController>) -> bool {
        let Some(connection) = host.endpoint().connection(id) else { return false };
        self.pipe.lock().finished && !connection.is_delivered()
    }

    /// The connection has ended: what it has received is still read.
    pub(super) fn end(
        self,
        now: Time,
        id: ConnectionId,
        host: &mut Host<AnyController>,
        windows: &Windows,
        end: StreamEnd,
    ) {
        let mut state = self.pipe.lock();
        // Without a limit: it is in memory already, and no more follows.
        host.read(now, id, &mut state.incoming);
        (state.ended, state.has_more) = (host.is_read_to_end(id), false);
        note_path(&mut state, id, host);
        state.end = self.session_end.or(Some(end));
        let woken = state.woken();
        drop(state);
        woken.wake();
        windows.give_back(self.sharer, self.window.size() + self.more_to_send);
    }

    /// Its session has ended; its connection ends next, once what has arrived is in the pipe.
    pub(super) fn set_end(&mut self, end: StreamEnd) {
        self.session_end.get_or_insert(end);
    }
}

/// Takes memory for a send buffer that limits the rate, and has this much beyond its first size.
fn take_send_buffer(more: &mut Bytes, sharer: Option<Sharer>, windows: &Windows) -> bool {
    let is_permitted = FIRST_SEND_BUFFER * 2 + *more <= MAX_WINDOW && windows.take(sharer, FIRST_SEND_BUFFER);
    if is_permitted {
        *more += FIRST_SEND_BUFFER;
    }
    is_permitted
}

/// Notes for the stream's owner what its packets show of the path.
fn note_path(state: &mut PipeState, id: ConnectionId, host: &Host<AnyController>) {
    let Some(connection) = host.endpoint().connection(id) else { return };
    let (statistics, arrivals) = (connection.statistics(), host.arrivals(id));
    state.path = PathState { min_rtt: statistics.min_rtt, rtt: statistics.smoothed_rtt, arrivals };
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn the_sum_of_all_windows_has_a_limit() {
        let windows = Windows::new(Bytes::new(1000));
        let take = |bytes| windows.take(None, Bytes::new(bytes));
        assert!(take(600) && !take(401) && take(400) && !take(1));
    }

    #[test]
    fn one_client_leaves_windows_for_others() {
        let sharer = |last: [u8; 2]| Some(Sharer::from(IpAddr::from([10, 0, last[0], last[1]])));
        let [greedy, neighbour, other] = [[0, 1], [0, 2], [1, 1]].map(sharer);
        let windows = Windows::new(Bytes::new(1 << 30));
        let fill = |sharer| (0..9999).take_while(|_| windows.take(sharer, FIRST_WINDOW)).count();
        // Of 4096 windows. Sixteen parts of 25; four fifths of what is left to its network; the same of the rest.
        assert_eq!([greedy, neighbour, other].map(fill), [2621, 524, 608]);
        windows.give_back(greedy, FIRST_WINDOW * 1000);
        assert!(windows.take(neighbour, FIRST_WINDOW));
    }

    #[test]
    fn a_send_buffer_grows_while_there_is_memory() {
        let (windows, mut more) = (Windows::new(FIRST_SEND_BUFFER * 4), Bytes::ZERO);
        let grown = (0..9).take_while(|_| take_send_buffer(&mut more, None, &windows)).count();
        assert_eq!((grown, FIRST_SEND_BUFFER + more), (3, MAX_WINDOW));
        assert!(take_send_buffer(&mut Bytes::ZERO.clone(), None, &windows));
        assert!(!take_send_buffer(&mut Bytes::ZERO.clone(), None, &windows), "there is no memory left");
    }
}
