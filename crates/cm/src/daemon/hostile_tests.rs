//! Tests of a daemon with clients that do not keep to the protocol of the client library.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::spawn;

use super::*;
use crate::client::Client;
use crate::handshake::{ANSWER_TIMEOUT, connect, receive_memory, send_request};
use crate::layout::{CLIENT_SLEEPS, COMMANDS, DAEMON_SLEEPS, EVENTS, WORDS};
use crate::memory::Memory;
use crate::message::Command;
use crate::ring::{Consumer, Producer};

/// A daemon at a path, which ends with this value.
struct Running {
    directory: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn new() -> Self {
        let (directory, stop) = (tempfile::tempdir().unwrap(), Arc::<AtomicBool>::default());
        let options =
            Options { socket: directory.path().join("cm.sock"), stop: Arc::clone(&stop), ..Options::default() };
        let mut daemon = Daemon::bind(options).unwrap();
        let thread = Some(spawn(move || daemon.run().unwrap()));
        Self { directory, stop, thread }
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("cm.sock")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

/// A client that has connected and does what it likes with what it got.
fn connected(path: &Path) -> (UnixStream, Arc<Memory>) {
    let socket = connect(path, ANSWER_TIMEOUT).unwrap();
    send_request(&socket, ClientRequest::Connect).unwrap();
    let memory = Memory::open(&receive_memory(&socket).unwrap(), WORDS).unwrap();
    (socket, Arc::new(memory))
}

fn assert_served(path: &Path) {
    let client = Client::connect_to(path).unwrap();
    let flow = client.open(([127, 0, 0, 1], 9).into(), &crate::client::Options::default()).unwrap();
    assert!(client.query(flow).is_ok());
}

#[test]
fn a_client_that_reads_no_wakeups_does_not_stop_the_daemon() {
    let running = Running::new();
    let (socket, memory) = connected(&running.path());
    socket.set_nonblocking(false).unwrap();
    let mut commands = Producer::new(Arc::clone(&memory), COMMANDS);
    let mut notices = Consumer::new(Arc::clone(&memory), EVENTS);
    let words = memory.words();
    for token in 0..1000 {
        words[CLIENT_SLEEPS].store(1, Relaxed);
        assert_eq!(commands.push(&Command::Listen { token, port: 0, on: true }.encode(1)), Ok(true));
        if words[DAEMON_SLEEPS].load(Relaxed) != 0 {
            std::io::Write::write_all(&mut &socket, &[0]).unwrap();
        }
        while notices.pop().unwrap().is_none() {
            std::thread::yield_now();
        }
    }
    assert_served(&running.path());
}

#[test]
fn a_client_that_floods_its_socket_does_not_stop_the_daemon() {
    let running = Running::new();
    let (socket, _memory) = connected(&running.path());
    let (flooding, stop) = (socket.try_clone().unwrap(), Arc::<AtomicBool>::default());
    let until = Arc::clone(&stop);
    let flood =
        spawn(move || while !until.load(Relaxed) && std::io::Write::write_all(&mut &flooding, &[0; 4096]).is_ok() {});
    assert_served(&running.path());
    stop.store(true, Relaxed);
    socket.shutdown(std::net::Shutdown::Both).unwrap();
    flood.join().unwrap();
    assert_served(&running.path());
}

#[test]
fn connections_without_a_request_leave_room_for_other_users() {
    let places = |connected: usize, owner| {
        let owners = std::iter::repeat_n(Owner(7), connected);
        Quotas::with_users(MAX_CLIENTS as u64, owners).permits(owner, 1)
    };
    assert!(places(MAX_CLIENTS * 4 / 5 - 1, Owner(7)) && !places(MAX_CLIENTS * 4 / 5, Owner(7)));
    assert!(places(MAX_CLIENTS * 4 / 5, Owner(8)));
}
