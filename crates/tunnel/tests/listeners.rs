//! Listeners of clients at the server.

use std::time::Duration;

use rampmeter_testing::{Relay, RelayMode, noise};
use rampmeter_tunnel::{Allow, Forward};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::common::{SECONDS, client, echo, exchange, listening_at, server};

#[tokio::test]
async fn a_client_may_end_if_the_server_does_not_listen() {
    let at = "127.0.0.1:0".parse().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let _taken = TcpListener::bind(taken).await.unwrap();
    let allowed = Allow::read(["127.0.0.1:*"]).unwrap();
    let server = server(at, &["public:443"], |options| options.allow_listen = allowed);
    for listen in [taken.to_string(), "127.0.0.2:0".to_owned()] {
        for exits in [true, false] {
            let forward: Forward = format!("{listen}:127.0.0.1:9").parse().unwrap();
            let tunnel = client(server.address(), |options| {
                options.remote = vec![forward];
                options.exit_on_forward_failure = exits;
            });
            let mut tunnel = tunnel.await;
            if exits {
                timeout(SECONDS, tunnel.task.take().unwrap()).await.unwrap().unwrap();
            } else {
                tunnel.reports(&format!("-R {listen}: ")).await;
                assert!(!tunnel.task.as_ref().unwrap().is_finished());
            }
        }
    }
}

#[tokio::test]
async fn the_server_listens_where_that_is_allowed() {
    let echo = echo().await;
    let at = "127.0.0.1:0".parse().unwrap();
    let allowed = Allow::read(["127.0.0.1:*"]).unwrap();
    let server = server(at, &["public:443"], |options| options.allow_listen = allowed);
    let forwards = [format!("0:127.0.0.1:{}", echo.port()), format!("127.0.0.2:0:127.0.0.1:{}", echo.port())];
    let remote: Vec<Forward> = forwards.iter().map(|forward| forward.parse().unwrap()).collect();
    let tunnel = client(server.address(), |options| options.remote = remote).await;
    let at = listening_at(&tunnel).await;
    tunnel.reports("-R 127.0.0.2:0: the server allows no listening there").await;
    let mut tcp = TcpStream::connect(at).await.unwrap();
    exchange(&mut tcp, &noise(100_000, 4)).await;
    // Its listeners end with the client.
    tunnel.stop().await;
    let closed = async { while TcpStream::connect(at).await.is_ok() {} };
    timeout(SECONDS, closed).await.unwrap();
}

/// As after a restart of a client that was killed, whose session at the server goes on for a minute.
#[tokio::test]
async fn a_listener_at_the_server_is_asked_for_until_its_port_is_free() {
    let (echo, at) = (echo().await, "127.0.0.1:0".parse().unwrap());
    let taken = TcpListener::bind(at).await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let allowed = Allow::read(["127.0.0.1:*"]).unwrap();
    let server = server(at, &["public:443"], |options| options.allow_listen = allowed);
    let forward: Forward = format!("{port}:127.0.0.1:{}", echo.port()).parse().unwrap();
    let tunnel = client(server.address(), |options| options.remote = vec![forward]).await;
    tunnel.reports("the port is in use").await;
    drop(taken);
    tunnel.reports("the server listens on").await;
    let mut tcp = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    exchange(&mut tcp, &noise(100_000, 4)).await;
}

#[tokio::test]
async fn the_port_of_a_killed_client_is_soon_free_for_the_same_key() {
    let (echo, at) = (echo().await, "127.0.0.1:0".parse().unwrap());
    // No other test has ports of this address.
    let forward: Forward = format!("127.83.0.1:8080:127.0.0.1:{}", echo.port()).parse().unwrap();
    let allowed = Allow::read(["127.83.0.1:*"]).unwrap();
    let server = server(at, &["public:443"], |options| options.allow_listen = allowed);
    let relay = Relay::start(server.address(), RelayMode::Forward);
    let killed = client(relay.address, |options| options.remote = vec![forward.clone()]).await;
    killed.reports("the server listens on").await;
    relay.set(RelayMode::Drop);
    let next = client(server.address(), |options| options.remote = vec![forward]).await;
    next.reports("the port is in use").await;
    // Connections of programs, which the client does not answer, are no packets of it.
    let knock = async {
        loop {
            drop(TcpStream::connect("127.83.0.1:8080").await);
            sleep(Duration::from_millis(500)).await;
        }
    };
    // Within 20 of the 60 seconds after which a server ends a silent session.
    let listens = next.reports("the server listens on");
    tokio::select! {
        _ = listens => {}
        () = knock => {}
    }
}
