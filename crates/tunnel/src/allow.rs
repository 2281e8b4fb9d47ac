//! Which destinations a server connects to: `--allow HOST:PORT`.
//!
//! ```text
//! HOST   a name; *.example.org (what is below it); an address; 10.0.0.0/8; public (the Internet); *
//! PORT   443; 8000-8999; *
//! ```
//!
//! A name is compared with the name that a client asks for, so all addresses of an allowed name are allowed. Addresses,
//! networks and `public` are compared with the address itself, also of a name. `public` has no private, local or
//! reserved address, and none of the server's own networks (`near`), so a client with it reaches the Internet and nothing
//! near the server. IPv4 addresses in IPv6 ones count as IPv4 addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Patterns of destinations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    hosts: Hosts,
    ports: RangeInclusive<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Any,
    Public,
    Name(String),
    Below(String),
    /// A network and the number of its bits.
    Network(IpAddr, u8),
}

impl Allow {
    /// Reads patterns.
    pub fn read<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        patterns.into_iter().map(Pattern::read).collect::<Result<_, _>>().map(Self)
    }

    /// Adds patterns.
    #[must_use]
    pub fn and(mut self, mut others: Self) -> Self {
        self.0.append(&mut others.0);
        self
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every address of this name is allowed.
    pub(crate) fn allows_name(&self, name: &str, port: u16) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let matches = |hosts: &Hosts| match hosts {
            Hosts::Any => true,
            Hosts::Name(allowed) => *allowed == name,
            Hosts::Below(domain) => name.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            Hosts::Public | Hosts::Network(..) => false,
        };
        self.0.iter().any(|pattern| pattern.ports.contains(&port) && matches(&pattern.hosts))
    }

    /// Whether this address is allowed; networks in `near`, with the number of their bits, are not `public`.
    pub(crate) fn allows_address(&self, ip: IpAddr, port: u16, near: &[(IpAddr, u8)]) -> bool {
        let ip = ip.to_canonical();
        let matches = |hosts: &Hosts| match hosts {
            Hosts::Any => true,
            Hosts::Public => is_public(ip) && !near.iter().any(|(network, bits)| is_in(ip, *network, *bits)),
            Hosts::Network(network, bits) => is_in(ip, *network, *bits),
            Hosts::Name(_) | Hosts::Below(_) => false,
        };
        self.0.iter().any(|pattern| pattern.ports.contains(&port) && matches(&pattern.hosts))
    }
}

impl Pattern {
    fn read(text: &str) -> Result<Self, String> {
        let bad = |problem: &str| {
            format!("`{text}`: {problem}; write HOST:PORT, for example db.example.org:5432, 10.0.0.0/8:22, public:443")
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(|| bad("it has no port"))?;
        let number = |text: &str| text.parse::<u16>().map_err(|_| bad("its port is no number, range or *"));
        let ports = match port.split_once('-') {
            _ if port == "*" => 0..=u16::MAX,
            Some((first, last)) => number(first)?..=number(last)?,
            None => number(port)?..=number(port)?,
        };
        if ports.is_empty() {
            return Err(bad("its range of ports has none"));
        }
        let (address, bits) = host.split_once('/').map_or((host, None), |(address, bits)| (address, Some(bits)));
        let address = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        let hosts = match (address.parse::<IpAddr>(), bits) {
            (Ok(ip), bits) => {
                let width = if ip.is_ipv4() { 32 } else { 128 };
                let bits = bits.map_or(Some(width), |bits| bits.parse().ok().filter(|bits| *bits <= width));
                Hosts::Network(ip, bits.ok_or_else(|| bad("its network has too many bits"))?)
            }
            (Err(_), Some(_)) => return Err(bad("its network is no address")),
            (Err(_), None) if host == "*" => Hosts::Any,
            (Err(_), None) if host == "public" => Hosts::Public,
            (Err(_), None) => {
                let below = host.strip_prefix("*.");
                let name = below.unwrap_or(host).to_ascii_lowercase();
                let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
                if name.is_empty() || !name.bytes().all(is_name) {
                    return Err(bad("its host is no name, address, network, `public` or *"));
                }
                if below.is_some() { Hosts::Below(name) } else { Hosts::Name(name) }
            }
        };
        Ok(Self { hosts, ports })
    }
}

fn is_in(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |a: u128, b: u128, width: u8| bits == 0 || (a ^ b) >> (width - bits) == 0;
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => same(ip.to_bits().into(), network.to_bits().into(), 32),
        (IpAddr::V6(ip), IpAddr::V6(network)) => same(ip.to_bits(), network.to_bits(), 128),
        _ => false,
    }
}

