//! The client's side of the connection: it sends requests without waiting for answers, and reads the answers in the order
//! of the requests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;

use rampmeter_control::AnyController;
use rampmeter_net::{Alarm, Host};
use rampmeter_transport::ConnectionId;
use rampmeter_units::Time;

use crate::error::{NetError, Received};
use crate::part::Part;
use crate::protocol::{Answer, Greeting, Hash, InvalidMessage, Modified, Refusal, Request};

/// The maximum number of requests without an answer.
const MAX_REQUESTS: usize = 512;

/// Unsent requests beyond which no more are made.
const MAX_OUTPUT: usize = 256 * 1024;

/// A file to get.
#[derive(Debug)]
pub(super) struct Download {
    /// Its place among all files of the call.
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) target: PathBuf,
    /// The output, if it is open already: what it has is not asked for.
    pub(super) part: Option<Part>,
    /// The size, once the server has named it.
    pub(super) size: Option<u64>,
    /// The largest size that is accepted.
    pub(super) max_size: u64,
    /// The hash that the file must have.
    pub(super) blake3: Option<Hash>,
}

impl Download {
    /// What has arrived of it.
    pub(super) fn received(&self) -> Received {
        let part = self.part.as_ref();
        Received {
            got: part.map_or(0, |part| part.len),
            size: self.size,
            resumable: part.is_none_or(Part::is_resumable),
        }
    }
}

/// A file that was received.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) size: u64,
    pub(super) resumed_from: u64,
    pub(super) blake3: Hash,
}

/// The connection, now.
pub(super) struct Context<'a> {
    pub(super) now: Time,
    pub(super) address: SocketAddr,
    pub(super) host: &'a mut Host<AnyController>,
    /// Rings when an output can be written to again.
    pub(super) alarm: &'a Alarm,
    /// Downloads that have ended, by their index.
    pub(super) finished: &'a mut Vec<(usize, Result<Complete, NetError>)>,
}

/// A download that was asked for.
#[derive(Debug)]
struct Active {
    download: Download,
    /// The file's time of modification, once its bytes arrive.
    receiving: Option<Modified>,
    resumed_from: u64,
    /// Why the file cannot be written; its bytes are dropped.
    failed: Option<NetError>,
}

