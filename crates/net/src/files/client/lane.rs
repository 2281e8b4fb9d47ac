//! The client's side of one connection: it sends requests without waiting for answers, and reads the answers in the
//! order of the requests.
//!
//! A put sends its bytes before the next request. So does a get that has a part of the file send the part's hash, which
//! takes a while for a large part: such a task is *prepared* by a job in another thread, and the lane takes no other one
//! in the meantime.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use rampmeter_control::AnyController;
use rampmeter_transport::ConnectionId;
use rampmeter_units::Time;

use super::output::{Output, Target};
use super::task::{Done, GetTask, LocalFile, Moved, PutTask, Task, TaskResult};
use crate::files::error::NetError;
use crate::files::pool::{Class, Pool};
use crate::files::protocol::{
    Answer, Greeting, Hash, InvalidMessage, Modified, Piece, PutFlags, Refusal, Request, Rights,
};
use crate::files::sink::Sink;
use crate::files::source::{PIECE, Source};
use crate::files::walk::{Entry, MAX_FILES};
use crate::host::Host;

/// The maximum number of requests without an answer.
const MAX_REQUESTS: usize = 512;

/// A lane takes no further task while it waits for this many bytes of files.
const MAX_EXPECTED: u64 = 2 << 20;

/// The size that a file of unknown size counts with.
const UNKNOWN_SIZE: u64 = 128 * 1024;

/// Files up to this size are put without asking for a part of an earlier upload.
const AT_ONCE: u64 = PIECE as u64;

/// Unsent output beyond which no more is made.
const MAX_OUTPUT: usize = 256 * 1024;

/// The result of a job for a task.
#[derive(Debug)]
pub(super) enum Work {
    /// The part of a file to get is open.
    Prepared(Result<Output, NetError>),
    /// A file to put is open, with its first bytes if it is small.
    Opened(Result<(Source, Vec<u8>), NetError>),
    /// The next bytes of it.
    Read(std::io::Result<(Source, Vec<u8>)>),
    /// The beginning of it is the same as the server's part.
    Matched(std::io::Result<(Source, bool)>),
    /// The hash of a file to compare.
    Hashed(std::io::Result<Hash>),
}

pub(super) type Jobs = Pool<usize, Work>;

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
    Receiving { size: u64, modified: Modified, resumed_from: u64 },
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
    /// The hash of this machine's file, and of the server's.
    hashes: (Option<Hash>, Option<Hash>),
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
    /// The bytes of files that are expected.
    expected: u64,
    pub(super) is_open: bool,
}

fn expected_of(task: &Task) -> u64 {
    task.size().unwrap_or(UNKNOWN_SIZE)
}

fn open_local(local: &LocalFile) -> Result<Source, NetError> {
    match local {
        LocalFile::Path(path) => {
            let opened = std::fs::File::open(path).and_then(|file| {
                let metadata = file.metadata()?;
                if metadata.is_file() { Ok((file, metadata)) } else { Err(std::io::Error::other("is no regular file")) }
            });
            let (file, metadata) = opened.map_err(|error| NetError::Unreadable(path.clone(), error))?;
            Ok(Source::new(file, &metadata))
        }
        LocalFile::Below(directory, name) => match directory.file(name) {
            Ok((file, metadata)) => Ok(Source::new(file, &metadata)),
            Err(reason) => Err(NetError::Unreadable(name.into(), std::io::Error::other(reason.to_string()))),
        },
    }
}

fn open_to_put(put: &LocalFile) -> Result<(Source, Vec<u8>), NetError> {
    let mut source = open_local(put)?;
    let mut bytes = Vec::new();
    if source.size <= AT_ONCE {
        source.read(&mut bytes).map_err(|error| NetError::Unreadable(local_path(put), error))?;
    }
    Ok((source, bytes))
}

pub(super) fn local_path(local: &LocalFile) -> std::path::PathBuf {
    match local {
        LocalFile::Path(path) => path.clone(),
        LocalFile::Below(_, name) => name.into(),
    }
}

