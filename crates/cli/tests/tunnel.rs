//! The tunnel as a user drives it: two commands, and programs that know nothing of it.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use common::{Workspace, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running `rampmeter tunnel`, killed when dropped.
struct Running {
    child: Child,
    printed: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
}

impl Running {
    fn start(workspace: &Workspace, arguments: &[&str]) -> Self {
        let mut command = workspace.command(&[&["tunnel"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap());
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self { child, printed, errors }
    }

    /// The address in the next line that it prints.
    fn address(&mut self) -> SocketAddr {
        let line = line(&mut self.printed);
        line.split(' ').find_map(|word| word.trim_end().parse().ok()).unwrap_or_else(|| panic!("no address in {line}"))
    }

    /// Stops it as a user does, and returns its exit code.
    fn interrupt(&mut self) -> Option<i32> {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

/// A TCP server that returns what it receives, until its client's end.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let (mut from, mut to) = tcp.and_then(|tcp| Ok((tcp.try_clone()?, tcp))).unwrap();
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to); // it fails if the client leaves early
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

/// Sends bytes, ends, and reads what comes back.
fn exchange(mut tcp: TcpStream, bytes: &[u8]) -> Vec<u8> {
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    tcp.write_all(bytes).unwrap();
    tcp.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    tcp.read_to_end(&mut back).unwrap();
    back
}

/// Asks a SOCKS5 port for a connection, and returns it with the code of the answer.
fn socks(proxy: SocketAddr, to: SocketAddr) -> (TcpStream, u8) {
    let mut tcp = TcpStream::connect(proxy).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let [high, low] = to.port().to_be_bytes();
    tcp.write_all(&[5, 1, 0]).unwrap();
    tcp.read_exact(&mut [0; 2]).unwrap();
    tcp.write_all(&[5, 1, 0, 1, 127, 0, 0, 1, high, low]).unwrap();
    let mut answer = [0; 10];
    tcp.read_exact(&mut answer).unwrap();
    (tcp, answer[1])
}

/// A server, with its address and key as `tunnel` takes them.
fn start_server(workspace: &Workspace, allow: &str) -> (Running, String) {
    let client = workspace.rampmeter(&["key", "client"]);
    std::fs::write(workspace.0.join("list"), client.stdout).unwrap();
    let arguments =
        ["--listen", "127.0.0.1:0", "--authorized", "list", "--allow", allow, "--allow-listen", "127.0.0.1:*"];
    let mut server = Running::start(workspace, &arguments);
    assert!(line(&mut server.errors).contains("made the secret key"));
    // It does not end a server that is about to start.
    kill(Pid::from_raw(server.child.id().try_into().unwrap()), Signal::SIGHUP).unwrap();
    assert!(line(&mut server.errors).contains("read list again"));
    server.address();
    let connect = line(&mut server.printed);
    let address = connect.split('\'').nth(1).unwrap_or_else(|| panic!("no address in {connect}")).to_owned();
    (server, address)
}

#[test]
fn programs_connect_through_a_port_and_through_socks() {
    let workspace = Workspace::new("tunnel");
    let echo = echo();
    let (mut server, address) = start_server(&workspace, &echo.to_string());
    let local = format!("0:{echo}");
    let mut client =
        Running::start(&workspace, &[&address, "--identity", "client", "-L", &local, "-R", &local, "--socks", "0"]);
    let (port, proxy) = (client.address(), client.address());
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
    assert!(exchange(TcpStream::connect(port).unwrap(), &bytes) == bytes, "-L");
    let (through, code) = socks(proxy, echo);
    assert!(code == 0 && exchange(through, &bytes) == bytes, "--socks");

    assert!(line(&mut client.errors).contains("connected to 127.0.0.1:"));
    let listening = line(&mut client.errors);
    let remote = listening.split(' ').find_map(|word| word.parse::<SocketAddr>().ok());
    assert!(exchange(TcpStream::connect(remote.unwrap()).unwrap(), &bytes) == bytes, "-R: {listening}");

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_, code) = socks(proxy, other.local_addr().unwrap());
    assert_eq!(code, 2, "connection not allowed by ruleset");
    let refused = line(&mut server.errors);
    assert!(refused.contains("no connection to 127.0.0.1:") && refused.contains("--allow"), "{refused}");
    assert_eq!((client.interrupt(), server.interrupt()), (Some(0), Some(0)));
}

/// As ssh does with `ProxyCommand`.
#[test]
fn a_program_connects_through_standard_input_and_output() {
    let workspace = Workspace::new("tunnel_stdio");
    let echo = echo();
    let (_server, address) = start_server(&workspace, &echo.to_string());
    let start = |to: &str| {
        let options = ["--identity", "client", "--metrics", "127.0.0.1:0", "--stdio", to];
        let mut command = workspace.command(&[&["tunnel", &address], &options[..]].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut client = start(&echo.to_string());
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
    let mut input = client.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            input.write_all(&bytes).unwrap();
            drop(input);
        });
        let output = client.wait_with_output().unwrap();
        let message = text(&output.stderr);
        assert_eq!((output.status.code(), message.lines().count()), (Some(0), 1), "{message}");
        assert!(message.starts_with("rampmeter: metrics at http://127.0.0.1:"), "{message}");
        assert!(output.stdout == bytes, "{} bytes", output.stdout.len());
    });
    // Its standard input stays open.
    let mut refused = start("127.0.0.1:1");
    let code = refused.wait().unwrap().code();
    let mut message = String::new();
    refused.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!((code, message.lines().count()), (Some(1), 2), "{message}");
    assert!(message.contains("no connection to 127.0.0.1:1: ") && message.contains("--allow"), "{message}");
}

