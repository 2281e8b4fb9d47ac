//! What clients of one owner cannot take from those of another.

use super::*;

/// Two owners' clients, each with a flow to the same destination, of which client 1 has these shares and requests.
fn of_two_owners(share: Share) -> Host {
    let mut host = host();
    for client in [1, 2] {
        host.add_client(client, Owner(client));
        let share = if client == 1 { share } else { Share::default() };
        host.open(at(0), client, A, "192.0.2.1:1000".parse().unwrap(), share, MTU).unwrap();
    }
    notices(&mut host);
    host
}

/// The number of grants that client 2 gets in 200 round trips of 20 ms, while client 1 does what `other` says.
fn grants_of_the_second(host: &mut Host, mut other: impl FnMut(&mut Host, Time)) -> usize {
    let mut all = 0;
    for round in 1..=200 {
        let now = at(round * 20);
        other(host, now);
        (0..50).for_each(|_| host.command(now, 2, A, Command::Request, Vec::new()));
        host.advance(now);
        let is_second =
            |action: &Action| matches!(action, Action::Notify { client: 2, notice: Notice::Grant { .. }, .. });
        let grants = std::iter::from_fn(|| host.poll_action()).filter(is_second).count();
        (0..grants).for_each(|_| host.command(now, 2, A, Command::Notify { sent: MTU, tag: None }, Vec::new()));
        host.command(now, 2, A, delivered(grants as u64), Vec::new());
        all += grants;
    }
    all
}

/// What an attack is called, the share of its flow, and what its client does in each round trip.
type Attack<'a> = (&'a str, Share, &'a dyn Fn(&mut Host, Time));

#[test]
fn owners_cannot_take_rate_from_each_other() {
    let alone = grants_of_the_second(&mut of_two_owners(Share::default()), |_, _| ());
    assert!(alone > 9000, "{alone}");
    let command = |host: &mut Host, now, command| host.command(now, 1, A, command, Vec::new());
    let lost = Feedback { lost: MTU, mode: Some(LossMode::Persistent), ..Feedback::default() };
    let heavy = Share { weight: 1e6, ..Share::default() };
    let attacks: [Attack<'_>; 4] = [
        ("losses of packets never sent", Share::default(), &|host, now| command(host, now, Command::Update(lost))),
        ("losses that never happened", Share::default(), &|host, now| {
            command(host, now, Command::Notify { sent: MTU, tag: None });
            command(host, now, Command::Update(lost));
        }),
        ("packets never sent", Share::default(), &|host, now| {
            (0..50).for_each(|_| command(host, now, Command::Notify { sent: Bytes::new(65_507), tag: None }));
        }),
        ("a weight of a million", heavy, &|host, now| (0..60).for_each(|_| command(host, now, Command::Request))),
    ];
    for (attack, share, other) in attacks {
        assert_eq!(grants_of_the_second(&mut of_two_owners(share), other), alone, "{attack}");
    }
}

#[test]
fn losses_without_packets_change_nothing() {
    let mut host = host();
    open(&mut host, at(0), A, "192.0.2.1:0");
    open(&mut host, at(0), B, "192.0.2.1:0");
    for round in 0..100 {
        let now = at(round * 20);
        request(&mut host, now, A, 20);
        let granted = grants(&mut host, now).len();
        (0..granted).for_each(|_| send(&mut host, now, A, Command::Notify { sent: MTU, tag: None }));
        send(&mut host, now, A, delivered(granted as u64));
        for mode in [LossMode::Persistent, LossMode::Transient, LossMode::Ecn] {
            let feedback = Feedback { lost: MTU * 9, mode: Some(mode), ..Feedback::default() };
            send(&mut host, now, B, Command::Update(feedback));
        }
        assert!(round == 0 || granted >= 20, "{granted} in round {round}");
    }
}

#[test]
fn an_owner_cannot_take_all_flows_or_all_memory() {
    let mut host = host();
    let to = |n: u32| SocketAddr::from(([10, 0, 0, 1], 1000 + n as u16));
    let flows = |host: &mut Host, clients: std::ops::Range<u32>, owner: u32| {
        let mut opened = 0;
        for client in clients {
            host.add_client(client, Owner(owner));
            for slot in 1..limits::MAX_FLOWS as u32 {
                host.open(at(0), client, limits::MAX_FLOWS as u32 + slot, to(0), Share::default(), MTU).unwrap();
            }
            opened += notices(host).into_iter().filter(|(_, n)| matches!(n, Notice::Opened { .. })).count();
        }
        opened as u64
    };
    assert_eq!(flows(&mut host, 0..2, 1), limits::MAX_ALL_FLOWS * 4 / 5);
    let second = flows(&mut host, 2..3, 2);
    assert_eq!(second, limits::MAX_ALL_FLOWS.div_ceil(5) * 4 / 5, "four fifths of the rest");
    (0..2).for_each(|client| host.remove_client(at(0), client));
    assert_eq!(host.flows().count() as u64, second);
    assert_eq!(flows(&mut host, 3..4, 3), limits::MAX_FLOWS as u64 - 1, "as many as a process may have");
    (2..4).for_each(|client| host.remove_client(at(0), client));

    // Datagrams of 1000 bytes to hosts that report nothing.
    let queued = |host: &mut Host, client: u32| {
        host.add_client(client, Owner(client));
        for flow in 1..400 {
            host.open(at(0), client, limits::MAX_FLOWS as u32 + flow, to(flow), Share::default(), MTU).unwrap();
            for _ in 0..256 {
                let send = Command::Send { length: 1000 };
                host.command(at(0), client, limits::MAX_FLOWS as u32 + flow, send, vec![0; 1000]);
            }
        }
        while host.poll_action().is_some() {}
        host.flows().filter(|flow| flow.client == client).map(|flow| flow.queued).sum::<u64>()
    };
    let first = queued(&mut host, 1000);
    assert!(first > limits::MAX_ALL_QUEUED / 10 * 7 && first <= limits::MAX_ALL_QUEUED / 5 * 4, "{first}");
    let second = queued(&mut host, 1001);
    assert!(second > limits::MAX_ALL_QUEUED / 10 && second < limits::MAX_ALL_QUEUED / 5, "{second}");
    host.remove_client(at(1), 1000);
    assert!(queued(&mut host, 1002) > second);
}
