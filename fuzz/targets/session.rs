//! A server's encrypted sessions between clients and an attacker, who sees, alters, repeats and forges datagrams, and
//! who may be a client that sends challenges and responses of its own.
//!
//! Nobody panics. What a session opens, the other host has sealed, once. An address that has sent nothing authentic
//! never receives more bytes than it sent. The number of sessions stays below its limit.
#![no_main]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use rampmeter_session::{Clients, Config, Event, KeyPair, Name, Purpose, Service, SessionId, Sessions, Suite};
use rampmeter_units::{Duration, Random, Time};

const MAX_SESSIONS: usize = 12;
const MAX_DATAGRAMS: usize = 64;

const PAYLOAD: &[u8] = b"some more bytes of a packet";

/// Bytes of UDP and IPv4 headers: also many small datagrams together are no answer to one.
const HEADERS: usize = 28;

#[derive(Debug, Arbitrary)]
enum Step {
    /// A client opens a session.
    Open {
        knows_key: bool,
        expects_other_key: bool,
    },
    /// The client, or the server, seals a packet.
    Seal {
        by_server: bool,
        session: u8,
        /// Before the packet: challenges or responses with these bytes.
        frames: Vec<(bool, u64)>,
    },
    /// A datagram seen before reaches the client or the server, perhaps altered, from one of the addresses.
    Deliver {
        to_server: bool,
        datagram: u8,
        from: u8,
        alter: Option<(u16, u8)>,
        cut: Option<u16>,
    },
    /// Bytes of the attacker's choice.
    Forge {
        to_server: bool,
        from: u8,
        bytes: Vec<u8>,
    },
    Wait {
        milliseconds: u16,
    },
    RestartServer,
}

#[derive(Debug, Arbitrary)]
struct Story {
    is_listed: bool,
    steps: Vec<Step>,
}

fn key(seed: u64) -> KeyPair {
    KeyPair::generate(&mut Random::from_seed(seed))
}

fn server(is_listed: bool, seed: u64) -> Sessions {
    let clients = if is_listed { Clients::Listed([key(2).public()].into()) } else { Clients::Anyone };
    let suite = Suite::Aes256Gcm;
    let own = Config::client(key(1), purpose());
    let config = Config { clients, suite, max_sessions: MAX_SESSIONS, max_half_open: 4, ..own };
    Sessions::new(config, Random::from_seed(seed))
}

fn purpose() -> Purpose {
    Purpose { service: Service(1), name: Name::new("server:7267") }
}

fn address(index: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, index % 4], 1000))
}

fuzz_target!(|story: Story| {
    let mut now = Time::ZERO;
    let mut restarts = 0;
    let mut hosts =
        [Sessions::new(Config::client(key(2), purpose()), Random::from_seed(3)), server(story.is_listed, 4)];
    let mut names: [Vec<SessionId>; 2] = [Vec::new(), Vec::new()];
    let mut seen: Vec<Vec<u8>> = Vec::new();
    // What each host has sealed and the other one has not opened yet.
    let mut sealed: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
    let mut credit: BTreeMap<SocketAddr, i64> = BTreeMap::new();
    let mut serial = 0u32;
    for step in story.steps.iter().take(200) {
        match step {
            Step::Open { knows_key, expects_other_key } => {
                let expected = key(if *expects_other_key { 5 } else { 1 }).public();
                if let Some(id) = hosts[0].open(now, address(1), knows_key.then_some(expected)) {
                    names[0].push(id);
                }
            }
            Step::Seal { by_server, session, frames } => {
                let by = usize::from(*by_server);
                if names[by].is_empty() {
                    continue;
                }
                let id = names[by][usize::from(*session) % names[by].len()];
                serial += 1;
                let mut plain = Vec::new();
                for (is_challenge, data) in frames.iter().take(100) {
                    plain.push(if *is_challenge { 1 } else { 2 });
                    plain.extend(data.to_be_bytes());
                }
                plain.extend([&[0x13][..], &serial.to_be_bytes(), PAYLOAD].concat());
                let mut out = Vec::new();
                hosts[by].seal(now, id, &mut out, |out| {
                    out.extend(&plain);
                    true
                });
                sealed[by].push(plain);
                if !out.is_empty() {
                    seen.push(out);
                }
            }
            Step::Deliver { to_server, datagram, from, alter, cut } => {
                if seen.is_empty() {
                    continue;
                }
                let mut bytes = seen[usize::from(*datagram) % seen.len()].clone();
                if let Some((at, with)) = alter {
                    let at = usize::from(*at) % bytes.len();
                    bytes[at] ^= with;
                }
                if let Some(cut) = cut {
                    bytes.truncate(usize::from(*cut) % bytes.len());
                }
                deliver(&mut hosts, &mut names, &mut sealed, &mut credit, now, *to_server, address(*from), &mut bytes);
            }
            Step::Forge { to_server, from, bytes } => {
                let mut bytes = bytes.clone();
                deliver(&mut hosts, &mut names, &mut sealed, &mut credit, now, *to_server, address(*from), &mut bytes);
            }
            Step::Wait { milliseconds } => {
                now += Duration::from_millis((*milliseconds).into());
                hosts.iter_mut().for_each(|host| host.on_deadline(now));
            }
            Step::RestartServer => {
                restarts += 1;
                hosts[1] = server(story.is_listed, 4 + restarts);
                names[1].clear();
            }
        }
        for (by, host) in hosts.iter_mut().enumerate() {
            while let Some((to, datagram)) = host.poll_transmit() {
                if by == 1 {
                    *credit.entry(to.remote).or_default() -= (datagram.len() + HEADERS) as i64;
                }
                seen.push(datagram);
            }
            while let Some(event) = host.poll_event() {
                if let (0, Event::Key(_, shown)) = (by, event) {
                    assert_eq!(shown, key(1).public(), "nobody else has a key here");
                }
            }
        }
        assert!(credit.values().all(|&credit| credit >= 0), "more bytes than received: {credit:?}");
        assert!(hosts[1].len() <= MAX_SESSIONS);
        let excess = seen.len().saturating_sub(MAX_DATAGRAMS);
        seen.drain(..excess);
    }
});

#[allow(clippy::too_many_arguments)]
fn deliver(
    hosts: &mut [Sessions; 2],
    names: &mut [Vec<SessionId>; 2],
    sealed: &mut [Vec<Vec<u8>>; 2],
    credit: &mut BTreeMap<SocketAddr, i64>,
    now: Time,
    to_server: bool,
    from: SocketAddr,
    bytes: &mut [u8],
) {
    let to = usize::from(to_server);
    if to_server {
        *credit.entry(from).or_default() += (bytes.len() + HEADERS) as i64;
    }
    let Some(opened) = hosts[to].receive(now, from.into(), bytes) else { return };
    let packet = &bytes[opened.bytes];
    // Frames before the packet are not passed on, except of a `Hello`, which has none.
    let is_whole = packet.len() >= 5 + PAYLOAD.len();
    let Some(at) = sealed[1 - to].iter().position(|sealed| is_whole && sealed.ends_with(packet)) else {
        panic!("not sealed by the other host: {packet:?}");
    };
    // A `Hello` may be repeated until its sender has shown that it is there.
    let is_early = !names[to].contains(&opened.session) || to_server;
    if !is_early {
        sealed[1 - to].remove(at);
    }
    if !names[to].contains(&opened.session) {
        names[to].push(opened.session);
    }
}
