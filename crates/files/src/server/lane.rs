//! The server's side of one connection: it reads requests and answers them in their order.
//!
//! ```text
//! Greeting ──► Ready ──► Checking ──► Sending ──┐      a check if the client has a part
//!                └◄──────────────────────────────┘
//! ```
//!
//! Nothing here waits for a disk: jobs in other threads read files, except for a few pieces in each turn that the kernel
//! has in memory. A lane has at most one job, and at most a piece of a file and 64 kB of requests in memory beside the
//! connection's own buffers. It reads no further requests while it cannot send its answers.

use std::net::IpAddr;
use std::sync::Arc;

use rampmeter_control::AnyController;
use rampmeter_net::{Directory, Host, MAX_WINDOW};
use rampmeter_transport::ConnectionId;
use rampmeter_units::{Bytes, Duration, Time};

use super::common::Common;
use super::shared::Shared;
use crate::hashes::Hashes;
use crate::pool::Class;
use crate::protocol::{Answer, Greeting, Hash, MAX_MESSAGE, Refusal, Request};
use crate::source::{PIECE, Source};

/// Requests that have arrived and wait for their turn are read up to this size; the rest stays in the connection, whose
/// window the client cannot exceed.
const MAX_INPUT: usize = 64 * 1024;

// There is always room for a whole message.
const _: () = assert!(MAX_INPUT > MAX_MESSAGE);

/// The receive window of a connection: some hundred requests.
pub(super) const REQUEST_WINDOW: Bytes = Bytes::new(64 * 1024);

/// Requests that are answered before other clients are served.
const REQUESTS_A_TURN: usize = 16;

/// Bytes that one job hashes: a few milliseconds of work.
const HASHED_A_JOB: u64 = 32 * PIECE as u64;

/// A lane without a share of the hashing asks for one again after this time.
const HASHING_WAIT: Duration = Duration::from_millis(5);

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
    /// The lane waits for its turn to hash.
    WaitUntil(Time),
    /// The client breaks the protocol: the connection is to be aborted.
    Failed,
}

/// What a job did with a file, in a thread of the pool.
#[derive(Debug)]
pub(super) enum Outcome {
    Refused(Refusal),
    Opened(Source, Vec<u8>),
    Read(Source, Vec<u8>),
    ReadFailed,
}

/// What a lane did, for the report.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The name in the first request.
    pub(super) name: String,
    /// Files that were sent completely.
    pub(super) files: u64,
    /// Bytes of files sent.
    pub(super) sent: u64,
    /// Requests that were refused, and the name and the reason of the last one.
    pub(super) refused: u64,
    pub(super) refusal: Option<(String, Refusal)>,
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
    ip: IpAddr,
    /// The name of the controller that sends the files.
    pub(super) controller: String,
    /// The name in the present request.
    name: String,
    pub(super) input: Vec<u8>,
    /// Answers that did not fit into the send buffer, from `flushed` on.
    output: Vec<u8>,
    flushed: usize,
    /// Bytes written to the connection.
    written: u64,
    /// Whether a job runs.
    pub(super) has_job: bool,
    /// Whether it hashes, with a share of the hashing.
    hashes: bool,
    /// Whether the lane has one of the server's places.
    pub(super) has_place: bool,
    /// A buffer for the next job.
    buffer: Vec<u8>,
    /// Bytes by which the send buffer is larger than at first.
    pub(super) more_to_send: u64,
    pub(super) done: Done,
    /// Bytes of requests and files handled, as a measure of progress.
    pub(super) handled: u64,
}

/// Opens a file of which a client has a part.
fn open(directory: &Directory, hashes: &Arc<Hashes>, name: &str) -> Outcome {
    match directory.file(name) {
        Ok((file, metadata)) => Outcome::Opened(Source::of_part(file, &metadata, hashes), Vec::new()),
        Err(reason) => Outcome::Refused(reason.into()),
    }
}

/// Opens a file and reads its first piece.
fn open_and_read(directory: &Directory, hashes: &Arc<Hashes>, name: &str, mut buffer: Vec<u8>) -> Outcome {
    match directory.file(name) {
        Ok((file, metadata)) => {
            let mut source = Source::of_whole(file, &metadata, hashes);
            match source.read(&mut buffer) {
                Ok(()) => Outcome::Opened(source, buffer),
                Err(_) => Outcome::Refused(Refusal::Unreadable),
            }
        }
        Err(reason) => Outcome::Refused(reason.into()),
    }
}

fn read(mut source: Source, mut buffer: Vec<u8>) -> Outcome {
    match source.read(&mut buffer) {
        Ok(()) => Outcome::Read(source, buffer),
        Err(_) => Outcome::ReadFailed,
    }
}

