//! The server's side of one connection: it reads requests and answers them in their order.
//!
//! ```text
//! Greeting ──► Ready ──► Checking ──► Sending ──┐      get (a check if the client has a part)
//!                │ ├───► Hashing, Listing ──────┤      hash, list
//!                │ ├───► Receiving ─► Skipping ─┤      put (`upload`); what follows a refused one
//!                │ └───► Changing ──────────────┤      delete, set the time, sync
//!                └◄──────────────────────────────┘
//! ```
//!
//! `requests` starts the work of a request, `outcomes` answers with what a job found, `upload` has the course of a put.
//!
//! Nothing here waits for a disk: jobs in other threads read and write files, except for a few pieces in each turn that
//! the kernel has in memory. A lane has at most one job, and at most a piece of a file and 64 kB of requests in memory
//! beside the connection's own buffers. It reads no further requests while it cannot send its answers.

mod outcomes;
mod requests;
mod upload;

use std::net::IpAddr;

use rampmeter_control::AnyController;
use rampmeter_session::PublicKey;
use rampmeter_transport::ConnectionId;
use rampmeter_units::{Bytes, Time};

use self::upload::Upload;
use super::common::Common;
use super::jobs::{self, Listing, Outcome};
use super::shared::Shared;
use super::worker::Access;
use crate::files::pool::Class;
use crate::files::protocol::{Answer, Greeting, Hash, MAX_MESSAGE, Refusal, Request, Rights};
use crate::files::source::Source;
use crate::host::Host;
use crate::receive_window::{MAX_WINDOW, ReceiveWindow};

/// Requests that have arrived and wait for their turn are read up to this size; the rest stays in the connection, whose
/// window the client cannot exceed.
const MAX_INPUT: usize = 64 * 1024;

// There is always room for a whole message.
const _: () = assert!(MAX_INPUT > MAX_MESSAGE);

/// The first receive window of a connection: some hundred requests.
pub(super) const REQUEST_WINDOW: Bytes = Bytes::new(64 * 1024);

/// The first window of a connection that uploads, if there is memory for it: 1 Gb/s over 33 ms.
const UPLOAD_WINDOW: Bytes = Bytes::new(4 << 20);

/// Requests that are answered before other clients are served.
const REQUESTS_A_TURN: usize = 16;

#[derive(Debug)]
pub(super) enum Stage {
    Greeting,
    Ready,
    /// Hashes the bytes that the client has.
    Checking {
        source: Option<Source>,
        prefix: Hash,
        until: u64,
    },
    Sending(Option<Source>),
    Hashing(Option<Source>),
    Listing(Option<Listing>),
    Receiving(Upload),
    /// A put was refused; its bytes are dropped.
    Skipping,
    Changing,
    /// The last answer was given.
    Ended,
}

/// What follows a call of [`Lane::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// There is more work to do.
    More,
    /// The lane waits for the client, for a job or for a place.
    Wait,
    /// The lane waits for its budget.
    WaitUntil(Time),
    /// The client breaks the protocol: the connection is to be aborted.
    Failed,
}

/// What a lane did, for the report.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The name in the first request.
    pub(super) name: String,
    /// Files that were sent or received completely.
    pub(super) files: u64,
    /// Bytes of files sent.
    pub(super) sent: u64,
    /// Bytes of files received.
    pub(super) received: u64,
    /// Requests that were refused, and the name and the reason of the last one.
    pub(super) refused: u64,
    pub(super) refusal: Option<(String, Refusal)>,
    /// Whether it was ended for an upload that its client has begun once more.
    pub(super) is_replaced: bool,
}

/// A connection, now, and what it shares with the others.
pub(super) struct Context<'a> {
    pub(super) now: Time,
    pub(super) host: &'a mut Host<AnyController>,
    pub(super) id: ConnectionId,
    pub(super) shared: &'a mut Shared,
}

/// One client's connection.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) stage: Stage,
    pub(super) ip: IpAddr,
    /// The client's public key.
    key: Option<PublicKey>,
    pub(super) access: Access,
    /// The name of the controller that sends the files.
    pub(super) controller: String,
    /// The name in the present request.
    name: String,
    pub(super) input: Vec<u8>,
    /// Answers that did not fit into the send buffer, from `sent` on.
    output: Vec<u8>,
    flushed: usize,
    /// Bytes written to the connection.
    written: u64,
    /// Whether a job runs.
    pub(super) has_job: bool,
    /// The bytes that it hashes, and that are not yet charged.
    hashing: u64,
    /// Whether the lane has one of the server's places.
    pub(super) has_place: bool,
    /// The size of the piece that is arriving, without what has arrived.
    pub(super) piece_left: usize,
    /// A buffer for the next job.
    buffer: Vec<u8>,
    window: ReceiveWindow,
    /// Bytes by which its send buffer is larger than at first.
    more_to_send: u64,
    pub(super) done: Done,
    /// Bytes of requests and files handled, as a measure of progress.
    pub(super) handled: u64,
}

