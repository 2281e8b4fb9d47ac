//! The client's side of one connection: it sends requests without waiting for answers, and reads the answers in the
//! order of the requests.
//!
//! A put sends its bytes before the next request. A get that has a part of the file sends the part's hash, and a
//! comparison needs this machine's hash: such a task is *prepared* by a job in another thread, and the lane takes no other
//! one in the meantime.
//!
//! `receive` has the answers to a get, `send` the course of a put, `work` what other threads do.

mod receive;
mod send;
mod work;

use std::collections::VecDeque;
use std::net::SocketAddr;

use rampmeter_control::AnyController;
use rampmeter_transport::ConnectionId;
use rampmeter_units::Time;

use super::output::{Output, Target};
use super::task::{Done, Task, TaskResult};
use crate::contact::ContactError;
use crate::driver::Alarm;
use crate::files::changes::FileState;
use crate::files::error::NetError;
use crate::files::protocol::{Answer, Greeting, Hash, InvalidMessage, Modified, Piece, Refusal, Request, Rights};
use crate::files::source::Source;
use crate::files::walk::{Entry, MAX_FILES};
use crate::host::Host;

pub(super) use work::{Jobs, Work};

/// The maximum number of requests without an answer.
const MAX_REQUESTS: usize = 512;

/// A lane takes no further task while it waits for this many bytes of files.
const MAX_EXPECTED: u64 = 2 << 20;

/// The size that a file of unknown size counts with.
const UNKNOWN_SIZE: u64 = 128 * 1024;

/// Unsent output beyond which no more is made.
const MAX_OUTPUT: usize = 256 * 1024;

/// The connection of a lane, now.
pub(super) struct Context<'a> {
    pub(super) now: Time,
    pub(super) address: SocketAddr,
    pub(super) host: &'a mut Host<AnyController>,
    pub(super) jobs: &'a Jobs,
    /// Tasks that have ended, by their index.
    pub(super) finished: &'a mut Vec<(usize, TaskResult)>,
    /// Bytes moved, for the progress bar.
    pub(super) moved: &'a mut u64,
}

#[derive(Debug)]
enum Stage {
    /// A request was sent.
    Asked,
    /// The bytes of a get arrive.
    Receiving { size: u64, modified: Modified },
    /// The names of a list.
    Listing(Vec<Entry>),
    /// Waits for what the server has of a put.
    Offering(Source),
    /// A job reads the file of a put or compares its beginning; whether the server has refused it meanwhile.
    InJob { refused: Option<Refusal> },
    /// The bytes of a put are sent when there is space.
    Sending(Source),
    /// All bytes were sent.
    Sent,
}

#[derive(Debug)]
struct Active {
    index: usize,
    task: Task,
    stage: Stage,
    output: Option<Output>,
    resumed_from: u64,
    /// Why the file of a get cannot be written; its bytes are dropped.
    failed: Option<NetError>,
    /// The hash of this machine's file, once it is known.
    hash: Option<Hash>,
}

impl Active {
    fn new(index: usize, task: Task, stage: Stage) -> Self {
        Self { index, task, stage, output: None, resumed_from: 0, failed: None, hash: None }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: ConnectionId,
    /// The controller that the client asks for.
    controller: Option<String>,
    pub(super) welcome: Option<(String, Rights)>,
    input: Vec<u8>,
    output: Vec<u8>,
    flushed: usize,
    piece_left: usize,
    pipeline: VecDeque<Active>,
    /// A task that a job prepares.
    preparing: Option<(usize, Task)>,
    pub(super) is_open: bool,
}

impl Lane {
    pub(super) fn new(id: ConnectionId, controller: Option<&str>) -> Self {
        let greeting = Greeting { controller: controller.map(str::to_owned) };
        Self {
            id,
            controller: controller.map(str::to_owned),
            welcome: None,
            input: Vec::new(),
            output: greeting.encode(),
            flushed: 0,
            piece_left: 0,
            pipeline: VecDeque::new(),
            preparing: None,
            is_open: false,
        }
    }

