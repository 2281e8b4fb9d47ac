//! Becoming able without being root: a user namespace of one's own.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid};

/// `CAP_SYS_ADMIN` and `CAP_NET_ADMIN` (linux/capability.h).
const NEEDED: u64 = 1 << 21 | 1 << 12;

/// Whether this thread may make and run networks.
pub(crate) fn is_able() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & NEEDED == NEEDED)
}

/// Makes this process able to run emulated networks, if it is not and the system lets it: it moves into a user namespace
/// in which it has the rights of root over networks that it makes itself, and over nothing else. User and group stay what
/// they are.
///
/// The system wants a process with one thread for this: call it first thing in `main`. Later is too late.
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