/// Hashes the next bytes, up to `until`.
fn hash(mut source: Source, until: u64, mut buffer: Vec<u8>) -> Outcome {
    let end = source.at.saturating_add(HASHED_A_JOB).min(until);
    while source.at < end {
        if source.read_until(end, &mut buffer).is_err() {
            return Outcome::ReadFailed;
        }
    }
    Outcome::Read(source, buffer)
}

impl Lane {
    pub(super) fn new(ip: IpAddr, controller: &str) -> Self {
        Self {
            stage: Stage::Greeting,
            ip,
            controller: controller.to_owned(),
            name: String::new(),
            input: Vec::new(),
            output: Vec::new(),
            flushed: 0,
            written: 0,
            has_job: false,
            hashes: false,
            has_place: false,
            buffer: Vec::new(),
            more_to_send: 0,
            done: Done::default(),
            handled: 0,
        }
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

    /// Whether the lane has a request to answer, or answers that the client does not have yet; `acknowledged` bytes of
    /// the stream have arrived there.
    pub(super) fn is_busy(&self, acknowledged: u64) -> bool {
        let is_idle = matches!(self.stage, Stage::Greeting | Stage::Ready | Stage::Ended);
        !is_idle || self.has_job || !self.output.is_empty() || acknowledged < self.written
    }

    /// Whether the lane has a request that waits for a place.
    pub(super) fn waits_for_place(&self) -> bool {
        !self.has_place && matches!(self.stage, Stage::Ready) && !self.input.is_empty()
    }

    fn answer(&mut self, cx: &mut Context<'_>, answer: &Answer) {
        answer.encode(&mut self.output);
        self.flush(cx);
    }

    fn note_refusal(&mut self, reason: Refusal) {
        self.done.refused += 1;
        self.done.refusal = Some((self.name.clone(), reason));
    }

    fn refuse(&mut self, cx: &mut Context<'_>, reason: Refusal) {
        self.note_refusal(reason);
        self.answer(cx, &Answer::Refused(reason));
    }

    /// Refuses a request after which the stream cannot be read any further.
    fn refuse_and_end(&mut self, cx: &mut Context<'_>, reason: Refusal) {
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
        self.written += count as u64;
        self.flushed += count;
        if self.flushed == self.output.len() {
            self.output.clear();
            self.flushed = 0;
        }
    }

    fn submit(&mut self, cx: &mut Context<'_>, class: Class, job: impl FnOnce() -> Outcome + Send + 'static) {
        self.has_job = true;
        cx.shared.pool.submit(cx.id, class, job);
    }

    /// Does the next piece of work.
    pub(super) fn advance(&mut self, cx: &mut Context<'_>) -> Next {
        let mut has_read = false;
        for _ in 0..REQUESTS_A_TURN {
            self.flush(cx);
            if !self.output.is_empty() {
                cx.host.notify_writable(cx.id);
                return Next::Wait;
            }
            if matches!(self.stage, Stage::Ended) {
                cx.host.finish(cx.now, cx.id);
                return Next::Wait;
            }
            let room = MAX_INPUT.saturating_sub(self.input.len());
            if room > 0 {
                cx.host.read_up_to(cx.now, cx.id, room, &mut self.input);
            }
            if self.has_job {
                return Next::Wait;
            }
            if matches!(self.stage, Stage::Sending(_)) && !self.has_room(cx) {
                cx.host.notify_writable(cx.id);
                return Next::Wait;
            }
            let next = match &mut self.stage {
                Stage::Greeting => self.read_greeting(cx),
                Stage::Ready => self.read_request(cx),
                Stage::Ended => Next::Wait,
                Stage::Checking { .. } => self.hash_more(cx),
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
                        self.submit(cx, Class::Urgent, || read(source, buffer));
                        Next::Wait
                    }
                }
            };
            if next != Next::More {
                return next;
            }
        }
        Next::More
    }

    /// Hashes more of what the client has, if there is a share of the hashing for it.
    fn hash_more(&mut self, cx: &mut Context<'_>) -> Next {
        let Stage::Checking { source, until, .. } = &mut self.stage else { return Next::Failed };
        if !cx.shared.common.hashing().take(self.ip, 1) {
            return Next::WaitUntil(cx.now + HASHING_WAIT);
        }
        self.hashes = true;
        let (source, until) = (source.take(), *until);
        let Some(source) = source else { return Next::Failed };
        let buffer = std::mem::take(&mut self.buffer);
        self.submit(cx, Class::Background, move || hash(source, until, buffer));
        Next::Wait
    }

    /// Gives back the share of the hashing, if the lane has one.
    pub(super) fn end_hashing(&mut self, common: &Common) {
        if std::mem::take(&mut self.hashes) {
            common.hashing().give_back(self.ip, 1);
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
                self.answer(cx, &Answer::Welcome { controller: self.controller.clone() });
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
        match Request::parse(&self.input) {
            Ok(Some((Request::Heartbeat, len))) => {
                self.input.drain(..len);
                Next::More
            }
            Ok(Some((Request::Get { name, offset, prefix }, len))) => {
                if !self.has_place {
                    return Next::Wait;
                }
                self.input.drain(..len);
                self.handled += len as u64;
                self.begin(cx, name, offset, prefix)
            }
            Ok(None) if !cx.host.is_read_to_end(cx.id) => Next::Wait,
            Ok(None) if self.input.is_empty() => {
                self.end(cx);
                Next::Wait
            }
            Ok(None) | Err(_) => {
                self.refuse_and_end(cx, Refusal::BadRequest);
                Next::Wait
            }
        }
    }

    /// Opens the file of a request.
    fn begin(&mut self, cx: &mut Context<'_>, name: String, offset: u64, prefix: Hash) -> Next {
        if self.done.name.is_empty() {
            self.done.name.clone_from(&name);
        }
        self.name.clone_from(&name);
        let directory = Arc::clone(&cx.shared.common.directory);
        let hashes = Arc::clone(&cx.shared.common.hashes);
        if offset == 0 {
            self.stage = Stage::Sending(None);
            let buffer = std::mem::take(&mut self.buffer);
            self.submit(cx, Class::Urgent, move || open_and_read(&directory, &hashes, &name, buffer));
        } else {
            self.stage = Stage::Checking { source: None, prefix, until: offset };
            self.submit(cx, Class::Urgent, move || open(&directory, &hashes, &name));
        }
        Next::Wait
    }

    /// A job has ended.
    pub(super) fn on_outcome(&mut self, cx: &mut Context<'_>, outcome: Outcome) -> Next {
        self.has_job = false;
        self.end_hashing(&cx.shared.common);
        match (std::mem::replace(&mut self.stage, Stage::Ready), outcome) {
            (Stage::Ended, _) => self.stage = Stage::Ended,
            (_, Outcome::Refused(reason)) => self.refuse(cx, reason),
            (Stage::Sending(_), Outcome::Opened(source, bytes)) => self.start(cx, source, bytes),
            (Stage::Sending(_), Outcome::Read(source, bytes)) => self.send(cx, source, bytes),
            // It became shorter, or its disk fails: the client's bytes are not wrong, but the file has other ones.
            (Stage::Sending(_), Outcome::ReadFailed) => {
                self.note_refusal(Refusal::Changed);
                self.answer(cx, &Answer::Abort);
            }
            (Stage::Checking { prefix, until, .. }, Outcome::Opened(source, _)) => {
                if until > source.size {
                    self.restart(cx, source);
                } else {
                    self.answer(cx, &Answer::Busy);
                    self.stage = Stage::Checking { source: Some(source), prefix, until };
                }
            }
            (Stage::Checking { prefix, until, .. }, Outcome::Read(source, buffer)) => {
                self.buffer = buffer;
                if source.at < until {
                    self.stage = Stage::Checking { source: Some(source), prefix, until };
                } else if source.hash() == prefix {
                    self.start(cx, source, Vec::new());
                } else {
                    self.restart(cx, source);
                }
            }
            (Stage::Checking { .. }, Outcome::ReadFailed) => self.refuse(cx, Refusal::Changed),
            _ => return Next::Failed,
        }
        Next::More
    }

    /// Sends a file from its beginning.
    fn restart(&mut self, cx: &mut Context<'_>, mut source: Source) {
        match source.rewind() {
            Ok(()) => self.start(cx, source, Vec::new()),
            Err(_) => self.refuse(cx, Refusal::Unreadable),
        }
    }

    /// Sends a file from where `source` is, less the `bytes` that were read already.
    fn start(&mut self, cx: &mut Context<'_>, source: Source, bytes: Vec<u8>) {
        let offset = source.at - bytes.len() as u64;
        let (size, modified) = (source.size, source.modified);
        Answer::Start { size, modified, offset }.encode(&mut self.output);
        self.send(cx, source, bytes);
    }

    /// Sends bytes of a file that were just read, and its end after the last ones.
    fn send(&mut self, cx: &mut Context<'_>, source: Source, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let len = bytes.len() as u64;
            Answer::Bytes(bytes.len() as u32).encode(&mut self.output);
            self.flush(cx);
            // Usually there is room: it was read because there was.
            if self.output.is_empty() {
                cx.host.write_piece(cx.now, cx.id, bytes);
                self.written += len;
            } else {
                self.output.extend_from_slice(&bytes);
            }
            self.done.sent += len;
            self.handled += len;
        }
        if !source.is_at_end() {
            self.stage = Stage::Sending(Some(source));
            return;
        }
        if source.was_unchanged {
            self.done.files += 1;
            Answer::End(source.hash()).encode(&mut self.output);
        } else {
            self.note_refusal(Refusal::Changed);
            Answer::Abort.encode(&mut self.output);
        }
        self.flush(cx);
    }
}
