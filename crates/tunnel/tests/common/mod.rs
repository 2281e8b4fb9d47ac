//! A server and a client of a tunnel, and programs that use it.

#![allow(missing_docs, unreachable_pub, reason = "shared by several tests")]

use std::collections::BTreeSet;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rampmeter_session::{Clients, KeyPair, PublicKey};
use rampmeter_streams::{ClientOptions, ServerOptions};
use rampmeter_tunnel::{
    Allow, Event, Forward, OnEvent, TunnelClient, TunnelError, TunnelOptions, TunnelServer, TunnelServerOptions,
};
use rampmeter_units::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

pub const SECONDS: Duration = Duration::from_secs(20);

pub fn key(seed: u64) -> KeyPair {
    KeyPair::generate(&mut Random::from_seed(seed))
}

pub const SERVER: u64 = 1;
pub const CLIENT: u64 = 2;

pub fn server_key() -> PublicKey {
    key(SERVER).public()
}

/// Something that runs until it is dropped, and what it has reported.
pub struct Running {
    pub addresses: Vec<SocketAddr>,
    pub events: Arc<Mutex<Vec<String>>>,
    pub stop: Arc<Notify>,
    pub task: Option<tokio::task::JoinHandle<()>>,
}

impl Running {
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    pub async fn stop(mut self) {
        self.stop.notify_one();
        if let Some(task) = self.task.take() {
            timeout(SECONDS, task).await.unwrap().unwrap();
        }
    }

    /// Waits for an event with this text.
    pub async fn reports(&self, text: &str) -> String {
        let found = async {
            loop {
                let events = self.events.lock().unwrap().clone();
                if let Some(event) = events.into_iter().find(|event| event.contains(text)) {
                    return event;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(SECONDS, found).await.unwrap_or_else(|_| panic!("no event has {text:?}: {:?}", self.events))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

pub fn recorder() -> (Arc<Mutex<Vec<String>>>, OnEvent) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&events);
    (events, Arc::new(move |event: &Event| kept.lock().unwrap().push(event.to_string())))
}

/// The options of a server, and what it reports.
pub fn server_options(at: SocketAddr, allow: &[&str]) -> (TunnelServerOptions, Arc<Mutex<Vec<String>>>) {
    let (events, on_event) = recorder();
    let options = TunnelServerOptions {
        server: ServerOptions {
            address: at,
            identity: key(SERVER),
            clients: Clients::Listed(BTreeSet::from([key(CLIENT).public()])).into(),
            ..ServerOptions::default()
        },
        allow: Allow::read(allow.iter().copied()).unwrap(),
        allow_listen: Allow::default(),
        on_event,
    };
    (options, events)
}

pub fn server(at: SocketAddr, allow: &[&str], change: impl FnOnce(&mut TunnelServerOptions)) -> Running {
    let (mut options, events) = server_options(at, allow);
    change(&mut options);
    let server = TunnelServer::bind(options).unwrap();
    let (addresses, stop) = (vec![server.address()], Arc::new(Notify::new()));
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(async move { server.run(stopped.notified()).await });
    Running { addresses, events, stop, task: Some(task) }
}

pub fn any_server(allow: &[&str]) -> Running {
    server("127.0.0.1:0".parse().unwrap(), allow, |_| {})
}

/// The options of a client that forwards nothing.
pub fn client_options(server: SocketAddr, on_event: OnEvent) -> TunnelOptions {
    TunnelOptions {
        server: format!("{server}?key={}", server_key()),
        client: ClientOptions { identity: Some(key(CLIENT)), ..ClientOptions::default() },
        server_controller: None,
        local: Vec::new(),
        remote: Vec::new(),
        socks: Vec::new(),
        exit_on_forward_failure: false,
        max_connections: 64,
        on_event,
    }
}

pub async fn client(server: SocketAddr, change: impl FnOnce(&mut TunnelOptions)) -> Running {
    let (events, on_event) = recorder();
    let mut options = client_options(server, on_event);
    change(&mut options);
    let client = TunnelClient::bind(options).await.unwrap();
    let (addresses, stop) = (client.addresses(), Arc::new(Notify::new()));
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(async move {
        let _ = client.run(stopped.notified()).await;
    });
    Running { addresses, events, stop, task: Some(task) }
}

/// Why a client ends by itself, which reports nothing before.
pub async fn failure(server: SocketAddr, change: impl FnOnce(&mut TunnelOptions)) -> TunnelError {
    let (events, on_event) = recorder();
    let mut options = client_options(server, on_event);
    change(&mut options);
    let client = TunnelClient::bind(options).await.unwrap();
    let error = timeout(SECONDS, client.run(pending())).await.unwrap().unwrap_err();
    assert!(events.lock().unwrap().is_empty());
    error
}

/// A client that forwards one port to `to`.
pub async fn forwarding(server: SocketAddr, to: SocketAddr) -> Running {
    let forward: Forward = format!("0:127.0.0.1:{}", to.port()).parse().unwrap();
    client(server, |options| options.local = vec![forward]).await
}

/// The address of a client's listener at the server.
pub async fn listening_at(client: &Running) -> SocketAddr {
    let line = client.reports("the server listens on").await;
    line.split(' ').find_map(|word| word.parse().ok()).unwrap()
}

/// A destination that sends back all that it gets, then its end.
pub async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = tcp.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    address
}

pub async fn exchange(tcp: &mut TcpStream, bytes: &[u8]) {
    let mut back = vec![0; bytes.len()];
    let (mut from, mut to) = tcp.split();
    let both = async { tokio::try_join!(to.write_all(bytes), from.read_exact(&mut back)) };
    timeout(SECONDS, both).await.unwrap().unwrap();
    assert!(back == bytes);
}
