//! Tests of processes that share a daemon: of other users, killed ones and forked ones.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{LONG, Running, granted, transfer};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use rampmeter_cm::daemon::{Limits, status};
use rampmeter_cm::{Client, Error, Options};
use rampmeter_units::Duration;

const RTT: Duration = Duration::from_millis(10);

fn opened(client: &Client) -> rampmeter_cm::Id {
    client.open("127.0.0.1:9".parse().unwrap(), &Options::default()).unwrap()
}

/// Not a test: the process that [`a_killed_process_frees_its_share`] starts and kills.
#[test]
#[ignore = "started by another test, as a separate process"]
fn child() {
    let Some(path) = std::env::var_os("CHILD_OF") else { return };
    let client = Client::connect_to(path.as_ref()).unwrap();
    let flow = opened(&client);
    (0..200).for_each(|_| client.request(flow).unwrap());
    for _ in 0..10 {
        granted(&client); // the initial window
    }
    println!("granted");
    loop {
        let _ = client.next(LONG);
    }
}

/// A process of this user that opens a flow, or says that it may not; `None` unless this process may start it.
fn of_another_user(running: &Running) -> Option<std::process::Child> {
    const NOBODY: u32 = 65_534;
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    // The directories of a test belong to its user.
    let directory = running.path().parent().unwrap().to_owned();
    std::fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = directory.join("child");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", "child", "--ignored", "--nocapture"]).env("CHILD_OF", running.path());
    command.current_dir("/").stdout(Stdio::piped()).stderr(Stdio::null());
    Some(std::os::unix::process::CommandExt::uid(&mut command, NOBODY).spawn().unwrap())
}

#[test]
fn programs_of_other_users_share_nothing() {
    let private = Running::new();
    let Some(mut refused) = of_another_user(&private) else {
        return eprintln!("skipped programs_of_other_users_share_nothing: only root can start processes of others");
    };
    assert!(!refused.wait().unwrap().success());
    let running = Running::public();
    let client = running.client();
    let flow = opened(&client);
    transfer(&client, flow, 300, RTT);
    let known = client.query(flow).unwrap();
    let mut child = of_another_user(&running).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("granted")));
    let macroflows = status(&running.path()).unwrap().macroflows;
    assert_eq!(macroflows.iter().map(|macroflow| macroflow.flows).collect::<Vec<_>>(), [1, 1]);
    assert!(macroflows.iter().any(|macroflow| macroflow.in_flight_bytes > 0), "the child has its window");
    assert_eq!(client.query(flow), Ok(known));
    client.request(flow).unwrap();
    granted(&client);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn clients_of_one_process_leave_places_for_another_user() {
    let descriptors = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap().1;
    if descriptors < 10_000 {
        return eprintln!("skipped clients_of_one_process: needs 10000 open files, has {descriptors} (ulimit -Hn)");
    }
    let running = Running::public();
    let mut clients = Vec::new();
    let refused = loop {
        match Client::connect_to(&running.path()) {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
    };
    assert_eq!((refused, clients.len()), (Error::Full, 819), "of 1024");
    let flow = opened(&clients[818]);
    clients[818].request(flow).unwrap();
    granted(&clients[818]);
    match of_another_user(&running) {
        None => eprintln!("skipped the other user of clients_of_one_process: only root can start a process of it"),
        Some(mut child) => {
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().contains("granted")));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    clients.truncate(10);
    for _ in 0..2000 {
        match Client::connect_to(&running.path()) {
            Ok(_) => return,
            Err(error) => assert_eq!(error, Error::Full),
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("places are free again");
}

#[test]
fn a_killed_process_frees_its_share() {
    // Only the grants of ended processes are revoked.
    let grant_timeout = Duration::from_secs(1000);
    let running = Running::with(Limits { grant_timeout, ..Limits::default() });
    let client = running.client();
    let flow = opened(&client);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env("CHILD_OF", running.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("granted")));
    client.request(flow).unwrap();
    assert_eq!(client.next(Some(Duration::from_millis(50))), Ok(None), "the child has the window");
    assert_eq!(status(&running.path()).unwrap().macroflows[0].flows, 2);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).unwrap();
    granted(&client);
    child.wait().unwrap();
    let left = &status(&running.path()).unwrap().macroflows[0];
    assert_eq!((left.flows, &left.processes[..]), (1, &[std::process::id() as i32][..]));
}

#[test]
fn a_forked_child_gets_an_error() {
    let running = Running::new();
    let client = running.client();
    let flow = opened(&client);
    // SAFETY: the child calls nothing that could wait for another thread of its parent, and ends at once.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let forked = client.request(flow) == Err(Error::Forked) && client.mtu(flow) == Err(Error::Forked);
            // SAFETY: ends the process without running any code of its parent.
            unsafe { nix::libc::_exit(i32::from(!forked)) }
        }
        ForkResult::Parent { child } => assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0))),
    }
    client.request(flow).unwrap();
    granted(&client);
}
