//! Gets files in a session, and in another one if it breaks.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rampmeter_net::{ContactError, DEFAULT_CONTROLLER, SessionEnd};
use rampmeter_session::PublicKey;
use rampmeter_streams::{Client, ClientOptions, Session, stopped};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::GetOptions;
use super::download::{Complete, Download, Failed};
use super::state::State;
use crate::SERVICE;
use crate::error::NetError;
use crate::progress::Progress;

/// Files that are asked for at once; a server serves no more of a session.
const AT_ONCE: usize = 8;

/// How often the progress is reported, and a stop is noticed.
const INTERVAL: Duration = Duration::from_millis(100);

/// The first wait before another attempt, doubled each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);

const MAX_RETRY: Duration = Duration::from_secs(60);

/// The maximum time to say goodbye.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The last session, for the report.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) address: SocketAddr,
    pub(super) key: PublicKey,
    pub(super) handshake: rampmeter_units::Duration,
}

/// The files of a call.
#[derive(Debug)]
pub(super) struct Downloads<'a> {
    options: &'a GetOptions,
    /// The server, with its key if that is known.
    server: String,
    /// Files that are in no session.
    queue: VecDeque<Download>,
    pub(super) results: Vec<Option<Result<Complete, NetError>>>,
    pub(super) state: Arc<State>,
    /// Whether the server has answered.
    has_begun: bool,
    pub(super) is_new_server: bool,
    attempts: u32,
    pub(super) started: Instant,
    /// When the last file ended.
    pub(super) ended: Instant,
}

impl<'a> Downloads<'a> {
    pub(super) fn new(options: &'a GetOptions, server: String, queue: VecDeque<Download>) -> Self {
        let mut results = Vec::new();
        results.resize_with(queue.len(), || None);
        Self {
            options,
            server,
            state: Arc::new(State::new(queue.len())),
            queue,
            results,
            has_begun: false,
            is_new_server: false,
            attempts: 0,
            started: Instant::now(),
            ended: Instant::now(),
        }
    }

    fn report(&self, progress: &Progress) {
        if let Some(on_progress) = &self.options.on_progress {
            on_progress.call(progress);
        }
    }

    /// Gets all files, of which some may fail.
    pub(super) async fn run(&mut self) -> Result<Facts, NetError> {
        loop {
            let error = match self.attempt().await {
                Ok(facts) => {
                    self.report(&self.state.progress());
                    return Ok(facts);
                }
                Err(error) => error,
            };
            let GetOptions { retry, resume, stop, .. } = self.options;
            let attempts = if self.has_begun { *retry.max(resume) } else { *retry };
            if stop.load(Ordering::Relaxed) || self.attempts >= attempts || !error.is_temporary() {
                return Err(error);
            }
            let wait = (FIRST_RETRY * (1 << self.attempts.min(16))).min(MAX_RETRY);
            self.attempts += 1;
            let in_units = rampmeter_units::Duration::from_nanos(wait.as_nanos() as u64);
            self.report(&Progress::Failed { reason: error.to_string(), wait: in_units });
            tokio::select! {
                () = sleep(wait) => {}
                () = stopped(stop) => return Err(NetError::Interrupted(self.state.received())),
            }
        }
    }

    /// Gets in one session what is in the queue.
    async fn attempt(&mut self) -> Result<Facts, NetError> {
        let options = ClientOptions {
            service: SERVICE,
            controller: DEFAULT_CONTROLLER.into(),
            spare: self.queue.len().clamp(1, AT_ONCE) - 1,
            max_silence: self.options.client.timeout,
            ..self.options.client.clone()
        };
        let client = tokio::select! {
            client = Client::connect(&self.server, options) => client?,
            () = stopped(&self.options.stop) => return Err(NetError::Interrupted(self.state.received())),
        };
        let session = client.session().clone();
        let facts = Facts { address: client.address(), key: session.peer_key(), handshake: client.handshake() };
        if client.is_new_server() {
            self.report(&Progress::FirstContact { server: facts.address, key: facts.key });
        }
        self.is_new_server |= client.is_new_server();
        self.has_begun = true;
        let result = self.get_in(&session).await;
        let _ = timeout(CLOSE_TIMEOUT, client.close()).await;
        result.map(|()| facts)
    }

    async fn get_in(&mut self, session: &Session) -> Result<(), NetError> {
        let (mut running, mut failed, mut interval) = (JoinSet::new(), false, interval(INTERVAL));
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while !failed && running.len() < AT_ONCE {
                let Some(download) = self.queue.pop_front() else { break };
                running.spawn(download.run(session.clone(), Arc::clone(&self.state)));
            }
            tokio::select! {
                ended = running.join_next() => match ended {
                    None => break,
                    Some(Ok((download, Err(Failed::Session)))) => {
                        failed = true;
                        self.queue.push_front(download);
                    }
                    Some(Ok((mut download, Err(Failed::File(error))))) => {
                        self.state.discard(download.index);
                        let GetOptions { retry, resume, .. } = self.options;
                        if *retry.max(resume) > 0 && download.may_repeat(&error) {
                            let wait = rampmeter_units::Duration::ZERO;
                            self.report(&Progress::Failed { reason: error.to_string(), wait });
                            self.queue.push_back(download);
                        } else {
                            self.end(download.index, Err(error));
                        }
                    }
                    Some(Ok((download, Ok(complete)))) => self.end(download.index, Ok(complete)),
                    Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
                },
                _ = interval.tick() => self.report(&self.state.progress()),
            }
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(NetError::Interrupted(self.state.received()));
            }
        }
        if failed { Err(self.broken(session)) } else { Ok(()) }
    }

    fn end(&mut self, index: usize, result: Result<Complete, NetError>) {
        (self.attempts, self.ended) = (0, Instant::now());
        self.results[index] = Some(result);
    }

    /// Why the session has ended.
    fn broken(&self, session: &Session) -> NetError {
        let (address, received) = (session.address(), self.state.received());
        let own = self.options.client.identity.as_ref().map(rampmeter_session::KeyPair::public);
        match session.end() {
            Some(SessionEnd::Stopping | SessionEnd::Restarted) => NetError::Restarted(address, received),
            Some(SessionEnd::NotAuthorized) => ContactError::NotAuthorized { address, own }.into(),
            Some(SessionEnd::Finished | SessionEnd::Denied(_)) => NetError::Aborted(address, received),
            Some(SessionEnd::Busy) => ContactError::Busy(address).into(),
            Some(SessionEnd::NoAnswer) | None => NetError::PeerTimeout(address, received),
        }
    }
}