impl Lane {
    pub(super) fn new(now: Time, ip: IpAddr, key: Option<PublicKey>, access: Access, controller: &str) -> Self {
        Self {
            stage: Stage::Greeting,
            ip,
            key,
            access,
            controller: controller.to_owned(),
            name: String::new(),
            input: Vec::new(),
            output: Vec::new(),
            flushed: 0,
            written: 0,
            has_job: false,
            hashing: 0,
            has_place: false,
            piece_left: 0,
            buffer: Vec::new(),
            window: ReceiveWindow::new(now, REQUEST_WINDOW),
            more_to_send: 0,
            done: Done::default(),
            handled: 0,
        }
    }

    /// The bytes of the receive window and of the send buffer beyond those that each connection has.
    pub(super) fn more_memory(&self) -> u64 {
        (self.window.size() - REQUEST_WINDOW).as_u64() + self.more_to_send
    }

    /// Whether more may be written. A send buffer that limits the rate becomes larger, if there is memory.
    fn has_room(&mut self, cx: &mut Context<'_>) -> bool {
        while cx.host.is_full(cx.id) {
            let send_buffer = cx.shared.common.options.limits.send_buffer as u64 + self.more_to_send;
            let more = send_buffer.min(MAX_WINDOW.as_u64().saturating_sub(send_buffer));
            if more == 0 || !cx.shared.common.memory().take(self.ip, more) {
                break;
            }
            self.more_to_send += more;
            cx.host.extend_send_buffer(cx.id, more as usize);
        }
        cx.host.is_writable(cx.id)
    }

    /// Raises the receive window for an upload: as far as the client's share of the server's memory allows. The window
    /// stays for later uploads, since a connection never takes it back.
    fn open_window(&mut self, cx: &mut Context<'_>) {
        let mut wanted = UPLOAD_WINDOW;
        while wanted > self.window.size() {
            self.raise_window(cx, wanted);
            wanted = wanted / 2;
        }
    }

    /// Raises the receive window, if there is memory.
    fn raise_window(&mut self, cx: &mut Context<'_>, wanted: Bytes) {
        let more = (wanted - self.window.size()).as_u64();
        if cx.shared.common.memory().take(self.ip, more) {
            self.window.raise(wanted);
            cx.host.endpoint_mut().raise_receive_window(cx.id, wanted);
        }
    }

    /// Bytes of an upload were read.
    fn measure_window(&mut self, cx: &mut Context<'_>, bytes: usize) {
        let Some(connection) = cx.host.endpoint().connection(cx.id) else { return };
        if self.window.on_read(cx.now, bytes as u64, connection.statistics().smoothed_rtt) {
            self.raise_window(cx, self.window.size() * 2);
        }
    }

    /// Whether the lane has a request to answer, or answers that the client does not have yet; `acknowledged` bytes of
    /// the stream have arrived there.
    pub(super) fn is_busy(&self, acknowledged: u64) -> bool {
        let is_idle = matches!(self.stage, Stage::Greeting | Stage::Ready | Stage::Ended);
        !is_idle || self.has_job || !self.output.is_empty() || acknowledged < self.written
    }

    /// Whether its client has begun the upload that it receives once more, since the last call.
    pub(super) fn take_awaited(&self) -> bool {
        matches!(&self.stage, Stage::Receiving(upload) if upload.take_awaited())
    }

    /// Whether the lane has a request that waits for a place.
    pub(super) fn waits_for_place(&self) -> bool {
        !self.has_place && matches!(self.stage, Stage::Ready) && !self.input.is_empty()
    }

    pub(super) fn answer(&mut self, cx: &mut Context<'_>, answer: &Answer) {
        answer.encode(&mut self.output);
        self.flush(cx);
    }

    pub(super) fn refuse(&mut self, cx: &mut Context<'_>, reason: Refusal) {
        self.note_refusal(reason);
        self.answer(cx, &Answer::Refused(reason));
    }

