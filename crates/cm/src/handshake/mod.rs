//! The handshake between a client and the daemon over a Unix socket. Afterwards a byte on the socket wakes the other
//! process ([`crate::wakeup`]), and its end signals that of either process.
//!
//! ```text
//! client: 16 bytes      "rampcm", version, the request
//! daemon: 16 bytes      the same with its answer, and for a client the file of the shared memory
//! ```

mod encoding;

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, recvmsg, sendmsg,
    sockopt,
};
use rampmeter_manager::Owner;
use rampmeter_units::Duration;

use crate::error::Error;
pub(crate) use encoding::ClientRequest;
use encoding::{BYTES, decode_answer, encode_answer};

/// The time after which a daemon without an answer counts as ended.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the socket at `path`. Connecting, and every later read and write, waits no longer than `timeout`: a
/// daemon may be stopped or not work.
pub(crate) fn connect(path: &Path, timeout: Duration) -> Result<UnixStream, Error> {
    let made = nix::sys::socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let socket = UnixStream::from(made.map_err(|_| Error::System)?);
    let timeout = Some(std::time::Duration::from_nanos(timeout.as_nanos()));
    socket.set_write_timeout(timeout).and_then(|()| socket.set_read_timeout(timeout)).map_err(|_| Error::System)?;
    let address = UnixAddr::new(path).map_err(|_| Error::NoDaemon)?;
    loop {
        match nix::sys::socket::connect(socket.as_raw_fd(), &address) {
            Ok(()) => return Ok(socket),
            Err(Errno::EINTR) => {}
            Err(Errno::EACCES | Errno::EPERM) => return Err(Error::Denied),
            Err(Errno::EAGAIN) => return Err(Error::Disconnected), // the backlog is full, and the daemon does not accept
            Err(_) => return Err(Error::NoDaemon),
        }
    }
}

pub(crate) fn send_request(socket: &UnixStream, request: ClientRequest) -> io::Result<()> {
    send(socket, &request.encode(), &[])
}

/// Reads the client's request, which must be there completely.
pub(crate) fn read_request(socket: &mut UnixStream) -> Result<ClientRequest, Error> {
    let mut bytes = [0; BYTES];
    socket.read_exact(&mut bytes).map_err(|_| Error::Version)?;
    ClientRequest::decode(&bytes)
}

/// Sends the daemon's answer: accepted, with the shared memory for a client, or the reason for a refusal.
pub(crate) fn send_answer(socket: &UnixStream, answer: Result<Option<&OwnedFd>, Error>) -> io::Result<()> {
    let memory = answer.ok().flatten().map(AsRawFd::as_raw_fd);
    send(socket, &encode_answer(answer.map(|_| ())), memory.as_slice())
}

/// Reads the daemon's answer, and returns the file of the shared memory.
pub(crate) fn receive_memory(socket: &UnixStream) -> Result<OwnedFd, Error> {
    let mut bytes = [0; BYTES];
    let mut room = cmsg_space!([RawFd; 1]);
    let mut pieces = [IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_WAITALL;
    let message = loop {
        match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut pieces, Some(&mut room), flags) {
            Err(Errno::EINTR) => {}
            other => break other.map_err(|_| Error::Disconnected)?,
        }
    };
    let got = message.bytes;
    let mut files = Vec::new();
    for control in message.cmsgs().map_err(|_| Error::Disconnected)? {
        if let ControlMessageOwned::ScmRights(raw) = control {
            // SAFETY: the kernel has just created these descriptors for this process; they have no other owner.
            files.extend(raw.into_iter().map(|raw| unsafe { OwnedFd::from_raw_fd(raw) }));
        }
    }
    if got < bytes.len() {
        return Err(Error::Disconnected);
    }
    decode_answer(&bytes)?;
    files.pop().ok_or(Error::System)
}

/// Reads the daemon's answer if it comes without files; more data may follow.
pub(crate) fn receive_acceptance(socket: &mut UnixStream) -> Result<(), Error> {
    let mut bytes = [0; BYTES];
    socket.read_exact(&mut bytes).map_err(|_| Error::Disconnected)?;
    decode_answer(&bytes)
}

fn send(socket: &UnixStream, bytes: &[u8], files: &[RawFd]) -> io::Result<()> {
    let rights = [ControlMessage::ScmRights(files)];
    let control = if files.is_empty() { &[][..] } else { &rights[..] };
    // An empty socket takes so few bytes at once.
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None)?;
    Ok(())
}

/// The process and the user at the other end, as reported by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
}

impl Peer {
    pub(crate) fn of(socket: &UnixStream) -> io::Result<Self> {
        let credentials = nix::sys::socket::getsockopt(socket, sockopt::PeerCredentials)?;
        Ok(Self { pid: credentials.pid(), uid: credentials.uid() })
    }

    /// Whether the peer is this process's user or root.
    pub(crate) fn is_trusted(self) -> bool {
        self.uid == nix::unistd::geteuid().as_raw() || self.uid == 0
    }

    /// Whose flows those of the peer are. The daemon's user and root trust each other.
    pub(crate) fn owner(self) -> Owner {
        if self.is_trusted() { Owner::default() } else { Owner(self.uid) }
    }

    /// A file that becomes readable when the process ends: its socket may stay open in a child. `None` on kernels
    /// without pidfds.
    pub(crate) fn pidfd(self) -> Option<OwnedFd> {
        // SAFETY: the call takes two numbers and returns a new descriptor or an error.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid, 0) };
        // SAFETY: the kernel has just created this descriptor for this process; it has no other owner.
        RawFd::try_from(raw).ok().filter(|raw| *raw >= 0).map(|raw| unsafe { OwnedFd::from_raw_fd(raw) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn the_memory_and_refusals_are_received() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        send_request(&ours, ClientRequest::Connect).unwrap();
        assert_eq!(read_request(&mut theirs), Ok(ClientRequest::Connect));
        send_answer(&theirs, Ok(Some(&Memory::create(64).unwrap().0))).unwrap();
        assert!(Memory::open(&receive_memory(&ours).unwrap(), 64).is_ok());
        send_answer(&theirs, Err(Error::Denied)).unwrap();
        assert_eq!(receive_memory(&ours).unwrap_err(), Error::Denied);
        drop(theirs);
        assert_eq!(receive_memory(&ours).unwrap_err(), Error::Disconnected);
    }

    #[test]
    fn a_daemon_without_an_answer_counts_as_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cm.sock");
        assert_eq!(connect(&path, TIMEOUT).unwrap_err(), Error::NoDaemon);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
        let socket = connect(&path, TIMEOUT).unwrap();
        send_request(&socket, ClientRequest::Connect).unwrap();
        assert_eq!(receive_memory(&socket).unwrap_err(), Error::Disconnected);
        let waiting: Vec<_> = (0..5).map(|_| connect(&path, TIMEOUT)).collect();
        assert_eq!(waiting.last().unwrap().as_ref().unwrap_err(), &Error::Disconnected, "the backlog is full");
    }

    const TIMEOUT: Duration = Duration::from_millis(20);

    #[test]
    fn other_protocols_are_refused() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        send(&ours, b"GET / HTTP/1.1\r\n", &[]).unwrap();
        assert_eq!(read_request(&mut theirs), Err(Error::Version));
        assert!(Peer::of(&ours).unwrap().is_trusted());
        assert!(Peer::of(&ours).unwrap().pidfd().is_some());
    }
}
