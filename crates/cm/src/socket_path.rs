//! The path of the daemon's socket, and whether a daemon listens there.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// The environment variable that sets another socket path, for the daemon and for clients.
pub const SOCKET_VARIABLE: &str = "RAMPMETER_CM_SOCKET";

/// The socket of this user's daemon: the value of `RAMPMETER_CM_SOCKET`; otherwise
/// `$XDG_RUNTIME_DIR/rampmeter/cm.sock`; for root, or where that is not set, `/run/rampmeter/cm.sock`.
pub fn default_socket() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let runtime = || variable("XDG_RUNTIME_DIR").filter(|_| !nix::unistd::geteuid().is_root());
    variable(SOCKET_VARIABLE)
        .unwrap_or_else(|| runtime().unwrap_or_else(|| PathBuf::from("/run")).join("rampmeter").join("cm.sock"))
}

/// Listens at `path`: replaces the socket of a daemon that has ended, and fails if a daemon listens there
/// (`AddrInUse`).
pub(crate) fn listen(path: &Path, public: bool) -> io::Result<UnixListener> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    // If two daemons start at the same time, only one replaces the socket; the other one finds it in use.
    let _lock = Flock::lock(std::fs::File::open(directory)?, FlockArg::LockExclusive).map_err(|(_, error)| error)?;
    if let Ok(metadata) = path.symlink_metadata() {
        if !metadata.file_type().is_socket() {
            return Err(io::ErrorKind::AlreadyExists.into());
        } else if !is_dead(path) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
    }
    // The socket is renamed to its path after it listens: every process that finds it there can connect.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let _ = std::fs::remove_file(&temporary);
    let listener = UnixListener::bind(&temporary)?;
    listener.set_nonblocking(true)?;
    // The daemon decides by the user of a client; the mode keeps other users from connecting at all.
    std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(if public { 0o666 } else { 0o600 }))?;
    std::fs::rename(&temporary, path)?;
    Ok(listener)
}

/// Distinguishes the socket at `path` from another one at the same path.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Whether no process listens at the socket.
fn is_dead(path: &Path) -> bool {
    UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_replaced_only_if_no_process_listens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deeper/cm.sock");
        let first = listen(&path, false).unwrap();
        assert_eq!(listen(&path, false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        let second = listen(&path, false);
        assert!(second.is_ok(), "{second:?}");
        let file = directory.path().join("precious");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(listen(&file, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
    }
}
