//! One client's connection: requests come in, answers leave a granted packet at a time.
//!
//! ```text
//! head of a request ──► Answer ──► cm_request ... cmapp_send ──► a packet to the kernel, cm_notify
//!                                  TCP_INFO, 16 times a round trip ──► cm_update
//! ```
//!
//! The kernel holds nothing back: it takes a packet only while it has none that it has not sent (`TCP_NOTSENT_LOWAT`).
//! Where its own window is full, the grant goes back, and the flow asks again when the kernel has room.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rampmeter_cm::{Client, Error, Feedback, Id};
use rampmeter_net::TcpInfo;

use super::answer::Answer;
use super::line::Line;
use super::request::MAX_HEAD;
use crate::tcp_feedback::{Books, Reading};

/// Requests that wait at the congestion manager at a time: enough that it needs not wait for us.
const AHEAD: u64 = 4;

/// How often `TCP_INFO` is looked at: this part of a round trip, within these bounds.
const LOOKS_A_ROUND_TRIP: u32 = 16;
const SOONEST_LOOK: Duration = Duration::from_millis(1);
const LATEST_LOOK: Duration = Duration::from_millis(20);

/// The head of a request comes whole within this; so does the next request.
const PATIENCE_FOR_HEAD: Duration = Duration::from_secs(10);
const PATIENCE_FOR_REQUEST: Duration = Duration::from_secs(60);

/// A client that acknowledges nothing for so long is given up.
const PATIENCE_FOR_ACK: Duration = Duration::from_secs(60);

/// An answer under way.
#[derive(Debug)]
struct Sending {
    file: Option<File>,
    /// Bytes of the file that have yet to be read.
    left: u64,
    line: Line,
    begun: Instant,
    /// The first and the last byte's place among all that this connection sends.
    first: u64,
    keeps_alive: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) flow: Id,
    books: Books,
    /// What the kernel puts into one packet.
    segment: usize,
    /// Bytes of requests that have not been answered.
    pub(crate) input: Vec<u8>,
    /// The client will send no more; it may still want its answer.
    pub(crate) is_half_closed: bool,
    /// Bytes of the answer that are next.
    output: Vec<u8>,
    sending: Option<Sending>,
    /// Requests at the congestion manager.
    asked: u64,
    /// All that was handed to the kernel.
    written: u64,
    /// The kernel has packets of ours that it has not sent.
    pub(crate) is_blocked: bool,
    /// When the other end was last heard of, as far as patience goes.
    heard: Instant,
    /// When `TCP_INFO` is looked at next.
    pub(crate) next_look: Option<Instant>,
}

/// What an end of a connection leaves: how its answer went, if one was under way.
pub(crate) type Last = Option<Line>;

