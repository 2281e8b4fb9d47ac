//! The layered audio server (`congestion-manager.md`, section 3.2.2): it sends the best encoding that its share
//! carries.
//!
//! ```text
//! start                    cm_open; the first encoding follows from cm_query
//! by its own clock         sends a datagram, cm_notify: no request, other flows get the rest of the rate
//! acknowledged             cm_update: bytes delivered and lost, round-trip time          (`in_flight_table`)
//! alternatively            cm_send: the receiver's congestion manager reports what arrived
//! the share has changed    cmapp_update: another encoding                                (`LayeredAudio`)
//! ```
//!
//! [`LayeredAudio`], which the simulator runs too, decides what is sent and when. The receiver is [`Receiver`], or any
//! program that acknowledges as in `datagram`. The audio data is silence.

mod datagram;
mod in_flight_table;
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
use self::in_flight_table::InFlightTable;

pub use self::receiver::Receiver;
use crate::AppError;

/// The paper's encodings in kb/s, as an option's value.
pub const ENCODINGS: &str = "10,20,40,80,160,320";

/// The maximum sleep, after which `stop` is checked.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// The options of a stream.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address of the receiver.
    pub to: SocketAddr,
    /// The rates of the encodings, from the lowest to the highest.
    pub encodings: Vec<Rate>,
    /// The size of a datagram.
    pub datagram: Bytes,
    /// Send with `cm_send`, so that the receiver's congestion manager reports what arrived; otherwise the receiver
    /// acknowledges the datagrams.
    pub through_cm: bool,
    /// The duration of the stream.
    pub duration: Duration,
    /// Set from outside to end the stream.
    pub stop: Arc<AtomicBool>,
}

/// A change of the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The time since the start of the stream.
    pub at_s: f64,
    /// The new encoding.
    pub encoding_bps: u64,
    /// The share at that time.
    pub share_bps: u64,
    /// The smoothed round-trip time at that time.
    pub srtt_s: f64,
}

/// The fraction of the time in which an encoding was sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spent {
    /// The encoding.
    pub encoding_bps: u64,
    /// The fraction, from 0 to 1.
    pub part: f64,
}

/// The result of a stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The duration of the stream.
    pub seconds: f64,
    /// The number of datagrams sent.
    pub datagrams: u64,
    /// The number of lost datagrams; none if the congestion managers count them.
    pub lost: Option<u64>,
    /// The fraction of the time in the encoding just below the mean share.
    pub just_below_share: f64,
    /// The fraction of each encoding, from the lowest.
    pub encodings: Vec<Spent>,
    /// All changes, including the first encoding.
    pub changes: Vec<Change>,
}

struct Stream<'a> {
    client: &'a Client,
    flow: Id,
    socket: UdpSocket,
    clock: Clock,
    began: Time,
    audio: LayeredAudio,
    /// None if the congestion managers count the bytes in flight.
    in_flight: Option<InFlightTable>,
    packet: Vec<u8>,
    /// At least one datagram was acknowledged.
    has_feedback: bool,
    /// The receiver's host has reported that the port is closed.
    refused: bool,
    path: PathState,
    datagrams: u64,
    changes: Vec<Change>,
    tell: &'a mut dyn FnMut(&Change),
}

/// Sends a stream; `client` is connected to the congestion manager, and `tell` is called for every change.
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
        return Err(AppError::Usage("datagrams are larger than the path's packets; reduce their size with --datagram"));
    }
    let path = client.query(flow)?;
    let clock = Clock::start();
    let began = clock.now();
    let mut audio = LayeredAudio::new(&config, None, rampmeter_units::Random::from_seed(0));
    let _ = audio.on_start(began, path_of(&path));
    let mut stream = Stream {
        client,
        flow,
        socket,
        clock,
        began,
        audio,
        in_flight: (!options.through_cm).then(|| InFlightTable::new(OsRng.try_next_u32().unwrap_or_default())),
        packet: vec![0; options.datagram.as_u64() as usize],
        has_feedback: false,
        refused: false,
        path,
        datagrams: 0,
        changes: Vec::new(),
        tell,
    };
    stream.record_change();
    let result = stream.run(began + options.duration, &options.stop);
    let report = stream.report();
    let (has_feedback, refused) = (stream.has_feedback, stream.refused);
    let _ = client.close(flow);
    result?;
    // If nothing arrived, an error says more than a report.
    if !has_feedback && (refused || report.lost.is_some_and(|lost| lost > 0)) {
        return Err(AppError::NoReceiver { to: options.to, refused });
    }
    Ok(report)
}

/// The state of the path for the application.
fn path_of(path: &PathState) -> Path {
    Path { share: path.rate, smoothed_rtt: path.srtt }
}

