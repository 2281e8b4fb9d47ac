//! The state of a running server or tunnel, for operators: over a Unix socket as JSON, over HTTP for Prometheus.
//!
//! ```text
//! event loops ──► Monitor::publish, once a second      readers ──► listener threads ──► the last state
//! ```
//!
//! The event loop only stores its state. Readers have threads of their own, so a slow one delays nobody: there are few
//! of them at once, each for a few seconds, and a request is short.

mod listen;
pub mod prometheus;
mod request;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use std::{env, fs};

pub use rampmeter_session::Openers;
use serde::{Deserialize, Serialize};

pub use crate::host::status::{MAX_PATHS, Path as PathStatus, Status};

/// The state of a process that has published it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What it does: `serve`, `tunnel-server` or `tunnel`.
    pub role: String,
    /// Its process.
    pub pid: u32,
    /// The UDP address of a server; none of a client.
    pub address: Option<SocketAddr>,
    /// The time since it began.
    pub uptime_s: f64,
    /// Its last state.
    #[serde(flatten)]
    pub status: Status,
}

/// Where the event loops of a process put their states, and listeners find the sum. Copies share it.
#[derive(Debug, Clone)]
pub struct Monitor {
    started: Instant,
    last: Arc<Mutex<Last>>,
}

/// The last states.
#[derive(Debug)]
struct Last {
    /// Without the states of the loops.
    snapshot: Snapshot,
    /// Those of the loops, by their numbers.
    loops: BTreeMap<usize, Status>,
}

impl Monitor {
    /// Of a process that does `role`.
    pub fn new(role: &str) -> Self {
        let (role, pid, status) = (role.to_owned(), std::process::id(), Status::default());
        let snapshot = Snapshot { role, pid, address: None, uptime_s: 0.0, status };
        let last = Last { snapshot, loops: BTreeMap::new() };
        Self { started: Instant::now(), last: Arc::new(Mutex::new(last)) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Last) -> T) -> T {
        act(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The address of this server.
    pub fn set_address(&self, address: SocketAddr) {
        self.with(|last| last.snapshot.address = Some(address));
    }

    /// Replaces the state of the event loop with this number.
    pub fn publish_of(&self, number: usize, status: Status) {
        let uptime_s = self.started.elapsed().as_secs_f64();
        self.with(|last| {
            last.snapshot.uptime_s = uptime_s;
            last.loops.insert(number, status);
        });
    }

    /// The last state.
    pub fn snapshot(&self) -> Snapshot {
        self.with(|last| {
            let mut snapshot = last.snapshot.clone();
            last.loops.values().for_each(|status| snapshot.status.add(status.clone()));
            snapshot
        })
    }

    /// Answers HTTP requests for `/metrics` at `address`, until the process ends. Returns the address.
    pub fn serve_metrics(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let monitor = self.clone();
        serve_metrics(address, move || prometheus::text(&monitor.snapshot()))
    }

    /// Writes the state to each process of this user that connects to a socket in the [`runtime_directory`], until the
    /// process ends.
    pub fn serve_status(&self) -> io::Result<StatusSocket> {
        let directory = runtime_directory();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        self.serve_status_in(&directory)
    }

    fn serve_status_in(&self, directory: &Path) -> io::Result<StatusSocket> {
        let metadata = fs::metadata(directory)?;
        if metadata.mode() & 0o077 != 0 {
            return Err(io::Error::other(format!("others may use {}: chmod it to 700", directory.display())));
        }
        remove_dead_sockets(directory);
        let (role, pid) = self.with(|last| (last.snapshot.role.clone(), last.snapshot.pid));
        let path = directory.join(format!("{role}-{pid}.sock"));
        let _ = fs::remove_file(&path); // of an earlier process with this number
        let listener = UnixListener::bind(&path)?;
        let socket = StatusSocket(path);
        fs::set_permissions(&socket.0, fs::Permissions::from_mode(0o600))?;
        let monitor = self.clone();
        listen::spawn(
            "status",
            move || listener.accept().map(|(stream, _)| stream),
            move |stream, until| {
                let text = serde_json::to_vec(&monitor.snapshot()).map_err(io::Error::other)?;
                listen::write(stream, &text, until)
            },
        )?;
        Ok(socket)
    }
}

/// Answers HTTP requests for `/metrics` at `address` with `text`, until the process ends. Returns the address.
pub fn serve_metrics(address: SocketAddr, text: impl Fn() -> String + Send + Sync + 'static) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    listen::spawn(
        "metrics",
        move || listener.accept().map(|(stream, _)| stream),
        move |stream, until| listen::answer_http(stream, until, &text),
    )?;
    Ok(address)
}

/// The file of a socket, removed at the end.
#[derive(Debug)]
pub struct StatusSocket(PathBuf);

impl StatusSocket {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Where processes of this user have their sockets: `rampmeter` in `$RUNTIME_DIRECTORY` (of a systemd unit), in
/// `$XDG_RUNTIME_DIR`, or in `/run/user/UID` or, of root, `/run`.
pub fn runtime_directory() -> PathBuf {
    if let Some(path) = env::var_os("RUNTIME_DIRECTORY").filter(|path| !path.is_empty()) {
        return path.into();
    }
    let user = nix::unistd::geteuid();
    let default = if user.is_root() { "/run".into() } else { format!("/run/user/{user}").into() };
    let base = env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()).map_or(default, PathBuf::from);
    base.join("rampmeter")
}

/// The sockets in `directory`.
fn sockets(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<_> = fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sock"));
    paths.sort();
    Ok(paths)
}

/// Removes the sockets of processes that were killed.
fn remove_dead_sockets(directory: &Path) {
    for path in sockets(directory).unwrap_or_default() {
        let pid = path.file_stem().and_then(|name| name.to_str()?.rsplit_once('-')?.1.parse::<u32>().ok());
        let runs = pid.is_none_or(|pid| Path::new("/proc").join(pid.to_string()).exists());
        if !runs && UnixStream::connect(&path).is_err() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The states of all processes with sockets in `directory`. Sockets without a process are omitted.
pub fn read_all(directory: &Path) -> io::Result<Vec<Snapshot>> {
    match sockets(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        paths => Ok(paths?.iter().filter_map(|path| read(path).ok()).collect()),
    }
}

/// The state of the process with the socket at `path`.
pub fn read(path: &Path) -> io::Result<Snapshot> {
    let bytes = listen::read_all(&UnixStream::connect(path)?)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
