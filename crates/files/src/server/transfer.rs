//! One stream of a client: reads a request, and sends the file.
//!
//! Threads of their own read and hash, so that a slow disk stops nobody else. A transfer has two pieces of its file in
//! memory beside the stream's buffers: while one is sent, the next one is read.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rampmeter_streams::{Session, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::Shared;
use super::source::{PIECE, Source};
use crate::frame;
use crate::protocol::{Answer, Refusal, Request, encode};

/// The maximum time from the first byte of a request to its last one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Pieces that are hashed before it is the turn of another client.
const HASHED_AT_ONCE: usize = 16;

/// What a session has done, for the report.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The name in the first request.
    pub(super) name: Option<String>,
    /// Files that were sent completely.
    pub(super) files: u64,
    /// Bytes of files sent.
    pub(super) sent: u64,
    /// Requests that were refused, and the name and the reason of the last one.
    pub(super) refused: u64,
    pub(super) refusal: Option<(String, Refusal)>,
    /// Transfers that have begun and not ended regularly.
    pub(super) open: u64,
    /// When the last transfer ended.
    pub(super) ended: Option<Instant>,
}

impl Done {
    fn refuse(&mut self, name: String, refusal: Refusal) {
        self.refused += 1;
        self.refusal = Some((name, refusal));
    }

    /// A transfer has ended regularly.
    fn end(&mut self, is_complete: bool) {
        self.files += u64::from(is_complete);
        self.open -= 1;
        self.ended = Some(Instant::now());
    }
}

/// Why a transfer ends early.
enum Failed {
    Refused(Refusal),
    /// The stream has failed, or what follows is not what it announced.
    Cut,
}

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Self {
        Self::Cut
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A stream of a session.
pub(super) struct Transfer {
    pub(super) server: Arc<Shared>,
    pub(super) session: Session,
    pub(super) done: Arc<Mutex<Done>>,
}

impl Transfer {
    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the client until it has taken everything.
    pub(super) async fn run(self, mut stream: Stream) {
        self.done().open += 1;
        let Ok(Ok(message)) = timeout(REQUEST_TIMEOUT, frame::read(&mut stream)).await else { return };
        let request = Request::decode(&message);
        let _place = self.server.places.take(self.session.address().ip()).await;
        let name = request.as_ref().map(|request| request.name.clone()).unwrap_or_default();
        self.done().name.get_or_insert(name.clone());
        let sent = match request {
            Some(request) => self.send(&mut stream, request).await,
            None => Err(Failed::Refused(Refusal::BadRequest)),
        };
        if let Err(Failed::Refused(refusal)) = sent {
            self.done().refuse(name, refusal);
            if stream.write_all(&encode(&Answer::Refused(refusal))).await.is_err() {
                return;
            }
        }
        // The client ends its bytes when it has taken everything. A stream that is dropped before is reset.
        let is_regular = !matches!(sent, Err(Failed::Cut)) && stream.shutdown().await.is_ok();
        if is_regular && matches!(stream.read(&mut [0]).await, Ok(0)) {
            self.done().end(sent.is_ok());
        }
    }

    async fn send(&self, stream: &mut Stream, request: Request) -> Result<(), Failed> {
        let Request { name, offset, blake3, controller } = request;
        let controller = self.server.choose(&self.session, controller)?;
        let server = Arc::clone(&self.server);
        let mut source = on_thread(move || Source::open(&server.directory, &name)).await??;
        if offset > 0 {
            if offset <= source.size {
                source = self.check(source, offset).await?;
            }
            if source.at != offset || source.hash() != blake3 {
                source.rewind();
            }
        }
        let (size, modified, offset) = (source.size, source.modified, source.at);
        stream.write_all(&encode(&Answer::File { size, modified, offset, controller })).await?;
        let source = self.send_bytes(stream, source).await?;
        if !source.is_unchanged() {
            return Err(Failed::Refused(Refusal::Changed));
        }
        Ok(stream.write_all(&encode(&Answer::End { blake3: source.hash() })).await?)
    }

    /// Hashes the bytes before `offset`.
    async fn check(&self, mut source: Source, offset: u64) -> Result<Source, Failed> {
        while source.at < offset {
            let _turn = self.server.hashing.take(self.session.address().ip()).await;
            let hash = move || {
                let mut piece = Vec::new();
                let mut pieces = 0..HASHED_AT_ONCE;
                pieces.try_for_each(|_| source.read(offset, &mut piece)).map(|()| source)
            };
            source = on_thread(hash).await?.map_err(|_| Refusal::Changed)?;
        }
        Ok(source)
    }

    async fn send_bytes(&self, stream: &mut Stream, source: Source) -> Result<Source, Failed> {
        let (mut reading, mut spare) = (read(source, Vec::with_capacity(PIECE)), Vec::with_capacity(PIECE));
        loop {
            // It became shorter, or its disk fails: other bytes than those announced would follow.
            let (source, piece) = reading.await.map_err(|_| Failed::Cut)??;
            if piece.is_empty() {
                return Ok(source);
            }
            reading = read(source, spare);
            stream.write_all(&piece).await?;
            self.done().sent += piece.len() as u64;
            spare = piece;
        }
    }
}

/// Reads the next piece of a file in another thread, into this buffer.
fn read(mut source: Source, mut buffer: Vec<u8>) -> JoinHandle<io::Result<(Source, Vec<u8>)>> {
    spawn_blocking(move || source.read(source.size, &mut buffer).map(|()| (source, buffer)))
}

/// Does in another thread what may wait for a disk.
async fn on_thread<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, Failed> {
    spawn_blocking(act).await.map_err(|_| Failed::Cut)
}
