//! Texts of users, into which they may have copied anything: addresses of servers, forwards of tunnels and what these
//! allow, files of keys. The modules are private to their crate, so their files are compiled into this target.
//!
//! An address has a host and a port. A key is found in the line that is named. An IPv4 address in an IPv6 one is
//! allowed if it is allowed by itself.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use rampmeter_session::KeyPair;
use thiserror::Error;

#[allow(dead_code, unexpected_cfgs)]
#[path = "../../crates/net/src/contact/address.rs"]
mod address;
#[allow(dead_code)]
#[path = "../../crates/tunnel/src/allow.rs"]
mod allow;
#[path = "../../crates/tunnel/src/forward.rs"]
mod forward;
#[allow(dead_code)]
#[path = "../../crates/net/src/keys.rs"]
mod keys;
#[allow(dead_code)]
#[path = "../../crates/tunnel/src/protocol.rs"]
mod protocol;

use address::ServerAddress;
use allow::Allow;
use forward::{Forward, listen_address};
use keys::{authorized_keys, known_key};
use protocol::{Target, is_host};

/// What the module of addresses uses of its crate.
#[derive(Debug, Error)]
enum ContactError {
    #[error("`{text}`: {problem}; write {form}")]
    BadAddress { text: String, problem: String, form: &'static str },
    #[error("{0}")]
    UnknownHost(String),
}

const ADDRESSES: [Ipv4Addr; 4] =
    [Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::BROADCAST];

fuzz_target!(|text: &str| {
    if let Ok((server, rest)) = ServerAddress::read_with_rest(text, "HOST:PORT", 7267) {
        let (host, port) = server.text.rsplit_once(':').expect("a port");
        assert!(!host.is_empty() && !server.text.contains('/') && port.parse() != Ok(0));
        assert!(rest.is_none_or(|rest| text.contains(rest)));
    }
    if let Ok(Forward { listen, to, .. }) = text.parse() {
        assert!(to.port > 0 && is_host(&to.host) && is_host(&listen.host));
    }
    if let Ok(Target { host, .. }) = listen_address(text) {
        assert!(is_host(&host));
    }
    if let Ok(allow) = Allow::read(text.lines()) {
        for ip in ADDRESSES {
            let mapped = IpAddr::V6(ip.to_ipv6_mapped());
            assert_eq!(allow.allows_address(ip.into(), 443, &[]), allow.allows_address(mapped, 443, &[]));
        }
        let _ = allow.allows_address(Ipv6Addr::LOCALHOST.into(), 443, &[]);
        assert!(!allow.allows_name("example.org", 443) || allow.allows_name("EXAMPLE.org.", 443));
    }
    check_keys(text);
});

fn check_keys(text: &str) {
    let path = Path::new("keys");
    for (key, _) in authorized_keys(path, text).into_iter().flatten() {
        assert!(text.lines().any(|line| line.trim().starts_with(&key.to_string())));
    }
    let server = text.split_whitespace().next().unwrap_or_default();
    if let Ok(Some((key, line))) = known_key(path, text, server) {
        let line = text.lines().nth(line - 1).expect("the line that is named");
        assert!(line.trim().ends_with(&key.to_string()));
    }
    if let Ok(pair) = KeyPair::from_secret_text(text) {
        assert_eq!(*pair.secret_text(), text);
    }
}
