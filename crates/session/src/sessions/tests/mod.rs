//! Two hosts, and what a third one can do.

use std::collections::BTreeSet;

use rampmeter_units::Random;

use super::*;
use crate::purpose::Service;

mod group_tests;
mod opener_tests;
mod purpose_tests;
mod renewal_tests;

const SYN: &[u8] = b"\x11 a Syn";
const DATA: &[u8] = b"\x13 data of a connection";

struct Pair {
    client: Sessions,
    server: Sessions,
    from: SocketAddr,
    to: SocketAddr,
    now: Time,
}

fn key(seed: u64) -> KeyPair {
    KeyPair::generate(&mut Random::from_seed(seed))
}

fn purpose() -> Purpose {
    Purpose { service: Service(1), name: Name::new("server:7267") }
}

fn server_config(clients: Clients) -> Config {
    Config {
        clients,
        port: 7267,
        suite: Suite::Aes256Gcm,
        max_sessions: 100,
        max_half_open: 10,
        ..Config::client(key(1), purpose())
    }
}

fn server(clients: Clients) -> Sessions {
    Sessions::new(server_config(clients), Random::from_seed(11))
}

fn pair(clients: Clients) -> Pair {
    Pair {
        client: Sessions::new(Config::client(key(2), purpose()), Random::from_seed(12)),
        server: server(clients),
        from: "10.0.0.2:2000".parse().unwrap(),
        to: "10.0.0.1:7267".parse().unwrap(),
        now: Time::ZERO,
    }
}

fn plain(sessions: &mut Sessions, now: Time, from: SocketAddr, datagram: &[u8]) -> Option<(SessionId, Vec<u8>)> {
    let mut bytes = datagram.to_vec();
    let opened = sessions.receive(now, from.into(), &mut bytes)?;
    Some((opened.session, bytes[opened.bytes].to_vec()))
}

fn seal(sessions: &mut Sessions, now: Time, id: SessionId, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    sessions.seal(now, id, &mut out, |out| {
        out.extend(bytes);
        true
    })?;
    Some(out)
}

impl Pair {
    fn at_server(&mut self, datagram: &[u8]) -> Option<(SessionId, Vec<u8>)> {
        plain(&mut self.server, self.now, self.from, datagram)
    }

    fn at_client(&mut self, datagram: &[u8]) -> Option<(SessionId, Vec<u8>)> {
        plain(&mut self.client, self.now, self.to, datagram)
    }

    /// The only datagram that the client's, or the server's, sessions send themselves.
    fn only(sessions: &mut Sessions) -> Vec<u8> {
        let (_, datagram) = sessions.poll_transmit().expect("a datagram");
        assert_eq!(sessions.poll_transmit(), None);
        datagram
    }

    fn hello(&mut self) -> (SessionId, Vec<u8>) {
        let id = self.client.open(self.now, self.to, Some(self.server.own_key())).unwrap();
        assert_eq!(seal(&mut self.client, self.now, id, SYN), None);
        (id, Self::only(&mut self.client))
    }

    /// An open session: the client's id and the server's.
    fn open(&mut self) -> (SessionId, SessionId) {
        let (client, hello) = self.hello();
        let (server, _) = self.at_server(&hello).unwrap();
        let answer = seal(&mut self.server, self.now, server, DATA).unwrap();
        self.at_client(&answer).unwrap();
        let data = seal(&mut self.client, self.now, client, DATA).unwrap();
        self.at_server(&data).unwrap();
        (client, server)
    }
}

/// Opens a session from `address`, whose `Hello` has the cookie that the server asks for. The answer, or `None`.
fn open_from(pair: &mut Pair, address: &str) -> Option<(SessionId, SessionId)> {
    pair.from = address.parse().unwrap();
    let (client, mut hello) = pair.hello();
    let mut opened = pair.at_server(&hello);
    if opened.is_none() {
        let answer = Pair::only(&mut pair.server);
        pair.at_client(&answer);
        if pair.client.poll_event() == Some(Event::Goodbye(client, Goodbye::Busy)) {
            return None;
        }
        hello = Pair::only(&mut pair.client);
        opened = pair.at_server(&hello);
    }
    let (server, _) = opened.or_else(|| {
        let goodbye = Pair::only(&mut pair.server);
        pair.at_client(&goodbye);
        assert_eq!(pair.client.poll_event(), Some(Event::Goodbye(client, Goodbye::Busy)));
        None
    })?;
    let answer = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    pair.at_client(&answer).unwrap();
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    pair.at_server(&data).unwrap();
    Some((client, server))
}

