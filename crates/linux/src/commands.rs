//! Two programs on the two hosts: real clients and servers around an emulated network.
//!
//! Each command runs in a shell and a process group of its own, so that all its processes end with it; a [`Keeper`] ends
//! those that have left the group, or if this process is killed. It reads the addresses of the hosts from its
//! environment. The client runs on the right host: when it ends, the left command gets SIGTERM and the run ends. Without
//! a command on the right host the run ends with the left one.

use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use rampmeter_scenario::{NodeId, Plan};

use crate::keeper::Keeper;
use crate::name;
use crate::run_state::RunState;
use crate::terminal::{self, Lent};

/// The variables with the addresses of both hosts, for both commands.
const LEFT_VARIABLE: &str = "RAMPMETER_LEFT";
const RIGHT_VARIABLE: &str = "RAMPMETER_RIGHT";

/// The variable with the command's own host, `left` or `right`: a prompt can show it.
const HOST_VARIABLE: &str = "RAMPMETER_HOST";

/// Interval between checks whether a command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The time that a command has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);

/// The commands of a run and their hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// The left and the right host.
    pub between: (NodeId, NodeId),
    /// The shell command of the left host.
    pub left: Option<String>,
    /// The shell command of the right host.
    pub right: Option<String>,
    /// Whether the right command is a user's shell: it has the standard input and the terminal of this process, and goes
    /// on if the left command fails.
    pub is_interactive: bool,
}

/// A host that runs a command.
#[derive(Debug)]
pub struct CommandHost {
    /// Its address.
    pub address: Ipv4Addr,
    /// The name of its network namespace for `ip netns exec`, or the reason why it has none.
    pub namespace: Result<String, String>,
    /// The file by which `nsenter --net=FILE` enters the namespace.
    pub file: PathBuf,
}

/// The exit codes of the commands, as in a shell; `None` for a command that did not exist or got SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// The exit code of the left command.
    pub left: Option<u8>,
    /// The exit code of the right command.
    pub right: Option<u8>,
}

impl Status {
    /// The combined exit code: that of the right command, or of a left one that failed before it.
    pub fn code(&self) -> u8 {
        self.right.or(self.left).unwrap_or(0)
    }
}

impl Commands {
    /// The first hosts of the first two groups in the scenario file: usually the sender and the receiver. `None` if
    /// there are fewer than two groups.
    pub fn first_hosts(plan: &Plan) -> Option<(NodeId, NodeId)> {
        let group = |name: &str| name.rsplit_once('.').map(|(group, _)| group.to_owned());
        let mut hosts = plan.nodes.iter().enumerate().filter(|(_, node)| node.is_host);
        let (left, first) = hosts.next()?;
        let (right, _) = hosts.find(|(_, node)| group(&node.name) != group(&first.name))?;
        Some((NodeId(left), NodeId(right)))
    }

    /// The host called `name`. The name of a group means its first host.
    pub fn host(plan: &Plan, name: &str) -> Option<NodeId> {
        let first = format!("{name}.0");
        plan.nodes.iter().position(|node| node.is_host && (node.name == name || node.name == first)).map(NodeId)
    }

    /// The left and the right host.
    pub(crate) fn hosts(&self, run: &RunState<'_>) -> [CommandHost; 2] {
        [self.between.0, self.between.1].map(|node| {
            let host = run.host(run.sides.side(node));
            let name = |link: &std::path::Path| link.file_name().unwrap_or_default().to_string_lossy().into_owned();
            CommandHost {
                address: run.sides.address(node),
                namespace: host.name.as_ref().map(|it| name(it.link())).map_err(ToString::to_string),
                file: name::place(&host.namespace),
            }
        })
    }

