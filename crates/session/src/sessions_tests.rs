//! Two hosts, and what a third one can do.

use std::collections::BTreeSet;

use rampmeter_units::Stream;

use super::*;
use crate::datagram::{Pattern, Token};

#[path = "group_tests.rs"]
mod group_tests;

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
    KeyPair::generate(&mut Stream::from_seed(seed))
}

fn server(clients: Clients) -> Sessions {
    let suite = Suite::Aes256Gcm;
    let config = Config { own: key(1), clients, suite, max_sessions: 100, max_half_open: 10 };
    Sessions::new(config, Stream::from_seed(11))
}

fn pair(clients: Clients) -> Pair {
    Pair {
        client: Sessions::new(Config::client(key(2)), Stream::from_seed(12)),
        server: server(clients),
        from: "10.0.0.2:2000".parse().unwrap(),
        to: "10.0.0.1:7267".parse().unwrap(),
        now: Time::ZERO,
    }
}

fn plain(sessions: &mut Sessions, now: Time, from: SocketAddr, datagram: &[u8]) -> Option<(SessionId, Vec<u8>)> {
    let mut bytes = datagram.to_vec();
    let opened = sessions.receive(now, from, &mut bytes)?;
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
    assert_eq!(pair.client.poll_event(), Some(Event::WrongKey(client)));
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
fn a_flood_of_hellos_gets_cookies_and_less_than_it_sent() {
    let mut pair = pair(Clients::Anyone);
    let (_, hello) = pair.hello();
    let (mut sent, mut answered, mut discarded) = (0, 0, 0);
    for port in 1..1000 {
        let from = SocketAddr::from(([10, 1, 1, 1], port));
        plain(&mut pair.server, pair.now, from, &hello);
        sent += hello.len();
        while let Some((to, datagram)) = pair.server.poll_transmit() {
            assert_eq!(to, from);
            answered += datagram.len();
        }
        while let Some(event) = pair.server.poll_event() {
            assert!(matches!(event, Event::Discarded(_)));
            discarded += 1;
        }
    }
    assert!(answered * 20 < sent, "{answered} bytes for {sent}");
    assert_eq!((pair.server.len(), discarded), (6, 0), "the others need a cookie");

    // An honest client gets through: its cookie proves its address.
    let (client, hello) = pair.hello();
    assert_eq!(pair.at_server(&hello), None);
    let retry = Pair::only(&mut pair.server);
    pair.at_client(&retry);
    let hello = Pair::only(&mut pair.client);
    let (server, syn) = pair.at_server(&hello).unwrap();
    assert_eq!(syn, SYN);
    let answer = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    assert_eq!(pair.at_client(&answer), Some((client, DATA.to_vec())));
    pair.at_client(&retry);
    assert_eq!(pair.client.poll_transmit(), None, "a late copy of the retry");
}

#[test]
fn a_forged_cookie_of_the_key_before_gets_no_answer() {
    let mut pair = pair(Clients::Anyone);
    let (id, hello) = pair.hello();
    for port in 1..10 {
        plain(&mut pair.server, pair.now, SocketAddr::from(([10, 1, 1, 1], port)), &hello);
    }
    while pair.server.poll_transmit().is_some() {}
    let Some(Datagram::Hello { suite, noise, .. }) = Datagram::parse(&hello) else { panic!("a Hello") };
    let with = |cookie: &Token| datagram::hello(suite, Pattern::Ik, id.0, cookie, &hello[noise.clone()]);
    pair.at_server(&hello);
    let cookie = |server: &mut Sessions| match Datagram::parse(&Pair::only(server)) {
        Some(Datagram::Retry { cookie, .. }) => cookie,
        other => panic!("{other:?}"),
    };
    let mut forged = cookie(&mut pair.server);
    forged[15] ^= 1;
    pair.at_server(&with(&forged));
    let genuine = cookie(&mut pair.server);
    pair.now += Duration::from_secs(30);
    pair.at_server(&hello);
    assert_ne!(cookie(&mut pair.server), genuine, "another key");
    assert_eq!((pair.at_server(&with(&forged)), pair.server.poll_transmit()), (None, None));
    assert_eq!(pair.server.openers().over_rate, 1);
    assert!(pair.at_server(&with(&genuine)).is_some());
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
    assert_eq!(to, after);
    pair.at_client(&challenge);
    let response = Pair::only(&mut pair.client);
    assert_eq!(plain(&mut pair.server, pair.now, "10.6.6.6:6".parse().unwrap(), &response), None);
    assert_eq!(pair.server.address(server), Some(before), "a response from a third address");
    pair.now += Duration::from_secs(1);
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    pair.at_server(&data);
    while pair.server.poll_transmit().is_some_and(|(to, datagram)| {
        if to == after {
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
fn a_goodbye_ends_the_session_of_the_other_host() {
    let mut pair = pair(Clients::Anyone);
    let (client, server) = pair.open();
    pair.server.goodbye(server, Goodbye::Stopping);
    let goodbye = Pair::only(&mut pair.server);
    assert_eq!(pair.at_client(&goodbye), None);
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

/// Twelve hundred `Hello`s a second come from an address that has a valid cookie for each of its ports. A client of
/// another network, 200 ms away, opens a session at its first attempt.
#[test]
fn an_address_with_valid_cookies_does_not_lock_out_another() {
    let mut pair = pair(Clients::Anyone);
    let (id, hello) = pair.hello();
    let Some(Datagram::Hello { suite, noise, .. }) = Datagram::parse(&hello) else { panic!("a Hello") };
    let noise = hello[noise].to_vec();
    let mut cookies: BTreeMap<u16, Token> = BTreeMap::new();
    let mut opens_at = Time::ZERO + Duration::from_secs(1);
    let round_trip = Duration::from_millis(200);
    // What is on the way between the server and the honest client: due then, to the server or not, and the datagram.
    let mut wire: VecDeque<(Time, bool, Vec<u8>)> = VecDeque::new();
    let honest: SocketAddr = "10.0.0.9:2000".parse().unwrap();
    let mut client = None;
    let mut confirmed_at = None;
    for step in 0..3 * 1200u64 {
        pair.now = Time::ZERO + Duration::from_micros(step * 833);
        let port = 1 + (step % 600) as u16;
        let from = SocketAddr::from(([10, 1, 1, 1], port));
        let cookie = cookies.get(&port).copied().unwrap_or_default();
        let datagram = datagram::hello(suite, Pattern::Ik, id.0, &cookie, &noise);
        plain(&mut pair.server, pair.now, from, &datagram);
        if opens_at <= pair.now {
            opens_at = Time::MAX;
            let (opened, hello) = pair.hello();
            client = Some(opened);
            wire.push_back((pair.now + round_trip / 2, true, hello));
        }
        while wire.front().is_some_and(|(at, ..)| *at <= pair.now) {
            let Some((_, to_server, datagram)) = wire.pop_front() else { break };
            let due = pair.now + round_trip / 2;
            if to_server {
                let Some((server, _)) = plain(&mut pair.server, pair.now, honest, &datagram) else { continue };
                let answer = seal(&mut pair.server, pair.now, server, DATA).unwrap();
                if pair.server.slot(server).is_some_and(|session| session.confirmed) {
                    confirmed_at.get_or_insert(pair.now);
                } else {
                    wire.push_back((due, false, answer));
                }
            } else if pair.at_client(&datagram).is_some() {
                wire.extend(seal(&mut pair.client, pair.now, client.unwrap(), DATA).map(|data| (due, true, data)));
            } else {
                wire.extend(pair.client.poll_transmit().map(|(_, hello)| (due, true, hello)));
            }
        }
        while let Some((to, datagram)) = pair.server.poll_transmit() {
            match Datagram::parse(&datagram) {
                Some(Datagram::Retry { cookie, .. }) if to.ip() == from.ip() => drop(cookies.insert(port, cookie)),
                _ if to == honest => wire.push_back((pair.now + round_trip / 2, false, datagram)),
                _ => {}
            }
        }
        while pair.server.poll_event().is_some() {}
    }
    let openers = pair.server.openers();
    assert!(openers.accepted > 1000 && openers.over_rate > 500, "no flood: {openers:?}");
    let took = confirmed_at.expect("a session").since(Time::ZERO + Duration::from_secs(1));
    assert!(took < Duration::from_millis(600), "{took:?}");
}

#[test]
fn a_network_leaves_places_for_sessions_of_others() {
    let mut pair = pair(Clients::Anyone);
    let mut opened = Vec::new();
    while let Some((_, server)) = open_from(&mut pair, &format!("10.1.1.1:{}", 1000 + opened.len())) {
        opened.push(server);
        pair.now += Duration::from_millis(10);
    }
    assert_eq!(opened.len(), 80, "of 100");
    assert_eq!(pair.server.openers().busy, 1);
    let refused = std::iter::from_fn(|| pair.server.poll_event()).last();
    assert!(matches!(refused, Some(Event::Refused(_, Some(_), Refusal::Busy))), "{refused:?}");
    assert!(open_from(&mut pair, "10.2.2.2:1000").is_some());
    opened.into_iter().take(5).for_each(|server| pair.server.discard(server));
    assert!(open_from(&mut pair, "10.1.1.1:999").is_some());
}

#[test]
fn a_listed_key_leaves_places_for_others_wherever_it_is() {
    let mut pair = pair(Clients::Listed(BTreeSet::from([key(2).public(), key(3).public()])));
    let mut opened = 0;
    while open_from(&mut pair, &format!("10.1.{opened}.1:1000")).is_some() {
        opened += 1;
        pair.now += Duration::from_millis(10);
    }
    assert_eq!(opened, 80, "of 100");
    pair.client = Sessions::new(Config::client(key(3)), Stream::from_seed(13));
    assert!(open_from(&mut pair, "10.1.1.1:1000").is_some());
}

#[test]
fn a_repeated_hello_needs_no_second_place() {
    let mut pair = pair(Clients::Listed(BTreeSet::from([key(2).public()])));
    pair.server.config.max_sessions = 1;
    let (client, hello) = pair.hello();
    let (server, _) = pair.at_server(&hello).unwrap();
    seal(&mut pair.client, pair.now, client, SYN);
    let again = Pair::only(&mut pair.client);
    assert_eq!(pair.at_server(&again), Some((server, SYN.to_vec())));
    pair.server.discard(server);
    assert!(open_from(&mut pair, "10.1.1.1:1000").is_some(), "its place has been given back once");
}

#[test]
fn forged_finishes_cost_a_limited_number_of_computations() {
    let mut pair = pair(Clients::Anyone);
    let client = pair.client.open(pair.now, pair.to, None).unwrap();
    let hello = Pair::only(&mut pair.client);
    pair.at_server(&hello);
    let answer = Pair::only(&mut pair.server);
    pair.at_client(&answer);
    let finish = seal(&mut pair.client, pair.now, client, SYN).unwrap();
    let Some(Datagram::Finish { noise, .. }) = Datagram::parse(&finish) else { panic!("a Finish") };
    let mut forged = finish.clone();
    forged[noise.end - 1] ^= 1;
    (0..2000).for_each(|_| drop(pair.at_server(&forged)));
    assert!(pair.server.openers().over_rate >= 1500, "{:?}", pair.server.openers());
    pair.now += Duration::from_secs(1);
    assert!(pair.at_server(&finish).is_some(), "the genuine one a second later");
}
