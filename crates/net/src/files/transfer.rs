//! The server's side of one transfer: request, check of the client's part, bytes, hash.
//!
//! ```text
//! AwaitingRequest ──► Checking (if the client has a part) ──► Sending ──► Answered
//!        └───────────────────────── refused ────────────────────────────┘
//! ```
//!
//! Each call of [`Transfer::advance`] does a bounded piece of work, so that many clients share one thread.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

use rampmeter_control::AnyController;
use rampmeter_transport::ConnectionId;
use rampmeter_units::{Duration, Time};

use super::controller_policy::ControllerPolicy;
use super::directory::Directory;
use super::protocol::{Answer, Hash, Refusal, Request};
use crate::host::Host;

/// The bytes read and hashed before other clients are served: about 50 us of work.
pub(crate) const PIECE: usize = 64 * 1024;

/// The interval of `Checking` messages during a check.
const CHECKING_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Stage {
    AwaitingRequest(Vec<u8>),
    Checking { source: Source, prefix: Hash, until: u64, noticed_at: Time },
    Sending(Source),
    Answered,
}

/// A file that is being read.
#[derive(Debug)]
struct Source {
    file: File,
    /// The size and the modification time when the file was opened.
    size: u64,
    changed: (i64, i64),
    /// The number of bytes read.
    at: u64,
    hasher: blake3::Hasher,
}

impl Source {
    fn new(file: File, metadata: &Metadata) -> Self {
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        Self { file, size: metadata.len(), changed, at: 0, hasher: blake3::Hasher::new() }
    }

    /// Reads and hashes the next bytes, at most `max` of them.
    fn read<'a>(&mut self, buffer: &'a mut [u8], max: u64) -> io::Result<&'a [u8]> {
        let len = buffer.len().min(usize::try_from(max).unwrap_or(usize::MAX));
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

/// The connection of a transfer, now.
pub(crate) struct Peer<'a> {
    pub(crate) now: Time,
    pub(crate) host: &'a mut Host<AnyController>,
    pub(crate) id: ConnectionId,
}

impl Peer<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.host.write(self.now, self.id, bytes);
    }
}

/// One client's transfer.
#[derive(Debug)]
pub(crate) struct Transfer {
    stage: Stage,
    /// The name of the controller that sends the file.
    pub(crate) controller: String,
    pub(crate) name: String,
    /// Bytes of the file that were sent.
    pub(crate) sent: u64,
    /// The reason of a refusal or an abort.
    pub(crate) refusal: Option<Refusal>,
}

/// What follows a call of [`Transfer::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is more work to do.
    More,
    /// The transfer waits for the peer.
    Wait,
    /// The file cannot be read: the connection is to be aborted.
    Failed,
}

impl Transfer {
    pub(crate) fn new(controller: &str) -> Self {
        let (name, controller) = (String::new(), controller.to_owned());
        Self { stage: Stage::AwaitingRequest(Vec::new()), controller, name, sent: 0, refusal: None }
    }

    /// Whether the request has not arrived yet.
    pub(crate) fn awaits_request(&self) -> bool {
        matches!(self.stage, Stage::AwaitingRequest(_))
    }

    pub(crate) fn refuse(&mut self, peer: &mut Peer<'_>, reason: Refusal) {
        self.refusal = Some(reason);
        self.send_final(peer, &Answer::Refused(reason));
    }

    fn send_final(&mut self, peer: &mut Peer<'_>, answer: &Answer) {
        peer.write(&answer.encode());
        peer.host.finish(peer.now, peer.id);
        self.stage = Stage::Answered;
    }

    /// The client's stream has bytes to read.
    pub(crate) fn on_readable(&mut self, peer: &mut Peer<'_>, directory: &Directory, policy: &mut ControllerPolicy) {
        let mut heartbeats = Vec::new();
        let Stage::AwaitingRequest(received) = &mut self.stage else {
            peer.host.read(peer.now, peer.id, &mut heartbeats);
            return;
        };
        peer.host.read(peer.now, peer.id, received);
        match Request::parse(received) {
            Ok(Some(request)) => self.on_request(peer, directory, policy, request),
            Ok(None) if !peer.host.is_read_to_end(peer.id) => {}
            Ok(None) | Err(_) => self.refuse(peer, Refusal::BadRequest),
        }
    }

    fn on_request(
        &mut self,
        peer: &mut Peer<'_>,
        directory: &Directory,
        policy: &mut ControllerPolicy,
        request: Request,
    ) {
        let opened = directory.file(&request.name);
        let controller = request.controller.as_deref().map_or(Ok(None), |name| policy.select(name));
        self.name = request.name;
        match opened.and_then(|opened| Ok((opened, controller?))) {
            Err(reason) => self.refuse(peer, reason),
            Ok(((file, metadata), controller)) => {
                if let Some(controller) = controller {
                    peer.host.replace_controller(peer.now, peer.id, controller);
                }
                if let Some(name) = request.controller {
                    self.controller = name;
                }
                let source = Source::new(file, &metadata);
                if request.offset == 0 || request.offset > source.size {
                    self.start(peer, source);
                } else {
                    let (prefix, until, noticed_at) = (request.prefix, request.offset, peer.now);
                    self.stage = Stage::Checking { source, prefix, until, noticed_at };
                }
            }
        }
    }

    fn start(&mut self, peer: &mut Peer<'_>, source: Source) {
        let (size, offset, controller) = (source.size, source.at, self.controller.clone());
        peer.write(&Answer::Start { size, offset, controller }.encode());
        self.stage = Stage::Sending(source);
    }

    /// Does the next piece of work, with `buffer` for the file's bytes.
    pub(crate) fn advance(&mut self, peer: &mut Peer<'_>, buffer: &mut [u8]) -> Next {
        match &mut self.stage {
            Stage::AwaitingRequest(_) | Stage::Answered => Next::Wait,
            Stage::Checking { source, prefix, until, noticed_at } => {
                if source.at < *until {
                    let remaining = *until - source.at;
                    if source.read(buffer, remaining).is_err() {
                        self.refuse(peer, Refusal::Changed);
                        return Next::Wait;
                    }
                    if peer.now.since(*noticed_at) >= CHECKING_INTERVAL {
                        *noticed_at = peer.now;
                        peer.write(&Answer::Checking.encode());
                    }
                    return Next::More;
                }
                let same = source.hasher.finalize().as_bytes() == prefix;
                let Stage::Checking { mut source, .. } = std::mem::replace(&mut self.stage, Stage::Answered) else {
                    return Next::Wait;
                };
                if !same && source.rewind().is_err() {
                    self.refuse(peer, Refusal::Unreadable);
                    return Next::Wait;
                }
                self.start(peer, source);
                Next::More
            }
            Stage::Sending(source) => {
                if !peer.host.is_writable(peer.id) {
                    peer.host.notify_writable(peer.id);
                    return Next::Wait;
                }
                let remaining = source.size - source.at;
                if remaining > 0 {
                    let max = remaining.min(peer.host.send_space(peer.id) as u64);
                    let Ok(bytes) = source.read(buffer, max) else { return Next::Failed };
                    peer.write(bytes);
                    self.sent += bytes.len() as u64;
                    return Next::More;
                }
                if source.is_unchanged() {
                    let hash = *source.hasher.finalize().as_bytes();
                    self.send_final(peer, &Answer::Whole(hash));
                } else {
                    self.refuse(peer, Refusal::Changed);
                }
                Next::Wait
            }
        }
    }
}
