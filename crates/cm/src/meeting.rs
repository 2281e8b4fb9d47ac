//! How a client and the daemon meet: over a Unix socket, which afterwards only serves to notice each other's death.
//!
//! ```text
//! client: 16 bytes      "rampcm", version, what it wants
//! daemon: 16 bytes      the same with its answer, and to a client three files: memory, the daemon's bell, the client's
//! ```

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
use rampmeter_units::Duration;

use crate::error::Error;

const MAGIC: &[u8; 8] = b"rampcm\0\0";

/// Raised whenever the shared memory's layout or a record changes.
const VERSION: u32 = 2;

/// A daemon that takes longer than this to answer is as good as gone.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// What somebody who connects wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To open flows.
    Client,
    /// To read what goes on.
    Status,
}

/// The files that a client gets.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) memory: OwnedFd,
    pub(crate) daemon_bell: OwnedFd,
    pub(crate) client_bell: OwnedFd,
}

fn words(number: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The number, if the sender is of our kind and version.
fn number(bytes: &[u8; 16]) -> Result<u32, Error> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if &bytes[..8] != MAGIC || word(8) != VERSION {
        return Err(Error::Version);
    }
    Ok(word(12))
}

/// Connects to the socket at `path`. Connecting, and whatever is read or written there later, waits for no longer than
/// `patience`: a daemon may be stopped, or out of its mind.
pub(crate) fn reach(path: &Path, patience: Duration) -> Result<UnixStream, Error> {
    let made = nix::sys::socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let socket = UnixStream::from(made.map_err(|_| Error::System)?);
    let patience = Some(std::time::Duration::from_nanos(patience.as_nanos()));
    socket.set_write_timeout(patience).and_then(|()| socket.set_read_timeout(patience)).map_err(|_| Error::System)?;
    let address = UnixAddr::new(path).map_err(|_| Error::NoDaemon)?;
    loop {
        match nix::sys::socket::connect(socket.as_raw_fd(), &address) {
            Ok(()) => return Ok(socket),
            Err(Errno::EINTR) => {}
            Err(Errno::EACCES | Errno::EPERM) => return Err(Error::Denied),
            Err(Errno::EAGAIN) => return Err(Error::Gone), // many wait there already, and nobody lets them in
            Err(_) => return Err(Error::NoDaemon),
        }
    }
}

/// The client's word.
pub(crate) fn greet(socket: &UnixStream, wish: Wish) -> io::Result<()> {
    send(socket, &words(wish as u32), &[])
}

/// What the client wants; all of its word must be there already.
pub(crate) fn hear(socket: &mut UnixStream) -> Result<Wish, Error> {
    let mut bytes = [0; 16];
    socket.read_exact(&mut bytes).map_err(|_| Error::Version)?;
    match number(&bytes)? {
        0 => Ok(Wish::Client),
        1 => Ok(Wish::Status),
        _ => Err(Error::Version),
    }
}

/// The daemon's answer: yes, with files for a client, or why not.
pub(crate) fn answer(socket: &UnixStream, answer: Result<Option<&Files>, Error>) -> io::Result<()> {
    match answer {
        Ok(Some(files)) => {
            let raw = [files.memory.as_raw_fd(), files.daemon_bell.as_raw_fd(), files.client_bell.as_raw_fd()];
            send(socket, &words(0), &raw)
        }
        Ok(None) => send(socket, &words(0), &[]),
        Err(error) => send(socket, &words(error.code().unsigned_abs()), &[]),
    }
}

/// Reads the daemon's answer.
pub(crate) fn receive(socket: &UnixStream) -> Result<Files, Error> {
    let mut bytes = [0; 16];
    let mut room = cmsg_space!([RawFd; 3]);
    let mut pieces = [IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_WAITALL;
    let message = loop {
        match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut pieces, Some(&mut room), flags) {
            Err(Errno::EINTR) => {}
            other => break other.map_err(|_| Error::Gone)?,
        }
    };
    let got = message.bytes;
    let mut files = Vec::new();
    for control in message.cmsgs().map_err(|_| Error::Gone)? {
        if let ControlMessageOwned::ScmRights(raw) = control {
            // SAFETY: the kernel has just made these descriptors for us; nobody else owns them.
            files.extend(raw.into_iter().map(|raw| unsafe { OwnedFd::from_raw_fd(raw) }));
        }
    }
    if got < bytes.len() {
        return Err(Error::Gone);
    }
    verdict(&bytes)?;
    let [memory, daemon_bell, client_bell] = <[OwnedFd; 3]>::try_from(files).map_err(|_| Error::System)?;
    Ok(Files { memory, daemon_bell, client_bell })
}

