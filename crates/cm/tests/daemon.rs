//! Tests of the daemon: the effect of each call, the state that clients share, and misbehaving clients.

mod common;

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{LONG, Running, granted, options, transfer};
use rampmeter_cm::daemon::{Daemon, DaemonError, Limits, status};
use rampmeter_cm::{Client, Error, Event, Feedback, Id, Macroflow, Options, Share, Thresholds};
use rampmeter_units::{Bytes, Duration};

const RTT: Duration = Duration::from_millis(10);

fn there() -> SocketAddr {
    "127.0.0.1:9".parse().unwrap()
}

fn elsewhere() -> SocketAddr {
    "127.0.0.2:9".parse().unwrap()
}

fn opened(client: &Client) -> rampmeter_cm::Id {
    client.open(there(), &Options::default()).unwrap()
}

#[test]
fn a_second_process_starts_at_the_rate_that_the_first_one_found() {
    let running = Running::new();
    let (first, second) = (running.client(), running.client());
    let flow = opened(&first);
    transfer(&first, flow, 300, RTT);
    let known = first.query(flow).unwrap();
    let same = second.open(there(), &Options::default()).unwrap();
    let other = second.open(elsewhere(), &Options::default()).unwrap();
    assert_eq!(second.query(same), Ok(known), "the first one is idle");
    assert!(second.query(other).unwrap().rate < known.rate.scale(0.1));
    let macroflows = status(&running.path()).unwrap().macroflows;
    assert_eq!(macroflows.iter().map(|macroflow| macroflow.flows).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn flows_get_an_update_when_their_share_changes() {
    let running = Running::new();
    let client = running.client();
    let flow = opened(&client);
    client.thresholds(flow, &Thresholds { down: 0.8, up: 1.2 }).unwrap();
    let before = client.query(flow).unwrap().rate;
    client.request(flow).unwrap();
    loop {
        match client.next(LONG).unwrap().unwrap().1 {
            Event::Send { bytes } => client.notify(flow, bytes.into()).unwrap(),
            Event::Update(path) => {
                assert!(path.rate > before);
                return;
            }
            other => panic!("{other:?}"),
        }
        let feedback = Feedback { received: Bytes::new(1472), rtt: Some(RTT), ..Feedback::default() };
        client.update(flow, &feedback).unwrap();
        client.request(flow).unwrap();
    }
}

#[test]
fn a_program_puts_its_flows_into_a_macroflow_of_choice() {
    let running = Running::new();
    let (client, other) = (running.client(), running.client());
    let (flow, second, far) =
        (opened(&client), opened(&client), client.open(elsewhere(), &Options::default()).unwrap());
    for _ in 0..5 {
        client.notify(flow, 50_000).unwrap();
        let feedback = Feedback { received: Bytes::new(50_000), rtt: Some(RTT), ..Feedback::default() };
        client.update(flow, &feedback).unwrap();
    }
    let known = client.query(flow).unwrap();
    client.set_macroflow(flow, Macroflow::New).unwrap();
    let fresh = client.query(flow).unwrap();
    assert!(fresh.rate < known.rate.scale(0.2) && fresh.srtt == RTT, "{fresh:?} instead of {known:?}");
    assert_eq!(client.query(second), Ok(known));
    client.set_macroflow(second, Macroflow::Of(flow)).unwrap();
    assert_eq!(client.query(second), Ok(fresh));
    let sizes = || {
        let all = status(&running.path()).unwrap().macroflows;
        all.iter().map(|macroflow| macroflow.flows).collect::<Vec<_>>()
    };
    assert_eq!(sizes(), [2, 1]);
    let third = opened(&other);
    let mut all = sizes();
    all.sort_unstable();
    assert_eq!(all, [1, 1, 2], "later flows do not join it");
    transfer(&client, second, 20, RTT);
    transfer(&other, third, 20, RTT);
    client.set_macroflow(second, Macroflow::Default).unwrap();
    assert_eq!(client.query(second).map(|state| state.rate), other.query(third).map(|state| state.rate));

    assert_eq!(client.set_macroflow(flow, Macroflow::Of(far)), Err(Error::OtherDestination));
    assert_eq!(other.set_macroflow(third, Macroflow::Of(flow)), Err(Error::Unknown), "of another process");
    assert_eq!(other.set_macroflow(flow, Macroflow::New), Err(Error::Unknown));
    client.close(second).unwrap();
    assert_eq!(client.set_macroflow(flow, Macroflow::Of(second)), Err(Error::Closed));
    client.notify(flow, 1000).unwrap();
    client.set_macroflow(flow, Macroflow::Default).unwrap();
    client.notify(flow, 1000).unwrap();
    assert_eq!(client.set_macroflow(flow, Macroflow::New), Err(Error::StillInFlight));
    client.update(flow, &Feedback { received: Bytes::new(1000), rtt: Some(RTT), ..Feedback::default() }).unwrap();
    assert_eq!(client.set_macroflow(flow, Macroflow::New), Ok(()));
}

#[test]
fn unanswered_grants_go_to_other_flows() {
    let grant_timeout = Duration::from_millis(30);
    let running = Running::with(Limits { grant_timeout, ..Limits::default() });
    let (unresponsive, client) = (running.client(), running.client());
    let (unresponsive_flow, flow) = (opened(&unresponsive), opened(&client));
    transfer(&client, flow, 1, Duration::from_millis(1));
    (0..200).for_each(|_| unresponsive.request(unresponsive_flow).unwrap());
    granted(&unresponsive);
    client.request(flow).unwrap();
    granted(&client);
    let closed = loop {
        if let Event::Closed(error) = unresponsive.next(LONG).unwrap().unwrap().1 {
            break error;
        }
    };
    assert_eq!(closed, Error::Unanswered);
    assert_eq!(unresponsive.request(unresponsive_flow), Err(Error::Unanswered));
    unresponsive.close(unresponsive_flow).unwrap();
    assert_eq!(unresponsive.request(unresponsive_flow), Err(Error::Closed));
    assert!(unresponsive.open(there(), &Options::default()).is_ok());
}

#[test]
fn every_misuse_has_its_own_error() {
    let running = Running::new();
    let client = running.client();
    let flow = opened(&client);
    let other = running.client();
    assert_eq!(other.request(flow), Err(Error::Unknown), "ids are valid for one client");
    assert_eq!(client.request(Id::from_c(i32::MAX).unwrap()), Err(Error::Unknown));
    assert_eq!(Id::from_c(-1), None);
    assert_eq!(client.share(flow, Share { weight: -1.0, ..Share::default() }), Err(Error::Invalid));
    assert_eq!(client.thresholds(flow, &Thresholds { down: 2.0, up: 1.0 }), Err(Error::Invalid));
    assert_eq!(client.notify(flow, u64::MAX), Err(Error::TooLarge));
    assert_eq!(
        client.update(flow, &Feedback { rtt: Some(Duration::ZERO), ..Feedback::default() }),
        Err(Error::Invalid)
    );
    assert_eq!(client.send(flow, &[0; 1473]), Err(Error::TooLarge));
    let portless = client.open("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
    assert_eq!(client.send(portless, &[0]), Err(Error::Destination));
    assert_eq!(client.open("224.0.0.1:9".parse().unwrap(), &Options::default()), Err(Error::Destination));
    client.close(flow).unwrap();
    for result in [client.request(flow), client.notify(flow, 1), client.query(flow).map(drop), client.close(flow)] {
        assert_eq!(result, Err(Error::Closed));
    }
    assert_eq!((0..1000).find_map(|_| client.request(portless).err()), Some(Error::Full));
    assert_eq!(Client::connect_to("/nowhere/cm.sock".as_ref()).unwrap_err(), Error::NoDaemon);
}

#[test]
fn queued_data_arrives_in_order_and_the_queue_is_bounded() {
    let running = Running::new();
    let client = running.client();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let flow = client.open(receiver.local_addr().unwrap(), &Options::default()).unwrap();
    let mut sent = 0_u32;
    // The window has room for few of them, so the others wait.
    let full = loop {
        match client.send(flow, &[sent.to_be_bytes().as_slice(), &[0; 1000]].concat()) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 1000);
    };
    assert_eq!(full, Error::Full);
    let mut bytes = [0; 2000];
    for expected in 0..sent {
        assert_eq!(receiver.recv(&mut bytes).unwrap(), 1004);
        assert_eq!(bytes[..4], expected.to_be_bytes());
        let feedback = Feedback { received: Bytes::new(1004), rtt: Some(RTT), ..Feedback::default() };
        client.update(flow, &feedback).unwrap();
    }
    assert!(std::iter::from_fn(|| client.next(LONG).unwrap()).any(|(_, event)| event == Event::Room));
    client.send(flow, b"room again").unwrap();
}

#[test]
fn many_threads_use_one_client() {
    const THREADS: usize = 8;
    const EACH: usize = 150;
    let running = Running::new();
    let client = running.client();
    let grants = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (client, grants) = (client.clone(), &grants);
            scope.spawn(move || {
                let flow = client.open(([127, 0, 0, 1 + thread as u8], 9).into(), &Options::default()).unwrap();
                for n in 0..EACH {
                    while client.request(flow).is_err() {
                        std::thread::yield_now();
                    }
                    if n % 10 == 0 {
                        client.query(flow).unwrap();
                    }
                    // Events of any thread's flow.
                    while let Some((flow, event)) = client.next(Some(Duration::ZERO)).unwrap() {
                        if let Event::Send { .. } = event {
                            client.notify(flow, 0).unwrap();
                            grants.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    while grants.load(Ordering::Relaxed) < THREADS * EACH {
        let (flow, _) = granted(&client);
        client.notify(flow, 0).unwrap();
        grants.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(client.next(Some(Duration::from_millis(20))), Ok(None), "one grant a request");
}

#[test]
fn a_program_can_poll_for_events_in_its_own_loop() {
    let running = Running::new();
    let client = running.client();
    let flow = opened(&client);
    let file = client.file().unwrap();
    let ready = |wait: u16| {
        let mut files = [nix::poll::PollFd::new(file, nix::poll::PollFlags::POLLIN)];
        nix::poll::poll(&mut files, nix::poll::PollTimeout::from(wait)).unwrap() > 0
    };
    while client.next(Some(Duration::ZERO)).unwrap().is_some() {}
    assert!(!ready(0));
    for _ in 0..20 {
        client.request(flow).unwrap();
        assert!(ready(20_000));
        let (_, event) = client.next(Some(Duration::ZERO)).unwrap().unwrap();
        assert!(matches!(event, Event::Send { .. }));
        client.notify(flow, 0).unwrap();
        assert_eq!(client.next(Some(Duration::ZERO)), Ok(None));
        assert!(!ready(0));
    }
    // No event is lost that comes before or after the answer to a request.
    let requests: [fn(&Client, Id); 3] = [
        |client, flow| assert!(client.query(flow).is_ok()),
        |client, _| assert!(client.mtu(opened(client)).is_ok()),
        |client, _| client.listen(5000).unwrap(),
    ];
    for pause in [0, 20] {
        for request in requests {
            client.request(flow).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(pause));
            request(&client, flow);
            assert!(ready(20_000));
            let (flow, _) = granted(&client);
            client.notify(flow, 0).unwrap();
            request(&client, flow);
            client.request(flow).unwrap();
            assert!(ready(20_000));
            let (flow, _) = granted(&client);
            client.notify(flow, 0).unwrap();
        }
    }
}

#[test]
fn ending_the_connection_ends_it_for_all_clones() {
    let running = Running::new();
    let client = running.client();
    let flow = opened(&client);
    let file = client.file().unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || client.next(None))
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(20));
    client.disconnect();
    for thread in waiting {
        assert_eq!(thread.join().unwrap(), Err(Error::Disconnected));
    }
    assert_eq!(client.request(flow), Err(Error::Disconnected));
    let mut files = [nix::poll::PollFd::new(file, nix::poll::PollFlags::POLLIN)];
    assert_eq!(nix::poll::poll(&mut files, nix::poll::PollTimeout::ZERO), Ok(1));
    let all_ended = || status(&running.path()).unwrap().macroflows.is_empty();
    while !all_ended() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn clients_see_the_end_of_the_daemon_and_can_reconnect() {
    let mut running = Running::new();
    let client = running.client();
    let flow = opened(&client);
    let waiting = {
        let client = client.clone();
        std::thread::spawn(move || client.next(LONG))
    };
    running.stop();
    assert_eq!(waiting.join().unwrap(), Err(Error::Disconnected));
    assert_eq!(client.request(flow), Err(Error::Disconnected));
    assert_eq!(Client::connect_to(&running.path()).unwrap_err(), Error::NoDaemon);
    running.start(Limits::default());
    let again = running.client();
    assert_eq!(again.request(flow), Err(Error::Unknown), "old ids are invalid in the new connection");
    let flow = opened(&again);
    again.request(flow).unwrap();
    granted(&again);
}

#[test]
fn one_daemon_listens_per_socket_and_other_protocols_fail() {
    let running = Running::new();
    let second = Daemon::bind(options(&running.path(), Limits::default(), &Arc::default()));
    assert!(matches!(second, Err(DaemonError::Running(_))), "{second:?}");
    let mut other = UnixStream::connect(running.path()).unwrap();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let idle = UnixStream::connect(running.path()).unwrap();
    let client = running.client();
    let flow = opened(&client);
    client.request(flow).unwrap();
    granted(&client);
    drop(idle);
    let wrong = options(&running.path(), Limits::default(), &Arc::default());
    let wrong = Daemon::bind(rampmeter_cm::daemon::Options { controller: "renno".into(), ..wrong });
    assert!(wrong.unwrap_err().to_string().contains("did you mean `reno`?"));
}
