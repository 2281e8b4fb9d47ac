//! Rust's errors as Python's exceptions. What is wrong with an argument is a `ValueError`, what is wrong with a file of
//! this machine the usual `OSError`.

use std::io;
use std::path::Path;

use pyo3::exceptions::{PyConnectionAbortedError, PyConnectionError, PyOSError, PyValueError};
use pyo3::prelude::*;
use rampmeter_files::{NetError, Refusal};
use rampmeter_net::ContactError as Contact;
use rampmeter_streams::StreamError;

pyo3::create_exception!(
    rampmeter,
    ContactError,
    PyOSError,
    "A server cannot be contacted, or an address cannot be listened on. `kind` says why."
);
pyo3::create_exception!(rampmeter, TransferError, PyOSError, "A file was not transferred. `kind` says why.");

/// An exception of the type `E` whose attribute `kind` says what it is.
fn of_kind<E: pyo3::PyTypeInfo>(kind: &'static str, message: String) -> PyErr {
    let error = PyErr::new::<E, _>(message);
    // The message is enough if the attribute cannot be set.
    let _ = Python::attach(|python| error.value(python).setattr("kind", kind));
    error
}

#[allow(clippy::needless_pass_by_value, reason = "errors are handed over")]
pub(super) fn of_contact(error: Contact) -> PyErr {
    let kind = match &error {
        Contact::System(error) => return of_system(error),
        Contact::UnknownHost(_) => "unknown_host",
        Contact::ConnectionRefused(_) => "connection_refused",
        Contact::NoRoute(..) => "no_route",
        Contact::NoAnswer(_) => "no_answer",
        Contact::NotThisService(_) => "not_this_service",
        Contact::SmallPath(..) => "small_path",
        Contact::Busy(_) => "busy",
        Contact::KeyChanged(_) => "key_changed",
        Contact::NotAuthorized { .. } => "not_authorized",
        Contact::Key(_) => "key_file",
        Contact::PortInUse(_) => "port_in_use",
        Contact::CannotListen(..) => "cannot_listen",
        _ => return PyValueError::new_err(error.to_string()),
    };
    of_kind::<ContactError>(kind, error.to_string())
}

#[allow(clippy::needless_pass_by_value, reason = "errors are handed over")]
pub(super) fn of_stream(error: StreamError) -> PyErr {
    match error {
        StreamError::Ended(_) => PyConnectionAbortedError::new_err(error.to_string()),
        _ => PyConnectionError::new_err(error.to_string()),
    }
}

pub(super) fn of_transfer(error: NetError) -> PyErr {
    let kind = match &error {
        NetError::Contact(_) => {
            let NetError::Contact(error) = error else { unreachable!() };
            return of_contact(error);
        }
        NetError::BadOption(_) => return PyValueError::new_err(error.to_string()),
        NetError::BadDirectory(path, reason) | NetError::File(path, reason) => return of_file(path, reason),
        NetError::DiskFull(path) => return of_file(path, &io::Error::from_raw_os_error(libc::ENOSPC)),
        NetError::Interrupted(_) => "stopped",
        NetError::PeerTimeout(..) => "timed_out",
        NetError::Aborted(..) => "aborted",
        NetError::Restarted(..) => "server_stopped",
        NetError::Refused { reason: Refusal::NoSuchFile, .. } => "not_found",
        NetError::Refused { .. } => "refused",
        NetError::Corrupt { .. } => "damaged",
        NetError::OtherContent { .. } => "other_content",
        NetError::TooLarge { .. } => "too_large",
        NetError::PartInUse(_) => "in_use",
        NetError::NotOwnFile(..) => "not_own_file",
        _ => "protocol",
    };
    of_kind::<TransferError>(kind, error.to_string())
}

fn of_system(error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(code) => PyOSError::new_err((code, error.to_string())),
        None => PyOSError::new_err(error.to_string()),
    }
}

/// An error of the file at `path`, as Python's `open` raises it.
fn of_file(path: &Path, reason: &io::Error) -> PyErr {
    match reason.raw_os_error() {
        // Python chooses the class by the number, such as `FileNotFoundError`.
        Some(code) => PyOSError::new_err((code, reason.to_string(), path.to_owned())),
        None => PyOSError::new_err(format!("{}: {reason}", path.display())),
    }
}
