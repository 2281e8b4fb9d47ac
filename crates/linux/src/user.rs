//! Capabilities without root: a user namespace for this process.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid};

/// `CAP_SYS_ADMIN` and `CAP_NET_ADMIN` (linux/capability.h).
const NEEDED: u64 = 1 << 21 | 1 << 12;

/// Whether this thread may create and configure networks.
pub(crate) fn is_able() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & NEEDED == NEEDED)
}

/// Gives this process the capabilities for emulated networks, if it lacks them and the system allows it. The process
/// moves into a user namespace, in which it has the rights of root only over networks that it creates itself. User and
/// group do not change.
///
/// The system requires a process with a single thread: call this as the first thing in `main`.
pub fn enter_user_namespace() -> io::Result<()> {
    if is_able() {
        return Ok(());
    }
    let (user, group) = (Uid::effective(), Gid::effective());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
