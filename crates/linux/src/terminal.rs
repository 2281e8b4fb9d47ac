//! The terminal of a run, lent to a shell.
//!
//! Only processes of the foreground group may read from a terminal, and Ctrl-C goes to that group. So the group of a
//! shell becomes the foreground group, and afterwards that of this process again.

use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, getpid};

/// The terminal, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lent(());

/// Passes the standard input of this process to `command`, which has a process group of its own. If that is a terminal
/// which this process may use, `command` gets the terminal.
pub(crate) fn lend(command: &mut Command) -> Option<Lent> {
    command.stdin(Stdio::inherit());
    // SAFETY: the call takes numbers only.
    let is_ours = io::stdin().is_terminal() && unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) } == getpgrp().as_raw();
    is_ours.then(|| {
        // SAFETY: the closure makes system calls only. It runs after `setpgid(2)`.
        unsafe { command.pre_exec(|| set_foreground(getpid())) };
        Lent(())
    })
}

impl Drop for Lent {
    fn drop(&mut self) {
        let _ = set_foreground(getpgrp());
    }
}

/// Also from the background, where SIGTTOU would stop the process.
fn set_foreground(group: Pid) -> io::Result<()> {
    let background = SigSet::from(Signal::SIGTTOU);
    background.thread_block()?;
    // SAFETY: the call takes numbers only.
    let result = Errno::result(unsafe { libc::tcsetpgrp(libc::STDIN_FILENO, group.as_raw()) });
    background.thread_unblock()?;
    Ok(result.map(drop)?)
}