/// Reads the daemon's answer where no files come with it; more may follow.
pub(crate) fn receive_go_ahead(socket: &mut UnixStream) -> Result<(), Error> {
    let mut bytes = [0; 16];
    socket.read_exact(&mut bytes).map_err(|_| Error::Gone)?;
    verdict(&bytes)
}

fn verdict(answer: &[u8; 16]) -> Result<(), Error> {
    match number(answer)? {
        0 => Ok(()),
        code => Err(i32::try_from(code).ok().and_then(|code| Error::from_code(-code)).unwrap_or(Error::Version)),
    }
}

fn send(socket: &UnixStream, bytes: &[u8], files: &[RawFd]) -> io::Result<()> {
    let rights = [ControlMessage::ScmRights(files)];
    let control = if files.is_empty() { &[][..] } else { &rights[..] };
    let flags = MsgFlags::MSG_NOSIGNAL;
    // So few bytes go into an empty socket whole.
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None)?;
    Ok(())
}

/// Who is at the other end, as the kernel says.
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

    /// Ourselves and root.
    pub(crate) fn is_trusted(self) -> bool {
        self.uid == nix::unistd::geteuid().as_raw() || self.uid == 0
    }

    /// A file that becomes readable when the process ends: its socket alone may outlive it in a child. `None` on kernels
    /// that have no such thing.
    pub(crate) fn watch(self) -> Option<OwnedFd> {
        // SAFETY: the call takes two numbers and returns a descriptor of ours, or an error.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid, 0) };
        // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
        RawFd::try_from(raw).ok().filter(|raw| *raw >= 0).map(|raw| unsafe { OwnedFd::from_raw_fd(raw) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bell::Bell;

    #[test]
    fn files_cross_and_refusals_too() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        greet(&ours, Wish::Client).unwrap();
        assert_eq!(hear(&mut theirs), Ok(Wish::Client));
        let files = Files {
            memory: crate::memory::Memory::create(64).unwrap().0,
            daemon_bell: Bell::file().unwrap(),
            client_bell: Bell::file().unwrap(),
        };
        answer(&theirs, Ok(Some(&files))).unwrap();
        let got = receive(&ours).unwrap();
        assert!(crate::memory::Memory::open(&got.memory, 64).is_ok());
        answer(&theirs, Err(Error::Denied)).unwrap();
        assert_eq!(receive(&ours).unwrap_err(), Error::Denied);
        drop(theirs);
        assert_eq!(receive(&ours).unwrap_err(), Error::Gone);
    }

    #[test]
    fn a_daemon_that_does_not_answer_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cm.sock");
        assert_eq!(reach(&path, PATIENCE).unwrap_err(), Error::NoDaemon);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
        let socket = reach(&path, PATIENCE).unwrap();
        greet(&socket, Wish::Client).unwrap();
        assert_eq!(receive(&socket).unwrap_err(), Error::Gone);
        let waiting: Vec<_> = (0..5).map(|_| reach(&path, PATIENCE)).collect();
        assert_eq!(waiting.last().unwrap().as_ref().unwrap_err(), &Error::Gone, "nor has it let anybody in");
    }

    const PATIENCE: Duration = Duration::from_millis(20);

    #[test]
    fn strangers_are_not_understood() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        send(&ours, b"GET / HTTP/1.1\r\n", &[]).unwrap();
        assert_eq!(hear(&mut theirs), Err(Error::Version));
        assert!(Peer::of(&ours).unwrap().is_trusted());
        assert!(Peer::of(&ours).unwrap().watch().is_some());
    }
}
