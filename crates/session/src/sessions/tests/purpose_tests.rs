//! What others say to a client in place of its server, and where they lead it.

use super::*;

#[test]
fn a_false_denial_does_not_end_an_attempt() {
    for why in [Denial::OtherKey, Denial::OtherService, Denial::OtherName] {
        let mut pair = pair(Clients::Anyone);
        let (client, hello) = pair.hello();
        pair.at_client(&datagram::refused(client.0, why));
        assert_eq!(pair.client.poll_event(), None);
        let (server, _) = pair.at_server(&hello).unwrap();
        let answer = seal(&mut pair.server, pair.now, server, DATA).unwrap();
        assert_eq!(pair.at_client(&answer), Some((client, DATA.to_vec())), "the right answer is read");
        pair.now += Duration::from_secs(60);
        pair.client.on_deadline(pair.now);
        assert_eq!(pair.client.poll_event(), None);
    }
}

#[test]
fn each_attempt_has_one_retry() {
    let mut pair = pair(Clients::Anyone);
    let (client, _) = pair.hello();
    for attempt in 0..3 {
        for forged in 0..1000u32 {
            let cookie = std::array::from_fn(|index| forged.to_be_bytes()[index % 4] ^ 7);
            pair.at_client(&datagram::retry(client.0, &cookie));
        }
        let hellos = std::iter::from_fn(|| pair.client.poll_transmit()).count();
        assert_eq!(hellos, if attempt == 0 { 1 } else { 2 }, "one, and that of the attempt");
        seal(&mut pair.client, pair.now, client, SYN);
    }
}

#[test]
fn a_client_is_not_led_to_another_service_or_server_of_the_key() {
    for (service, names, why) in
        [(2, None, Denial::OtherService), (1, Some(BTreeSet::from([Name::new("other:7267")])), Denial::OtherName)]
    {
        for known in [true, false] {
            let mut pair = pair(Clients::Anyone);
            let other = Purpose { service: Service(service), ..purpose() };
            let config = Config { purpose: other, names: names.clone(), ..server_config(Clients::Anyone) };
            pair.server = Sessions::new(config, Random::from_seed(11));
            let client = pair.client.open(pair.now, pair.to, known.then_some(pair.server.own_key())).unwrap();
            if known {
                seal(&mut pair.client, pair.now, client, SYN);
            }
            let hello = Pair::only(&mut pair.client);
            assert_eq!(pair.at_server(&hello), None);
            assert!(pair.server.is_empty());
            let denial = Pair::only(&mut pair.server);
            pair.at_client(&denial);
            pair.now += Duration::from_secs(10);
            pair.client.on_deadline(pair.now);
            assert_eq!(pair.client.poll_event(), Some(Event::Denied(client, why)));
            // Somebody between them changes what is asked for, which the handshake is bound to.
            let mut changed = hello.clone();
            changed[3] = service;
            changed[4..20].copy_from_slice(&Name::new("other:7267").0);
            assert_eq!(pair.at_server(&changed), None);
            let answer = Pair::only(&mut pair.server);
            pair.at_client(&answer);
            assert_eq!(pair.client.poll_event(), None, "no key is shown");
        }
    }
}

#[test]
fn refusals_of_handshakes_that_are_not_read_are_few() {
    let mut server = server(Clients::Anyone);
    let other = Purpose { service: Service(2), ..purpose() };
    let hello = datagram::hello(Suite::Aes256Gcm, datagram::Pattern::Ik, other, 5, &[0; 16], &[7; 96]);
    let mut answers = |from: &str, count| {
        (0..count).for_each(|_| drop(plain(&mut server, Time::ZERO, from.parse().unwrap(), &hello)));
        while server.poll_event().is_some() {}
        std::iter::from_fn(|| server.poll_transmit()).count()
    };
    assert_eq!(answers("10.1.1.1:1000", 10_000), 67, "a third of 200");
    assert_eq!(answers("10.2.2.2:1000", 1), 1, "another network");
}

#[test]
fn a_name_that_a_server_has_is_served() {
    let mut pair = pair(Clients::Anyone);
    let names = Some(BTreeSet::from([Name::new("Server:7267")]));
    pair.server = Sessions::new(Config { names, ..server_config(Clients::Anyone) }, Random::from_seed(11));
    pair.open();
}

#[test]
fn another_server_of_the_key_makes_no_resets() {
    let mut pair = pair(Clients::Anyone);
    let (client, _) = pair.open();
    let data = seal(&mut pair.client, pair.now, client, DATA).unwrap();
    let named = Some(BTreeSet::from([Name::new("other:7267")]));
    for (service, port, names) in [(2, 7267, None), (1, 7268, None), (1, 7267, named)] {
        let other = Purpose { service: Service(service), ..purpose() };
        let config = Config { purpose: other, port, names, ..server_config(Clients::Anyone) };
        let mut oracle = Sessions::new(config, Random::from_seed(11));
        plain(&mut oracle, pair.now, pair.from, &data);
        let reset = Pair::only(&mut oracle);
        pair.at_client(&reset);
        assert_eq!(pair.client.poll_event(), None, "service {service}, port {port}");
    }
}