/// Hashes a file to `end`.
fn hash_until(source: &mut Source, end: u64) -> std::io::Result<Hash> {
    let mut buffer = Vec::new();
    while source.at < end {
        source.read_until(end, &mut buffer)?;
    }
    Ok(source.hash())
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
            expected: 0,
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
            && self.expected < MAX_EXPECTED
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
        self.expected += expected_of(&task);
        match &task {
            Task::Get(get) => {
                let has_part = match &get.target {
                    Target::Open(part) => part.len > 0,
                    Target::Path(_) => true,
                    Target::Below(directory, _, name) => {
                        get.resume && Sink::part_len(directory, name).is_some_and(|len| len > 0)
                    }
                };
                let is_open = matches!(get.target, Target::Open(_));
                if has_part && !is_open {
                    return self.prepare(cx, index, task);
                }
            }
            Task::Put(put) => {
                let local = put.local.clone();
                cx.jobs.submit(index, Class::Urgent, move || Work::Opened(open_to_put(&local)));
                self.preparing = Some((index, task));
                return;
            }
            Task::Compare { local, .. } => {
                let local = local.clone();
                cx.jobs.submit(index, Class::Background, move || {
                    let hashed = open_local(&local).map_err(std::io::Error::other);
                    Work::Hashed(hashed.and_then(|mut source| {
                        let size = source.size;
                        hash_until(&mut source, size)
                    }))
                });
            }
            _ => {}
        }
        self.ask(index, task, None);
    }

    /// Opens the output of a get, and hashes what is there.
    fn prepare(&mut self, cx: &mut Context<'_>, index: usize, mut task: Task) {
        if let Task::Get(GetTask { target, resume, .. }) = &mut task {
            let (path, resume) = (target.path(), *resume);
            let target = match target {
                Target::Below(directory, path, name) => {
                    Target::Below(Arc::clone(directory), path.clone(), name.clone())
                }
                _ => Target::Path(path),
            };
            cx.jobs.submit(index, Class::Background, move || Work::Prepared(Output::open(target, resume)));
        }
        self.preparing = Some((index, task));
    }

    /// Sends the request of a task. `output`: the open output of a get that has bytes of the file.
    fn ask(&mut self, index: usize, mut task: Task, mut output: Option<Output>) {
        if let Task::Get(get) = &mut task {
            if let Target::Open(_) = get.target {
                let target = std::mem::replace(&mut get.target, Target::Path(std::path::PathBuf::new()));
                if let Target::Open(part) = target {
                    get.target = Target::Path(part.target().to_owned());
                    output = Some(Output::Part(part));
                }
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
        self.pipeline.push_back(Active {
            index,
            task,
            stage,
            output,
            resumed_from: 0,
            failed: None,
            hashes: (None, None),
        });
    }

    /// A job has ended. False if its task is not in this lane.
    pub(super) fn on_work(&mut self, cx: &mut Context<'_>, index: usize, work: Work) -> Result<(), Work> {
        if let Some((_, task)) = self.preparing.take_if(|(other, _)| *other == index) {
            match work {
                Work::Prepared(Ok(output)) => self.ask(index, task, Some(output)),
                Work::Prepared(Err(error)) | Work::Opened(Err(error)) => {
                    self.expected = self.expected.saturating_sub(expected_of(&task));
                    cx.finished.push((index, Err(error)));
                }
                Work::Opened(Ok((source, bytes))) => self.begin_put(cx, index, task, source, &bytes),
                Work::Read(_) | Work::Matched(_) | Work::Hashed(_) => {}
            }
            return Ok(());
        }
        let Some(at) = self.pipeline.iter().position(|active| active.index == index) else { return Err(work) };
        match work {
            Work::Read(read) => self.on_read(cx, at, read),
            Work::Matched(matched) => self.on_matched(cx, at, matched),
            Work::Hashed(hash) => {
                let active = &mut self.pipeline[at];
                match hash {
                    Ok(hash) => active.hashes.0 = Some(hash),
                    // A file that cannot be read is not the same, and the error appears when it is sent.
                    Err(_) => active.hashes.0 = Some(Hash::default()),
                }
                self.check_compared(cx);
            }
            Work::Prepared(_) | Work::Opened(_) => {}
        }
        Ok(())
    }

    fn begin_put(&mut self, cx: &mut Context<'_>, index: usize, task: Task, mut source: Source, bytes: &[u8]) {
        let Task::Put(PutTask { name, replace, resume, .. }) = &task else { return };
        let at_once = source.size <= AT_ONCE || !*resume;
        let flags = PutFlags { replace: *replace, at_once };
        let (size, modified) = (source.size, source.modified);
        Request::Put { name: name.clone(), flags, size, modified }.encode(&mut self.output);
        let mut active = Active {
            index,
            task,
            stage: Stage::Asked,
            output: None,
            resumed_from: 0,
            failed: None,
            hashes: (None, None),
        };
        if !at_once {
            active.stage = Stage::Offering(source);
            self.pipeline.push_back(active);
            return;
        }
        if !bytes.is_empty() || source.is_at_end() {
            self.push_bytes(cx, bytes);
            if source.is_at_end() {
                active.hashes.0 = self.push_end(&mut source);
                active.stage = Stage::Sent;
            } else {
                active.stage = Stage::Sending(source);
            }
        } else {
            active.stage = Stage::Sending(source);
        }
        self.pipeline.push_back(active);
    }

    fn push_bytes(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        if !bytes.is_empty() {
            Piece::Bytes(bytes.len() as u32).encode(&mut self.output);
            self.output.extend_from_slice(bytes);
            *cx.moved += bytes.len() as u64;
        }
    }

    /// Ends the bytes of a put. Returns their hash, or none if the file changed in the meantime.
    fn push_end(&mut self, source: &mut Source) -> Option<Hash> {
        if source.was_unchanged {
            Piece::End(source.hash()).encode(&mut self.output);
            Some(source.hash())
        } else {
            Piece::Abort.encode(&mut self.output);
            None
        }
    }

    fn on_read(&mut self, cx: &mut Context<'_>, at: usize, read: std::io::Result<(Source, Vec<u8>)>) {
        let refused = match &self.pipeline[at].stage {
            Stage::InJob { refused } => *refused,
            _ => return,
        };
        match (refused, read) {
            (Some(reason), _) => {
                Piece::Abort.encode(&mut self.output);
                self.fail(cx, at, reason);
            }
            // The server answers an abort with a refusal.
            (None, Err(_)) => {
                Piece::Abort.encode(&mut self.output);
                self.pipeline[at].stage = Stage::Sent;
            }
            (None, Ok((mut source, bytes))) => {
                self.push_bytes(cx, &bytes);
                if source.is_at_end() {
                    self.pipeline[at].hashes.0 = self.push_end(&mut source);
                    self.pipeline[at].stage = Stage::Sent;
                } else {
                    self.pipeline[at].stage = Stage::Sending(source);
                }
            }
        }
    }

    fn on_matched(&mut self, cx: &mut Context<'_>, at: usize, matched: std::io::Result<(Source, bool)>) {
        match matched {
            Ok((mut source, is_same)) => {
                if !is_same && source.rewind().is_err() {
                    return self.on_read(cx, at, Err(std::io::ErrorKind::Other.into()));
                }
                let active = &mut self.pipeline[at];
                active.resumed_from = source.at;
                *cx.moved += source.at;
                Piece::From(source.at).encode(&mut self.output);
                if source.is_at_end() && source.at > 0 {
                    self.pipeline[at].hashes.0 = self.push_end(&mut source);
                    self.pipeline[at].stage = Stage::Sent;
                } else {
                    self.pipeline[at].stage = Stage::Sending(source);
                }
            }
            Err(error) => {
                Piece::Abort.encode(&mut self.output);
                self.pipeline[at].stage = Stage::Sent;
                let _ = error;
            }
        }
    }

    /// The task at `at` failed because the server refused it.
    fn fail(&mut self, cx: &mut Context<'_>, at: usize, reason: Refusal) {
        if let Some(active) = self.pipeline.remove(at) {
            self.expected = self.expected.saturating_sub(expected_of(&active.task));
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
            self.expected = self.expected.saturating_sub(expected_of(&active.task));
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
        if !self.is_open {
            return Ok(());
        }
        cx.host.read(cx.now, self.id, &mut self.input);
        let input = std::mem::take(&mut self.input);
        let processed = self.process(cx, &input)?;
        self.input = input;
        self.input.drain(..processed);
        if cx.host.is_read_to_end(self.id) && !self.is_idle() {
            return Err(NetError::BadAnswer(cx.address)); // the server ended its stream before its last answer
        }
        self.flush(cx);
        self.read_more(cx);
        Ok(())
    }

    /// Starts to read the next bytes of a put, if there is space for them.
    fn read_more(&mut self, cx: &mut Context<'_>) {
        let Some(active) = self.pipeline.back_mut() else { return };
        if !matches!(active.stage, Stage::Sending(_)) || self.output.len() - self.flushed > MAX_OUTPUT / 2 {
            return;
        }
        if !cx.host.is_writable(self.id) {
            return cx.host.notify_writable(self.id);
        }
        if let Stage::Sending(mut source) = std::mem::replace(&mut active.stage, Stage::InJob { refused: None }) {
            cx.jobs.submit(active.index, Class::Urgent, move || {
                let mut bytes = Vec::new();
                Work::Read(source.read(&mut bytes).map(|()| (source, bytes)))
            });
        }
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
            self.on_answer(cx, answer)?;
            processed += len;
        }
        Ok(processed)
    }

    fn on_bytes(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<(), NetError> {
        let active = self.pipeline.front_mut().ok_or(NetError::BadAnswer(cx.address))?;
        *cx.moved += bytes.len() as u64;
        if active.failed.is_some() {
            return Ok(());
        }
        // A file that cannot be written fails all others, too: most likely the disk is full.
        active.output.as_mut().ok_or(NetError::BadAnswer(cx.address))?.append(bytes)
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
            (Stage::Receiving { size, .. }, Answer::Piece(Piece::Bytes(len))) => {
                let has = active.output.as_ref().map_or(0, Output::len);
                if has.saturating_add(len.into()) > *size {
                    return Err(NetError::BadAnswer(cx.address));
                }
                self.piece_left = len as usize;
                Ok(())
            }
            (Stage::Receiving { .. }, Answer::Piece(Piece::End(hash))) => self.on_end(cx, &hash),
            (Stage::Receiving { .. }, Answer::Piece(Piece::Abort)) => {
                self.fail(cx, 0, Refusal::Changed);
                Ok(())
            }
            (Stage::Listing(entries), Answer::Entry { name, size, modified }) => {
                if entries.len() as u64 >= MAX_FILES {
                    return Err(NetError::BadAnswer(cx.address));
                }
                let state = crate::files::changes::FileState { size, modified };
                entries.push(Entry { name, state });
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
            (Stage::Offering(_), Answer::Partial { offset, prefix }) => {
                let before = std::mem::replace(&mut active.stage, Stage::InJob { refused: None });
                let Stage::Offering(mut source) = before else { return Err(NetError::BadAnswer(cx.address)) };
                let index = active.index;
                cx.jobs.submit(index, Class::Background, move || {
                    if offset == 0 || offset > source.size {
                        return Work::Matched(Ok((source, offset == 0)));
                    }
                    let hash = hash_until(&mut source, offset);
                    Work::Matched(hash.map(|hash| (source, hash == prefix)))
                });
                Ok(())
            }
            (Stage::Asked, Answer::Hashed(hash)) if matches!(active.task, Task::Compare { .. }) => {
                active.hashes.1 = Some(hash);
                self.check_compared(cx);
                Ok(())
            }
            (Stage::Sent, Answer::Done) => {
                let Task::Put(put) = &active.task else { return Err(NetError::BadAnswer(cx.address)) };
                let blake3 = active.hashes.0.ok_or(NetError::BadAnswer(cx.address))?;
                let (path, size) = (local_path(&put.local), put.size);
                let moved = Moved { path, size, resumed_from: active.resumed_from, blake3 };
                self.finish(cx, Ok(Done::Moved(moved)));
                Ok(())
            }
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

    fn on_start(&mut self, cx: &mut Context<'_>, size: u64, modified: Modified, offset: u64) -> Result<(), NetError> {
        let Some(active) = self.pipeline.front_mut() else { return Err(NetError::BadAnswer(cx.address)) };
        let Task::Get(get) = &mut active.task else { return Err(NetError::BadAnswer(cx.address)) };
        if size > get.max_size {
            // The rest of the answer is not wanted, so the lane cannot go on.
            return Err(NetError::TooLarge { name: get.name.clone(), size, max: get.max_size });
        }
        let output = match &mut active.output {
            Some(output) => output,
            empty => {
                let target = match &get.target {
                    Target::Below(directory, path, name) => {
                        Target::Below(Arc::clone(directory), path.clone(), name.clone())
                    }
                    target => Target::Path(target.path()),
                };
                match Output::open(target, false) {
                    Ok(output) => empty.insert(output),
                    Err(error) => {
                        active.failed = Some(error);
                        get.size = Some(size);
                        active.stage = Stage::Receiving { size, modified, resumed_from: 0 };
                        return Ok(());
                    }
                }
            }
        };
        if offset == 0 {
            output.clear()?;
        } else if offset != output.len() {
            return Err(NetError::BadAnswer(cx.address));
        }
        *cx.moved += offset;
        get.size = Some(size);
        active.resumed_from = offset;
        active.stage = Stage::Receiving { size, modified, resumed_from: offset };
        Ok(())
    }

    fn on_end(&mut self, cx: &mut Context<'_>, hash: &Hash) -> Result<(), NetError> {
        let Some(active) = self.pipeline.front_mut() else { return Err(NetError::BadAnswer(cx.address)) };
        if let Some(error) = active.failed.take() {
            self.finish(cx, Err(error));
            return Ok(());
        }
        let (Stage::Receiving { size, modified, resumed_from }, Some(output), Task::Get(get)) =
            (&active.stage, active.output.take(), &active.task)
        else {
            return Err(NetError::BadAnswer(cx.address));
        };
        let (size, modified, resumed_from, name) = (*size, *modified, *resumed_from, get.name.clone());
        let deleted = output.is_resumable();
        let result = if output.len() != size || output.hash() != *hash {
            output.discard();
            Err(NetError::Corrupt { name, deleted })
        } else if get.blake3.is_some_and(|expected| expected != *hash) {
            output.discard();
            let blake3 = blake3::Hash::from(*hash).to_hex().to_string();
            Err(NetError::OtherContent { name, blake3, deleted })
        } else {
            output.complete(modified).map(|path| Done::Moved(Moved { path, size, resumed_from, blake3: *hash }))
        };
        self.finish(cx, result);
        Ok(())
    }

    /// Ends the first task if it is a comparison and both hashes are known.
    fn check_compared(&mut self, cx: &mut Context<'_>) {
        if let Some((Some(here), Some(there))) = self.pipeline.front().map(|active| active.hashes) {
            if matches!(self.pipeline.front().map(|active| &active.task), Some(Task::Compare { .. })) {
                self.finish(cx, Ok(Done::Compared(here == there)));
            }
        }
    }
}
