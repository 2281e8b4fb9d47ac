//! The networks of this host's interfaces: its own addresses, and its neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::SockaddrStorage;

/// The networks, with the number of their bits; all addresses if the system does not say them.
pub(crate) fn networks() -> Vec<(IpAddr, u8)> {
    let everywhere = || vec![(Ipv4Addr::UNSPECIFIED.into(), 0), (Ipv6Addr::UNSPECIFIED.into(), 0)];
    getifaddrs().map_or_else(|_| everywhere(), |found| found.flat_map(|found| networks_of(&found)).collect())
}

/// Of an interface: its network, and the other end of a link between two hosts.
fn networks_of(interface: &InterfaceAddress) -> impl Iterator<Item = (IpAddr, u8)> + use<> {
    let [own, mask, other] =
        [&interface.address, &interface.netmask, &interface.destination].map(|at| at.as_ref().and_then(ip));
    let bits = mask.map(|mask| match mask {
        IpAddr::V4(mask) => mask.to_bits().count_ones() as u8,
        IpAddr::V6(mask) => mask.to_bits().count_ones() as u8,
    });
    let whole = |ip: IpAddr| (ip, if ip.is_ipv4() { 32 } else { 128 });
    own.map(|own| bits.map_or(whole(own), |bits| (own, bits))).into_iter().chain(other.map(whole))
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};

    use super::*;
    use crate::allow::Allow;

    #[test]
    fn public_does_not_reach_the_servers_own_public_network() {
        let in_namespace = || {
            if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
                return eprintln!("skipped: namespaces need root ({error})");
            }
            let public = Allow::read(["public:*"]).unwrap();
            let reaches = |ip: &str| public.allows_address(ip.parse().unwrap(), 80, &networks());
            assert!(reaches("9.9.9.1") && reaches("2a00:1450::7"));
            for arguments in ["link set lo up", "address add 9.9.9.1/24 dev lo", "address add 2a00:1450::1/64 dev lo"] {
                let status = std::process::Command::new("ip").args(arguments.split(' ')).status();
                assert!(status.unwrap().success());
            }
            for ip in ["9.9.9.1", "9.9.9.7", "2a00:1450::1", "2a00:1450::7"] {
                assert!(!reaches(ip), "{ip}");
            }
            assert!(reaches("9.9.8.1"));
        };
        std::thread::spawn(in_namespace).join().unwrap();
    }
}