#[test]
fn a_known_key_needs_no_round_trip_before_the_first_packet() {
    let mut pair = pair(Clients::Anyone);
    let (client, hello) = pair.hello();
    assert!(!hello.windows(SYN.len()).any(|bytes| bytes == SYN), "the Syn is encrypted");
    let (server, syn) = pair.at_server(&hello).unwrap();
    assert_eq!(syn, SYN);
    assert_eq!(pair.server.peer_key(server), Some(pair.client.own_key()));
    let answer = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    assert!(answer.len() < hello.len());
    assert_eq!(pair.at_client(&answer), Some((client, DATA.to_vec())));
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    assert_eq!(data.len(), DATA.len() + MAX_OVERHEAD);
    assert_eq!(pair.at_server(&data), Some((server, DATA.to_vec())));
    let data = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    assert_eq!(data.len(), DATA.len() + MAX_OVERHEAD, "the answer is not repeated once the session is confirmed");
}

#[test]
fn an_unknown_key_is_shown_before_anything_is_sent() {
    let mut pair = pair(Clients::Anyone);
    let client = pair.client.open(pair.now, pair.to, None).unwrap();
    let hello = Pair::only(&mut pair.client);
    assert_eq!(pair.at_server(&hello), None);
    let answer = Pair::only(&mut pair.server);
    assert!(answer.len() < hello.len());
    assert_eq!(seal(&mut pair.client, pair.now, client, SYN), None);
    assert_eq!(pair.at_client(&answer), None);
    assert_eq!(pair.client.poll_event(), Some(Event::Key(client, pair.server.own_key())));
    let finish = seal(&mut pair.client, pair.now, client, SYN).unwrap();
    let (server, syn) = pair.at_server(&finish).unwrap();
    assert_eq!(syn, SYN);
    assert_eq!(pair.server.peer_key(server), Some(pair.client.own_key()));
    assert_eq!(pair.server.half_open.len(), 0);
    // The first one was lost: the next packet has the finish, too.
    let again = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    assert_eq!(pair.at_server(&again), Some((server, DATA.to_vec())));
    let data = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    assert_eq!(pair.at_client(&data), Some((client, DATA.to_vec())));
    assert_eq!(seal(&mut pair.client, pair.now, client, DATA).unwrap().len(), DATA.len() + MAX_OVERHEAD);
}

#[test]
fn a_host_that_does_not_answer_is_asked_five_times() {
    let mut pair = pair(Clients::Anyone);
    let client = pair.client.open(pair.now, pair.to, None).unwrap();
    let mut hellos = 0;
    while pair.client.deadline() < Time::MAX {
        pair.now = pair.client.deadline();
        pair.client.on_deadline(pair.now);
    }
    while pair.client.poll_transmit().is_some() {
        hellos += 1;
    }
    assert_eq!((hellos, pair.now), (5, Time::ZERO + Duration::from_secs(1 + 2 + 4 + 8 + 16)));
    assert_eq!(pair.client.poll_event(), Some(Event::NoAnswer(client)));
}

#[test]
fn a_lost_answer_is_replaced_by_the_next_syn() {
    let mut pair = pair(Clients::Anyone);
    let (client, hello) = pair.hello();
    let (server, _) = pair.at_server(&hello).unwrap();
    let lost = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    assert_eq!(seal(&mut pair.client, pair.now, client, SYN), None);
    let again = Pair::only(&mut pair.client);
    assert_eq!(pair.at_server(&again), Some((server, SYN.to_vec())), "the same session");
    assert_eq!(pair.at_client(&lost), None, "the answer to the first one is late");
    let answer = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    assert_eq!(pair.at_client(&answer), Some((client, DATA.to_vec())));
    assert_eq!(pair.server.len(), 1);
}

