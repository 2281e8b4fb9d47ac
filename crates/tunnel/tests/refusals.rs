//! What a server refuses, and what both ends report.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use rampmeter_testing::{Relay, RelayMode, noise};
use rampmeter_tunnel::{Allow, Forward, TunnelServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::common::{
    CLIENT, SECONDS, any_server, client, echo, exchange, failure, forwarding, key, listening_at, server, server_options,
};

#[tokio::test]
async fn destinations_that_are_not_allowed_are_refused() {
    let echo = echo().await;
    let server = any_server(&["public:*", "example.org:443"]);
    let tunnel = forwarding(server.address(), echo).await;
    let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
    assert!(timeout(SECONDS, tcp.read_u8()).await.unwrap().is_err());
    assert!(server.reports("no connection to 127.0.0.1").await.contains(&key(CLIENT).public().to_string()));
    assert!(tunnel.reports("--allow").await.contains("127.0.0.1"));
}

/// The relay sends packets without an ECN code, as behind a middlebox that clears the codes.
#[tokio::test]
async fn both_ends_report_a_degraded_controller_once() {
    let echo = echo().await;
    let at = "127.0.0.1:0".parse().unwrap();
    let server = server(at, &["127.0.0.1:*"], |options| options.server.controller = "vcp".into());
    let relay = Relay::start(server.address(), RelayMode::Forward);
    let forward = format!("0:127.0.0.1:{}", echo.port()).parse().unwrap();
    let tunnel = client(relay.address, |options| {
        (options.client.controller, options.local) = ("vcp".into(), vec![forward]);
    });
    let tunnel = tunnel.await;
    let of = key(CLIENT).public();
    for _ in 0..2 {
        let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
        exchange(&mut tcp, &noise(100_000, 1)).await;
        server.reports(&format!("vcp for {of} is degraded: the path clears ECN codes")).await;
        tunnel.reports("vcp is degraded: the path clears ECN codes").await;
    }
    for end in [&server, &tunnel] {
        let events = end.events.lock().unwrap();
        assert_eq!(events.iter().filter(|event| event.contains("degraded")).count(), 1, "{events:?}");
    }
}

#[tokio::test]
async fn only_listed_keys_are_served() {
    let server = any_server(&["*:*"]);
    let error = failure(server.address(), |options| options.client.identity = Some(key(9))).await;
    assert!(error.is_permanent() && error.to_string().contains(&key(9).public().to_string()), "{error}");
}

#[tokio::test]
async fn a_controller_that_is_not_lent_is_refused() {
    let server = any_server(&["*:*"]);
    for (controller, reason) in [("fixed-rate", "does not lend"), ("none-such", "no such controller")] {
        let error = failure(server.address(), |options| options.server_controller = Some(controller.into())).await;
        assert!(error.is_usage() && error.to_string().contains(reason), "{error}");
    }
}

#[tokio::test]
async fn destinations_may_change_while_a_server_runs() {
    let echo = echo().await;
    let at = "127.0.0.1:0".parse().unwrap();
    let (options, _) = server_options(at, &["example.org:443"]);
    let server = TunnelServer::bind(options).unwrap();
    let (address, rules) = (server.address(), server.rules());
    tokio::spawn(server.run(std::future::pending()));
    let tunnel = forwarding(address, echo).await;
    let mut refused = TcpStream::connect(tunnel.address()).await.unwrap();
    assert!(timeout(SECONDS, refused.read_u8()).await.unwrap().is_err());
    rules.set_allowed(Allow::read(["127.0.0.1:*"]).unwrap(), Allow::default());
    exchange(&mut TcpStream::connect(tunnel.address()).await.unwrap(), b"now").await;
}

#[tokio::test]
async fn a_listener_that_is_no_longer_allowed_resets_connections() {
    let (echo, at) = (echo().await, "127.0.0.1:0".parse().unwrap());
    let allowed = Allow::read(["127.0.0.1:*"]).unwrap();
    let (mut options, _) = server_options(at, &["public:443"]);
    options.allow_listen = allowed.clone();
    let server = TunnelServer::bind(options).unwrap();
    let (address, rules) = (server.address(), server.rules());
    tokio::spawn(server.run(std::future::pending()));
    let forward: Forward = format!("0:{echo}").parse().unwrap();
    let tunnel = client(address, |options| options.remote = vec![forward]).await;
    let at = listening_at(&tunnel).await;
    let mut open = TcpStream::connect(at).await.unwrap();
    exchange(&mut open, b"before").await;
    for (listen, expected) in [(Allow::default(), false), (allowed, true)] {
        rules.set_allowed(Allow::default(), listen);
        exchange(&mut open, b"goes on").await;
        let mut tcp = TcpStream::connect(at).await.unwrap();
        let answered = tcp.write_all(b"?").await.is_ok() && timeout(SECONDS, tcp.read_u8()).await.unwrap().is_ok();
        assert_eq!(answered, expected);
    }
}

#[tokio::test]
async fn a_server_that_drains_ends_after_its_connections() {
    let echo = echo().await;
    let at = "127.0.0.1:0".parse().unwrap();
    let (mut options, _) = server_options(at, &["127.0.0.1:*"]);
    options.allow_listen = Allow::read(["127.0.0.1:*"]).unwrap();
    let server = TunnelServer::bind(options).unwrap();
    let (address, drain) = (server.address(), Arc::new(Notify::new()));
    let drained = Arc::clone(&drain);
    let running = tokio::spawn(async move { server.run_or_drain(std::future::pending(), drained.notified()).await });
    let forward: Forward = format!("0:{echo}").parse().unwrap();
    let tunnel = client(address, |options| {
        (options.local, options.remote) = (vec![forward.clone()], vec![forward.clone()]);
    });
    let tunnel = tunnel.await;
    let remote = listening_at(&tunnel).await;
    let mut local = TcpStream::connect(tunnel.address()).await.unwrap();
    let mut through = TcpStream::connect(remote).await.unwrap();
    for open in [&mut local, &mut through] {
        exchange(open, b"before").await;
    }
    drain.notify_one();
    sleep(Duration::from_millis(300)).await;
    for open in [&mut local, &mut through] {
        exchange(open, b"while it drains").await;
    }
    let mut late = TcpStream::connect(tunnel.address()).await.unwrap();
    assert!(timeout(SECONDS, late.read_u8()).await.unwrap().is_err(), "no further connection");
    tunnel.reports("the server is about to end").await;
    assert_eq!(TcpStream::connect(remote).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    // A new session waits for the next server.
    let other = forwarding(address, echo).await;
    other.reports("the server is about to end, and accepts nothing new: try again in a minute; next attempt").await;
    assert!(!running.is_finished());
    drop((local, through));
    timeout(SECONDS, running).await.unwrap().unwrap();
}