impl Connection {
    /// Of a client that has just connected: a flow to its address, which begins with the handshake's round trip.
    pub(crate) fn new(socket: TcpStream, peer: SocketAddr, client: &Client) -> Result<Self, Refused> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        hold_nothing_back(&socket)?;
        let info = TcpInfo::of(&socket)?;
        let flow = client.open(peer, &rampmeter_cm::Options::default())?;
        let rtt = Some(rampmeter_units::Duration::from_micros(info.rtt_us.max(1).into()));
        client.update(flow, &Feedback { rtt, ..Feedback::default() })?;
        Ok(Self {
            socket,
            peer,
            flow,
            books: Books::new(Reading::from(&info)),
            segment: info.segment.max(64) as usize,
            input: Vec::new(),
            is_half_closed: false,
            output: Vec::new(),
            sending: None,
            asked: 0,
            written: 0,
            is_blocked: false,
            heard: Instant::now(),
            next_look: None,
        })
    }

    /// Whether it waits for a request: nothing is left to be written.
    pub(crate) fn is_listening(&self) -> bool {
        self.sending.as_ref().is_none_or(|sending| sending.keeps_alive && self.to_write(sending) == 0)
    }

    /// Whether an answer is under way.
    pub(crate) fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Takes what the client has sent.
    pub(crate) fn hear(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while self.input.len() < MAX_HEAD {
            match self.socket.read(&mut buffer) {
                Ok(0) => {
                    self.is_half_closed = true;
                    break;
                }
                Ok(length) => {
                    if self.input.is_empty() {
                        self.heard = Instant::now();
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

    /// Begins to send `answer`; `line` is what will be told of it.
    pub(crate) fn begin(&mut self, client: &Client, answer: Answer, line: Line) -> Result<(), Error> {
        let now = Instant::now();
        self.output = answer.head;
        let (file, left) = (answer.file, answer.length);
        let first = self.written;
        let keeps_alive = answer.keeps_alive && !self.is_half_closed;
        self.sending = Some(Sending { file, left, line, begun: now, first, keeps_alive });
        (self.heard, self.next_look) = (now, Some(now + SOONEST_LOOK));
        self.ask(client)
    }

    fn to_write(&self, sending: &Sending) -> u64 {
        self.output.len() as u64 + sending.left
    }

    /// Asks for as many packets as there are to send, and not too many.
    pub(crate) fn ask(&mut self, client: &Client) -> Result<(), Error> {
        let Some(sending) = self.sending.as_ref().filter(|_| !self.is_blocked) else { return Ok(()) };
        let wanted = self.to_write(sending).div_ceil(self.segment as u64).min(AHEAD);
        while self.asked < wanted {
            client.request(self.flow)?;
            self.asked += 1;
        }
        Ok(())
    }

    /// It may send one packet of up to `bytes` now (`cmapp_send`).
    pub(crate) fn send(&mut self, client: &Client, bytes: u32) -> Result<(), Refused> {
        self.asked = self.asked.saturating_sub(1);
        let most = self.segment.min(bytes as usize);
        let sent = match self.fill(most).and_then(|()| self.write(most)) {
            Ok(sent) => sent,
            Err(error) => {
                client.notify(self.flow, self.books.sent(0))?;
                return Err(error.into());
            }
        };
        client.notify(self.flow, self.books.sent(sent))?;
        Ok(self.ask(client)?)
    }

    /// Has `most` bytes ready, or as many as are left.
    fn fill(&mut self, most: usize) -> io::Result<()> {
        let Some(Sending { file: Some(file), left, .. }) = &mut self.sending else { return Ok(()) };
        while self.output.len() < most && *left > 0 {
            let wanted = (*left).min((most - self.output.len()) as u64);
            // A file that has become shorter can't be sent as announced.
            let read = file.take(wanted).read_to_end(&mut self.output)? as u64;
            if read < wanted {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            *left -= read;
        }
        Ok(())
    }

    fn write(&mut self, most: usize) -> io::Result<u64> {
        let length = self.output.len().min(most);
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

    /// Tells the congestion manager what became of packets (`cm_update`). An answer that has arrived whole is handed back.
    pub(crate) fn look(&mut self, client: &Client, now: Instant) -> Result<Last, Refused> {
        let info = TcpInfo::of(&self.socket)?;
        self.segment = info.segment.max(64) as usize;
        if let Some(feedback) = self.books.read(Reading::from(&info)) {
            client.update(self.flow, &feedback)?;
            if feedback.received > rampmeter_units::Bytes::ZERO {
                self.heard = now;
            }
        }
        if self.asked == 0 && self.books.owes() {
            // No grant is on its way that this could be taken for the answer to.
            client.notify(self.flow, self.books.sent(0))?;
        }
        let last = if self.has_arrived() { self.finish(now) } else { None };
        let pause = Duration::from_micros(info.rtt_us.into()) / LOOKS_A_ROUND_TRIP;
        let busy = self.sending.is_some() || self.books.unacknowledged() > 0;
        self.next_look = busy.then(|| now + pause.clamp(SOONEST_LOOK, LATEST_LOOK));
        Ok(last)
    }

    /// The server ends: a look at what has arrived by now, without the congestion manager.
    pub(crate) fn end(&mut self, now: Instant) -> Last {
        if let Ok(info) = TcpInfo::of(&self.socket) {
            self.books.read(Reading::from(&info));
        }
        if self.has_arrived() { self.finish(now) } else { self.give_up(now) }
    }

    /// All of the answer has been written and acknowledged.
    fn has_arrived(&self) -> bool {
        self.books.unacknowledged() == 0 && self.sending.as_ref().is_some_and(|s| self.to_write(s) == 0)
    }

    /// The answer has been written whole; the client, which asks for more, has it.
    pub(crate) fn finish(&mut self, now: Instant) -> Last {
        let mut last = self.give_up(now)?;
        last.whole = true;
        self.heard = now;
        Some(last)
    }

    /// The answer ends here.
    pub(crate) fn give_up(&mut self, now: Instant) -> Last {
        let Sending { mut line, begun, first, .. } = self.sending.take()?;
        line.end(self.written - first, now.duration_since(begun));
        Some(line)
    }

    /// Whether the client was given time enough.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        let patience = match (&self.sending, self.input.is_empty()) {
            (Some(_), _) => PATIENCE_FOR_ACK,
            (None, false) => PATIENCE_FOR_HEAD,
            (None, true) => PATIENCE_FOR_REQUEST,
        };
        now.duration_since(self.heard) > patience
    }

    /// Whether it goes on after the answer that is under way.
    pub(crate) fn keeps_alive(&self) -> bool {
        !self.is_half_closed && self.sending.as_ref().is_none_or(|sending| sending.keeps_alive)
    }
}

/// Why a connection can't go on: it broke, or the congestion manager did.
#[derive(Debug)]
pub(crate) enum Refused {
    Broken,
    Manager(Error),
}

impl From<io::Error> for Refused {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            // The flow's end, not the manager's.
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

/// The kernel takes bytes of `socket` only while it has sent all it has.
fn hold_nothing_back(socket: &TcpStream) -> io::Result<()> {
    let least: libc::c_int = 1;
    // SAFETY: the pointer and the length describe `least`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const least).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