#[test]
fn replayed_and_forged_datagrams_change_nothing() {
    let mut pair = pair(Clients::Anyone);
    let (client, server) = pair.open();
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    for bit in 0..data.len() * 8 {
        let mut forged = data.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(pair.at_server(&forged), None, "bit {bit}");
    }
    let resets = std::iter::from_fn(|| pair.server.poll_transmit()).filter(|(_, bytes)| bytes.len() >= data.len());
    assert_eq!(resets.count(), 0, "an answer is shorter");
    assert!(pair.at_server(&data).is_some());
    assert_eq!(pair.at_server(&data), None, "a replay");
    // A replay from elsewhere does not move the session either.
    assert_eq!(plain(&mut pair.server, pair.now, "10.9.9.9:1".parse().unwrap(), &data), None);
    assert_eq!(pair.server.poll_transmit(), None);
    assert_eq!(pair.server.address(server), Some(pair.from));
}

#[test]
fn a_packet_in_the_clear_is_not_opened() {
    for clients in [Clients::Anyone, Clients::Listed([key(2).public()].into())] {
        let mut pair = pair(clients);
        // A `Hello` without a known key: any 32 bytes, and a payload that no key encrypts.
        let noise = [&[9; 32], SYN].concat();
        let hello = datagram::hello(Suite::Aes256Gcm, datagram::Pattern::Xx, purpose(), 5, &[0; 16], &noise);
        assert_eq!(pair.at_server(&hello), None);
        assert!(pair.server.is_empty() && pair.server.poll_transmit().is_none());
    }
}

#[test]
fn a_replayed_hello_does_not_harm_the_session_that_it_opened() {
    let mut pair = pair(Clients::Anyone);
    let (client, hello) = pair.hello();
    let (server, _) = pair.at_server(&hello).unwrap();
    let answer = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    pair.at_client(&answer).unwrap();
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    pair.at_server(&data).unwrap();
    assert_eq!(pair.at_server(&hello), None);
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    assert_eq!(pair.at_server(&data), Some((server, DATA.to_vec())));
    assert_eq!(pair.server.len(), 1);
}

#[test]
fn copies_of_hellos_do_not_change_the_keys_of_a_session() {
    for known in [true, false] {
        let mut pair = pair(Clients::Anyone);
        let client = pair.client.open(pair.now, pair.to, known.then_some(pair.server.own_key())).unwrap();
        let mut hellos = Vec::new();
        for _ in 0..3 {
            pair.now += Duration::from_secs(5);
            if known {
                seal(&mut pair.client, pair.now, client, SYN);
            } else {
                pair.client.on_deadline(pair.now);
            }
            hellos.extend(std::iter::from_fn(|| pair.client.poll_transmit()).map(|(_, hello)| hello));
        }
        let mut answers = Vec::new();
        for hello in &hellos {
            let opened = pair.at_server(hello);
            answers.extend(opened.map(|(server, _)| seal(&mut pair.server, pair.now, server, DATA).unwrap()));
            answers.extend(std::iter::from_fn(|| pair.server.poll_transmit()).map(|(_, answer)| answer));
        }
        assert_eq!(answers.len(), hellos.len());
        for hello in &hellos {
            assert_eq!(pair.at_server(hello), None);
            assert_eq!(pair.server.poll_transmit(), None, "a copy has no answer");
        }
        pair.at_client(answers.last().unwrap());
        let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
        assert_eq!(pair.at_server(&data).unwrap().1, DATA, "known: {known}");
        assert_eq!(pair.server.len(), 1);
    }
}

