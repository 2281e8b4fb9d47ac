//! The layered audio server (`congestion-manager.md`, section 3.2.2): it takes the best encoding that its share carries.
//!
//! ```text
//! begins                   cm_open; cm_query says which encoding is sent first
//! by a clock of its own    a datagram leaves, cm_notify: no request, everybody else is shaped around it
//! acknowledged             cm_update: what arrived, what was lost, the round trip                  (`ledger`)
//! or else                  cm_send: the congestion managers of both hosts tell each other what arrived
//! its share has changed    cmapp_update: another encoding                                          (`LayeredAudio`)
//! ```
//!
//! When to send what is [`LayeredAudio`]'s, the same that the simulator runs. The receiver is [`Receiver`], or any that
//! acknowledges as `datagram` says. The sound is silence.

mod datagram;
mod ledger;
mod receiver;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use rampmeter_cm::{Client, Event, Id, PathState};
use rampmeter_net::Clock;
use rampmeter_units::{Bytes, Duration, Rate, Time};
use rampmeter_workload::audio::{Config, LayeredAudio};
use rampmeter_workload::{Application, End, Event as Happened, Path, Workload};
use rand::TryRngCore;
use rand::rngs::OsRng;
use serde::Serialize;

use self::datagram::Acknowledgement;
use self::ledger::Ledger;
pub use self::receiver::Receiver;
use crate::AppError;

/// The paper's encodings in kb/s, as a user would write them.
pub const ENCODINGS: &str = "10,20,40,80,160,320";

/// The longest sleep: how soon it notices that it is to stop.
const NAP: Duration = Duration::from_millis(100);

/// What a stream is to be like.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its receiver.
    pub to: SocketAddr,
    /// From the lowest to the highest.
    pub encodings: Vec<Rate>,
    /// Bytes of each datagram.
    pub datagram: Bytes,
    /// Leave datagrams with the congestion manager, which asks the receiver's what arrived; without, the receiver
    /// acknowledges them.
    pub through_cm: bool,
    /// How long it lasts.
    pub lasts: Duration,
    /// Raised from outside to end it.
    pub stop: Arc<AtomicBool>,
}

/// Another encoding is sent from here on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Since the stream began.
    pub at_s: f64,
    /// The encoding.
    pub encoding_bps: u64,
    /// The share that it was chosen by.
    pub share_bps: u64,
    /// The smoothed round trip of that moment.
    pub srtt_s: f64,
}

/// What part of the time an encoding was sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spent {
    /// The encoding.
    pub encoding_bps: u64,
    /// Of 1.
    pub part: f64,
}

/// How a stream went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// How long it lasted.
    pub seconds: f64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Of those, known to be lost; none where the congestion managers know.
    pub lost: Option<u64>,
    /// Part of its time in the encoding just below its mean share.
    pub just_below_share: f64,
    /// Each encoding's part, from the lowest.
    pub encodings: Vec<Spent>,
    /// Every change, the first encoding included.
    pub changes: Vec<Change>,
}

/// A stream under way.
struct Stream<'a> {
    client: &'a Client,
    flow: Id,
    socket: UdpSocket,
    clock: Clock,
    began: Time,
    audio: LayeredAudio,
    /// None where the congestion managers keep the books.
    ledger: Option<Ledger>,
    packet: Vec<u8>,
    /// Something has been acknowledged.
    heard: bool,
    /// The receiver's system has said that nobody listens.
    refused: bool,
    path: PathState,
    datagrams: u64,
    changes: Vec<Change>,
    tell: &'a mut dyn FnMut(&Change),
}

