//! File transfer over a path whose links become smaller, in network namespaces.
//!
//! ```text
//! server ── 1500 bytes ── router ── 1500 bytes, in the middle of the transfer 1400 ── client
//! ```

mod common;

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::{TestServer, at_fixed_rate, fetch, options};
use nix::sched::{CloneFlags, setns, unshare};
use rampmeter_files::get;
use rampmeter_testing::noise;

/// A network namespace, which ends with this value and the threads in it.
struct Namespace(File);

impl Namespace {
    fn new() -> nix::Result<Self> {
        let create = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            // IPv6 uses new addresses at once.
            let _ = fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
            Ok(Self(File::open("/proc/thread-self/ns/net").unwrap()))
        };
        thread::spawn(create).join().unwrap()
    }

    /// Calls `act` in this namespace; threads and processes that it starts are there, too.
    fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let enter = || {
                setns(&self.0, CloneFlags::CLONE_NEWNET).unwrap();
                act()
            };
            scope.spawn(enter).join().unwrap()
        })
    }

    fn ip(&self, arguments: &str) {
        let status = self.run(|| Command::new("ip").args(arguments.split(' ')).status().unwrap());
        assert!(status.success(), "ip {arguments}");
    }

    /// The packets and the bytes that the device has sent.
    fn sent(&self, device: &str) -> (u64, u64) {
        let text = self.run(|| fs::read_to_string("/proc/thread-self/net/dev").unwrap());
        let line = text.lines().find_map(|line| line.trim().strip_prefix(device)).unwrap();
        let numbers: Vec<u64> = line.trim_start_matches(':').split_whitespace().map(|n| n.parse().unwrap()).collect();
        (numbers[9], numbers[8])
    }
}

/// A server and a client with a router between them.
struct Network {
    server: Namespace,
    router: Namespace,
    client: Namespace,
    /// The server's address.
    address: IpAddr,
}

impl Network {
    /// `None` without root.
    fn new(family: &str) -> Option<Self> {
        let new = || Namespace::new().inspect_err(|error| eprintln!("skipped: namespaces need root ({error})")).ok();
        let (server, router, client) = (new()?, new()?, new()?);
        let (prefix, len) = if family == "-4" { ("10.78.", 24) } else { ("fd78::", 112) };
        let address = |link: u8, host: u8| match family {
            "-4" => format!("{prefix}{link}.{host}"),
            _ => format!("{prefix}{link}:{host}"),
        };
        for (link, end) in [(1, &server), (2, &client)] {
            let other = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&router.0));
            end.ip(&format!("link add eth type veth peer name eth{link} netns {other}"));
            end.ip(&format!("address add {}/{len} dev eth", address(link, 2)));
            router.ip(&format!("address add {}/{len} dev eth{link}", address(link, 1)));
            // One packet in each buffer, so that packets can be counted.
            end.ip("link set eth gso_max_segs 1 up");
            router.ip(&format!("link set eth{link} gso_max_segs 1 up"));
            end.ip(&format!("{family} route add default via {}", address(link, 1)));
        }
        let forward = if family == "-4" { "ipv4/ip_forward" } else { "ipv6/conf/all/forwarding" };
        router.run(|| fs::write(format!("/proc/sys/net/{forward}"), "1").unwrap());
        Some(Self { server, router, client, address: address(1, 2).parse().unwrap() })
    }

    fn set_mtu(&self, mtu: u32) {
        self.router.ip(&format!("link set eth2 mtu {mtu}"));
    }
}

fn check(family: &str) {
    let Some(network) = Network::new(family) else { return };
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(8_000_000, 17);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let server = network.server.run(|| {
        TestServer::start(from.path(), |options| {
            options.server.address = (network.address, 0).into();
            at_fixed_rate("20 Mb/s")(options);
        })
    });
    let (address, out) = (server.address, to.path());
    thread::scope(|scope| {
        let client = scope.spawn(|| network.client.run(|| fetch(address, "f", out)));
        wait_for(&out.join("f.part"), 1_000_000);
        let (packets, sent) = network.router.sent("eth2");
        let mean = sent / packets;
        assert!(mean > 1400, "{family}: packets of {mean} bytes over a path of 1500");

        network.set_mtu(1400);
        let began = Instant::now();
        // Two timeouts show the black hole, and 1452 bytes are lost three times before 1400 arrive: two seconds.
        wait_for(&out.join("f.part"), 7_000_000);
        let (packets, sent) = network.router.sent("eth2");
        client.join().unwrap().unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let (now_packets, now_sent) = network.router.sent("eth2");
        let mean = (now_sent - sent) / (now_packets - packets);
        assert!((1300..=1414).contains(&mean), "{family}: packets of {mean} bytes over a path of 1400");
    });
    assert!(fs::read(out.join("f")).unwrap() == bytes);
}

#[test]
fn a_path_that_is_too_small_for_a_handshake_is_named() {
    let Some(network) = Network::new("-4") else { return };
    network.router.ip("link set eth1 mtu 1000");
    let to = tempfile::tempdir().unwrap();
    let address = (network.address, 7267).into();
    let mut options = options(address, "f", to.path());
    options.client.timeout = rampmeter_units::Duration::from_secs(2);
    let error = network.client.run(|| get(&options)).unwrap_err().to_string();
    assert!(error.contains("packets of 1000 bytes") && error.ends_with("to 1228"), "{error}");
}

fn wait_for(file: &Path, bytes: u64) {
    let until = Instant::now() + Duration::from_secs(20);
    while fs::metadata(file).map_or(0, |found| found.len()) < bytes {
        assert!(Instant::now() < until, "the transfer has not begun");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_transfer_survives_a_link_that_becomes_smaller() {
    check("-4");
}

#[test]
fn a_transfer_over_ipv6_survives_a_link_that_becomes_smaller() {
    check("-6");
}
