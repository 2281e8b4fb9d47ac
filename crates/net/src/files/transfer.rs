//! The server's side of one transfer: request, check, bytes, hash.
//!
//! ```text
//! Asking ──► Checking (the client has a part) ──► Sending ──► Told
//!    └────────────────────── refused ─────────────────────────┘
//! ```
//!
//! Each call of [`Transfer::go_on`] does a bounded piece of work, so that many clients share one thread.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

use rampmeter_control::AnyController;
use rampmeter_transport::ConnectionId;
use rampmeter_units::{Duration, Time};

use super::directory::Directory;
use super::lending::Lender;
use super::protocol::{Answer, Hash, Refusal, Request};
use crate::host::Host;

/// Bytes read and hashed before it is others' turn: about 50 us of work.
pub(crate) const PIECE: usize = 64 * 1024;

/// A client that waits for a check hears of it this often.
const CHECKING_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Stage {
    Asking(Vec<u8>),
    Checking { source: Source, prefix: Hash, until: u64, told: Time },
    Sending(Source),
    Told,
}

/// A file being read.
#[derive(Debug)]
struct Source {
    file: File,
    /// As it was when it was opened.
    size: u64,
    changed: (i64, i64),
    /// Bytes read.
    at: u64,
    hasher: blake3::Hasher,
}

impl Source {
    fn new(file: File, metadata: &Metadata) -> Self {
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        Self { file, size: metadata.len(), changed, at: 0, hasher: blake3::Hasher::new() }
    }

    /// Reads the next bytes, at most `most`, and hashes them.
    fn read<'a>(&mut self, buffer: &'a mut [u8], most: u64) -> io::Result<&'a [u8]> {
        let len = buffer.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        self.file.read_exact(&mut buffer[..len])?;
        self.hasher.update(&buffer[..len]);
        self.at += len as u64;
        Ok(&buffer[..len])
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.hasher.reset();
        self.at = 0;
        self.file.seek(SeekFrom::Start(0)).map(|_| ())
    }

    fn is_unchanged(&self) -> bool {
        let now = self.file.metadata().map(|m| (m.len(), (m.mtime(), m.mtime_nsec())));
        now.is_ok_and(|now| now == (self.size, self.changed))
    }
}

/// One client's transfer.
#[derive(Debug)]
pub(crate) struct Transfer {
    stage: Stage,
    /// Who sends the file.
    pub(crate) controller: String,
    /// What was asked for.
    pub(crate) name: String,
    /// Bytes of the file that were sent.
    pub(crate) sent: u64,
    /// Why it was refused, or broken off.
    pub(crate) refused: Option<Refusal>,
}

/// What a call of [`Transfer::go_on`] leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is more to do at once.
    More,
    /// The peer must do something first.
    Wait,
    /// The file can't be read on: the connection should be broken off.
    Broken,
}

impl Transfer {
    pub(crate) fn new(controller: &str) -> Self {
        let (name, controller) = (String::new(), controller.to_owned());
        Self { stage: Stage::Asking(Vec::new()), controller, name, sent: 0, refused: None }
    }

    /// Whether it still waits for the request.
    pub(crate) fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Asking(_))
    }

    pub(crate) fn refuse(&mut self, now: Time, host: &mut Host<AnyController>, id: ConnectionId, why: Refusal) {
        self.refused = Some(why);
        self.say_last(now, host, id, &Answer::Refused(why));
    }

    fn say_last(&mut self, now: Time, host: &mut Host<AnyController>, id: ConnectionId, answer: &Answer) {
        host.write(now, id, &answer.encode());
        host.finish(now, id);
        self.stage = Stage::Told;
    }

    /// The client's stream has something to read.
    pub(crate) fn on_readable(
        &mut self,
        now: Time,
        host: &mut Host<AnyController>,
        id: ConnectionId,
        directory: &Directory,
        lender: &mut Lender,
    ) {
        let mut heartbeats = Vec::new();
        let Stage::Asking(heard) = &mut self.stage else {
            host.read(now, id, &mut heartbeats);
            return;
        };
        host.read(now, id, heard);
        match Request::parse(heard) {
            Ok(Some(request)) => self.on_request(now, host, id, directory, lender, request),
            Ok(None) if !host.is_read(id) => {}
            Ok(None) | Err(_) => self.refuse(now, host, id, Refusal::BadRequest),
        }
    }

    fn on_request(
        &mut self,
        now: Time,
        host: &mut Host<AnyController>,
        id: ConnectionId,
        directory: &Directory,
        lender: &mut Lender,
        request: Request,
    ) {
        let opened = directory.file(&request.name);
        let lent = request.controller.as_deref().map_or(Ok(None), |name| lender.lend(name));
        self.name = request.name;
        match opened.and_then(|opened| Ok((opened, lent?))) {
            Err(why) => self.refuse(now, host, id, why),
            Ok(((file, metadata), lent)) => {
                if let Some(controller) = lent {
                    host.replace_controller(now, id, controller);
                }
                if let Some(name) = request.controller {
                    self.controller = name;
                }
                let source = Source::new(file, &metadata);
                if request.offset == 0 || request.offset > source.size {
                    self.start(now, host, id, source);
                } else {
                    self.stage = Stage::Checking { source, prefix: request.prefix, until: request.offset, told: now };
                }
            }
        }
    }

    fn start(&mut self, now: Time, host: &mut Host<AnyController>, id: ConnectionId, source: Source) {
        let (size, offset, controller) = (source.size, source.at, self.controller.clone());
        host.write(now, id, &Answer::Start { size, offset, controller }.encode());
        self.stage = Stage::Sending(source);
    }

    /// Does the next piece of work, through `buffer`.
    pub(crate) fn go_on(
        &mut self,
        now: Time,
        host: &mut Host<AnyController>,
        id: ConnectionId,
        buffer: &mut [u8],
    ) -> Next {
        match &mut self.stage {
            Stage::Asking(_) | Stage::Told => Next::Wait,
            Stage::Checking { source, prefix, until, told } => {
                if source.at < *until {
                    let left = *until - source.at;
                    if source.read(buffer, left).is_err() {
                        self.refuse(now, host, id, Refusal::Changed);
                        return Next::Wait;
                    }
                    if now.since(*told) >= CHECKING_EVERY {
                        *told = now;
                        host.write(now, id, &Answer::Checking.encode());
                    }
                    return Next::More;
                }
                let same = source.hasher.finalize().as_bytes() == prefix;
                let Stage::Checking { mut source, .. } = std::mem::replace(&mut self.stage, Stage::Told) else {
                    return Next::Wait;
                };
                if !same && source.rewind().is_err() {
                    self.refuse(now, host, id, Refusal::Unreadable);
                    return Next::Wait;
                }
                self.start(now, host, id, source);
                Next::More
            }
            Stage::Sending(source) => {
                if !host.is_roomy(id) {
                    host.await_room(id);
                    return Next::Wait;
                }
                let left = source.size - source.at;
                if left > 0 {
                    let most = left.min(host.room(id) as u64);
                    let Ok(bytes) = source.read(buffer, most) else { return Next::Broken };
                    host.write(now, id, bytes);
                    self.sent += bytes.len() as u64;
                    return Next::More;
                }
                if source.is_unchanged() {
                    let hash = *source.hasher.finalize().as_bytes();
                    self.say_last(now, host, id, &Answer::Whole(hash));
                } else {
                    self.refuse(now, host, id, Refusal::Changed);
                }
                Next::Wait
            }
        }
    }
}