#[test]
fn a_session_remembers_few_of_its_hellos() {
    let mut pair = pair(Clients::Anyone);
    let (client, hello) = pair.hello();
    let (server, _) = pair.at_server(&hello).unwrap();
    for _ in 0..20 {
        seal(&mut pair.client, pair.now, client, SYN);
        let hello = Pair::only(&mut pair.client);
        assert!(pair.at_server(&hello).is_some());
        assert_eq!(pair.at_server(&hello), None, "a copy");
    }
    assert_eq!(pair.server.slot(server).unwrap().hello_keys.len(), 8);
    let answer = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    pair.at_client(&answer).unwrap();
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    pair.at_server(&data).unwrap();
    assert_eq!(pair.server.slot(server).unwrap().hello_keys.len(), 0);
}

#[test]
fn a_key_that_is_not_listed_is_refused_with_the_reason() {
    for known in [true, false] {
        let mut pair = pair(Clients::Listed(BTreeSet::from([key(9).public()])));
        let client = pair.client.open(pair.now, pair.to, known.then_some(pair.server.own_key())).unwrap();
        if known {
            seal(&mut pair.client, pair.now, client, SYN);
        }
        let hello = Pair::only(&mut pair.client);
        assert_eq!(pair.at_server(&hello), None);
        let answer = Pair::only(&mut pair.server);
        assert_eq!(pair.at_client(&answer), None);
        if !known {
            assert!(matches!(pair.client.poll_event(), Some(Event::Key(..))));
            let finish = seal(&mut pair.client, pair.now, client, SYN).unwrap();
            assert_eq!(pair.at_server(&finish), None);
            let goodbye = Pair::only(&mut pair.server);
            assert_eq!(pair.at_client(&goodbye), None);
        }
        assert_eq!(pair.client.poll_event(), Some(Event::Goodbye(client, Goodbye::NotAuthorized)));
        assert_eq!(pair.server.len(), 0);
    }
}

#[test]
fn a_listed_key_is_served() {
    let mut pair = pair(Clients::Listed(BTreeSet::from([key(2).public()])));
    pair.open();
}

#[test]
fn a_host_with_another_key_says_so() {
    let mut pair = pair(Clients::Anyone);
    let client = pair.client.open(pair.now, pair.to, Some(key(7).public())).unwrap();
    seal(&mut pair.client, pair.now, client, SYN);
    let hello = Pair::only(&mut pair.client);
    assert_eq!(pair.at_server(&hello), None);
    let answer = Pair::only(&mut pair.server);
    pair.at_client(&answer);
    assert_eq!(pair.client.poll_event(), None, "anybody may have said so");
    pair.now = pair.client.deadline();
    pair.client.on_deadline(pair.now);
    assert_eq!(pair.client.poll_event(), Some(Event::Denied(client, Denial::OtherKey)));
    assert_eq!(pair.client.deadline(), Time::MAX);
}

#[test]
fn a_restarted_host_resets_its_sessions() {
    let mut pair = pair(Clients::Anyone);
    let (client, _) = pair.open();
    pair.server = server(Clients::Anyone);
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    assert_eq!(pair.at_server(&data), None);
    let reset = Pair::only(&mut pair.server);
    assert!(reset.len() < data.len());
    // A reset is never answered, and no packet as short as one: two hosts without state are quiet.
    for datagram in [&reset, &data[..reset.len()].to_vec()] {
        assert_eq!(pair.at_server(datagram), None);
        assert_eq!(pair.server.poll_transmit(), None);
    }
    let mut forged = reset.clone();
    *forged.last_mut().unwrap() ^= 1;
    pair.at_client(&forged);
    assert_eq!(pair.client.poll_event(), None);
    pair.at_client(&reset);
    assert_eq!(pair.client.poll_event(), Some(Event::Reset(client)));
}

#[test]
fn a_session_ends_after_too_many_forged_packets() {
    let mut pair = pair(Clients::Anyone);
    let (client, server) = pair.open();
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    let Some(Stage::Open(_, opener)) = pair.server.slot_mut(server).map(|session| &mut session.stage) else { panic!() };
    opener.forged = MAX_FORGED - 2;
    assert!(pair.at_server(&data).is_some());
    assert_eq!(pair.at_server(&data), None, "copies of genuine packets do not count");
    let mut forged = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    *forged.last_mut().unwrap() ^= 1;
    for ended in [None, Some(Event::Reset(server))] {
        assert_eq!(pair.at_server(&forged), None);
        assert_eq!(pair.server.poll_event(), ended);
    }
}

