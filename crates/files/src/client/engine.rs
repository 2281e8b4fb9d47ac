//! Runs downloads over a session, and connects again if it breaks.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rampmeter_net::{ContactError, EndReason, Trusted};
use rampmeter_units::{Duration, Time};

use super::ClientOptions;
use super::get::{FileReport, Report};
use super::lane::{Complete, Context, Download, Lane};
use super::link::{Link, LinkEvent};
use crate::error::{NetError, Received};
use crate::part::Part;
use crate::progress::Progress;
use crate::url::Url;

const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// The first wait before another attempt, doubled each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);

const MAX_RETRY: Duration = Duration::from_secs(60);

/// A client of one server.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    options: &'a ClientOptions,
    trusted: &'a Trusted,
    addresses: Vec<SocketAddr>,
    host_name: String,
    /// The downloads that the connection does not have yet.
    queue: VecDeque<Download>,
    results: Vec<Option<Result<Complete, NetError>>>,
    link: Option<Link<'a>>,
    lane: Option<Lane>,
    next_heartbeat: Time,
    attempts: u32,
    started: Instant,
    /// When the last download ended.
    ended: Instant,
    facts: Facts,
}

/// What is known of the session, for the report.
#[derive(Debug, Default)]
struct Facts {
    address: Option<SocketAddr>,
    key: String,
    is_new_server: bool,
    controller: String,
    handshake: Duration,
    min_rtt: Duration,
    rtt: Duration,
    loss: f64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(options: &'a ClientOptions, trusted: &'a Trusted, url: &Url, downloads: Vec<Download>) -> Self {
        let mut results = Vec::new();
        results.resize_with(downloads.len(), || None);
        Self {
            options,
            trusted,
            addresses: url.addresses.clone(),
            host_name: url.server.text.clone(),
            queue: downloads.into(),
            results,
            link: None,
            lane: None,
            next_heartbeat: Time::MAX,
            attempts: 0,
            started: Instant::now(),
            ended: Instant::now(),
            facts: Facts::default(),
        }
    }

    /// Runs all downloads, and ends the session. Returns their results, in their order.
    pub(super) fn run(&mut self) -> Result<Vec<Result<Complete, NetError>>, NetError> {
        while let Err(error) = self.attempt() {
            let error = error.with_received(self.received());
            self.take_back();
            if let Some(mut link) = self.link.take() {
                link.abort();
            }
            let stopped = self.options.stop.load(Ordering::Relaxed);
            let has_begun = self.facts.handshake > Duration::ZERO;
            let attempts = if has_begun { self.options.retry.max(self.options.resume) } else { self.options.retry };
            if stopped || self.attempts >= attempts || !error.is_temporary() {
                self.queue.drain(..).filter_map(|download| download.part).for_each(Part::close);
                return Err(error);
            }
            self.wait_to_retry(&error)?;
        }
        self.report_progress();
        if let Some(link) = &mut self.link {
            link.finish()?;
        }
        Ok(self.results.drain(..).flatten().collect())
    }

    /// The downloads of the connection wait for another one.
    fn take_back(&mut self) {
        if let Some(lane) = self.lane.take() {
            lane.into_unfinished().rev().for_each(|download| self.queue.push_front(download));
        }
    }

    fn wait_to_retry(&mut self, error: &NetError) -> Result<(), NetError> {
        let wait = (FIRST_RETRY * (1u64 << self.attempts.min(16))).min(MAX_RETRY);
        self.attempts += 1;
        if let Some(on_progress) = &self.options.on_progress {
            on_progress.call(&Progress::Failed { reason: error.to_string(), wait });
        }
        let until = Instant::now() + std::time::Duration::from_nanos(wait.as_nanos());
        while Instant::now() < until {
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(NetError::Interrupted(self.received()));
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Ok(())
    }

    /// What has arrived of all files.
    fn received(&self) -> Received {
        let complete = self.results.iter().flatten().flatten().map(|complete| complete.size).sum();
        let downloads = self.lane.iter().flat_map(Lane::unfinished).chain(&self.queue);
        let all = Received { got: complete, size: Some(complete), resumable: true };
        downloads.map(Download::received).fold(all, |sum, one| Received {
            got: sum.got + one.got,
            size: sum.size.zip(one.size).map(|(sum, size)| sum.saturating_add(size)),
            resumable: sum.resumable && one.resumable,
        })
    }

    fn attempt(&mut self) -> Result<(), NetError> {
        let mut failure = ContactError::UnknownHost(self.host_name.clone());
        for address in self.addresses.clone() {
            let tried = Link::open(self.options, self.trusted, address).and_then(|link| {
                self.next_heartbeat = link.now() + HEARTBEAT_INTERVAL;
                self.link = Some(link);
                self.transfer()
            });
            match tried {
                // Another address of the host may work.
                Err(NetError::Contact(error @ (ContactError::ConnectionRefused(_) | ContactError::NoRoute(..)))) => {
                    self.take_back();
                    self.link = None;
                    failure = error;
                }
                done => return done,
            }
        }
        Err(failure.into())
    }

    /// Runs until no download is left.
    fn transfer(&mut self) -> Result<(), NetError> {
        loop {
            self.advance()?;
            if self.queue.is_empty() && self.lane.as_ref().is_none_or(Lane::is_idle) {
                return Ok(());
            }
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(NetError::Interrupted(Received::default()));
            }
            self.wait()?;
        }
    }

