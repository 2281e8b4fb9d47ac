//! One file: asks for it on a stream of its own, and writes what arrives.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rampmeter_streams::{Session, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;

use super::state::State;
use crate::error::NetError;
use crate::frame;
use crate::part::Part;
use crate::protocol::{Answer, Refusal, Request, encode};

/// The bytes that are written at once.
const PIECE: usize = 256 * 1024;

/// A file to get.
#[derive(Debug)]
pub(super) struct Download {
    /// Its place among all files of the call.
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) target: PathBuf,
    /// The output, if it is open already: what it has is not asked for.
    pub(super) part: Option<Part>,
    /// The largest size that is accepted.
    pub(super) max_size: u64,
    /// The hash that the file must have.
    pub(super) blake3: Option<String>,
    /// The controller that should send it, unless it is the server's choice.
    pub(super) controller: Option<String>,
    /// Whether it was asked for again.
    pub(super) is_repeated: bool,
}

/// A file that was received.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) size: u64,
    pub(super) resumed_from: u64,
    pub(super) blake3: String,
}

/// Why a file is not complete.
#[derive(Debug)]
pub(super) enum Failed {
    /// It has failed, and no other one.
    File(NetError),
    /// The session has ended. In another one it may go on.
    Session,
}

impl From<NetError> for Failed {
    fn from(error: NetError) -> Self {
        Self::File(error)
    }
}

/// The stream of a file.
struct Source<'a> {
    session: &'a Session,
    stream: Stream,
    name: &'a str,
}

impl Source<'_> {
    fn bad_answer(&self) -> Failed {
        NetError::BadAnswer(self.session.address()).into()
    }

    fn refused(&self, name: &str, reason: Refusal) -> Failed {
        NetError::Refused { address: self.session.address(), name: name.to_owned(), reason }.into()
    }

    fn failed(&self, error: &io::Error) -> Failed {
        match error.kind() {
            _ if self.session.end().is_some() => Failed::Session,
            // The server cannot read it any more, or has waited too long for this client to read.
            io::ErrorKind::ConnectionReset => self.refused(self.name, Refusal::Changed),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => self.bad_answer(),
            _ => Failed::Session,
        }
    }

    async fn answer(&mut self) -> Result<Answer, Failed> {
        let message = frame::read(&mut self.stream).await.map_err(|error| self.failed(&error))?;
        Answer::decode(&message).ok_or_else(|| self.bad_answer())
    }

    /// Reads up to `max` bytes into `piece`, whose old contents are lost.
    async fn read(&mut self, max: u64, piece: &mut Vec<u8>) -> Result<(), Failed> {
        piece.clear();
        let read = (&mut self.stream).take(max.min(PIECE as u64)).read_buf(piece).await;
        match read {
            Ok(0) => Err(self.bad_answer()), // it ends before the end of the file
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed(&error)),
        }
    }
}

impl Download {
    /// Whether the file should be asked for again, once: it was changed or damaged, and its output can begin anew.
    pub(super) fn may_repeat(&mut self, error: &NetError) -> bool {
        let has_written = self.part.as_ref().is_some_and(|part| !part.is_resumable())
            || matches!(error, NetError::Corrupt { deleted: false, .. });
        error.is_temporary() && !has_written && !std::mem::replace(&mut self.is_repeated, true)
    }

    /// Gets the file. If the session ends, its part stays for another one.
    pub(super) async fn run(mut self, session: Session, state: Arc<State>) -> (Self, Result<Complete, Failed>) {
        let result = self.get(&session, &state).await;
        (self, result)
    }

