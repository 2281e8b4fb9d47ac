//! What this machine can do for an emulated run, and why not.

use std::fmt;
use std::fs;
use std::thread;

use crate::namespace::Namespace;
use crate::priority::{self, Priority};
use crate::tun::{self, Tun};
use crate::user;

/// Something a machine can do, or why it cannot.
pub type Ability = Result<(), String>;

/// What this machine, as this user, can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// Make network namespaces.
    pub namespaces: Ability,
    /// Make TUN devices in them.
    pub tun: Ability,
    /// Run the network before other programs (`SCHED_FIFO`). Without it runs are less exact on a busy machine.
    pub real_time: Ability,
    /// Congestion controls that the kernel's TCP has.
    pub kernel_tcp: Vec<String>,
}

impl Abilities {
    /// Whether an emulated run is possible, or what stands in its way.
    pub fn emulation(&self) -> Ability {
        self.namespaces.clone().and_then(|()| self.tun.clone())
    }
}

/// Tries everything out.
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
            format!("cannot create a TUN device: {error}; {} must exist and be open to this user", tun::PATH)
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

/// The congestion controls that the kernel's TCP has.
pub(crate) fn kernel_tcp() -> Vec<String> {
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
            match ability {
                Ok(()) => writeln!(f, "{name:22} yes")?,
                Err(reason) => writeln!(f, "{name:22} no: {reason}")?,
            }
        }
        let kernel_tcp = if self.kernel_tcp.is_empty() { "none".into() } else { self.kernel_tcp.join(", ") };
        write!(f, "{:22} {kernel_tcp}", "kernel TCP")
    }
}