    /// Refuses a request after which the stream cannot be read any further.
    pub(super) fn refuse_and_end(&mut self, cx: &mut Context<'_>, reason: Refusal) {
        self.name.clear();
        self.refuse(cx, reason);
        self.end(cx);
    }

    fn end(&mut self, cx: &mut Context<'_>) {
        self.stage = Stage::Ended;
        self.flush(cx);
        if self.output.is_empty() {
            cx.host.finish(cx.now, cx.id);
        }
    }

    /// Writes as much of the output as fits.
    fn flush(&mut self, cx: &mut Context<'_>) {
        let rest = &self.output[self.flushed..];
        let count = cx.host.write(cx.now, cx.id, rest);
        self.on_moved(cx, count);
        self.written += count as u64;
        self.flushed += count;
        if self.flushed == self.output.len() {
            self.output.clear();
            self.flushed = 0;
        }
    }

    /// Reads what has arrived, if there is room: so much at a time that a budget goes into debt for a moment only.
    fn fill(&mut self, cx: &mut Context<'_>) {
        let room = MAX_INPUT.saturating_sub(self.input.len());
        if room > 0 {
            let count = cx.host.read_up_to(cx.now, cx.id, room, &mut self.input);
            self.on_moved(cx, count);
            if matches!(self.stage, Stage::Receiving(_)) {
                self.measure_window(cx, count);
            }
        }
    }

    /// Bytes were sent or received.
    pub(super) fn on_moved(&self, cx: &Context<'_>, bytes: usize) {
        if let Some(mut rates) = cx.shared.common.rates() {
            rates.on_moved(cx.now, self.ip, bytes as u64);
        }
    }

    pub(super) fn submit(
        &mut self,
        cx: &mut Context<'_>,
        class: Class,
        job: impl FnOnce() -> Outcome + Send + 'static,
    ) {
        self.has_job = true;
        cx.shared.pool.submit(cx.id, class, job);
    }

    /// Does the next piece of work.
    pub(super) fn advance(&mut self, cx: &mut Context<'_>) -> Next {
        let mut has_read = false;
        for _ in 0..REQUESTS_A_TURN {
            let rates = cx.shared.common.rates();
            if let Some(until) = rates.and_then(|mut rates| rates.wait_to_move(cx.now, self.ip)) {
                return Next::WaitUntil(until);
            }
            self.flush(cx);
            if !self.output.is_empty() {
                cx.host.notify_writable(cx.id);
                return Next::Wait;
            }
            if matches!(self.stage, Stage::Ended) {
                cx.host.finish(cx.now, cx.id);
                return Next::Wait;
            }
            self.fill(cx);
            if self.has_job {
                return Next::Wait;
            }
            if matches!(self.stage, Stage::Sending(_)) && !self.has_room(cx) {
                cx.host.notify_writable(cx.id);
                return Next::Wait;
            }
            let next = match &mut self.stage {
                Stage::Greeting => self.read_greeting(cx),
                Stage::Receiving(upload) if upload.is_unhashed() => self.hash_part(cx),
                Stage::Ready | Stage::Receiving(_) | Stage::Skipping => self.read_request(cx),
                Stage::Changing | Stage::Ended => Next::Wait,
                Stage::Checking { .. } | Stage::Hashing(_) => self.hash_more(cx),
                Stage::Sending(source) => {
                    // This lane has had its reads of this turn. One that got none uses a thread, so that lanes before it
                    // in every turn cannot starve it.
                    if has_read && cx.shared.reads_left == 0 {
                        return Next::More;
                    }
                    let Some(mut source) = source.take() else { return Next::Failed };
                    let mut buffer = std::mem::take(&mut self.buffer);
                    if cx.shared.reads_left > 0 && source.read_cached(&mut buffer) {
                        cx.shared.reads_left -= 1;
                        has_read = true;
                        self.stage = Stage::Ready;
                        self.send(cx, source, buffer);
                        Next::More
                    } else {
                        // This thread will free it. Memory that another one allocates could not be used for its reads.
                        source.reserve(&mut buffer);
                        self.submit(cx, Class::Urgent, || jobs::read(source, buffer));
                        Next::Wait
                    }
                }
                Stage::Listing(listing) => {
                    let Some(listing) = listing.take() else { return Next::Failed };
                    self.submit(cx, Class::Background, || jobs::list(listing));
                    Next::Wait
                }
            };
            if next != Next::More {
                return next;
            }
        }
        Next::More
    }

