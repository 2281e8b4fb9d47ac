//! One client's connection: it reads requests and sends answers, one granted packet at a time.
//!
//! ```text
//! request header ────► Answer ──► cm_request ... cmapp_send ──► a packet to the kernel, cm_notify
//!                      by `disk`   TCP_INFO, 16 times a round trip ──► cm_update
//! ```
//!
//! The kernel's send buffer stays empty: the kernel accepts a packet only while it has no unsent data
//! (`TCP_NOTSENT_LOWAT`). If the kernel's own window is full, the grant is returned, and the flow sends a new request
//! when the kernel has room.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rampmeter_cm::{Client, Error, Feedback, Id, Share};
use rampmeter_net::TcpInfo;

use super::answer::Answer;
use super::line::Line;
use super::priority::{self, weight};
use super::request::MAX_HEAD;
use crate::tcp_feedback::{ByteCounts, Reading};

/// Files are read so many bytes at a time, when fewer than half of them are left to send.
const CHUNK: usize = 64 * 1024;

/// The number of requests that wait at the congestion manager: enough that it need not wait for this process.
const MAX_REQUESTS: u64 = 4;

/// The number of reads of `TCP_INFO` per round trip, and the bounds of their interval.
const POLLS_PER_RTT: u32 = 16;
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The timeout for a complete request header, and for the next request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The timeout for acknowledgements, after which the connection ends.
const ACK_TIMEOUT: Duration = Duration::from_secs(60);

/// An answer that is being sent.
#[derive(Debug)]
struct Sending {
    file: Option<Arc<File>>,
    /// The next byte to read, and the number of bytes that are not read yet.
    next: u64,
    left: u64,
    /// A part of them is being read.
    is_reading: bool,
    line: Line,
    started: Instant,
    /// The position of the first byte in the connection's stream.
    first: u64,
    keeps_alive: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) flow: Id,
    /// The urgency of the present response, by which the flow has its weight.
    pub(crate) urgency: u8,
    counts: ByteCounts,
    /// The size of the kernel's segments.
    segment: usize,
    /// Bytes of requests without an answer so far.
    pub(crate) input: Vec<u8>,
    /// The client sends no more requests, but may still wait for its answer.
    pub(crate) is_half_closed: bool,
    /// The next bytes of the answer.
    output: Vec<u8>,
    sending: Option<Sending>,
    /// The answer to a request is being prepared.
    pub(crate) is_preparing: bool,
    /// The number of requests at the congestion manager.
    pending_requests: u64,
    /// The number of bytes written to the kernel.
    written: u64,
    /// The kernel has unsent data.
    pub(crate) is_blocked: bool,
    /// The time of the client's last sign of progress, for the timeouts.
    last_progress: Instant,
    /// The time of the next read of `TCP_INFO`.
    pub(crate) next_poll: Option<Instant>,
}

/// The log line of an answer that was being sent when the connection ended.
pub(crate) type Last = Option<Line>;