    /// Whether the lane takes another task.
    pub(super) fn has_room(&self) -> bool {
        let last = self.pipeline.back().map(|active| &active.stage);
        let sends_bytes = matches!(last, Some(Stage::Offering(_) | Stage::InJob { .. } | Stage::Sending(_)));
        self.preparing.is_none()
            && !sends_bytes
            && self.output.len() < MAX_OUTPUT
            && self.pipeline.len() < MAX_REQUESTS
            && self.expected() < MAX_EXPECTED
    }

    /// The bytes of files that are expected.
    fn expected(&self) -> u64 {
        self.pipeline.iter().map(|active| active.task.size().unwrap_or(UNKNOWN_SIZE)).fold(0, u64::saturating_add)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.preparing.is_none() && self.pipeline.is_empty()
    }

    /// Bytes of files that have arrived, of tasks that are not finished; the sum of their sizes, if known; and whether
    /// they can be resumed.
    pub(super) fn partial(&self) -> (u64, Option<u64>, bool) {
        let mut sum = (0, Some(0), true);
        for active in &self.pipeline {
            let size = match active.stage {
                Stage::Receiving { size, .. } => Some(size),
                _ => active.task.size(),
            };
            sum.0 += active.output.as_ref().map_or(0, Output::len);
            sum.1 = sum.1.zip(size).map(|(sum, size): (u64, u64)| sum.saturating_add(size));
            sum.2 &= active.output.as_ref().is_none_or(Output::is_resumable);
        }
        sum
    }

    /// The tasks that were not finished, to be done by another lane.
    pub(super) fn into_unfinished(self) -> Vec<(usize, Task)> {
        let mut tasks: Vec<_> = self.preparing.into_iter().collect();
        for mut active in self.pipeline {
            match (active.output.take(), &mut active.task) {
                // An open part goes on as it is.
                (Some(Output::Part(part)), Task::Get(get)) => get.target = Target::Open(part),
                (Some(output), _) => output.close(),
                (None, _) => {}
            }
            tasks.push((active.index, active.task));
        }
        tasks
    }

    /// Takes a task.
    pub(super) fn take(&mut self, cx: &mut Context<'_>, index: usize, task: Task) {
        match &task {
            Task::Get(get) if get.target.may_have_part(get.resume) => {
                cx.jobs.prepare(index, get.target.closed(), get.resume);
                self.preparing = Some((index, task));
            }
            Task::Put(put) => {
                cx.jobs.open(index, put.local.clone());
                self.preparing = Some((index, task));
            }
            Task::Compare { local, .. } => {
                cx.jobs.hash(index, local.clone());
                self.preparing = Some((index, task));
            }
            _ => self.ask(index, task, None, None),
        }
    }

    /// Sends the request of a task. `output`: the open output of a get that has bytes of the file; `hash`: that of the
    /// file to compare.
    fn ask(&mut self, index: usize, mut task: Task, mut output: Option<Output>, hash: Option<Hash>) {
        if let Task::Get(get) = &mut task {
            let closed = get.target.closed();
            if let Target::Open(part) = std::mem::replace(&mut get.target, closed) {
                output = Some(Output::Part(part));
            }
        }
        let name = task.name().to_owned();
        let request = match &task {
            Task::List { .. } => Request::List { name },
            Task::Get(_) => {
                let offset = output.as_ref().map_or(0, Output::len);
                let prefix = output.as_ref().map_or_else(Hash::default, Output::hash);
                Request::Get { name, offset, prefix }
            }
            Task::Compare { size, .. } => Request::Hash { name, size: *size },
            Task::Delete { .. } => Request::Delete { name },
            Task::SetModified { modified, .. } => Request::SetModified { name, modified: *modified },
            Task::Sync => Request::Sync,
            Task::Put(_) => return, // sent when its file is open
        };
        request.encode(&mut self.output);
        let stage = if matches!(task, Task::List { .. }) { Stage::Listing(Vec::new()) } else { Stage::Asked };
        self.pipeline.push_back(Active { output, hash, ..Active::new(index, task, stage) });
    }

