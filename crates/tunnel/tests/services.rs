//! Clients at the port of another service.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rampmeter_files::{GetOptions, NetError, ServeOptions, Server, get};
use rampmeter_net::{ContactError, Trust};
use rampmeter_session::Clients;
use rampmeter_streams::{ClientOptions, ServerOptions};

use crate::common::{SECONDS, SERVER, failure, key, server_key};

#[tokio::test]
async fn a_tunnel_to_a_server_of_files_ends_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let address = "127.0.0.1:0".parse().unwrap();
    let server = ServerOptions { address, identity: key(SERVER), ..ServerOptions::default() };
    let options = ServeOptions { directory: directory.path().to_owned(), server, ..ServeOptions::default() };
    let stop = Arc::clone(&options.stop);
    let server = Server::bind(options).unwrap();
    let address = server.address();
    let serving = std::thread::spawn(move || server.run());
    let error = failure(address, |_| {}).await;
    assert!(error.is_permanent() && error.to_string().contains("another service"), "{error}");
    stop.store(true, Ordering::Relaxed);
    serving.join().unwrap().unwrap();
}

#[tokio::test]
async fn a_download_from_a_tunnel_ends_with_the_reason() {
    let to = tempfile::tempdir().unwrap();
    let server = crate::common::server("127.0.0.1:0".parse().unwrap(), &["*:*"], |options| {
        options.server.clients = Clients::Anyone.into();
    });
    let client = ClientOptions { trust: Trust::Key(server_key()), ..ClientOptions::default() };
    let urls = vec![format!("{}/f", server.address())];
    let options = GetOptions { urls, out: Some(to.path().to_owned()), retry: 3, client, ..GetOptions::default() };
    let began = Instant::now();
    let error = tokio::task::spawn_blocking(move || get(&options)).await.unwrap().unwrap_err();
    assert!(matches!(error, NetError::Contact(ContactError::NotThisService(_))), "{error}");
    assert!(began.elapsed() < SECONDS / 2, "without another attempt");
}
