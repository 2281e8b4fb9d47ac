//! Where the daemon listens, and whether one does already.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// Names another socket than the usual one, for the daemon and for clients.
pub const SOCKET_VARIABLE: &str = "RAMPMETER_CM_SOCKET";

/// Where the daemon of this user listens: what `RAMPMETER_CM_SOCKET` says; else `$XDG_RUNTIME_DIR/rampmeter/cm.sock`; for
/// root, or where that is not set, `/run/rampmeter/cm.sock`.
pub fn default_socket() -> PathBuf {
    let said = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let runtime = || said("XDG_RUNTIME_DIR").filter(|_| !nix::unistd::geteuid().is_root());
    said(SOCKET_VARIABLE)
        .unwrap_or_else(|| runtime().unwrap_or_else(|| PathBuf::from("/run")).join("rampmeter").join("cm.sock"))
}

/// Listens at `path`: takes over what a dead daemon left, and refuses where one lives (`AddrInUse`).
pub(crate) fn listen(path: &Path, public: bool) -> io::Result<UnixListener> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // Of two that start at the same time only one takes over, and the other finds it alive.
    let _lock = Flock::lock(std::fs::File::open(folder)?, FlockArg::LockExclusive).map_err(|(_, error)| error)?;
    if let Ok(metadata) = path.symlink_metadata() {
        if !metadata.file_type().is_socket() {
            return Err(io::ErrorKind::AlreadyExists.into());
        } else if !is_dead(path) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
    }
    // It appears in its place when it listens already: whoever finds it there can connect.
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let _ = std::fs::remove_file(&aside);
    let listener = UnixListener::bind(&aside)?;
    listener.set_nonblocking(true)?;
    // Who may connect is decided by who they are; this keeps others from even trying.
    std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(if public { 0o666 } else { 0o600 }))?;
    std::fs::rename(&aside, path)?;
    Ok(listener)
}

/// What tells a socket at `path` from another one at the same place.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// A socket that nobody listens at.
fn is_dead(path: &Path) -> bool {
    UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_socket_is_left_alone_and_a_dead_one_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper/cm.sock");
        let first = listen(&path, false).unwrap();
        assert_eq!(listen(&path, false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        let second = listen(&path, false);
        assert!(second.is_ok(), "{second:?}");
        let file = folder.path().join("precious");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(listen(&file, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
    }
}