    /// Runs the commands until they end, one fails, the run ends or `interrupted` is set.
    pub(crate) fn run(&self, run: &RunState<'_>, interrupted: &AtomicBool) -> io::Result<Status> {
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let _keeper = Keeper::new(run.hosts)?;
        let mut left = self.left.as_deref().map(|line| self.start(run, self.between.0, line, false)).transpose()?;
        let right = self.right.as_deref().map(|line| self.start(run, self.between.1, line, self.is_interactive));
        let mut right = right.transpose()?;
        let mut status = Status::default();
        loop {
            status.left = left.as_ref().map(Group::ended).transpose()?.flatten();
            status.right = right.as_ref().map(Group::ended).transpose()?.flatten();
            let failed = !self.is_interactive && status.left.is_some_and(|code| code > 0);
            let done = if right.is_some() { status.right.is_some() } else { status.left.is_some() || left.is_none() };
            if done || failed || run.is_over() || interrupted.load(Ordering::Relaxed) {
                break;
            }
            sleep(POLL_INTERVAL);
        }
        // Both get SIGTERM at once. The network still carries the packets that they send at their end.
        [&left, &right].into_iter().flatten().for_each(Group::terminate);
        for group in [&mut left, &mut right].into_iter().flatten() {
            group.end()?;
        }
        Ok(status)
    }

    fn start(&self, run: &RunState<'_>, host: NodeId, line: &str, is_interactive: bool) -> io::Result<Group> {
        let [left, right] = [self.between.0, self.between.1].map(|host| run.sides.address(host).to_string());
        let mut command = Command::new("/bin/sh");
        let name = if host == self.between.0 { "left" } else { "right" };
        command.args(["-c", line]).env(LEFT_VARIABLE, left).env(RIGHT_VARIABLE, right).env(HOST_VARIABLE, name);
        // A process group of its own is in the background, where a read from the terminal would stop it.
        command.stdin(Stdio::null()).process_group(0);
        let terminal = if is_interactive { terminal::lend(&mut command) } else { None };
        let namespace = &run.host(run.sides.side(host)).namespace;
        namespace.inside(|| command.spawn()).map(|shell| Group { shell, ended: false, terminal })
    }
}

/// A shell and the processes that it started. The group's number is not reused until all of them were waited for.
struct Group {
    shell: Child,
    ended: bool,
    terminal: Option<Lent>,
}

impl Group {
    fn id(&self) -> Pid {
        Pid::from_raw(self.shell.id() as i32)
    }

    /// The shell's exit code, if it has ended. Does not reap the shell.
    fn ended(&self) -> io::Result<Option<u8>> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        Ok(match waitid(Id::Pid(self.id()), flags)? {
            WaitStatus::Exited(_, code) => Some(code as u8),
            WaitStatus::Signaled(_, signal, _) => Some(128 + signal as u8),
            _ => None,
        })
    }

    fn terminate(&self) {
        // An interactive shell ignores SIGTERM, and ends when its terminal is gone.
        let _ = killpg(self.id(), if self.terminal.is_some() { Signal::SIGHUP } else { Signal::SIGTERM });
    }

    /// Waits until all processes of the group have ended after SIGTERM, and kills those that are left after [`GRACE`].
    fn end(&mut self) -> io::Result<()> {
        let started = Instant::now();
        while self.ended()?.is_none() && started.elapsed() < GRACE {
            sleep(POLL_INTERVAL);
        }
        if self.ended()?.is_none() {
            return Ok(()); // `drop` kills it
        }
        // Orphans of the shell become our children (`PR_SET_CHILD_SUBREAPER`), so the group is empty when waitpid(2)
        // finds no child.
        let group = Pid::from_raw(-self.id().as_raw());
        loop {
            match waitpid(group, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) if started.elapsed() < GRACE => sleep(POLL_INTERVAL),
                Ok(WaitStatus::StillAlive) => {
                    let _ = killpg(self.id(), Signal::SIGKILL);
                    sleep(POLL_INTERVAL);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        self.ended = true;
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            let _ = killpg(self.id(), Signal::SIGKILL);
            let _ = self.shell.wait();
        }
    }
}