fn check(options: &Options) -> Result<(), AppError> {
    let rising = options.encodings.is_sorted_by(|a, b| a < b);
    if options.encodings.is_empty() || !rising || options.encodings[0] == Rate::ZERO {
        return Err(AppError::Usage("encodings must be rates above zero in rising order, such as 10,20,40"));
    }
    if options.datagram < Bytes::new(datagram::MIN_BYTES as u64) {
        return Err(AppError::Usage("datagrams must have at least 16 bytes"));
    }
    Ok(())
}

/// Whether the receiver's host has reported that the port is closed.
fn is_refusal(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

impl Stream<'_> {
    fn run(&mut self, end: Time, stop: &AtomicBool) -> Result<(), AppError> {
        rampmeter_net::set_min_timer_slack();
        let events = self.client.file()?;
        while self.clock.now() < end && !stop.load(Ordering::Relaxed) {
            self.send()?;
            self.read_feedback()?;
            self.apply_updates()?;
            let feedback_timeout = self.in_flight.as_ref().map_or(Time::MAX, InFlightTable::deadline);
            let next = self.audio.deadline(End::Sender).min(feedback_timeout).min(end);
            let span = next.since(self.clock.now()).min(MAX_SLEEP);
            let mut files = [events, self.socket.as_fd()].map(|file| PollFd::new(file, PollFlags::POLLIN));
            let span = TimeSpec::from_duration(std::time::Duration::from_nanos(span.as_nanos()));
            match ppoll(&mut files, Some(span), None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), AppError> {
        let now = self.clock.now();
        while self.audio.on_deadline(now, End::Sender).send_datagram {
            let number = self.in_flight.as_ref().map_or(self.datagrams as u32, InFlightTable::number);
            datagram::write(&mut self.packet, number, self.audio.encoding().as_bps());
            self.datagrams += 1;
            let Some(in_flight) = &mut self.in_flight else {
                match self.client.send(self.flow, &self.packet) {
                    Ok(()) | Err(rampmeter_cm::Error::Full) => continue, // a delayed datagram would arrive too late
                    Err(error) => return Err(error.into()),
                }
            };
            // A datagram that the kernel refuses counts as lost on the path.
            self.refused |= self.socket.send(&self.packet).is_err_and(|error| is_refusal(&error));
            in_flight.on_sent(now, Bytes::new(self.packet.len() as u64));
            self.client.notify(self.flow, self.packet.len() as u64)?;
        }
        Ok(())
    }

    /// Reports acknowledgements, or a feedback timeout, to the congestion manager.
    fn read_feedback(&mut self) -> Result<(), AppError> {
        let Some(in_flight) = &mut self.in_flight else { return Ok(()) };
        let mut bytes = [0; 64];
        loop {
            let now = self.clock.now();
            let feedback = match self.socket.recv(&mut bytes) {
                Ok(length) => {
                    Acknowledgement::read(&bytes[..length]).and_then(|ack| in_flight.on_acknowledgement(now, ack))
                }
                // Nothing to read, or an ICMP error from a router or the receiver's host. In both cases there is no
                // acknowledgement, and the feedback timeout follows. Other packets are read in the next turn.
                Err(error) => {
                    self.refused |= is_refusal(&error);
                    break;
                }
            };
            if let Some(feedback) = feedback {
                self.has_feedback = true;
                self.client.update(self.flow, &feedback)?;
            }
        }
        if let Some(feedback) = in_flight.on_feedback_timeout(self.clock.now()) {
            self.client.update(self.flow, &feedback)?;
        }
        Ok(())
    }

    /// Changes the encoding when the share has changed (`cmapp_update`).
    fn apply_updates(&mut self) -> Result<(), AppError> {
        while let Some((_, event)) = self.client.next(Some(Duration::ZERO))? {
            match event {
                Event::Update(path) => {
                    let before = self.audio.encoding();
                    self.path = path;
                    let event = Happened::ShareChanged(path_of(&path));
                    let _ = self.audio.on_event(self.clock.now(), End::Sender, &event);
                    if self.audio.encoding() != before {
                        self.record_change();
                    }
                }
                Event::Closed(error) => return Err(error.into()),
                Event::Send { .. } | Event::Room => {}
            }
        }
        Ok(())
    }

    fn record_change(&mut self) {
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
            lost: self.in_flight.as_ref().map(|in_flight| in_flight.lost),
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
    fn a_stream_without_a_receiver_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, stop) = (directory.path().join("cm.sock"), Arc::<AtomicBool>::default());
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
            duration: Duration::from_millis(200),
            stop: Arc::default(),
        };
        let error = send(&options, &Client::connect_to(&socket).unwrap(), &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("its port is closed") && error.contains(&closed.to_string()), "{error}");
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    }
}