/// Whether an address is one of the Internet (the special-purpose registries of IANA, RFC 6890).
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let special: [(Ipv4Addr, u8); 13] = [
        (Ipv4Addr::UNSPECIFIED, 8),
        (Ipv4Addr::new(10, 0, 0, 0), 8),
        (Ipv4Addr::new(100, 64, 0, 0), 10),
        (Ipv4Addr::new(127, 0, 0, 0), 8),
        (Ipv4Addr::new(169, 254, 0, 0), 16),
        (Ipv4Addr::new(172, 16, 0, 0), 12),
        (Ipv4Addr::new(192, 0, 0, 0), 24),
        (Ipv4Addr::new(192, 0, 2, 0), 24),
        (Ipv4Addr::new(192, 168, 0, 0), 16),
        (Ipv4Addr::new(198, 18, 0, 0), 15),
        (Ipv4Addr::new(198, 51, 100, 0), 24),
        (Ipv4Addr::new(203, 0, 113, 0), 24),
        (Ipv4Addr::new(224, 0, 0, 0), 3), // multicast and reserved
    ];
    !special.iter().any(|(network, bits)| is_in(ip.into(), (*network).into(), *bits))
}

/// Global unicast, without documentation, tunnels and translations, which lead to other addresses.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let within = |network: &str, bits| network.parse().is_ok_and(|network| is_in(ip.into(), network, bits));
    let special = [("2001::", 23), ("2001:db8::", 32), ("2002::", 16), ("3fff::", 20)];
    within("2000::", 3) && !special.iter().any(|(network, bits)| within(network, *bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(patterns: &[&str]) -> Allow {
        Allow::read(patterns.iter().copied()).unwrap()
    }

    fn reaches(allow: &Allow, ip: &str, port: u16) -> bool {
        allow.allows_address(ip.parse().unwrap(), port, &[])
    }

    #[test]
    fn nothing_is_allowed_without_a_pattern() {
        let none = Allow::default();
        assert!(!none.allows_name("example.org", 80) && !reaches(&none, "127.0.0.1", 80));
    }

    #[test]
    fn names_are_compared_as_asked_for() {
        let some = allow(&["db.example.org:5432", "*.example.net:80-81"]);
        assert!(some.allows_name("DB.example.org.", 5432) && !some.allows_name("db.example.org", 5433));
        assert!(some.allows_name("a.b.example.net", 81) && !some.allows_name("example.net", 80));
        assert!(!some.allows_name("badexample.net", 80) && !some.allows_name(".example.net", 80));
        assert!(!some.allows_name("db.example.org.evil.org", 5432));
        assert!(!reaches(&some, "10.0.0.1", 5432));
    }

    #[test]
    fn public_has_no_address_near_the_server() {
        let public = allow(&["public:*"]);
        for ip in ["8.8.8.8", "2a00:1450::1", "::ffff:8.8.8.8"] {
            assert!(reaches(&public, ip, 443), "{ip}");
        }
        for ip in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "169.254.169.254",
            "172.31.0.1",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "::127.0.0.1",
        ] {
            assert!(!reaches(&public, ip, 443), "{ip}");
        }
    }

    #[test]
    fn public_has_none_of_the_servers_own_networks() {
        let some = allow(&["public:*", "9.9.9.7:80"]);
        let near = [("9.9.9.1".parse().unwrap(), 24), ("2a00:1450::1".parse().unwrap(), 64)];
        for (ip, expected) in [
            ("9.9.9.1", false),
            ("9.9.9.200", false),
            ("::ffff:9.9.9.200", false),
            ("2a00:1450::7", false),
            ("9.9.8.1", true),
            ("2a00:1450:0:1::7", true),
            ("9.9.9.7", true),
        ] {
            assert_eq!(some.allows_address(ip.parse().unwrap(), 80, &near), expected, "{ip}");
        }
    }

    #[test]
    fn networks_have_their_addresses_in_any_spelling() {
        let some = allow(&["10.0.0.0/8:22", "192.0.2.7:80", "[fd00::]/8:1-9", "[::1]:7", "0.0.0.0/0:53"]);
        assert!(reaches(&some, "10.9.9.9", 22) && reaches(&some, "::ffff:10.9.9.9", 22));
        assert!(!reaches(&some, "11.0.0.1", 22) && !reaches(&some, "10.0.0.1", 23));
        assert!(reaches(&some, "192.0.2.7", 80) && !reaches(&some, "192.0.2.8", 80));
        assert!(reaches(&some, "::1", 7) && !reaches(&some, "::2", 7) && reaches(&some, "1.2.3.4", 53));
        let any = allow(&["*:80"]);
        assert!(any.allows_name("x", 80) && reaches(&any, "127.0.0.1", 80) && !any.allows_name("x", 81));
    }

    #[test]
    fn a_bad_pattern_is_refused_with_the_right_form() {
        for text in ["", "host", "host:", "host:x", "host:9-8", ":80", "a b:80", "10.0.0.0/33:1", "x/8:1", "*.:80"] {
            let error = Allow::read([text]).unwrap_err();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }
}
