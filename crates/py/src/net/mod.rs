//! Real networks for Python: files and streams. `python/rampmeter` has the public interface, `rampmeter.get`, `connect`
//! and `listen`, and their asynchronous forms in `aio`.
//!
//! ```text
//! errors       Rust's errors as Python's exceptions
//! operation    what takes time: waited for, or polled by an event loop
//! transfer     a download in a thread of its own
//! stream       streams, and the sessions that they belong to
//! endpoint     a connection to a server; a listener
//! ```

mod endpoint;
mod errors;
mod operation;
mod stream;
mod transfer;

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rampmeter_net::{Trust, keys};
use rampmeter_session::{KeyPair, PublicKey};

pub(super) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("ContactError", module.py().get_type::<errors::ContactError>())?;
    module.add("TransferError", module.py().get_type::<errors::TransferError>())?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<operation::Wakeups>()?;
    module.add_class::<stream::Session>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<endpoint::Connection>()?;
    module.add_class::<endpoint::Listener>()?;
    module.add_class::<transfer::Transfer>()?;
    module.add_function(wrap_pyfunction!(endpoint::connect, module)?)?;
    module.add_function(wrap_pyfunction!(endpoint::listen, module)?)
}

/// A public key in text.
fn public_key(text: &str) -> PyResult<PublicKey> {
    text.parse().map_err(|error| PyValueError::new_err(format!("`{text}` is no key: {error}")))
}

/// How a server is known: by this key, or by the user's file.
fn trust(key: Option<&str>) -> PyResult<Trust> {
    Ok(key.map(public_key).transpose()?.map_or_else(Trust::default, Trust::Key))
}

/// The key of a client: in this file, or the user's if there is one.
fn client_identity(path: Option<PathBuf>) -> PyResult<Option<KeyPair>> {
    let path = path.or_else(|| keys::default_key().ok().filter(|path| path.exists()));
    path.map(|path| keys::read_key(&path)).transpose().map_err(|error| errors::of_contact(error.into()))
}
