//! Runs tasks over the connections of a session, and connects again if it breaks.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use rampmeter_units::{Duration, Time};

use super::ClientOptions;
use super::lane::{Context, Jobs, Lane};
use super::link::{DEFAULT_CONTROLLER, Link, LinkEvent, check_options};
use super::report::{FileReport, FileResult, Report};
use super::task::{Done, Task, TaskResult};
use crate::contact::{ContactError, Trusted};
use crate::files::error::{NetError, Received};
use crate::files::pool::Pool;
use crate::files::progress::Progress;
use crate::files::protocol::Rights;
use crate::files::url::Url;
use crate::host::EndReason;

const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// Threads that read and hash files.
const DISK_THREADS: usize = 2;

/// The first wait before another attempt, doubled each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);

const MAX_RETRY: Duration = Duration::from_secs(60);

/// A name that another upload has is asked for again so often, each time after `FAST_REQUEST`: a server ends an upload of
/// the same key after one to two seconds of silence.
const FAST_REQUESTS: u32 = 8;
const FAST_REQUEST: Duration = Duration::from_millis(400);

/// How long to wait after so many attempts that failed.
fn retry_wait(attempts: u32) -> Duration {
    (FIRST_RETRY * (1u64 << attempts.min(16))).min(MAX_RETRY)
}

/// A client of one server.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    options: &'a ClientOptions,
    trusted: &'a Trusted,
    addresses: Vec<SocketAddr>,
    host_name: String,
    /// Whether this client sends files, so that the controller is its own.
    sends: bool,
    link: Option<Link<'a>>,
    jobs: Option<Jobs>,
    lanes: Vec<Lane>,
    /// Tasks of connections that have ended.
    returned: Vec<(usize, Task)>,
    next_heartbeat: Time,
    attempts: u32,
    /// Bytes of files moved, earlier transfers' included, of all tasks so far.
    moved: u64,
    /// What all tasks so far will move, if known.
    total: Option<u64>,
    /// The bytes of complete files, and the number of tasks that no connection has.
    complete: u64,
    queued: usize,
    started: std::time::Instant,
    /// When the last task ended.
    ended: std::time::Instant,
    facts: Facts,
}

