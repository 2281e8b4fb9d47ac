//! A TUN device: a network device whose packets a program reads and writes.
//!
//! Offloads are not enabled, so every packet has its checksums and fits the MTU.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::interface::request;

pub(crate) const PATH: &str = "/dev/net/tun";

/// A TUN device. It exists until this value is dropped.
#[derive(Debug)]
pub(crate) struct Tun(File);

impl Tun {
    /// Creates a device called `name` in the namespace of this thread.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(PATH)?;
        let mut request = request(name);
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
        // SAFETY: TUNSETIFF takes a pointer to an `ifreq`.
        match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } {
            0 => Ok(Self(file)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads the next packet that the kernel sends into `buffer`. Returns its length, or `None` if there is no packet.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.0).read(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Passes a packet to the kernel. The kernel's stack processes it before this returns.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.0).write(packet).map(|_| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
