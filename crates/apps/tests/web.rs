//! Tests of the web server over loopback: what clients can do to each other, and ranges.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};
use rampmeter_apps::web::{Options, Server};
use rampmeter_cm::Client;
use rampmeter_cm::daemon::{Daemon, Options as DaemonOptions};

/// A daemon and a web server of a directory, until this value is dropped.
struct Site {
    directory: tempfile::TempDir,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Site {
    fn new(max_connections: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let files = directory.path().join("files");
        std::fs::create_dir(&files).unwrap();
        let stop = Arc::<AtomicBool>::default();
        let socket = directory.path().join("cm.sock");
        let options = DaemonOptions { socket: socket.clone(), controller: "cm".into(), ..DaemonOptions::default() };
        let mut daemon = Daemon::bind(DaemonOptions { stop: Arc::clone(&stop), ..options }).unwrap();
        let options = Options {
            directory: files,
            listen: "127.0.0.1:0".parse().unwrap(),
            within: rampmeter_units::Duration::from_secs(2),
            max_connections,
            stop: Arc::clone(&stop),
        };
        let (bound, address) = std::sync::mpsc::channel();
        let daemon = spawn(move || daemon.run().unwrap());
        let server = spawn(move || {
            let client = Client::connect_to(&socket).unwrap();
            let mut server = Server::bind(options, client, |_| ()).unwrap();
            bound.send(server.address()).unwrap();
            server.run().unwrap();
        });
        let address = address.recv().unwrap();
        Self { directory, address, stop, threads: vec![server, daemon] }
    }

    fn write(&self, name: &str, length: usize) -> Vec<u8> {
        let content: Vec<u8> = (0..length).map(|n| (n / 7 % 251) as u8).collect();
        std::fs::write(self.files().join(name), &content).unwrap();
        content
    }

    fn files(&self) -> std::path::PathBuf {
        Path::join(self.directory.path(), "files")
    }

    /// A connection that has sent a request.
    fn request(&self, target: &str, headers: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        socket
    }

    /// The header and the body of the answer.
    fn get(&self, target: &str, headers: &str) -> (String, Vec<u8>) {
        let mut answer = Vec::new();
        self.request(target, headers).read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end..].to_vec())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok());
        }
    }
}

/// A connection from this address of the loopback interface, with a receive buffer of this size.
fn connected_from(from: [u8; 4], to: SocketAddr, buffer: Option<usize>) -> TcpStream {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    if let Some(bytes) = buffer {
        setsockopt(&socket, sockopt::RcvBuf, &bytes).unwrap();
    }
    let [a, b, c, d] = from;
    bind(socket.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0)).unwrap();
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to)).unwrap();
    socket.into()
}

#[test]
fn readers_that_read_nothing_do_not_stall_others() {
    let site = Site::new(1000);
    site.write("large", 3_000_000);
    let content = site.write("small", 30_000);
    let request = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut idle = Vec::new();
    // There are always some whose buffers have just become full, and others whose kernel has long asked for room.
    for _ in 0..6 {
        for _ in 0..20 {
            let mut reader = connected_from([127, 0, 0, 1], site.address, Some(2048));
            reader.write_all(request).unwrap();
            idle.push(reader);
        }
        let started = Instant::now();
        assert!(site.get("/small", "").1 == content);
        println!("{} ms", started.elapsed().as_millis());
        assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Mounts a file system that never answers at this directory, as a network file system whose server is away. It ends
/// with the file; only this thread and those that it starts see it.
fn mount_without_answers(at: &Path) -> nix::Result<std::fs::File> {
    use nix::mount::{MsFlags, mount};
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    let device = device.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    mount(Some("none"), at, Some("fuse"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(options.as_str()))?;
    Ok(device)
}

/// A mount namespace for this thread and those that it starts.
fn own_mounts() -> nix::Result<()> {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
}

#[test]
fn a_disk_that_does_not_answer_delays_only_who_waits_for_it() {
    let own = own_mounts();
    let site = Site::new(100);
    let content = site.write("file", 300_000);
    let stuck = site.files().join("stuck");
    std::fs::create_dir(&stuck).unwrap();
    let device = match own.and_then(|()| mount_without_answers(&stuck)) {
        Ok(device) => device,
        Err(error) => return eprintln!("skipped: a file system in user space needs root and /dev/fuse ({error})"),
    };
    // Three of the four threads wait for the disk.
    let mut waiting: Vec<_> = (0..3).map(|n| site.request(&format!("/stuck/{n}"), "")).collect();
    let started = Instant::now();
    for _ in 0..3 {
        assert!(site.get("/file", "").1 == content);
    }
    // All wait. What needs no file is answered.
    waiting.extend((0..3).map(|n| site.request(&format!("/stuck/{n}"), "")));
    std::thread::sleep(Duration::from_millis(50));
    let mut socket = TcpStream::connect(site.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(b"POST /file HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    // The disk fails: those who have waited get an error, and the threads are free again.
    drop(device);
    for mut socket in waiting {
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 ") && !answer.starts_with("HTTP/1.1 2"), "{answer}");
    }
    assert!(site.get("/file", "").1 == content);
    nix::mount::umount2(&stuck, nix::mount::MntFlags::MNT_DETACH).unwrap();
}

#[test]
fn a_part_of_a_file_can_be_requested() {
    let site = Site::new(10);
    let content = site.write("file", 300_000);
    let (head, body) = site.get("/file", "Range: bytes=100000-269999\r\n");
    assert!(
        head.starts_with("HTTP/1.1 206 ") && head.contains("Content-Range: bytes 100000-269999/300000\r\n"),
        "{head}"
    );
    assert!(body == content[100_000..270_000]);
    let (head, body) = site.get("/file", "");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("Accept-Ranges: bytes\r\n") && body == content,
        "{head}"
    );
    assert!(site.get("/file", "Range: bytes=300000-\r\n").0.starts_with("HTTP/1.1 416 "));
}

#[test]
fn one_address_cannot_take_all_connections() {
    let site = Site::new(10);
    let content = site.write("file", 1000);
    let mut open: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(site.address).unwrap()).collect();
    // Those that got no place are closed.
    let is_closed = |mut socket: &TcpStream| {
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket.read(&mut [0]).is_ok_and(|length| length == 0)
    };
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(open.iter().filter(|socket| is_closed(socket)).count(), 14, "16 of 25 places are for one address");
    // Another address.
    let mut other = connected_from([127, 0, 0, 2], site.address, None);
    other.write_all(b"GET /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    other.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&content));
    open.clear();
}

#[test]
fn many_requests_over_one_connection_are_answered_in_order() {
    let site = Site::new(10);
    let content = site.write("file", 1000);
    let mut socket = TcpStream::connect(site.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for first in 0..20 {
        let request = format!("GET /file HTTP/1.1\r\nHost: x\r\nRange: bytes={first}-{}\r\n\r\n", first + 9);
        socket.write_all(request.as_bytes()).unwrap(); // without waiting for the answer before
    }
    let expected: Vec<&[u8]> = (0..20).map(|first| &content[first..first + 10]).collect();
    let mut answers = Vec::new();
    while answers.windows(4).filter(|bytes| *bytes == b"\r\n\r\n").count() < 20 || !answers.ends_with(expected[19]) {
        let mut bytes = [0; 4096];
        let length = socket.read(&mut bytes).unwrap();
        assert!(length > 0);
        answers.extend_from_slice(&bytes[..length]);
    }
    let mut rest = &answers[..];
    for part in expected {
        let end = rest.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        assert_eq!(&rest[end..end + 10], part);
        rest = &rest[end + 10..];
    }
    assert!(rest.is_empty());
}