/// What is known of the session, for the report.
#[derive(Debug, Default)]
struct Facts {
    address: Option<SocketAddr>,
    key: String,
    is_new_server: bool,
    controller: String,
    rights: Rights,
    handshake: Duration,
    rtt: (Duration, Duration),
    loss: f64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        options: &'a ClientOptions,
        trusted: &'a Trusted,
        url: &Url,
        sends: bool,
    ) -> Result<Self, NetError> {
        check_options(options)?;
        Ok(Self {
            options,
            trusted,
            addresses: url.addresses.clone(),
            host_name: url.server.text.clone(),
            sends,
            link: None,
            jobs: None,
            lanes: Vec::new(),
            returned: Vec::new(),
            next_heartbeat: Time::MAX,
            attempts: 0,
            moved: 0,
            total: Some(0),
            complete: 0,
            queued: 0,
            started: std::time::Instant::now(),
            ended: std::time::Instant::now(),
            facts: Facts::default(),
        })
    }

    /// What the server allows this client, once it was asked for something.
    pub(super) fn rights(&self) -> Rights {
        self.facts.rights
    }

    /// Runs all tasks. Returns their results, in their order.
    pub(super) fn run(&mut self, tasks: Vec<Task>) -> Result<Vec<TaskResult>, NetError> {
        let mut results: Vec<Option<TaskResult>> = Vec::new();
        results.resize_with(tasks.len(), || None);
        self.total = tasks.iter().map(Task::size).fold(self.total, |sum, size| Some(sum?.saturating_add(size?)));
        let mut queue: VecDeque<(usize, Task)> = tasks.into_iter().enumerate().collect();
        let moved_before = self.moved;
        while let Err(error) = self.attempt(&mut queue, &mut results) {
            let mut received = self.received(&queue, &results);
            if self.sends {
                received.got = self.moved - moved_before;
            }
            // The next attempt counts what this one has moved of unfinished files, if it resumes them.
            self.moved = moved_before + results.iter().flatten().map(bytes_of).sum::<u64>();
            for lane in std::mem::take(&mut self.lanes).into_iter().rev() {
                for task in lane.into_unfinished().into_iter().rev() {
                    queue.push_front(task);
                }
            }
            if let Some(mut link) = self.link.take() {
                link.abort();
            }
            let error = error.with_received(received);
            let stopped = self.options.stop.load(Ordering::Relaxed);
            if stopped || self.attempts >= self.options.retry || !error.is_temporary() {
                for (_, task) in queue {
                    close(task);
                }
                return Err(error);
            }
            self.wait_to_retry(&error)?;
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// How long to wait before each further request for a name that another upload has: perhaps an earlier one of this
    /// client, which was killed.
    pub(super) fn waits_for_a_name(&self) -> impl Iterator<Item = Duration> + use<> {
        (0..FAST_REQUESTS).map(|_| FAST_REQUEST).chain((0..self.options.retry).map(retry_wait))
    }

    /// Waits before tasks with `sizes` bytes are repeated.
    pub(super) fn wait_to_repeat(&mut self, wait: Duration, sizes: u64) -> Result<(), NetError> {
        self.total = self.total.map(|total| total.saturating_sub(sizes));
        self.sleep(wait)
    }

    fn wait_to_retry(&mut self, error: &NetError) -> Result<(), NetError> {
        let wait = retry_wait(self.attempts);
        self.attempts += 1;
        if let Some(on_progress) = &self.options.on_progress {
            on_progress.call(&Progress::Failed { reason: error.to_string(), wait });
        }
        self.sleep(wait)
    }

    fn sleep(&self, time: Duration) -> Result<(), NetError> {
        let until = std::time::Instant::now() + std::time::Duration::from_nanos(time.as_nanos());
        while std::time::Instant::now() < until {
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(NetError::Interrupted(Received { got: self.moved, size: self.total, resumable: true }));
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Ok(())
    }

    /// What has arrived of all tasks that are not finished.
    fn received(&self, queue: &VecDeque<(usize, Task)>, results: &[Option<TaskResult>]) -> Received {
        let mut received = Received { got: 0, size: Some(0), resumable: true };
        for lane in &self.lanes {
            let (got, size, resumable) = lane.partial();
            received.got += got;
            received.size = received.size.zip(size).map(|(sum, size)| sum.saturating_add(size));
            received.resumable &= resumable;
        }
        for (_, task) in queue {
            received.size = received.size.zip(task.size()).map(|(sum, size)| sum.saturating_add(size));
        }
        let complete: u64 = results.iter().flatten().map(bytes_of).sum();
        Received {
            got: received.got + complete,
            size: received.size.map(|sum| sum.saturating_add(complete)),
            ..received
        }
    }

    fn attempt(
        &mut self,
        queue: &mut VecDeque<(usize, Task)>,
        results: &mut [Option<TaskResult>],
    ) -> Result<(), NetError> {
        if self.link.is_some() {
            return self.transfer(queue, results);
        }
        let mut failure = ContactError::UnknownHost(self.host_name.clone());
        for address in self.addresses.clone() {
            let own = self.options.controller.as_deref().filter(|_| self.sends).unwrap_or(DEFAULT_CONTROLLER);
            let tried = Link::open(self.options, self.trusted, address, own).and_then(|mut link| {
                self.jobs = Some(Pool::new(DISK_THREADS, &link.net.alarm()?)?);
                self.next_heartbeat = link.now() + HEARTBEAT_INTERVAL;
                self.link = Some(link);
                self.transfer(queue, results)
            });
            match tried {
                // Another address of the host may work.
                Err(NetError::Contact(error @ (ContactError::ConnectionRefused(_) | ContactError::NoRoute(..)))) => {
                    for lane in std::mem::take(&mut self.lanes) {
                        queue.extend(lane.into_unfinished());
                    }
                    self.link = None;
                    failure = error;
                }
                done => return done,
            }
        }
        Err(failure.into())
    }

    /// Runs until no task is left.
    fn transfer(
        &mut self,
        queue: &mut VecDeque<(usize, Task)>,
        results: &mut [Option<TaskResult>],
    ) -> Result<(), NetError> {
        let mut finished = Vec::new();
        let mut changed = true;
        loop {
            if changed {
                self.give_tasks(queue, &mut finished);
                self.advance(&mut finished)?;
            }
            for (index, result) in finished.drain(..) {
                (self.attempts, self.ended) = (0, std::time::Instant::now());
                if let Err(error @ NetError::DiskFull(_)) = result {
                    return Err(error);
                }
                self.complete += bytes_of(&result);
                results[index] = Some(result);
            }
            self.queued = queue.len();
            if queue.is_empty() && self.returned.is_empty() && self.lanes.iter().all(Lane::is_idle) {
                return Ok(());
            }
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(NetError::Interrupted(Received::default()));
            }
            changed = self.wait()?;
        }
    }

    /// Opens connections and gives tasks to those that have room.
    fn give_tasks(&mut self, queue: &mut VecDeque<(usize, Task)>, finished: &mut Vec<(usize, TaskResult)>) {
        self.returned.drain(..).rev().for_each(|task| queue.push_front(task));
        let sends = self.sends;
        let Self { link: Some(link), jobs: Some(jobs), lanes, options, moved, .. } = self else { return };
        let wanted = options.jobs.min(queue.len());
        let is_known = lanes.first().is_some_and(|lane| lane.welcome.is_some());
        // Further connections once the first one works, for tasks that would wait.
        let has_room = lanes.iter().any(|lane| lane.is_idle() && lane.welcome.is_some());
        while lanes.is_empty() || (is_known && !has_room && lanes.len() < options.jobs && lanes.len() < wanted) {
            let controller = options.controller.as_deref().filter(|_| !sends);
            let Some(id) = link.connect() else { break };
            lanes.push(Lane::new(id, controller));
        }
        let (now, address) = (link.now(), link.address);
        let Some(host) = link.host() else { return };
        for (at, lane) in lanes.iter_mut().enumerate() {
            // The first lane sends requests with its greeting. Others may wait for a place at the server.
            while (at == 0 || lane.welcome.is_some()) && lane.has_room() {
                let Some((index, task)) = queue.pop_front() else { return };
                lane.take(&mut Context { now, address, host, jobs, finished, moved }, index, task);
            }
        }
    }

    fn advance(&mut self, finished: &mut Vec<(usize, TaskResult)>) -> Result<(), NetError> {
        let Self { link: Some(link), jobs: Some(jobs), lanes, moved, .. } = self else { return Ok(()) };
        let (now, address) = (link.now(), link.address);
        let Some(host) = link.host() else { return Ok(()) };
        while let Some((index, mut work)) = jobs.poll() {
            for lane in lanes.iter_mut() {
                match lane.on_work(&mut Context { now, address, host, jobs, finished, moved }, index, work) {
                    Ok(()) => break,
                    Err(other) => work = other,
                }
            }
        }
        for lane in lanes.iter_mut() {
            lane.advance(&mut Context { now, address, host, jobs, finished, moved })?;
        }
        if now >= self.next_heartbeat {
            self.next_heartbeat = now + HEARTBEAT_INTERVAL;
            for lane in lanes.iter_mut().filter(|lane| lane.is_open) {
                lane.send_heartbeat(&mut Context { now, address, host, jobs, finished, moved });
            }
        }
        if let Some((controller, rights)) = lanes.first().and_then(|lane| lane.welcome.as_ref()) {
            let requested = self.options.controller.as_ref().filter(|_| !self.sends);
            if requested.is_some_and(|requested| requested != controller) {
                return Err(NetError::BadAnswer(address));
            }
            self.facts.controller.clone_from(controller);
            self.facts.rights = *rights;
        }
        Ok(())
    }

    /// Waits for events. True if there is something to do.
    fn wait(&mut self) -> Result<bool, NetError> {
        let Some(link) = &mut self.link else { return Ok(false) };
        let until = self.next_heartbeat.min(link.now() + Duration::from_millis(100));
        link.wait(until)?;
        link.check_answer()?;
        let address = link.address;
        while let Some(event) = link.poll()? {
            match event {
                LinkEvent::Opened(id) => {
                    if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id == id) {
                        lane.is_open = true;
                    }
                }
                LinkEvent::Ready => {}
                LinkEvent::Closed(id, ended) => {
                    let Some(at) = self.lanes.iter().position(|lane| lane.id == id) else { continue };
                    if link.asks_for_key() {
                        // Its tasks go to a connection in the next session.
                        self.returned.extend(self.lanes.remove(at).into_unfinished());
                        continue;
                    }
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
        Ok(true)
    }

    fn report_progress(&mut self) {
        let Some(link) = &self.link else { return };
        self.facts.address = Some(link.address);
        self.facts.is_new_server |= link.is_new_server;
        self.facts.key = link.key.map(|key| key.to_string()).unwrap_or_default();
        self.facts.handshake = link.handshake.unwrap_or_default();
        if let Some((min_rtt, rtt, loss)) = link.measure(self.sends) {
            self.facts.rtt = (min_rtt, rtt);
            self.facts.loss = loss;
        }
        let Some(on_progress) = &self.options.on_progress else { return };
        // Sizes that only the server knows are known once it sends the file.
        let sizes = |total: u64, lane: &Lane| Some(total + lane.partial().1?);
        let sum = || self.lanes.iter().try_fold(self.complete, sizes).filter(|_| self.queued == 0);
        let total = self.total.or_else(sum);
        let (rtt, loss) = (self.facts.rtt.1, self.facts.loss);
        on_progress.call(&Progress::Moved { bytes: self.moved, total, rtt, loss });
    }

    /// Ends the session.
    pub(super) fn finish(&mut self) -> Result<(), NetError> {
        self.report_progress();
        match &mut self.link {
            Some(link) => link.finish(),
            None => Ok(()),
        }
    }

    /// The report of all `files`.
    pub(super) fn report(&self, files: Vec<FileReport>, skipped: u64) -> Report {
        let seconds = self.ended.duration_since(self.started).as_secs_f64();
        let count = |result| files.iter().filter(|file| file.result == result).count();
        let complete = || files.iter().filter(|file| file.result == FileResult::Complete);
        let (bytes, resumed_from): (u64, u64) =
            complete().fold((0, 0), |sum, file| (sum.0 + file.bytes, sum.1 + file.resumed_from));
        Report {
            server: self.facts.address.unwrap_or_else(|| self.addresses[0]),
            server_key: self.facts.key.clone(),
            is_new_server: self.facts.is_new_server,
            controller: if self.sends {
                self.options.controller.clone().unwrap_or_else(|| DEFAULT_CONTROLLER.into())
            } else {
                self.facts.controller.clone()
            },
            bytes,
            resumed_from,
            complete: count(FileResult::Complete),
            unchanged: count(FileResult::Unchanged),
            failed: count(FileResult::Failed),
            skipped,
            seconds,
            goodput_bps: bytes.saturating_sub(resumed_from) as f64 * 8.0 / seconds.max(1e-9),
            handshake_s: self.facts.handshake.as_secs_f64(),
            min_rtt_s: self.facts.rtt.0.as_secs_f64(),
            rtt_s: self.facts.rtt.1.as_secs_f64(),
            loss: self.facts.loss,
            files,
        }
    }
}

/// The size of a file that was moved completely.
fn bytes_of(result: &TaskResult) -> u64 {
    match result {
        Ok(Done::Moved(moved)) => moved.size,
        _ => 0,
    }
}

/// Closes what a task that is given up has open.
fn close(task: Task) {
    if let Task::Get(get) = task {
        if let super::output::Target::Open(part) = get.target {
            part.close();
        }
    }
}
