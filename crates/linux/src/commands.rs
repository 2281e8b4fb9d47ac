//! Any two programs on the two hosts: real clients and servers around an emulated network.
//!
//! Each runs in a shell and a process group of its own, so that all that it starts ends with it, and finds the hosts'
//! addresses in its environment. The client stands on the right: when it has ended the left is told to, and the run is
//! over. Without one on the right the left's end is the run's.

use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use rampmeter_scenario::{NodeId, Plan};

use crate::stage::Stage;

/// The left host's address, for both commands.
const LEFT_VARIABLE: &str = "RAMPMETER_LEFT";

/// The right host's address, for both commands.
const RIGHT_VARIABLE: &str = "RAMPMETER_RIGHT";

/// How often commands are looked at.
const NAP: Duration = Duration::from_millis(5);

/// How long a command that was told to end may take.
const GRACE: Duration = Duration::from_secs(3);

/// What to run where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// The hosts: left and right.
    pub between: (NodeId, NodeId),
    /// For the left one's shell.
    pub left: Option<String>,
    /// For the right one's shell.
    pub right: Option<String>,
}

/// The exit codes of commands, as a shell tells them; `None` for those that there were not, or that were told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Of the left one.
    pub left: Option<u8>,
    /// Of the right one.
    pub right: Option<u8>,
}

impl Status {
    /// The exit code of both: the right one's, or that of a left one that failed before it.
    pub fn code(&self) -> u8 {
        self.right.or(self.left).unwrap_or(0)
    }
}

impl Commands {
    /// The first hosts of the first two groups of the plan's file: as a rule who sends and who receives. `None` where
    /// there are none.
    pub fn first_hosts(plan: &Plan) -> Option<(NodeId, NodeId)> {
        let group = |name: &str| name.rsplit_once('.').map(|(group, _)| group.to_owned());
        let mut hosts = plan.nodes.iter().enumerate().filter(|(_, node)| node.is_host);
        let (left, first) = hosts.next()?;
        let (right, _) = hosts.find(|(_, node)| group(&node.name) != group(&first.name))?;
        Some((NodeId(left), NodeId(right)))
    }

    /// The host called `name`: as in the plan, or by its group alone for the first of it.
    pub fn host(plan: &Plan, name: &str) -> Option<NodeId> {
        let first = format!("{name}.0");
        plan.nodes.iter().position(|node| node.is_host && (node.name == name || node.name == first)).map(NodeId)
    }

    /// Runs them until they have ended, one has failed, the stage is over or somebody interrupts.
    pub(crate) fn run(&self, stage: &Stage<'_>, interrupted: &AtomicBool) -> io::Result<Status> {
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let mut left = self.left.as_deref().map(|line| self.start(stage, self.between.0, line)).transpose()?;
        let mut right = self.right.as_deref().map(|line| self.start(stage, self.between.1, line)).transpose()?;
        let mut status = Status::default();
        loop {
            status.left = left.as_ref().map(Group::ended).transpose()?.flatten();
            status.right = right.as_ref().map(Group::ended).transpose()?.flatten();
            let failed = status.left.is_some_and(|code| code > 0);
            let done = if right.is_some() { status.right.is_some() } else { status.left.is_some() || left.is_none() };
            if done || failed || stage.is_over() || interrupted.load(Ordering::Relaxed) {
                break;
            }
            sleep(NAP);
        }
        // Both are told at once; packets of their parting still get through.
        [&left, &right].into_iter().flatten().for_each(Group::tell);
        for group in [&mut left, &mut right].into_iter().flatten() {
            group.end()?;
        }
        Ok(status)
    }

    fn start(&self, stage: &Stage<'_>, host: NodeId, line: &str) -> io::Result<Group> {
        let address = |host: NodeId| -> Ipv4Addr { stage.sides.address(host) };
        let (left, right) = (address(self.between.0), address(self.between.1));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).env(LEFT_VARIABLE, left.to_string()).env(RIGHT_VARIABLE, right.to_string());
        // A group of its own is in the background, where reading from a terminal would stop it.
        command.stdin(Stdio::null()).process_group(0);
        let namespace = &stage.host(stage.sides.side(host)).namespace;
        namespace.inside(|| command.spawn()).map(|shell| Group { shell, gone: false })
    }
}

/// A shell and all that it started. Its number is nobody else's as long as any of them has not been waited for.
struct Group {
    shell: Child,
    gone: bool,
}

impl Group {
    fn id(&self) -> Pid {
        Pid::from_raw(self.shell.id() as i32)
    }

    /// The shell's exit code, if it has ended; it is not waited for.
    fn ended(&self) -> io::Result<Option<u8>> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        Ok(match waitid(Id::Pid(self.id()), flags)? {
            WaitStatus::Exited(_, code) => Some(code as u8),
            WaitStatus::Signaled(_, signal, _) => Some(128 + signal as u8),
            _ => None,
        })
    }

    fn tell(&self) {
        let _ = killpg(self.id(), Signal::SIGTERM);
    }

    /// Waits until all of it is gone, which it should be soon after it was told, or makes it go.
    fn end(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        while self.ended()?.is_none() && begun.elapsed() < GRACE {
            sleep(NAP);
        }
        if self.ended()?.is_none() {
            return Ok(()); // `drop` is less patient
        }
        // What the shell leaves behind is ours (`PR_SET_CHILD_SUBREAPER`): none of it is left when there are no children.
        let group = Pid::from_raw(-self.id().as_raw());
        loop {
            match waitpid(group, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) if begun.elapsed() < GRACE => sleep(NAP),
                Ok(WaitStatus::StillAlive) => {
                    let _ = killpg(self.id(), Signal::SIGKILL);
                    sleep(NAP);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        self.gone = true;
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.gone {
            let _ = killpg(self.id(), Signal::SIGKILL);
            let _ = self.shell.wait();
        }
    }
}