    async fn get(&mut self, session: &Session, state: &State) -> Result<Complete, Failed> {
        let name = self.name.clone();
        let stream = session.open().await.map_err(|_| Failed::Session)?;
        let mut source = Source { session, stream, name: &name };
        let (offset, blake3) = self.part.as_ref().map_or_else(Default::default, |part| (part.len, part.hash()));
        let request = Request { name: name.clone(), offset, blake3, controller: self.controller.clone() };
        source.stream.write_all(&encode(&request)).await.map_err(|error| source.failed(&error))?;
        let (size, modified, offset) = match source.answer().await? {
            Answer::File { size, modified, offset, controller } if self.has_asked_for(&controller) => {
                state.set_controller(controller);
                (size, modified, offset)
            }
            Answer::Refused(reason) if reason.is_of_controller() => {
                return Err(source.refused(self.controller.as_deref().unwrap_or_default(), reason));
            }
            Answer::Refused(reason) => return Err(source.refused(&name, reason)),
            Answer::File { .. } | Answer::End { .. } => return Err(source.bad_answer()),
        };
        if size > self.max_size {
            return Err(NetError::TooLarge { name, size, max: self.max_size }.into());
        }
        self.begin(offset, session.address())?;
        let mut piece = Vec::with_capacity(PIECE);
        while let Some(part) = self.part.as_ref() {
            state.note(self.index, part, size, source.stream.path());
            if part.len == size {
                break;
            }
            source.read(size - part.len, &mut piece).await?;
            piece = self.append(piece).await?;
        }
        let hash = match source.answer().await {
            Ok(Answer::End { blake3 }) => blake3,
            Ok(Answer::Refused(reason)) => return Err(source.refused(&name, reason)),
            Err(Failed::Session) => return Err(Failed::Session),
            // Perhaps more bytes than it has announced.
            Ok(Answer::File { .. }) | Err(Failed::File(_)) => {
                self.part.take().into_iter().for_each(Part::discard);
                return Err(source.bad_answer());
            }
        };
        let _ = source.stream.shutdown().await; // the server waits for it; an error is the server's affair
        self.end(modified, &hash).await?;
        Ok(Complete { size, resumed_from: offset, blake3: hash })
    }

    fn has_asked_for(&self, controller: &str) -> bool {
        self.controller.as_ref().is_none_or(|asked| asked == controller)
    }

    /// The bytes follow from `offset` on.
    fn begin(&mut self, offset: u64, server: SocketAddr) -> Result<(), NetError> {
        let part = match &mut self.part {
            Some(part) => part,
            none => none.insert(Part::open(&self.target, false)?),
        };
        match offset {
            0 => part.clear(),
            _ if offset == part.len => Ok(()),
            _ => Err(NetError::BadAnswer(server)),
        }
    }

    /// Writes the piece. The reader of a pipe may pause for as long as it likes, so it is written in another thread.
    async fn append(&mut self, piece: Vec<u8>) -> Result<Vec<u8>, Failed> {
        let Some(mut part) = self.part.take() else { return Ok(piece) };
        if part.is_resumable() {
            let appended = part.append(&piece);
            self.part = Some(part);
            return Ok(appended.map(|()| piece)?);
        }
        let append = move || {
            let appended = part.append(&piece);
            (part, appended.map(|()| piece))
        };
        let (part, appended) = spawn_blocking(append).await.map_err(|_| Failed::Session)?;
        self.part = Some(part);
        Ok(appended?)
    }

    /// All bytes have arrived; the file has this `hash`.
    async fn end(&mut self, modified: Option<SystemTime>, hash: &str) -> Result<(), Failed> {
        let name = self.name.clone();
        let Some(part) = self.part.take() else { return Ok(()) };
        let deleted = part.is_resumable();
        if part.hash() != hash {
            part.discard();
            return Err(NetError::Corrupt { name, deleted }.into());
        }
        if self.blake3.as_ref().is_some_and(|expected| expected != hash) {
            part.discard();
            return Err(NetError::OtherContent { name, blake3: hash.to_owned(), deleted }.into());
        }
        // It waits for the disk.
        let completed = spawn_blocking(move || part.complete(modified)).await.map_err(|_| Failed::Session)?;
        Ok(completed?)
    }
}