/// Sends a stream; `client` is connected to the congestion manager, and `tell` hears of every change.
pub fn send(options: &Options, client: &Client, tell: &mut dyn FnMut(&Change)) -> Result<Report, AppError> {
    let config = Config { datagrams: options.datagram, encodings: options.encodings.clone() };
    check(options)?;
    let any: SocketAddr =
        if options.to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(options.to)?;
    socket.set_nonblocking(true)?;
    let flow = client.open(options.to, &rampmeter_cm::Options::default())?;
    if Bytes::new(client.mtu(flow)?.into()) < options.datagram {
        return Err(AppError::Usage("datagrams are larger than the path's packets; make them smaller with --datagram"));
    }
    let path = client.query(flow)?;
    let clock = Clock::start();
    let began = clock.now();
    let mut audio = LayeredAudio::new(&config, None);
    let _ = audio.on_start(began, path_of(&path));
    let mut stream = Stream {
        client,
        flow,
        socket,
        clock,
        began,
        audio,
        ledger: (!options.through_cm).then(|| Ledger::new(OsRng.try_next_u32().unwrap_or_default())),
        packet: vec![0; options.datagram.as_u64() as usize],
        heard: false,
        refused: false,
        path,
        datagrams: 0,
        changes: Vec::new(),
        tell,
    };
    stream.note();
    let result = stream.run(began + options.lasts, &options.stop);
    let report = stream.report();
    let (heard, refused) = (stream.heard, stream.refused);
    let _ = client.close(flow);
    result?;
    // A report of a stream of which nothing arrived would only say that all of it was lost.
    if !heard && (refused || report.lost.is_some_and(|lost| lost > 0)) {
        return Err(AppError::Unheard { to: options.to, refused });
    }
    Ok(report)
}

/// What the application learns of the path.
fn path_of(path: &PathState) -> Path {
    Path { share: path.rate, smoothed_rtt: path.srtt }
}

fn check(options: &Options) -> Result<(), AppError> {
    let rising = options.encodings.is_sorted_by(|a, b| a < b);
    if options.encodings.is_empty() || !rising || options.encodings[0] == Rate::ZERO {
        return Err(AppError::Usage("encodings are rates above zero, from the lowest to the highest: 10,20,40"));
    }
    if options.datagram < Bytes::new(datagram::LEAST as u64) {
        return Err(AppError::Usage("datagrams have 16 bytes or more"));
    }
    Ok(())
}

