//! One of the two real hosts: a namespace whose loopback device has the addresses of one side and whose TUN device
//! leads to the other side.
//!
//! ```text
//!   lo  10.64.0.0/16, all local            lo  10.65.0.0/16
//!   tun 10.65.0.0/16 ──► router        ◄── tun 10.64.0.0/16
//! ```

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use rampmeter_scenario::WorldError;

use crate::interface::Interfaces;
use crate::name::Name;
use crate::namespace::Namespace;
use crate::sides::Side;
use crate::tun::{self, Tun};

const DEVICE: &str = "rampmeter";

/// The queue length of the TUN device in packets: 20 ms at 1 Gb/s.
const QUEUE: u32 = 2_000;

/// Kernel settings of these hosts. The first one is required, the others are best effort.
const SETTINGS: [(&str, &str); 5] = [
    // No flow starts from the metrics of an earlier flow to the same address.
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/ip_local_port_range", "1024 32767"),
    // Socket buffers must not limit the window.
    ("ipv4/tcp_rmem", "4096 131072 67108864"),
    ("ipv4/tcp_wmem", "4096 131072 67108864"),
    ("ipv6/conf/all/disable_ipv6", "1"),
];

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    pub(crate) tun: Tun,
    /// Only root may give names.
    pub(crate) name: io::Result<Name>,
}

impl Host {
    /// The host of `side`, whose packets have at most `mtu` bytes.
    pub(crate) fn new(side: Side, mtu: u32) -> Result<Self, WorldError> {
        let namespace = Namespace::new().map_err(failed("cannot create a network namespace"))?;
        let tun = namespace
            .inside(|| Tun::new(DEVICE))
            .map_err(failed(&format!("cannot create a TUN device through {}", tun::PATH)))?;
        namespace.inside(|| configure(side, mtu)).map_err(failed("cannot set up a network namespace"))?;
        let name = Name::new(side.name(), &namespace);
        Ok(Self { namespace, tun, name })
    }

    /// The link in `/run/netns`, if the namespace has a name.
    pub(crate) fn link(&self) -> Option<&Path> {
        self.name.as_ref().ok().map(Name::link)
    }
}

fn configure(side: Side, mtu: u32) -> io::Result<()> {
    let (must, may) = SETTINGS.split_at(1);
    for (name, value) in must {
        write_setting(name, value).map_err(during(&format!("setting {name}")))?;
    }
    for (name, value) in may {
        let _ = write_setting(name, value);
    }
    let interfaces = Interfaces::open()?;
    interfaces.up("lo").map_err(during("bringing up the loopback device"))?;
    interfaces
        .set_address("lo:1", Ipv4Addr::from_bits(side.network().to_bits() + 1))
        .map_err(during("assigning the addresses of the side"))?;
    interfaces.set_mtu(DEVICE, mtu).map_err(during(&format!("setting the MTU to {mtu}")))?;
    // Only the root user may do this. The default of 500 packets suffices unless the machine is very busy.
    let _ = interfaces.set_queue(DEVICE, QUEUE);
    interfaces.up(DEVICE).map_err(during("bringing up the TUN device"))?;
    interfaces.add_route(DEVICE, side.other().network()).map_err(during("adding the route to the other side"))
}

fn write_setting(name: &str, value: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/net/{name}"), value)
}

fn during(step: &str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{step}: {error}"))
}

/// A system error with a description of the failed step.
pub(crate) fn failed(what: &str) -> impl Fn(io::Error) -> WorldError {
    move |error| WorldError::System { what: what.to_owned(), error }
}