#[test]
fn a_client_ends_if_a_port_cannot_be_opened() {
    let workspace = Workspace::new("tunnel_forward_failure");
    let (_server, address) = start_server(&workspace, "127.0.0.1:1");
    let forward = ["--identity", "client", "-R", "127.0.0.2:0:127.0.0.1:1", "--exit-on-forward-failure"];
    let output = workspace.rampmeter(&[&["tunnel", &address], &forward[..]].concat());
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("cannot forward -R 127.0.0.2:0: the server allows no listening there"), "{message}");
}

/// Not a test: the process of another user, which uses both ports of a tunnel.
#[test]
#[ignore = "started by another test, as a separate process"]
fn child() {
    if std::env::var_os("PROXY").is_none() {
        return;
    }
    let at = |name| std::env::var(name).unwrap().parse::<SocketAddr>().unwrap();
    assert_eq!(exchange(TcpStream::connect(at("PORT")).unwrap(), b"through -L"), b"through -L");
    let (through, code) = socks(at("PROXY"), at("ECHO"));
    assert_eq!((code, exchange(through, b"through --socks")), (0, b"through --socks".to_vec()));
}

#[test]
fn another_user_of_the_clients_machine_is_served() {
    const NOBODY: u32 = 65_534;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return eprintln!("skipped: only root can start a program of another user");
    }
    let workspace = Workspace::new("tunnel_other_user");
    let echo = echo();
    let (_server, address) = start_server(&workspace, &echo.to_string());
    let forward = format!("0:{echo}");
    let mut client = Running::start(&workspace, &[&address, "--identity", "client", "-L", &forward, "--socks", "0"]);
    // This program, whose directory may be closed to other users.
    let output = Command::new("/proc/self/exe")
        .args(["--exact", "child", "--ignored"])
        .env("PORT", client.address().to_string())
        .env("PROXY", client.address().to_string())
        .env("ECHO", echo.to_string())
        .current_dir("/")
        .uid(NOBODY)
        .output()
        .unwrap();
    assert!(output.status.success() && text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
}

#[test]
fn a_server_refuses_clients_that_are_not_listed() {
    let workspace = Workspace::new("tunnel_not_listed");
    let (_server, address) = start_server(&workspace, "*:*");
    let made = workspace.rampmeter(&["key", "other"]);
    let output = workspace.rampmeter(&["tunnel", &address, "--identity", "other", "--socks", "0"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains(text(&made.stdout).trim_end()), "it names the key to add: {message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn a_wrong_tunnel_is_refused_with_one_line() {
    let workspace = Workspace::new("tunnel_wrong");
    workspace.rampmeter(&["key"]);
    std::fs::write(workspace.0.join("list"), "").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port().to_string();
    let server = |allow| ["--listen", "127.0.0.1:0", "--authorized", "list", "--allow", allow];
    for (arguments, code, expected) in [
        (&["127.0.0.1:9"][..], 2, "write -L, -R, --socks or --stdio"),
        (&["127.0.0.1:9", "--stdio", "nowhere"], 2, "write HOST:PORT"),
        (&["127.0.0.1:9", "--stdio", "a:1", "--socks", "0"], 2, "cannot be used with"),
        (&["127.0.0.1", "--socks", "0"], 2, "write HOST:PORT"),
        (&["127.0.0.1:9", "--socks", "0", "--controller", "tpc"], 2, "no controller is called `tpc`"),
        (&["127.0.0.1:9", "--socks", &taken], 1, "a free port"),
        (&["127.0.0.1:9", "--socks", "0", "--threads", "2"], 2, "cannot be used with '--threads <N>'"),
        (&["--listen", "127.0.0.1:0", "--socks", "0"], 2, "'--listen <HOST:PORT>' cannot be used with"),
        (&server("example.org"), 2, "it has no port"),
        (&["--listen", "127.0.0.1:0", "--authorized", "none", "--allow", "*:*"], 2, "none: "),
    ] {
        let output = workspace.rampmeter(&[&["tunnel"], arguments].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(expected) && message.starts_with("rampmeter: "), "{arguments:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
    }
}

#[test]
fn a_server_allows_nothing_and_nobody_by_default() {
    let workspace = Workspace::new("tunnel_defaults");
    for (arguments, missing) in [(["--authorized", "list"], "--allow"), (["--allow", "*:*"], "--authorized")] {
        let output = workspace.rampmeter(&[&["tunnel", "--listen", "127.0.0.1:0"], &arguments[..]].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("required") && message.contains(missing), "{message}");
    }
}
