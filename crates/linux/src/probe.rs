//! Abilities of this machine for emulated runs, with the reasons for missing ones.

use std::fmt;
use std::fs;
use std::thread;

use crate::namespace::Namespace;
use crate::priority::{self, Priority};
use crate::tun::{self, Tun};
use crate::user;

/// An ability of a machine, or the reason why it is missing.
pub type Ability = Result<(), String>;

/// The abilities of this machine and user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// Creates network namespaces.
    pub namespaces: Ability,
    /// Creates TUN devices in them.
    pub tun: Ability,
    /// Runs the network before other programs (`SCHED_FIFO`). Without it runs are less exact on a busy machine.
    pub real_time: Ability,
    /// The congestion controls of the kernel's TCP.
    pub kernel_tcp: Vec<String>,
}

impl Abilities {
    /// Whether an emulated run is possible, or the reason why not.
    pub fn emulation(&self) -> Ability {
        self.namespaces.clone().and_then(|()| self.tun.clone())
    }
}

/// Tests all abilities.
pub fn probe() -> Abilities {
    let namespace = Namespace::new().map_err(|error| {
        let advice = if user::is_able() {
            "the kernel may lack network namespaces (CONFIG_NET_NS)"
        } else {
            "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone, \
             user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)"
        };
        format!("cannot create a network namespace: {error}; {advice}")
    });
    let tun = match &namespace {
        Ok(namespace) => namespace.inside(|| Tun::new("probe")).map(|_| ()).map_err(|error| {
            format!(
                "cannot create a TUN device: {error}; {} must exist and this user must be able to open it",
                tun::PATH
            )
        }),
        Err(_) => Err("needs a network namespace".into()),
    };
    let real_time = thread::spawn(|| priority::raise(Priority::Router)).join();
    let real_time = real_time.unwrap_or_else(|_| Err(std::io::Error::other("the attempt failed")));
    Abilities {
        namespaces: namespace.map(|_| ()),
        tun,
        real_time: real_time.map_err(|error| {
            format!("cannot use SCHED_FIFO: {error}; run as root or raise the limit on real-time priority (ulimit -r)")
        }),
        kernel_tcp: kernel_tcp(),
    }
}

/// The congestion controls of the kernel's TCP.
pub fn kernel_tcp() -> Vec<String> {
    let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    names.split_whitespace().map(str::to_owned).collect()
}

impl fmt::Display for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let abilities = [
            ("emulated world", &self.emulation()),
            ("  network namespaces", &self.namespaces),
            ("  TUN devices", &self.tun),
            ("  real-time priority", &self.real_time),
        ];
        for (name, ability) in abilities {
            let answer = ability.as_ref().map_or_else(|reason| format!("no: {reason}"), |()| "yes".into());
            writeln!(f, "{name:22} {answer}")?;
        }
        let kernel_tcp = if self.kernel_tcp.is_empty() { "none".into() } else { self.kernel_tcp.join(", ") };
        write!(f, "{:22} {kernel_tcp}", "kernel TCP")
    }
}
