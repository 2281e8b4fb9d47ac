//! A client with a daemon whose reads and writes are controlled by the test.

use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::{sleep, spawn};
use std::time::Duration as Span;

use rampmeter_units::Rate;

use super::*;
use crate::data::Reader;
use crate::handshake::{read_request, send_answer};
use crate::layout::{COMMANDS, EVENTS, SLOTS};
use crate::message::{Command, Notice};
use crate::ring::{Consumer, Producer};

struct Daemon {
    commands: Consumer,
    notices: Producer,
    data: Reader,
    wakeup: Wakeup,
}

impl Daemon {
    fn new(mut socket: UnixStream) -> Self {
        assert_eq!(read_request(&mut socket), Ok(ClientRequest::Connect));
        let (file, memory) = Memory::create(WORDS).unwrap();
        let memory = Arc::new(memory);
        send_answer(&socket, Ok(Some(&file))).unwrap();
        Self {
            commands: Consumer::new(Arc::clone(&memory), COMMANDS),
            notices: Producer::new(Arc::clone(&memory), EVENTS),
            data: Reader::new(Arc::clone(&memory)),
            wakeup: Wakeup::of_daemon(memory, socket),
        }
    }

    /// The next command and its data.
    fn take(&mut self) -> Option<(u32, Command, Vec<u8>)> {
        let (id, command) = Command::decode(&self.commands.pop().unwrap()?).unwrap();
        let length = if let Command::Send { length } = command { length } else { 0 };
        Some((id, command, self.data.read(length as usize).unwrap()))
    }

    fn send(&mut self, id: u32, notice: Notice) {
        assert_eq!(self.notices.push(&notice.encode(id)), Ok(true));
        self.wakeup.notify();
    }
}

/// A client with `flows` flows, and its daemon.
fn connected(flows: usize) -> (Client, Vec<Id>, Daemon) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cm.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let daemon = spawn(move || Daemon::new(listener.accept().unwrap().0));
    let client = Client::connect_to(&path).unwrap();
    let mut daemon = daemon.join().unwrap();
    let ids = (0..flows).map(|_| {
        let opening = {
            let client = client.clone();
            spawn(move || client.open(([192, 0, 2, 1], 9).into(), &Options::default()).unwrap())
        };
        let id = loop {
            match daemon.take() {
                Some((id, Command::Open { .. }, _)) => break id,
                Some(other) => panic!("{other:?}"),
                None => daemon.wakeup.prepare_sleep(),
            }
        };
        daemon.send(id, Notice::Opened { mtu: 1472, state: PathState::default() });
        opening.join().unwrap()
    });
    let ids = ids.collect();
    (client, ids, daemon)
}

type Call = fn(&Client, Id) -> Result<(), Error>;

fn fill(client: &Client, flow: Id) {
    (0..SLOTS).for_each(|_| client.notify(flow, 0).unwrap());
}

#[test]
fn datagrams_reach_their_flow_while_threads_wait_for_room() {
    const EACH: usize = 200;
    let (client, flows, mut daemon) = connected(8);
    fill(&client, flows[0]);
    let senders: Vec<_> = flows
        .iter()
        .map(|&flow| {
            let client = client.clone();
            spawn(move || (0..EACH).for_each(|_| client.send(flow, &flow.0.to_ne_bytes()).unwrap()))
        })
        .collect();
    let mut arrived = 0;
    while arrived < EACH * flows.len() {
        match daemon.take() {
            Some((id, Command::Send { .. }, data)) => {
                assert_eq!(data, id.to_ne_bytes());
                arrived += 1;
            }
            Some(_) => {}
            None => std::thread::yield_now(),
        }
        if arrived % 16 == 0 {
            sleep(Span::from_micros(50)); // the ring is usually full
        }
    }
    for sender in senders {
        sender.join().unwrap();
    }
}

#[test]
fn calls_that_find_no_room_change_nothing() {
    let (client, flows, mut daemon) = connected(2);
    let (flow, other) = (flows[0], flows[1]);
    fill(&client, flow);
    let calls: [Call; 6] = [
        Client::request,
        Client::close,
        |client, flow| client.query(flow).map(drop),
        |client, flow| client.send(flow, b"data"),
        |client, _| client.open(([192, 0, 2, 2], 9).into(), &Options::default()).map(drop),
        |client, _| client.listen(5000),
    ];
    let calls: Vec<_> = calls
        .into_iter()
        .map(|call| {
            let client = client.clone();
            spawn(move || call(&client, other))
        })
        .collect();
    for call in calls {
        assert_eq!(call.join().unwrap(), Err(Error::Full));
    }
    {
        let state = client.lock().unwrap();
        assert!(state.requests.is_empty());
        assert_eq!(state.flows.len(), 2);
    }
    assert_eq!(
        client.next(Some(Duration::ZERO)),
        Ok(Some((other, Event::Room))),
        "try again: no other event will come"
    );
    for _ in 0..SLOTS {
        assert!(matches!(daemon.take(), Some((_, Command::Notify { .. }, _))));
    }
    assert_eq!(daemon.take(), None);
    // The failed calls changed nothing: all requests can be made, the flow closed, and its slot used.
    (0..crate::limits::MAX_REQUESTS).for_each(|_| client.request(other).unwrap());
    assert_eq!(client.request(other), Err(Error::Full));
    while daemon.take().is_some() {}
    client.close(other).unwrap();
    assert_eq!(daemon.take(), Some((other.0, Command::Close, vec![])));
}

#[test]
fn unread_events_stay_few_and_contain_the_latest_state() {
    let (client, flows, mut daemon) = connected(40);
    let at = |n: u64| PathState { rate: Rate::from_bps(n), srtt: Duration::from_millis(1) };
    client.send(flows[0], b"data").unwrap();
    for n in 0..3000 {
        let flow = flows[n % flows.len()].0;
        daemon.send(flow, Notice::Change(at(n as u64)));
        client.lock().unwrap().flows.get(flow).unwrap().awaits_room_event = true;
        daemon.send(flow, Notice::Dequeued { bytes: 4 });
        client.lock().unwrap().read_notices();
    }
    let events: Vec<_> = std::iter::from_fn(|| client.next(Some(Duration::ZERO)).unwrap()).collect();
    assert_eq!(events.len(), 2 * flows.len());
    for (n, flow) in flows.into_iter().enumerate() {
        assert!(events.contains(&(flow, Event::Update(at(2960 + n as u64)))));
        daemon.send(flow.0, Notice::Change(at(1)));
    }
    assert!(matches!(client.next(Some(Duration::ZERO)), Ok(Some((_, Event::Update(_))))), "and again");
}

#[test]
fn reading_a_header_wakes_the_thread_that_waits_for_events() {
    let (client, flows, mut daemon) = connected(1);
    let flow = flows[0];
    client.lock().unwrap().flows.get(flow.0).unwrap().own_socket.get_or_insert_default();
    let waiting = {
        let client = client.clone();
        spawn(move || client.next(Some(Duration::from_secs(20))))
    };
    sleep(Span::from_millis(200));
    // As if the daemon had written it before the thread announced its sleep.
    let notice = Notice::Grant { bytes: 1472 };
    assert_eq!(daemon.notices.push(&notice.encode(flow.0)), Ok(true));
    let start = std::time::Instant::now();
    client.header(flow, 100).unwrap();
    assert_eq!(waiting.join().unwrap(), Ok(Some((flow, Event::Send { bytes: 1472 }))));
    assert!(start.elapsed() < Span::from_millis(500), "{:?}, not after the safeguard of a second", start.elapsed());
}
