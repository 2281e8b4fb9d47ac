//! A download in a thread of its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rampmeter_files::{self as files, FileReport, GetOptions, NetError, Progress, ProgressHandler, Report};
use rampmeter_streams::ClientOptions;
use rampmeter_units::{Bytes, Duration};

use super::errors::of_transfer;
use super::operation::{Finish, Operation, Waiting, lock, seconds};
use super::{client_identity, trust};

/// A download, which goes on until it is complete, has failed, or is stopped.
#[pyclass(frozen)]
pub(crate) struct Transfer {
    stop: Arc<AtomicBool>,
    progress: Arc<Mutex<(u64, Option<u64>)>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    result: Mutex<Option<Result<Report, NetError>>>,
    waiting: Arc<Waiting>,
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[pymethods]
impl Transfer {
    /// Begins to get `url`.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "Python names what it gives")]
    fn new(
        url: String,
        out: Option<PathBuf>,
        key: Option<&str>,
        identity: Option<PathBuf>,
        blake3: Option<&str>,
        controller: Option<String>,
        max_size: Option<u64>,
        resume: bool,
        retry: u32,
        timeout: f64,
    ) -> PyResult<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let progress = Arc::new(Mutex::new((0, None)));
        let (shared, latest) = (Arc::new(Shared::default()), Arc::clone(&progress));
        let on_progress = ProgressHandler::new(move |progress| {
            if let Progress::Moved { bytes, total, .. } = progress {
                *lock(&latest) = (*bytes, *total);
            }
        });
        let options = GetOptions {
            urls: vec![url],
            out,
            fresh: !resume,
            blake3: blake3.map(hash).transpose()?,
            max_size: max_size.map(Bytes::new),
            controller,
            retry,
            resume: 0,
            on_progress: Some(on_progress),
            stop: Arc::clone(&stop),
            client: ClientOptions {
                trust: trust(key)?,
                identity: client_identity(identity)?,
                timeout: Duration::from_nanos(seconds(timeout)?.as_nanos().try_into().unwrap_or(u64::MAX)),
                ..ClientOptions::default()
            },
        };
        let done = Arc::clone(&shared);
        thread::Builder::new().name("rampmeter-get".into()).spawn(move || {
            let result = files::get(&options);
            *lock(&done.result) = Some(result);
            done.waiting.wake_all();
        })?;
        Ok(Self { stop, progress, shared })
    }

    /// The bytes so far, and the file's size if it is known.
    fn progress(&self) -> (u64, Option<u64>) {
        *lock(&self.progress)
    }

    /// Stops it: what has arrived stays for the next one.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the report.
    fn report(&self) -> Operation {
        let shared = Arc::clone(&self.shared);
        Operation::new(move |context| {
            shared.waiting.poll(context, |_| match lock(&shared.result).take() {
                Some(result) => Poll::Ready(Box::new(move |python: Python<'_>| {
                    Ok(report(python, &result.map_err(of_transfer)?)?.into_any().unbind())
                }) as Finish),
                None => Poll::Pending,
            })
        })
    }
}

/// A BLAKE3 hash in hexadecimal digits.
fn hash(text: &str) -> PyResult<[u8; 32]> {
    let problem = || PyValueError::new_err(format!("`{text}` is no hash: a hash has 64 hexadecimal digits"));
    files::parse_hash(text).ok_or_else(problem)
}

/// The report, by the names of its JSON object.
fn report<'py>(python: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let files: Vec<_> = report.files.iter().map(|file| file_report(python, file)).collect::<PyResult<_>>()?;
    let into = PyDict::new(python);
    into.set_item("server", report.server.to_string())?;
    into.set_item("server_key", &report.server_key)?;
    into.set_item("is_new_server", report.is_new_server)?;
    into.set_item("controller", &report.controller)?;
    into.set_item("bytes", report.bytes)?;
    into.set_item("resumed_from", report.resumed_from)?;
    into.set_item("complete", report.complete)?;
    into.set_item("failed", report.failed)?;
    into.set_item("seconds", report.seconds)?;
    into.set_item("goodput_bps", report.goodput_bps)?;
    into.set_item("handshake_s", report.handshake_s)?;
    into.set_item("min_rtt_s", report.min_rtt_s)?;
    into.set_item("rtt_s", report.rtt_s)?;
    into.set_item("loss", report.loss)?;
    into.set_item("files", PyList::new(python, files)?)?;
    Ok(into)
}

fn file_report<'py>(python: Python<'py>, file: &FileReport) -> PyResult<Bound<'py, PyDict>> {
    let into = PyDict::new(python);
    into.set_item("name", &file.name)?;
    into.set_item("path", &file.path)?;
    into.set_item("bytes", file.bytes)?;
    into.set_item("resumed_from", file.resumed_from)?;
    into.set_item("blake3", &file.blake3)?;
    into.set_item("error", &file.error)?;
    Ok(into)
}