    /// A job has ended. False if its task is not in this lane.
    pub(super) fn on_work(&mut self, cx: &mut Context<'_>, index: usize, work: Work) -> Result<(), Work> {
        if let Some((_, task)) = self.preparing.take_if(|(other, _)| *other == index) {
            match work {
                Work::Prepared(Ok(output)) => self.ask(index, task, Some(output), None),
                Work::Prepared(Err(error)) | Work::Opened(Err(error)) => cx.finished.push((index, Err(error))),
                Work::Opened(Ok((source, bytes))) => self.begin_put(cx, index, task, source, &bytes),
                Work::Hashed(Ok(hash)) => self.ask(index, task, None, Some(hash)),
                // A file that cannot be read is not the same, and the error appears when it is sent.
                Work::Hashed(Err(_)) => cx.finished.push((index, Ok(Done::Compared(false)))),
                Work::Read(_) | Work::Matched(_) => {}
            }
            return Ok(());
        }
        let Some(at) = self.pipeline.iter().position(|active| active.index == index) else { return Err(work) };
        match work {
            Work::Read(read) => self.on_read(cx, at, read),
            Work::Matched(matched) => self.on_matched(cx, at, matched),
            Work::Prepared(_) | Work::Opened(_) | Work::Hashed(_) => {}
        }
        Ok(())
    }

    /// The task at `at` failed because the server refused it.
    fn fail(&mut self, cx: &mut Context<'_>, at: usize, reason: Refusal) {
        if let Some(active) = self.pipeline.remove(at) {
            if let Some(output) = active.output {
                output.close();
            }
            let name = active.task.name().to_owned();
            cx.finished.push((active.index, Err(NetError::Refused { address: cx.address, name, reason })));
        }
    }

    /// The first task has ended.
    fn finish(&mut self, cx: &mut Context<'_>, result: TaskResult) {
        if let Some(active) = self.pipeline.pop_front() {
            cx.finished.push((active.index, result));
        }
    }

