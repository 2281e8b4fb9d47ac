//! Other keys for open sessions.

use super::*;
use crate::handshake::{Handshake, renewal_prologue};

/// A packet in each direction, and what the sessions send themselves, but for the first `lost` of it.
fn exchange(pair: &mut Pair, client: SessionId, server: SessionId, lost: &mut usize) {
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    assert_eq!(pair.at_server(&data), Some((server, DATA.to_vec())));
    let data = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    assert_eq!(pair.at_client(&data), Some((client, DATA.to_vec())));
    carry(pair, lost);
}

/// Carries what the sessions send themselves, but for the first `lost` of it.
fn carry(pair: &mut Pair, lost: &mut usize) {
    loop {
        let (up, down) = (pair.client.poll_transmit(), pair.server.poll_transmit());
        if up.is_none() && down.is_none() {
            break;
        }
        for (datagram, to_server) in [(up, true), (down, false)] {
            let Some((_, datagram)) = datagram else { continue };
            if *lost > 0 {
                *lost -= 1;
            } else if to_server {
                assert_eq!(pair.at_server(&datagram), None);
            } else {
                assert_eq!(pair.at_client(&datagram), None);
            }
        }
    }
}

#[test]
fn a_session_has_keys_of_another_handshake_every_two_minutes() {
    for lost in [0, 1, 2] {
        let mut pair = pair(Clients::Anyone);
        let (client, server) = pair.open();
        let number = |sessions: &Sessions, id| match &sessions.slot(id).unwrap().stage {
            Stage::Open(sealer, _) => sealer.next() >> 22,
            _ => panic!("not open"),
        };
        for round in 1..4 {
            let mut left = lost;
            for _ in 0..130 {
                pair.now += Duration::from_secs(1);
                exchange(&mut pair, client, server, &mut left);
            }
            assert_eq!((number(&pair.client, client), number(&pair.server, server)), (round, round), "lost {lost}");
        }
    }
}

/// Somebody on the path drops all that renews the keys, and then lets it pass.
#[test]
fn keys_of_three_minutes_seal_and_open_nothing() {
    let mut pair = pair(Clients::Anyone);
    let (client, server) = pair.open();
    pair.now += Duration::from_secs(179);
    let up = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    let down = seal(&mut pair.server, pair.now, server, DATA).unwrap();
    while pair.client.poll_transmit().is_some() {}
    pair.now += Duration::from_secs(1);
    assert_eq!((pair.at_server(&up), pair.at_client(&down)), (None, None));
    assert_eq!(seal(&mut pair.client, pair.now, client, DATA), None);
    assert_eq!(seal(&mut pair.server, pair.now, server, DATA), None);
    assert_eq!(pair.server.silence(pair.now, server), Some(Duration::from_secs(180)));
    carry(&mut pair, &mut 0);
    exchange(&mut pair, client, server, &mut 0);
}

#[test]
fn a_responder_alone_sends_again_after_a_long_pause() {
    for mut lost in 0..3 {
        let mut pair = pair(Clients::Anyone);
        let (_, server) = pair.open();
        pair.now += Duration::from_secs(1000);
        let sent = (0..5).find_map(|_| {
            let sealed = seal(&mut pair.server, pair.now, server, DATA);
            carry(&mut pair, &mut lost);
            pair.now += Duration::from_secs(1);
            sealed
        });
        assert!(pair.at_client(&sent.unwrap()).is_some(), "{lost} lost");
    }
}

#[test]
fn only_the_key_of_the_session_renews_it() {
    let mut pair = pair(Clients::Anyone);
    let (client, server) = pair.open();
    pair.now += Duration::from_secs(130);
    let prologue = renewal_prologue(client.0, server.0);
    let mut random = Random::from_seed(5);
    let of = Some(pair.server.own_key());
    let mut thief = Handshake::initiator(Suite::Aes256Gcm, &prologue, &key(9), of, &mut random).unwrap();
    let message = thief.write(&[]).unwrap().try_into().unwrap();
    let forged = pair.client.slot_mut(client).unwrap().seal_frame(Frame::Renewal(message)).unwrap();
    assert_eq!(pair.at_server(&forged), None);
    assert_eq!(pair.server.poll_transmit(), None);
    exchange(&mut pair, client, server, &mut 0);
}

#[test]
fn a_forged_answer_does_not_end_the_renewal() {
    let mut pair = pair(Clients::Anyone);
    let (client, server) = pair.open();
    pair.now += Duration::from_secs(130);
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    assert_eq!(pair.at_server(&data), Some((server, DATA.to_vec())));
    while pair.client.poll_transmit().is_some() {} // what asks for other keys is lost
    assert!(pair.client.slot(client).unwrap().renewal.asked.is_some());
    let forged = pair
        .server
        .slot_mut(server)
        .unwrap()
        .seal_frame(Frame::Renewed([0; size_of::<crate::frame::Renewed>()]))
        .unwrap();
    assert_eq!(pair.at_client(&forged), None);
    for _ in 0..3 {
        pair.now += Duration::from_secs(1);
        exchange(&mut pair, client, server, &mut 0);
    }
    let Stage::Open(sealer, _) = &pair.client.slot(client).unwrap().stage else { panic!("not open") };
    assert_eq!(sealer.next() >> 22, 1);
}