impl Connection {
    /// A connection of a new client: opens a flow to its address, with the handshake's round-trip time.
    pub(crate) fn new(socket: TcpStream, peer: SocketAddr, client: &Client) -> Result<Self, Failure> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        keep_send_buffer_empty(&socket)?;
        let info = TcpInfo::of(&socket)?;
        let flow = client.open(peer, &rampmeter_cm::Options::default())?;
        let rtt = Some(rampmeter_units::Duration::from_micros(info.rtt_us.max(1).into()));
        client.update(flow, &Feedback { rtt, ..Feedback::default() })?;
        Ok(Self {
            socket,
            peer,
            flow,
            urgency: priority::DEFAULT,
            counts: ByteCounts::new(Reading::from(&info)),
            segment: info.segment.max(64) as usize,
            input: Vec::new(),
            is_half_closed: false,
            output: Vec::new(),
            sending: None,
            is_preparing: false,
            pending_requests: 0,
            written: 0,
            is_blocked: false,
            last_progress: Instant::now(),
            next_poll: None,
        })
    }

    /// Whether the connection waits for a request: all data is written.
    pub(crate) fn is_listening(&self) -> bool {
        !self.is_preparing
            && self.sending.as_ref().is_none_or(|sending| sending.keeps_alive && self.to_write(sending) == 0)
    }

    /// Whether an answer is being prepared or sent.
    pub(crate) fn is_answering(&self) -> bool {
        self.is_preparing || self.sending.is_some()
    }

    /// Reads what the client has sent.
    pub(crate) fn read_requests(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while self.input.len() < MAX_HEAD {
            match self.socket.read(&mut buffer) {
                Ok(0) => {
                    self.is_half_closed = true;
                    break;
                }
                Ok(length) => {
                    if self.input.is_empty() {
                        self.last_progress = Instant::now();
                    }
                    self.input.extend_from_slice(&buffer[..length]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next response has this urgency: the flow gets the weight of it.
    pub(crate) fn prioritize(&mut self, client: &Client, urgency: u8) -> Result<(), Failure> {
        if std::mem::replace(&mut self.urgency, urgency) != urgency {
            let share = client.share_of(self.flow)?;
            client.share(self.flow, Share { weight: weight(urgency), ..share })?;
        }
        Ok(())
    }

    /// Starts to send `answer`; `line` is its log line.
    pub(crate) fn start_answer(&mut self, client: &Client, answer: Answer, line: Line) -> Result<(), Error> {
        let now = Instant::now();
        self.output = answer.head;
        let (file, next, left) = (answer.file, answer.first, answer.length);
        let first = self.written;
        self.is_preparing = false;
        let keeps_alive = answer.keeps_alive && !self.is_half_closed;
        self.sending = Some(Sending { file, next, left, is_reading: false, line, started: now, first, keeps_alive });
        (self.last_progress, self.next_poll) = (now, Some(now + MIN_POLL_INTERVAL));
        self.request_grants(client)
    }

    fn to_write(&self, sending: &Sending) -> u64 {
        self.output.len() as u64 + sending.left
    }

    /// Sends requests for the packets that are ready, up to a limit.
    pub(crate) fn request_grants(&mut self, client: &Client) -> Result<(), Error> {
        if self.sending.is_none() || self.is_blocked {
            return Ok(());
        }
        let wanted = (self.output.len().div_ceil(self.segment) as u64).min(MAX_REQUESTS);
        while self.pending_requests < wanted {
            client.request(self.flow)?;
            self.pending_requests += 1;
        }
        Ok(())
    }

    /// A grant for one packet of up to `bytes` bytes (`cmapp_send`).
    pub(crate) fn send(&mut self, client: &Client, bytes: u32) -> Result<(), Failure> {
        self.pending_requests = self.pending_requests.saturating_sub(1);
        let max = self.segment.min(bytes as usize);
        let sent = match self.write(max) {
            Ok(sent) => sent,
            Err(error) => {
                client.notify(self.flow, self.counts.on_sent(0))?;
                return Err(error.into());
            }
        };
        client.notify(self.flow, self.counts.on_sent(sent))?;
        Ok(self.request_grants(client)?)
    }

    /// The part of the file that is to be read now, if any: its first byte and its length.
    pub(crate) fn next_read(&mut self) -> Option<(Arc<File>, u64, usize)> {
        let sending = self.sending.as_mut().filter(|sending| !sending.is_reading && sending.left > 0)?;
        let file = sending.file.as_ref().filter(|_| self.output.len() < CHUNK / 2)?;
        sending.is_reading = true;
        Some((Arc::clone(file), sending.next, sending.left.min(CHUNK as u64) as usize))
    }

    /// The bytes have been read. A file that has become shorter cannot be sent as announced.
    pub(crate) fn on_read(&mut self, client: &Client, bytes: io::Result<Vec<u8>>) -> Result<(), Failure> {
        let bytes = bytes?;
        let Some(sending) = &mut self.sending else { return Ok(()) };
        sending.is_reading = false;
        sending.next += bytes.len() as u64;
        sending.left = sending.left.saturating_sub(bytes.len() as u64);
        self.output.extend(bytes);
        Ok(self.request_grants(client)?)
    }

    fn write(&mut self, max: usize) -> io::Result<u64> {
        let length = self.output.len().min(max);
        if length == 0 || self.is_blocked {
            return Ok(0);
        }
        match self.socket.write(&self.output[..length]) {
            Ok(written) => {
                self.output.drain(..written);
                self.written += written as u64;
                Ok(written as u64)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_blocked = true;
                if let Some(sending) = &mut self.sending {
                    sending.line.held_up += 1;
                }
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Reports feedback to the congestion manager (`cm_update`). Returns the line of an answer that has arrived
    /// completely.
    pub(crate) fn poll_tcp_info(&mut self, client: &Client, now: Instant) -> Result<Last, Failure> {
        let info = TcpInfo::of(&self.socket)?;
        self.segment = info.segment.max(64) as usize;
        if let Some(feedback) = self.counts.read(Reading::from(&info)) {
            client.update(self.flow, &feedback)?;
            if feedback.received > rampmeter_units::Bytes::ZERO {
                self.last_progress = now;
            }
        }
        if self.pending_requests == 0 && self.counts.has_unreported() {
            // No grant is pending that this report could answer.
            client.notify(self.flow, self.counts.on_sent(0))?;
        }
        let last = if self.has_arrived() { self.finish(now) } else { None };
        let interval = Duration::from_micros(info.rtt_us.into()) / POLLS_PER_RTT;
        let busy = self.sending.is_some() || self.counts.unacknowledged() > 0;
        self.next_poll = busy.then(|| now + interval.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL));
        Ok(last)
    }

    /// The server ends: reads `TCP_INFO` a last time, without the congestion manager.
    pub(crate) fn end(&mut self, now: Instant) -> Last {
        if let Ok(info) = TcpInfo::of(&self.socket) {
            self.counts.read(Reading::from(&info));
        }
        if self.has_arrived() { self.finish(now) } else { self.abort(now) }
    }

    /// Whether all of the answer is written and acknowledged.
    fn has_arrived(&self) -> bool {
        self.counts.unacknowledged() == 0 && self.sending.as_ref().is_some_and(|s| self.to_write(s) == 0)
    }

    /// The answer is complete: the client has acknowledged it or has sent the next request.
    pub(crate) fn finish(&mut self, now: Instant) -> Last {
        let mut last = self.abort(now)?;
        last.whole = true;
        self.last_progress = now;
        Some(last)
    }

    /// Ends the answer.
    pub(crate) fn abort(&mut self, now: Instant) -> Last {
        let Sending { mut line, started, first, .. } = self.sending.take()?;
        line.end(self.written - first, now.duration_since(started));
        Some(line)
    }

    /// Whether a timeout has expired.
    pub(crate) fn has_timed_out(&self, now: Instant) -> bool {
        let timeout = match (&self.sending, self.input.is_empty()) {
            (Some(_), _) => ACK_TIMEOUT,
            (None, false) => HEADER_TIMEOUT,
            (None, true) => REQUEST_TIMEOUT,
        };
        now.duration_since(self.last_progress) > timeout
    }

    /// Whether the connection stays open after the current answer.
    pub(crate) fn keeps_alive(&self) -> bool {
        !self.is_half_closed && self.sending.as_ref().is_none_or(|sending| sending.keeps_alive)
    }
}

/// The reason why a connection cannot continue: it failed, or the congestion manager did.
#[derive(Debug)]
pub(crate) enum Failure {
    Broken,
    Manager(Error),
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            // These errors end the flow only.
            Error::Closed
            | Error::Unknown
            | Error::Unanswered
            | Error::Silent
            | Error::Full
            | Error::Destination
            | Error::TooManyFlows => Self::Broken,
            error => Self::Manager(error),
        }
    }
}

/// The kernel accepts bytes for `socket` only while it has no unsent data.
fn keep_send_buffer_empty(socket: &TcpStream) -> io::Result<()> {
    let threshold: libc::c_int = 1;
    // SAFETY: the pointer and the length describe `threshold`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const threshold).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
