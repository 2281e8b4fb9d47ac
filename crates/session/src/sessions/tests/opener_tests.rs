//! What openers cost a server, and how many places they take: floods, cookies, forged handshakes, shares.

use super::*;
use crate::datagram::{Pattern, Token};

#[test]
fn a_flood_of_hellos_gets_cookies_and_less_than_it_sent() {
    let mut pair = pair(Clients::Anyone);
    let (_, hello) = pair.hello();
    let (mut sent, mut answered) = (0, 0);
    for port in 1..1000 {
        let from = SocketAddr::from(([10, 1, 1, 1], port));
        plain(&mut pair.server, pair.now, from, &hello);
        sent += hello.len();
        while let Some((to, datagram)) = pair.server.poll_transmit() {
            assert_eq!(to.remote, from);
            answered += datagram.len();
        }
        assert_eq!(pair.server.poll_event(), None);
    }
    assert!(answered * 20 < sent, "{answered} bytes for {sent}");
    assert_eq!(pair.server.len(), 6, "the others need a cookie");

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
    let with = |cookie: &Token| datagram::hello(suite, Pattern::Ik, purpose(), id.0, cookie, &hello[noise.clone()]);
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

/// Twelve hundred `Hello`s a second come from 10.1.1.1, which has a valid cookie for each of its ports. `honest`,
/// 200 ms away, opens a session at its first attempt.
fn opens_beside_a_flood(honest: &str) {
    let honest: SocketAddr = honest.parse().unwrap();
    let mut pair = pair(Clients::Anyone);
    let (id, hello) = pair.hello();
    let Some(Datagram::Hello { suite, noise, .. }) = Datagram::parse(&hello) else { panic!("a Hello") };
    let noise = hello[noise].to_vec();
    let mut cookies: BTreeMap<u16, Token> = BTreeMap::new();
    let mut opens_at = Time::ZERO + Duration::from_secs(1);
    let round_trip = Duration::from_millis(200);
    // What is on the way between the server and the honest client: due then, to the server or not, and the datagram.
    let mut wire: VecDeque<(Time, bool, Vec<u8>)> = VecDeque::new();
    let mut client = None;
    let mut confirmed_at = None;
    for step in 0..3 * 1200u64 {
        pair.now = Time::ZERO + Duration::from_micros(step * 833);
        let port = 1 + (step % 600) as u16;
        let from = SocketAddr::from(([10, 1, 1, 1], port));
        let cookie = cookies.get(&port).copied().unwrap_or_default();
        let datagram = datagram::hello(suite, Pattern::Ik, purpose(), id.0, &cookie, &noise);
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
                Some(Datagram::Retry { cookie, .. }) if to.remote.ip() == from.ip() => {
                    cookies.insert(port, cookie);
                }
                _ if to.remote == honest => wire.push_back((pair.now + round_trip / 2, false, datagram)),
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
fn an_address_with_valid_cookies_does_not_lock_out_another() {
    opens_beside_a_flood("10.0.0.9:2000");
}

#[test]
fn an_address_with_valid_cookies_does_not_lock_out_a_neighbor() {
    opens_beside_a_flood("10.1.1.2:2000");
}

#[test]
fn an_address_leaves_places_for_sessions_of_others() {
    let mut pair = pair(Clients::Anyone);
    let mut opened = Vec::new();
    while let Some((_, server)) = open_from(&mut pair, &format!("10.1.1.1:{}", 1000 + opened.len())) {
        opened.push(server);
        pair.now += Duration::from_millis(10);
    }
    assert_eq!(opened.len(), 64, "of 100");
    assert_eq!(pair.server.openers().busy, 1);
    let refused = std::iter::from_fn(|| pair.server.poll_event()).last();
    assert!(matches!(refused, Some(Event::Refused(_, Some(_), Refusal::Busy))), "{refused:?}");
    for address in ["10.1.1.2:1000", "10.2.2.2:1000"] {
        assert!(open_from(&mut pair, address).is_some(), "{address}");
    }
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
    assert_eq!(opened, 64, "of 100");
    pair.client = Sessions::new(Config::client(key(3), purpose()), Random::from_seed(13));
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

#[test]
fn only_a_proven_address_changes_where_answers_leave() {
    let mut pair = pair(Clients::Anyone);
    let [asked, other] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().ok());
    let (first, moved) = (pair.from, "10.0.0.3:99".parse().unwrap());
    let (client, mut hello) = pair.hello();
    let opened = pair.server.receive(pair.now, Route { local: asked, remote: first }, &mut hello).unwrap();
    let leaves = |pair: &mut Pair| pair.server.seal(pair.now, opened.session, &mut Vec::new(), |_| true).unwrap();
    let answer = seal(&mut pair.server, pair.now, opened.session, DATA).unwrap();
    pair.at_client(&answer).unwrap();
    for remote in [first, moved] {
        let mut data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
        pair.server.receive(pair.now, Route { local: other, remote }, &mut data).unwrap();
        assert_eq!(leaves(&mut pair), Route { local: asked, remote: first }, "a client may write any address");
    }
    let (to, challenge) = pair.server.poll_transmit().unwrap();
    assert_eq!(to, Route { local: other, remote: moved });
    pair.at_client(&challenge);
    let mut response = Pair::only(&mut pair.client);
    pair.server.receive(pair.now, to, &mut response);
    assert_eq!(leaves(&mut pair), to);
}