#[test]
fn a_session_follows_its_client_to_an_address_that_answers() {
    let mut pair = pair(Clients::Anyone);
    let (client, server) = pair.open();
    let (before, after) = (pair.from, "10.0.0.3:99".parse().unwrap());
    pair.from = after;
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    assert_eq!(pair.at_server(&data), Some((server, DATA.to_vec())));
    assert_eq!(pair.server.address(server), Some(before), "until the new one has proved itself");
    let (to, challenge) = pair.server.poll_transmit().unwrap();
    assert_eq!(to.remote, after);
    pair.at_client(&challenge);
    let response = Pair::only(&mut pair.client);
    assert_eq!(plain(&mut pair.server, pair.now, "10.6.6.6:6".parse().unwrap(), &response), None);
    assert_eq!(pair.server.address(server), Some(before), "a response from a third address");
    pair.now += Duration::from_secs(1);
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    pair.at_server(&data);
    while pair.server.poll_transmit().is_some_and(|(to, datagram)| {
        if to.remote == after {
            pair.at_client(&datagram);
        }
        true
    }) {}
    let response = Pair::only(&mut pair.client);
    pair.at_server(&response);
    assert_eq!(pair.server.poll_event(), Some(Event::Moved(server, before)));
    assert_eq!(pair.server.address(server), Some(after));
}

#[test]
fn a_session_follows_its_client_over_a_slow_path() {
    let mut pair = pair(Clients::Anyone);
    let (client, server) = pair.open();
    let before = pair.from;
    pair.from = "10.0.0.3:99".parse().unwrap();
    // The round trip takes 1800 ms, and packets arrive meanwhile.
    let mut challenges = Vec::new();
    for _ in 0..3 {
        let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
        pair.at_server(&data);
        challenges.push(Pair::only(&mut pair.server));
        pair.now += Duration::from_millis(600);
    }
    pair.at_client(&challenges[0]);
    let response = Pair::only(&mut pair.client);
    pair.at_server(&response);
    assert_eq!(pair.server.poll_event(), Some(Event::Moved(server, before)));
}

#[test]
fn a_packet_gets_one_answer_however_many_challenges_it_has() {
    let mut pair = pair(Clients::Anyone);
    let (client, server) = pair.open();
    let packet = [&[1; 9].repeat(100)[..], DATA].concat();
    for (address, is_challenge) in [(pair.from, false), ("10.0.0.3:99".parse().unwrap(), true)] {
        pair.from = address;
        let sealed = seal(&mut pair.client, pair.now, client, &packet).unwrap();
        assert_eq!(pair.at_server(&sealed), Some((server, DATA.to_vec())));
        let answer = Pair::only(&mut pair.server);
        assert_eq!(answer.len(), CHALLENGE_BYTES);
        pair.at_client(&answer);
        assert_eq!(pair.client.poll_transmit().is_some(), is_challenge, "a response has no answer");
    }
}

#[test]
fn a_goodbye_ends_the_session_of_the_other_host() {
    let mut pair = pair(Clients::Anyone);
    let (client, server) = pair.open();
    pair.server.goodbye(server, Goodbye::Stopping);
    let goodbyes: Vec<_> = std::iter::from_fn(|| pair.server.poll_transmit()).map(|(_, datagram)| datagram).collect();
    assert_eq!(goodbyes.len(), 3, "nothing acknowledges it");
    assert_eq!(pair.at_client(&goodbyes[2]), None, "the others are lost");
    assert_eq!(pair.client.poll_event(), Some(Event::Goodbye(client, Goodbye::Stopping)));
    assert!(pair.server.is_empty());
}

#[test]
fn a_host_without_clients_answers_nothing() {
    let mut pair = pair(Clients::None);
    let (_, hello) = pair.hello();
    pair.at_server(&hello);
    let sealed = [&sealed_header(5, 0)[..], &[0; 100]].concat();
    pair.at_server(&sealed);
    assert_eq!(pair.server.poll_transmit(), None);
}
