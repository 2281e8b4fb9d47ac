//! Clients at the port of another service.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rampmeter_net::files::{ClientOptions as FilesOptions, GetOptions, NetError, get};
use rampmeter_net::tunnel::{Allow, TunnelClient, TunnelOptions, TunnelServer, TunnelServerOptions};
use rampmeter_net::{ClientOptions, ContactError, ServerOptions};
use tokio::time::timeout;

use crate::common::{TestServer, client, identity, options};

const SECONDS: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_tunnel_to_a_server_of_files_ends_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestServer::start(directory.path(), |_| {});
    let tunnel = TunnelClient::bind(TunnelOptions {
        server: format!("{}?key={}", server.address, server.key),
        client: ClientOptions::default(),
        server_controller: None,
        local: vec!["0:127.0.0.1:1".parse().unwrap()],
        remote: Vec::new(),
        socks: Vec::new(),
        exit_on_forward_failure: false,
        max_connections: 4,
        on_event: Arc::new(|_| {}),
    });
    let error = timeout(SECONDS, tunnel.await.unwrap().run(pending())).await.unwrap().unwrap_err();
    assert!(error.is_permanent() && error.to_string().contains("another service"), "{error}");
}

#[tokio::test]
async fn a_download_from_a_tunnel_ends_with_the_reason() {
    let to = tempfile::tempdir().unwrap();
    let server = TunnelServer::bind(TunnelServerOptions {
        server: ServerOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            identity: identity(),
            ..ServerOptions::default()
        },
        allow: Allow::read(["*:*"]).unwrap(),
        allow_listen: Allow::read([]).unwrap(),
        on_event: Arc::new(|_| {}),
    });
    let server = server.unwrap();
    let client = FilesOptions { retry: 3, ..client() };
    let options = GetOptions { client, ..options(server.address(), "f", to.path()) };
    let serving = tokio::spawn(server.run(pending()));
    let began = Instant::now();
    let error = tokio::task::spawn_blocking(move || get(&options)).await.unwrap().unwrap_err();
    assert!(matches!(error, NetError::Contact(ContactError::NotThisService(_))), "{error}");
    assert!(began.elapsed() < SECONDS / 2, "without another attempt");
    serving.abort();
}