/// The connection.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: ConnectionId,
    /// The controller that the client asks for.
    controller: Option<String>,
    /// The controller that sends the files, once the server has named it.
    pub(super) welcome: Option<String>,
    input: Vec<u8>,
    output: Vec<u8>,
    flushed: usize,
    /// The size of the piece that is arriving, without what has arrived.
    piece_left: usize,
    pipeline: VecDeque<Active>,
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
            is_open: false,
        }
    }

    /// Whether the lane takes another download.
    pub(super) fn has_room(&self) -> bool {
        self.output.len() < MAX_OUTPUT && self.pipeline.len() < MAX_REQUESTS
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pipeline.is_empty()
    }

    /// The downloads that have not ended.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = &Download> {
        self.pipeline.iter().map(|active| &active.download)
    }

    /// The same, to be done by another lane.
    pub(super) fn into_unfinished(self) -> impl DoubleEndedIterator<Item = Download> {
        self.pipeline.into_iter().map(|active| active.download)
    }

    /// Asks for a file, from where its part ends.
    pub(super) fn ask(&mut self, download: Download) {
        let part = download.part.as_ref().filter(|part| part.len > 0);
        let (offset, prefix) = part.map_or((0, Hash::default()), |part| (part.len, part.hash()));
        Request::Get { name: download.name.clone(), offset, prefix }.encode(&mut self.output);
        self.pipeline.push_back(Active { download, receiving: None, resumed_from: 0, failed: None });
    }

    /// Sends a heartbeat, which keeps the connection alive and measures the round trip.
    pub(super) fn send_heartbeat(&mut self, cx: &mut Context<'_>) {
        if self.is_open && self.output.is_empty() {
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
        if self.output_waits(cx, Part::is_full) {
            // The receive window closes until the reader of the output goes on.
            self.flush(cx);
            return Ok(());
        }
        cx.host.read(cx.now, self.id, &mut self.input);
        let input = std::mem::take(&mut self.input);
        let processed = self.process(cx, &input)?;
        self.input = input;
        self.input.drain(..processed);
        if cx.host.is_read_to_end(self.id) && !self.is_idle() && !self.output_waits(cx, Part::is_writing) {
            return Err(NetError::BadAnswer(cx.address)); // the server ended its stream before its last answer
        }
        self.flush(cx);
        Ok(())
    }

    /// Whether the output that receives bytes waits for its reader.
    fn output_waits(&self, cx: &Context<'_>, waits: fn(&Part, &Alarm) -> bool) -> bool {
        let part = self.pipeline.front().and_then(|active| active.download.part.as_ref());
        part.is_some_and(|part| waits(part, cx.alarm))
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
            if matches!(answer, Answer::End(_)) && self.output_waits(cx, Part::is_writing) {
                break;
            }
            self.on_answer(cx, answer)?;
            processed += len;
        }
        Ok(processed)
    }

    fn on_answer(&mut self, cx: &mut Context<'_>, answer: Answer) -> Result<(), NetError> {
        let bad_answer = NetError::BadAnswer(cx.address);
        match answer {
            Answer::Busy => return Ok(()),
            Answer::Welcome { controller } if self.welcome.is_none() => {
                if self.controller.as_ref().is_some_and(|asked| *asked != controller) {
                    return Err(bad_answer);
                }
                self.welcome = Some(controller);
                return Ok(());
            }
            Answer::Refused(reason) if self.welcome.is_none() => {
                let is_controller = matches!(reason, Refusal::NoSuchController | Refusal::ControllerNotAllowed);
                let file = self.pipeline.front().map(|active| active.download.name.clone());
                let name = self.controller.clone().filter(|_| is_controller).or(file).unwrap_or_default();
                return Err(NetError::Refused { address: cx.address, name, reason });
            }
            _ => {}
        }
        let active = self.pipeline.front_mut().ok_or(NetError::BadAnswer(cx.address))?;
        match (active.receiving, answer) {
            (_, Answer::Refused(reason)) => self.refused(cx, reason),
            (None, Answer::Start { size, modified, offset }) => active.start(cx.address, size, modified, offset)?,
            (Some(_), Answer::Bytes(len)) => {
                let received = active.download.received();
                if received.size.is_none_or(|size| received.got.saturating_add(len.into()) > size) {
                    return Err(bad_answer);
                }
                self.piece_left = len as usize;
            }
            (Some(modified), Answer::End(hash)) => {
                let result = active.end(modified, hash);
                self.finish(cx, result);
            }
            (Some(_), Answer::Abort) => self.refused(cx, Refusal::Changed),
            _ => return Err(bad_answer),
        }
        Ok(())
    }

    fn on_bytes(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Result<(), NetError> {
        let active = self.pipeline.front_mut().ok_or(NetError::BadAnswer(cx.address))?;
        match &mut active.download.part {
            _ if active.failed.is_some() => Ok(()),
            // A file that cannot be written fails all others, too: most likely the disk is full.
            Some(part) => part.append(bytes),
            None => Err(NetError::BadAnswer(cx.address)),
        }
    }

    /// The first download failed because the server refused it.
    fn refused(&mut self, cx: &mut Context<'_>, reason: Refusal) {
        if let Some(active) = self.pipeline.front_mut() {
            if let Some(part) = active.download.part.take() {
                part.close();
            }
            let name = active.download.name.clone();
            self.finish(cx, Err(NetError::Refused { address: cx.address, name, reason }));
        }
    }

    /// The first download has ended.
    fn finish(&mut self, cx: &mut Context<'_>, result: Result<Complete, NetError>) {
        if let Some(active) = self.pipeline.pop_front() {
            cx.finished.push((active.download.index, result));
        }
    }
}

impl Active {
    /// The bytes follow from `offset` on. An error ends the session.
    fn start(&mut self, server: SocketAddr, size: u64, modified: Modified, offset: u64) -> Result<(), NetError> {
        let download = &mut self.download;
        if size > download.max_size {
            // The rest of the answer is not wanted, so the connection cannot go on.
            let name = download.name.clone();
            return Err(NetError::TooLarge { name, size, max: download.max_size });
        }
        download.size = Some(size);
        self.receiving = Some(modified);
        let part = match &mut download.part {
            Some(part) => part,
            none => match Part::open(&download.target, false) {
                Ok(part) => none.insert(part),
                Err(error) => {
                    self.failed = Some(error);
                    return Ok(());
                }
            },
        };
        if offset == 0 {
            part.clear()?;
        } else if offset != part.len {
            return Err(NetError::BadAnswer(server));
        }
        self.resumed_from = offset;
        Ok(())
    }

    /// All bytes have arrived; the file has this `hash`.
    fn end(&mut self, modified: Modified, hash: Hash) -> Result<Complete, NetError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Download { name, part, size, blake3, .. } = &mut self.download;
        let (name, size) = (name.clone(), size.unwrap_or_default());
        let Some(part) = part.take() else { return Err(NetError::Corrupt { name, deleted: false }) };
        let deleted = part.is_resumable();
        if part.len != size || part.hash() != hash {
            part.discard();
            return Err(NetError::Corrupt { name, deleted });
        }
        if blake3.is_some_and(|expected| expected != hash) {
            part.discard();
            return Err(NetError::OtherContent {
                name,
                blake3: blake3::Hash::from(hash).to_hex().to_string(),
                deleted,
            });
        }
        part.complete(modified)?;
        Ok(Complete { size, resumed_from: self.resumed_from, blake3: hash })
    }
}