    /// Opens the connection, asks for files, and reads what has arrived.
    fn advance(&mut self) -> Result<(), NetError> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let lane = match &mut self.lane {
            Some(lane) => lane,
            none => match link.connect() {
                Some(id) => none.insert(Lane::new(id, self.options.controller.as_deref())),
                None => return Ok(()),
            },
        };
        while lane.has_room() {
            let Some(download) = self.queue.pop_front() else { break };
            lane.ask(download);
        }
        let (now, address, alarm, mut finished) = (link.now(), link.address, link.alarm.clone(), Vec::new());
        let Some(host) = link.host() else { return Ok(()) };
        let mut cx = Context { now, address, host, alarm: &alarm, finished: &mut finished };
        let advanced = lane.advance(&mut cx);
        if now >= self.next_heartbeat {
            self.next_heartbeat = now + HEARTBEAT_INTERVAL;
            lane.send_heartbeat(&mut cx);
        }
        if let Some(controller) = &lane.welcome {
            self.facts.controller.clone_from(controller);
        }
        for (index, result) in finished {
            (self.attempts, self.ended) = (0, Instant::now());
            self.results[index] = Some(result);
        }
        advanced
    }

    /// Waits for events.
    fn wait(&mut self) -> Result<(), NetError> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let until = self.next_heartbeat.min(link.now() + Duration::from_millis(100));
        link.wait(until)?;
        link.check_answer()?;
        let address = link.address;
        while let Some(event) = link.poll()? {
            match event {
                LinkEvent::Opened => {
                    if let Some(lane) = &mut self.lane {
                        lane.is_open = true;
                    }
                }
                LinkEvent::Ready => {}
                // The downloads go to a connection in the next session.
                LinkEvent::Closed(_) if link.asks_for_key() => {
                    if let Some(lane) = self.lane.take() {
                        lane.into_unfinished().rev().for_each(|download| self.queue.push_front(download));
                    }
                }
                LinkEvent::Closed(ended) => {
                    return Err(match ended {
                        _ if link.handshake.is_none() => ContactError::no_answer(address).into(),
                        EndReason::PeerTimeout => NetError::PeerTimeout(address, Received::default()),
                        _ => NetError::Aborted(address, Received::default()),
                    });
                }
                LinkEvent::Restarted => return Err(NetError::Restarted(address, Received::default())),
            }
        }
        self.report_progress();
        Ok(())
    }

    fn report_progress(&mut self) {
        let Some(link) = &self.link else { return };
        let facts = &mut self.facts;
        facts.address = Some(link.address);
        facts.is_new_server |= link.is_new_server;
        facts.key = link.key.map(|key| key.to_string()).unwrap_or_default();
        facts.handshake = link.handshake.unwrap_or(facts.handshake);
        if let Some((min_rtt, rtt, loss)) = link.measure() {
            (facts.min_rtt, facts.rtt, facts.loss) = (min_rtt, rtt, loss);
        }
        let Some(on_progress) = &self.options.on_progress else { return };
        let received = self.received();
        let Facts { rtt, loss, .. } = self.facts;
        on_progress.call(&Progress::Moved { bytes: received.got, total: received.size, rtt, loss });
    }

    /// The report of all `files`.
    pub(super) fn report(&self, files: Vec<FileReport>) -> Report {
        let seconds = self.ended.duration_since(self.started).as_secs_f64();
        let complete = files.iter().filter(|file| file.error.is_none());
        let (complete, bytes, resumed_from) =
            complete.fold((0, 0, 0), |sum, file| (sum.0 + 1, sum.1 + file.bytes, sum.2 + file.resumed_from));
        let facts = &self.facts;
        Report {
            server: facts.address.unwrap_or_else(|| self.addresses[0]),
            server_key: facts.key.clone(),
            is_new_server: facts.is_new_server,
            controller: facts.controller.clone(),
            bytes,
            resumed_from,
            complete,
            failed: files.len() - complete,
            seconds,
            goodput_bps: bytes.saturating_sub(resumed_from) as f64 * 8.0 / seconds.max(1e-9),
            handshake_s: facts.handshake.as_secs_f64(),
            min_rtt_s: facts.min_rtt.as_secs_f64(),
            rtt_s: facts.rtt.as_secs_f64(),
            loss: facts.loss,
            files,
        }
    }
}
