//! A connection to a server, and a listener: what carries sessions.

use std::collections::BTreeSet;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rampmeter_net::{ContactError as Contact, keys};
use rampmeter_session::Clients;
use rampmeter_streams::{Client, ClientOptions, Server, ServerOptions};
use rampmeter_units::Duration;

use super::errors::of_contact;
use super::operation::{Operation, Waiting, lock, seconds};
use super::stream::{Session, Stream};
use super::{client_identity, public_key, trust};

/// Opens a session with the server at `address`.
#[pyfunction]
pub(crate) fn connect(
    address: String,
    key: Option<&str>,
    identity: Option<PathBuf>,
    controller: String,
    timeout: f64,
) -> PyResult<Operation> {
    let timeout = Duration::from_nanos(seconds(timeout)?.as_nanos().try_into().unwrap_or(u64::MAX));
    let (trust, identity) = (trust(key)?, client_identity(identity)?);
    let options = ClientOptions { trust, identity, controller, timeout, ..ClientOptions::default() };
    let connecting = async move { Client::connect(&address, options).await };
    Ok(Operation::of(connecting, |python, client| {
        let shared = Shared { endpoint: Mutex::new(client.map_err(of_contact)?), waiting: Arc::default() };
        Ok(Py::new(python, Connection(Arc::new(shared)))?.into_any())
    }))
}

/// Listens on `address`. Without an identity the server's key is the user's, which is made if there is none.
#[pyfunction]
pub(crate) fn listen(
    python: Python<'_>,
    address: &str,
    identity: Option<PathBuf>,
    clients: Option<Vec<String>>,
    controller: String,
    max_sessions: usize,
    max_streams: usize,
) -> PyResult<Operation> {
    let identity = identity.map_or_else(keys::default_key, Ok).and_then(|path| keys::read_or_create_key(&path));
    let (identity, _) = identity.map_err(|error| of_contact(error.into()))?;
    let listed = |keys: Vec<String>| keys.iter().map(|key| public_key(key)).collect::<PyResult<BTreeSet<_>>>();
    let clients = clients.map(listed).transpose()?.map_or(Clients::Anyone, Clients::Listed).into();
    let found = python.detach(|| address.to_socket_addrs().ok().and_then(|mut found| found.next()));
    let problem = || format!("`{address}` is no address to listen on: give HOST:PORT, for example 127.0.0.1:7268");
    let address = found.ok_or_else(|| PyValueError::new_err(problem()))?;
    let options =
        ServerOptions { address, identity, clients, controller, max_sessions, max_streams, ..ServerOptions::default() };
    Ok(Operation::of(async move { Server::bind(options) }, |python, server: Result<_, Contact>| {
        let shared = Shared { endpoint: Mutex::new(server.map_err(of_contact)?), waiting: Arc::default() };
        Ok(Py::new(python, Listener(Arc::new(shared)))?.into_any())
    }))
}

/// A client or a server, and the operations that wait for its next stream.
struct Shared<T> {
    endpoint: Mutex<T>,
    waiting: Arc<Waiting>,
}

/// Waits for the next stream of another host; `None` after the end.
macro_rules! accept {
    ($shared:expr) => {{
        let shared = Arc::clone($shared);
        Operation::new(move |context| {
            let polled = shared.waiting.poll(context, |context| {
                let mut endpoint = lock(&shared.endpoint);
                std::pin::pin!(endpoint.accept()).poll(context)
            });
            let shared = &shared;
            polled.map(|stream| -> super::operation::Finish {
                let carrier = Arc::clone(shared);
                Box::new(move |python| match stream {
                    Some(stream) => Ok(Py::new(python, Stream::new(stream, carrier))?.into_any()),
                    None => Ok(python.None()),
                })
            })
        })
    }};
}

/// A session with a server.
#[pyclass(frozen)]
pub(crate) struct Connection(Arc<Shared<Client>>);

#[pymethods]
impl Connection {
    fn address(&self) -> String {
        lock(&self.0.endpoint).address().to_string()
    }

    fn is_new_server(&self) -> bool {
        lock(&self.0.endpoint).is_new_server()
    }

    fn session(&self) -> Session {
        let session = lock(&self.0.endpoint).session().clone();
        Session::new(session, Arc::clone(&self.0) as _)
    }

    fn accept(&self) -> Operation {
        accept!(&self.0)
    }

    /// Begins to end the session, and waits for the end.
    fn close(&self) -> Operation {
        Operation::of(lock(&self.0.endpoint).close(), |python, ()| Ok(python.None()))
    }
}

/// A server.
#[pyclass(frozen)]
pub(crate) struct Listener(Arc<Shared<Server>>);

#[pymethods]
impl Listener {
    fn address(&self) -> String {
        lock(&self.0.endpoint).address().to_string()
    }

    fn key(&self) -> String {
        lock(&self.0.endpoint).key().to_string()
    }

    fn accept(&self) -> Operation {
        accept!(&self.0)
    }

    /// Begins to end all sessions, and waits for the end.
    fn close(&self) -> Operation {
        Operation::of(lock(&self.0.endpoint).close(), |python, ()| Ok(python.None()))
    }
}