/// Whether the receiver's system has said that its port is closed.
fn is_refusal(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

impl Stream<'_> {
    fn run(&mut self, end: Time, stop: &AtomicBool) -> Result<(), AppError> {
        // Waits end up to 50 us later without it.
        let _ = nix::sys::prctl::set_timerslack(1);
        let events = self.client.file()?;
        while self.clock.now() < end && !stop.load(Ordering::Relaxed) {
            self.send()?;
            self.hear()?;
            self.obey()?;
            let silence = self.ledger.as_ref().map_or(Time::MAX, Ledger::deadline);
            let next = self.audio.deadline(End::Sender).min(silence).min(end);
            let span = next.since(self.clock.now()).min(NAP);
            let mut files = [events, self.socket.as_fd()].map(|file| PollFd::new(file, PollFlags::POLLIN));
            let span = TimeSpec::from_duration(std::time::Duration::from_nanos(span.as_nanos()));
            match ppoll(&mut files, Some(span), None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    /// Sends what is due.
    fn send(&mut self) -> Result<(), AppError> {
        let now = self.clock.now();
        while self.audio.on_deadline(now, End::Sender).send_datagram {
            let number = self.ledger.as_ref().map_or(self.datagrams as u32, Ledger::number);
            datagram::write(&mut self.packet, number, self.audio.encoding().as_bps());
            self.datagrams += 1;
            let Some(ledger) = &mut self.ledger else {
                match self.client.send(self.flow, &self.packet) {
                    Ok(()) | Err(rampmeter_cm::Error::Full) => continue, // what has no room now comes too late later
                    Err(error) => return Err(error.into()),
                }
            };
            // One that does not leave, or that nobody takes, is as lost as it could be on the way.
            self.refused |= self.socket.send(&self.packet).is_err_and(|error| is_refusal(&error));
            ledger.sent(now, Bytes::new(self.packet.len() as u64));
            self.client.notify(self.flow, self.packet.len() as u64)?;
        }
        Ok(())
    }

    /// Tells the congestion manager what the receiver says, or that it says nothing.
    fn hear(&mut self) -> Result<(), AppError> {
        let Some(ledger) = &mut self.ledger else { return Ok(()) };
        let mut bytes = [0; 64];
        loop {
            let now = self.clock.now();
            let feedback = match self.socket.recv(&mut bytes) {
                Ok(length) => Acknowledgement::read(&bytes[..length]).and_then(|ack| ledger.acknowledged(now, ack)),
                // Nothing, or what a router or the receiver's system has to say of its being there (ICMP): nothing is
                // heard then either, and that tells enough. Whatever else has come is there at the next look.
                Err(error) => {
                    self.refused |= is_refusal(&error);
                    break;
                }
            };
            if let Some(feedback) = feedback {
                self.heard = true;
                self.client.update(self.flow, &feedback)?;
            }
        }
        if let Some(feedback) = ledger.silence(self.clock.now()) {
            self.client.update(self.flow, &feedback)?;
        }
        Ok(())
    }

    /// Takes another encoding where its share has changed (`cmapp_update`).
    fn obey(&mut self) -> Result<(), AppError> {
        while let Some((_, event)) = self.client.next(Some(Duration::ZERO))? {
            match event {
                Event::Update(path) => {
                    let before = self.audio.encoding();
                    self.path = path;
                    let event = Happened::ShareChanged(path_of(&path));
                    let _ = self.audio.on_event(self.clock.now(), End::Sender, &event);
                    if self.audio.encoding() != before {
                        self.note();
                    }
                }
                Event::Closed(error) => return Err(error.into()),
                Event::Send { .. } | Event::Room => {}
            }
        }
        Ok(())
    }

    /// Notes the encoding of the moment.
    fn note(&mut self) {
        let change = Change {
            at_s: self.clock.now().since(self.began).as_secs_f64(),
            encoding_bps: self.audio.encoding().as_bps(),
            share_bps: self.path.rate.as_bps(),
            srtt_s: self.path.srtt.as_secs_f64(),
        };
        (self.tell)(&change);
        self.changes.push(change);
    }

    fn report(&mut self) -> Report {
        let now = self.clock.now();
        let seconds = now.since(self.began).as_secs_f64();
        let just_below_share = self.audio.report(now).just_below_share.unwrap_or_default();
        let part = |(encoding, spent): (Rate, Duration)| Spent {
            encoding_bps: encoding.as_bps(),
            part: spent.as_secs_f64() / seconds.max(1e-9),
        };
        Report {
            seconds,
            datagrams: self.datagrams,
            lost: self.ledger.as_ref().map(|ledger| ledger.lost),
            just_below_share,
            encodings: self.audio.spent(now).map(part).collect(),
            changes: std::mem::take(&mut self.changes),
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_cm::daemon::{self, Daemon};

    use super::*;

    #[test]
    fn a_stream_that_nobody_takes_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, stop) = (folder.path().join("cm.sock"), Arc::<AtomicBool>::default());
        let settings =
            daemon::Options { socket: socket.clone(), stop: Arc::clone(&stop), ..daemon::Options::default() };
        let mut daemon = Daemon::bind(settings).unwrap();
        let thread = std::thread::spawn(move || daemon.run().unwrap());
        let closed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let options = Options {
            to: closed,
            encodings: vec![Rate::from_bps(320_000)],
            datagram: Bytes::new(1000),
            through_cm: false,
            lasts: Duration::from_millis(200),
            stop: Arc::default(),
        };
        let error = send(&options, &Client::connect_to(&socket).unwrap(), &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("nobody listens") && error.contains(&closed.to_string()), "{error}");
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    }
}
