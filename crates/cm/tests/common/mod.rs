//! A daemon in this process, in its own directory.

#![allow(dead_code, reason = "each test file uses some of them")]

pub(crate) mod relay;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rampmeter_cm::daemon::{Daemon, Limits, Options, Protocol};
use rampmeter_cm::{Client, Event, Feedback, Id};
use rampmeter_units::{Bytes, Duration};

/// A timeout that is long enough for any machine; nothing waits so long unless it fails.
pub(crate) const LONG: Option<Duration> = Some(Duration::from_secs(20));

pub(crate) struct Running {
    directory: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        Self::of(|path, stop| options(path, limits, stop))
    }

    /// A daemon that communicates with others, with the paper's controller.
    pub(crate) fn communicating(protocol: &Protocol) -> Self {
        Self::of(|path, stop| communicating(path, protocol, stop))
    }

    fn of(options: impl Fn(&Path, &Arc<AtomicBool>) -> Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut running = Self { directory, stop: Arc::default(), thread: None };
        running.begin(options);
        running
    }

    /// A daemon that serves all users.
    pub(crate) fn public() -> Self {
        Self::of(|path, stop| Options { public: true, ..options(path, Limits::default(), stop) })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("cm.sock")
    }

    pub(crate) fn start(&mut self, limits: Limits) {
        self.begin(|path, stop| options(path, limits, stop));
    }

    fn begin(&mut self, options: impl Fn(&Path, &Arc<AtomicBool>) -> Options) {
        self.stop = Arc::default();
        let mut daemon = Daemon::bind(options(&self.path(), &self.stop)).unwrap();
        self.thread = Some(std::thread::spawn(move || daemon.run().unwrap()));
    }

    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect_to(&self.path()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()));
    }
}

pub(crate) fn options(path: &Path, limits: Limits, stop: &Arc<AtomicBool>) -> Options {
    // With a window only, tests need not wait for paced packets.
    Options {
        socket: path.to_owned(),
        controller: "newreno".into(),
        limits,
        stop: Arc::clone(stop),
        ..Options::default()
    }
}

pub(crate) fn communicating(path: &Path, protocol: &Protocol, stop: &Arc<AtomicBool>) -> Options {
    let (socket, stop) = (path.to_owned(), Arc::clone(stop));
    Options { socket, stop, protocol: protocol.clone(), ..Options::default() }
}

/// The next grant of any flow.
pub(crate) fn granted(client: &Client) -> (Id, u32) {
    loop {
        match client.next(LONG).unwrap().expect("an event in time") {
            (flow, Event::Send { bytes }) => return (flow, bytes),
            (_, Event::Closed(error)) => panic!("{error}"),
            _ => {}
        }
    }
}

/// Reports `packets` packets as sent and delivered.
pub(crate) fn transfer(client: &Client, flow: Id, packets: usize, rtt: Duration) {
    for _ in 0..packets {
        client.request(flow).unwrap();
        let (granted_flow, bytes) = granted(client);
        assert_eq!(granted_flow, flow);
        client.notify(flow, bytes.into()).unwrap();
        let feedback = Feedback { received: Bytes::new(bytes.into()), rtt: Some(rtt), ..Feedback::default() };
        client.update(flow, &feedback).unwrap();
    }
}
