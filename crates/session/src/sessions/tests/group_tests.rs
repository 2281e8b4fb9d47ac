//! Hosts that share a port and limits.

use super::*;
use crate::group::owner;

/// A client with the first of two servers, and the second.
fn pair_of_two() -> (Pair, Sessions) {
    let mut pair = pair(Clients::Anyone);
    let mut members = Member::group(2)
        .into_iter()
        .map(|member| Sessions::of_member(member, server_config(Clients::Anyone), Random::from_seed(11)));
    pair.server = members.next().unwrap();
    (pair, members.next().unwrap())
}

#[test]
fn an_address_leaves_places_at_all_members() {
    let (mut pair, mut other) = pair_of_two();
    let mut opened = 0;
    while open_from(&mut pair, &format!("10.1.1.1:{}", 1000 + opened)).is_some() {
        opened += 1;
        pair.now += Duration::from_millis(10);
        std::mem::swap(&mut pair.server, &mut other);
    }
    assert_eq!((opened, pair.server.len(), other.len()), (64, 32, 32), "of 100");
    for address in ["10.1.1.2:1", "10.2.2.2:1", "10.3.3.3:1"] {
        assert!(open_from(&mut pair, address).is_some());
        std::mem::swap(&mut pair.server, &mut other);
    }
    let id = other.slots.iter().flatten().next().unwrap().id;
    other.discard(id);
    assert_eq!(pair.server.member.shared().sessions, 66);
}

#[test]
fn handshakes_at_one_member_count_at_the_others() {
    let (mut pair, other) = pair_of_two();
    let ip = pair.from.ip();
    let mut shared = other.member.shared();
    while shared.hellos.take(pair.now, ip) || shared.hellos_with_cookie.take(pair.now, ip) {}
    drop(shared);
    let (_, hello) = pair.hello();
    pair.at_server(&hello);
    let retry = Pair::only(&mut pair.server);
    assert!(matches!(Datagram::parse(&retry), Some(Datagram::Retry { .. })));
    pair.at_client(&retry);
    let hello = Pair::only(&mut pair.client);
    assert_eq!((pair.at_server(&hello), pair.server.openers().over_rate), (None, 1));
    pair.now += Duration::from_secs(1);
    assert!(pair.at_server(&hello).is_some());
}

#[test]
fn one_member_only_resets_a_session_from_before_a_restart() {
    for members in [1, 2, 3] {
        for id in 1000..1006u64 {
            let sealed = [&sealed_header(id, 0)[..], &[0; 100]].concat();
            let resets = Member::group(members).into_iter().map(|member| {
                let config = server_config(Clients::Anyone);
                let mut sessions = Sessions::of_member(member, config, Random::from_seed(1));
                plain(&mut sessions, Time::ZERO, "10.0.0.2:1".parse().unwrap(), &sealed);
                sessions.poll_transmit().is_some()
            });
            let resets: Vec<bool> = resets.collect();
            assert_eq!(resets.iter().filter(|reset| **reset).count(), 1);
            assert_eq!(resets.iter().position(|reset| *reset), owner(&sealed, members), "the one that gets it");
        }
    }
}
