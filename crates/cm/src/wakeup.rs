//! Wakes the other side of a connection when it sleeps: a byte on the Unix socket that connects the two.
//!
//! A side that is about to sleep announces it by a word in the shared memory, checks a last time for records, and
//! sleeps; the other side sends a byte only if it finds the word set. So no system call is needed while both are busy.
//!
//! The daemon must never wait for a client. The two ends of a socket are two open files, and each call here says itself
//! that it must not wait (`MSG_DONTWAIT`), so no client can make the daemon's end block: neither by its file status
//! flags nor by bytes that it does not read. With an eventfd, which both processes would share, it could.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};

use crate::layout::{CLIENT_SLEEPS, DAEMON_SLEEPS};
use crate::memory::Memory;

/// The maximum number of bytes read at a time; there is usually one.
const BATCH: usize = 256;

/// One side of the connection.
#[derive(Debug)]
pub(crate) struct Wakeup {
    memory: Arc<Memory>,
    socket: UnixStream,
    /// The words that are not zero while this side, and the other one, sleeps.
    own_flag: usize,
    peer_flag: usize,
}

impl Wakeup {
    /// The daemon's side.
    pub(crate) fn of_daemon(memory: Arc<Memory>, socket: UnixStream) -> Self {
        Self { memory, socket, own_flag: DAEMON_SLEEPS, peer_flag: CLIENT_SLEEPS }
    }

    /// The client's side.
    pub(crate) fn of_client(memory: Arc<Memory>, socket: UnixStream) -> Self {
        Self { memory, socket, own_flag: CLIENT_SLEEPS, peer_flag: DAEMON_SLEEPS }
    }

    /// Wakes the other side if it sleeps.
    pub(crate) fn notify(&self) {
        fence(SeqCst);
        let flag = &self.memory.words()[self.peer_flag];
        if flag.load(Relaxed) != 0 && flag.swap(0, Relaxed) != 0 {
            // If the socket is full, it is readable already; if the other side has ended, that is noticed elsewhere.
            let _ = send(self.socket.as_raw_fd(), &[0], MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
        }
    }

    /// Announces that this side checks a last time and then sleeps.
    pub(crate) fn prepare_sleep(&self) {
        self.memory.words()[self.own_flag].store(1, Relaxed);
        fence(SeqCst);
    }

    /// Announces that this side is awake.
    pub(crate) fn end_sleep(&self) {
        self.memory.words()[self.own_flag].store(0, Relaxed);
    }

    /// Removes bytes that have woken this side. Returns whether the connection is still open.
    pub(crate) fn clear(&self) -> bool {
        match recv(self.socket.as_raw_fd(), &mut [0; BATCH], MsgFlags::MSG_DONTWAIT) {
            Ok(bytes) => bytes > 0,
            Err(error) => matches!(error, Errno::EAGAIN | Errno::EINTR),
        }
    }

    /// Whether either side has ended the connection.
    pub(crate) fn has_ended(&self) -> bool {
        // The end of a connection is reported without a request.
        let mut files = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        poll(&mut files, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }

    /// Ends the connection, for both sides.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.socket.shutdown(std::net::Shutdown::Both)
    }
}

impl AsFd for Wakeup {
    /// The file that is readable when the other side has woken this one or has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::WORDS;

    fn pair() -> (Wakeup, Wakeup) {
        let memory = Arc::new(Memory::create(WORDS).unwrap().1);
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Wakeup::of_daemon(Arc::clone(&memory), ours), Wakeup::of_client(memory, theirs))
    }

    fn is_readable(wakeup: &Wakeup) -> bool {
        let mut files = [PollFd::new(wakeup.as_fd(), PollFlags::POLLIN)];
        poll(&mut files, PollTimeout::ZERO).unwrap() > 0
    }

    #[test]
    fn only_a_side_that_sleeps_is_woken() {
        let (daemon, client) = pair();
        daemon.notify();
        assert!(!is_readable(&client));
        client.prepare_sleep();
        daemon.notify();
        daemon.notify();
        assert!(is_readable(&client) && !is_readable(&daemon));
        assert!(client.clear() && !is_readable(&client), "one byte");
        assert!(client.clear(), "nothing to remove");
    }

    #[test]
    fn a_side_that_reads_nothing_never_blocks_the_other() {
        let (daemon, client) = pair();
        client.socket.set_nonblocking(false).unwrap();
        for _ in 0..10_000 {
            client.prepare_sleep();
            daemon.notify();
        }
        assert!(is_readable(&client) && !client.has_ended());
        assert!(daemon.clear(), "a client that has sent nothing does not block either");
    }

    #[test]
    fn the_end_of_either_side_is_noticed() {
        let (daemon, client) = pair();
        client.prepare_sleep();
        daemon.notify();
        assert!(!client.has_ended(), "a byte is no end");
        drop(daemon);
        assert!(client.has_ended() && client.clear() && !client.clear(), "after the last byte");
        let (daemon, client) = pair();
        client.end().unwrap();
        assert!(client.has_ended() && daemon.has_ended() && !daemon.clear());
    }
}