    /// Sends a heartbeat, which keeps the connection alive and measures the round trip.
    pub(super) fn send_heartbeat(&mut self, cx: &mut Context<'_>) {
        if self.output.is_empty() {
            Request::Heartbeat.encode(&mut self.output);
            self.flush(cx);
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>) {
        let rest = &self.output[self.flushed..];
        self.flushed += cx.host.write(cx.now, self.id, rest);
        if self.flushed == self.output.len() {
            self.output.clear();
            self.flushed = 0;
        } else {
            cx.host.notify_writable(self.id);
        }
    }

    /// Reads answers, and sends what there is space for. An error ends the session.
    pub(super) fn advance(&mut self, cx: &mut Context<'_>) -> Result<(), NetError> {
        match self.exchange(cx) {
            Err(NetError::BadAnswer(address)) if self.welcome.is_none() => {
                Err(ContactError::NotThisService(address).into())
            }
            result => result,
        }
    }

    fn exchange(&mut self, cx: &mut Context<'_>) -> Result<(), NetError> {
        if !self.is_open {
            return Ok(());
        }
        if self.output_waits(cx, Output::is_full) {
            // The receive window closes until the reader of the output goes on.
            self.flush(cx);
            return Ok(());
        }
        cx.host.read(cx.now, self.id, &mut self.input);
        let input = std::mem::take(&mut self.input);
        let processed = self.process(cx, &input)?;
        self.input = input;
        self.input.drain(..processed);
        if cx.host.is_read_to_end(self.id) && !self.is_idle() && !self.output_waits(cx, Output::is_writing) {
            return Err(NetError::BadAnswer(cx.address)); // the server ended its stream before its last answer
        }
        self.flush(cx);
        self.read_more(cx);
        Ok(())
    }

    /// Whether the output that receives bytes waits for its reader.
    fn output_waits(&self, cx: &Context<'_>, waits: fn(&Output, &Alarm) -> bool) -> bool {
        let output = self.pipeline.front().and_then(|active| active.output.as_ref());
        output.is_some_and(|output| waits(output, cx.jobs.alarm()))
    }

    /// Processes the bytes received. Returns the number of bytes processed.
    fn process(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<usize, NetError> {
        let mut processed = 0;
        while processed < bytes.len() {
            let rest = &bytes[processed..];
            if self.piece_left > 0 {
                let len = self.piece_left.min(rest.len());
                self.on_bytes(cx, &rest[..len])?;
                self.piece_left -= len;
                processed += len;
                continue;
            }
            let answer = Answer::parse(rest).map_err(|InvalidMessage| NetError::BadAnswer(cx.address))?;
            let Some((answer, len)) = answer else { break };
            let is_end = matches!(answer, Answer::Piece(Piece::End(_)));
            if is_end && self.output_waits(cx, Output::is_writing) {
                break;
            }
            self.on_answer(cx, answer)?;
            processed += len;
        }
        Ok(processed)
    }

    fn on_answer(&mut self, cx: &mut Context<'_>, answer: Answer) -> Result<(), NetError> {
        let answer = match answer {
            Answer::Busy => return Ok(()),
            Answer::Welcome { controller, rights } if self.welcome.is_none() => {
                self.welcome = Some((controller, rights));
                return Ok(());
            }
            answer => answer,
        };
        if let Answer::Refused(reason) = answer {
            return self.on_refused(cx, reason);
        }
        let Some(active) = self.pipeline.front_mut() else { return Err(NetError::BadAnswer(cx.address)) };
        match (&mut active.stage, answer) {
            (Stage::Asked, Answer::Start { size, modified, offset }) => self.on_start(cx, size, modified, offset),
            (Stage::Receiving { .. }, Answer::Piece(Piece::Bytes(len))) => self.on_piece(cx, len),
            (Stage::Receiving { .. }, Answer::Piece(Piece::End(hash))) => self.on_end(cx, &hash),
            (Stage::Receiving { .. }, Answer::Piece(Piece::Abort)) => {
                self.fail(cx, 0, Refusal::Changed);
                Ok(())
            }
            (Stage::Listing(entries), Answer::Entry { name, size, modified }) => {
                if entries.len() as u64 >= MAX_FILES {
                    return Err(NetError::BadAnswer(cx.address));
                }
                entries.push(Entry { name, state: FileState { size, modified } });
                Ok(())
            }
            (Stage::Listing(entries), Answer::Listed { files, skipped }) => {
                if files != entries.len() as u64 {
                    return Err(NetError::BadAnswer(cx.address));
                }
                let entries = std::mem::take(entries);
                self.finish(cx, Ok(Done::Listed(entries, skipped)));
                Ok(())
            }
            (Stage::Offering(_), Answer::Partial { offset, prefix }) => self.on_partial(cx, offset, prefix),
            (Stage::Asked, Answer::Hashed(hash)) if matches!(active.task, Task::Compare { .. }) => {
                let is_same = active.hash == Some(hash);
                self.finish(cx, Ok(Done::Compared(is_same)));
                Ok(())
            }
            (Stage::Sent, Answer::Done) => self.on_put_done(cx),
            (Stage::Asked, Answer::Done)
                if matches!(active.task, Task::Delete { .. } | Task::SetModified { .. } | Task::Sync) =>
            {
                self.finish(cx, Ok(Done::Changed));
                Ok(())
            }
            _ => Err(NetError::BadAnswer(cx.address)),
        }
    }

    fn on_refused(&mut self, cx: &mut Context<'_>, reason: Refusal) -> Result<(), NetError> {
        if self.welcome.is_none() {
            let is_controller = matches!(reason, Refusal::NoSuchController | Refusal::ControllerNotAllowed);
            let file = self.pipeline.front().map(|active| active.task.name().to_owned());
            let name = self.controller.clone().filter(|_| is_controller).or(file).unwrap_or_default();
            return Err(NetError::Refused { address: cx.address, name, reason });
        }
        let Some(active) = self.pipeline.front_mut() else { return Err(NetError::BadAnswer(cx.address)) };
        match &mut active.stage {
            // What the job reads is not sent any more.
            Stage::InJob { refused } => *refused = Some(reason),
            Stage::Sending(_) => {
                Piece::Abort.encode(&mut self.output);
                self.fail(cx, 0, reason);
            }
            _ => self.fail(cx, 0, reason),
        }
        Ok(())
    }
}