    /// The stage that hashes goes on, if the budget allows.
    fn hash_more(&mut self, cx: &mut Context<'_>) -> Next {
        if let Some(until) = self.wait_to_hash(cx) {
            return Next::WaitUntil(until);
        }
        let (source, until) = match &mut self.stage {
            Stage::Checking { source, until, .. } => (source.take(), *until),
            Stage::Hashing(source) => (source.take(), u64::MAX),
            _ => return Next::Failed,
        };
        let Some(source) = source else { return Next::Failed };
        let buffer = std::mem::take(&mut self.buffer);
        let bytes = jobs::HASHED_A_JOB.min(until.min(source.size) - source.at);
        self.submit_hashing(cx, bytes, move || jobs::hash(source, until, buffer));
        Next::Wait
    }

    /// The time at which the client may have more hashed, if not now.
    fn wait_to_hash(&self, cx: &Context<'_>) -> Option<Time> {
        cx.shared.common.budgets().wait_to_hash(cx.now, self.ip)
    }

    /// Starts a job that hashes so many `bytes`. They are charged when it ends: so the connections that wait for one
    /// budget go on together, and none of them always before the others.
    fn submit_hashing(&mut self, cx: &mut Context<'_>, bytes: u64, job: impl FnOnce() -> Outcome + Send + 'static) {
        self.hashing = bytes;
        self.submit(cx, Class::Background, job);
    }

    /// Charges what the last job has hashed.
    pub(super) fn charge_hashing(&mut self, now: Time, common: &Common) {
        let bytes = std::mem::take(&mut self.hashing);
        if bytes > 0 {
            common.budgets().on_hashed(now, self.ip, bytes);
        }
    }

    fn read_greeting(&mut self, cx: &mut Context<'_>) -> Next {
        match Greeting::parse(&self.input) {
            Ok(Some((greeting, len))) => {
                self.input.drain(..len);
                self.handled += len as u64;
                match cx.shared.select_controller(cx.now, cx.host, cx.id, greeting.controller.as_deref()) {
                    Ok(controller) => self.controller = controller,
                    Err(reason) => {
                        self.refuse_and_end(cx, reason);
                        return Next::Wait;
                    }
                }
                let rights = Rights { write: self.access.write, overwrite: self.access.overwrite };
                self.answer(cx, &Answer::Welcome { controller: self.controller.clone(), rights });
                self.stage = Stage::Ready;
                Next::More
            }
            Ok(None) if !cx.host.is_read_to_end(cx.id) => Next::Wait,
            Ok(None) | Err(_) => {
                self.refuse_and_end(cx, Refusal::BadRequest);
                Next::Wait
            }
        }
    }

    fn read_request(&mut self, cx: &mut Context<'_>) -> Next {
        if self.piece_left > 0 {
            return self.take_piece(cx);
        }
        match Request::parse(&self.input) {
            Ok(Some((Request::Heartbeat, len))) => {
                self.input.drain(..len);
                Next::More
            }
            Ok(Some((Request::Piece(piece), len))) if !matches!(self.stage, Stage::Ready) => {
                self.input.drain(..len);
                self.handled += len as u64;
                self.on_piece(cx, piece)
            }
            Ok(Some((request, len))) if matches!(self.stage, Stage::Ready) => {
                if !self.has_place {
                    return Next::Wait;
                }
                self.input.drain(..len);
                self.handled += len as u64;
                self.on_request(cx, &request)
            }
            Ok(None) if !cx.host.is_read_to_end(cx.id) => Next::Wait,
            Ok(None) if self.input.is_empty() => {
                self.end(cx);
                Next::Wait
            }
            Ok(_) | Err(_) => {
                self.refuse_and_end(cx, Refusal::BadRequest);
                Next::Wait
            }
        }
    }

    /// Takes what has arrived of a piece.
    fn take_piece(&mut self, cx: &mut Context<'_>) -> Next {
        let len = self.piece_left.min(self.input.len());
        if len == 0 {
            return if cx.host.is_read_to_end(cx.id) { Next::Failed } else { Next::Wait };
        }
        self.handled += len as u64;
        self.piece_left -= len;
        let bytes: Vec<u8> = self.input.drain(..len).collect();
        self.on_bytes(cx, bytes)
    }

    pub(super) fn note_refusal(&mut self, reason: Refusal) {
        self.done.refused += 1;
        self.done.refusal = Some((self.name.clone(), reason));
    }
}
