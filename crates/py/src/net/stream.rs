//! Streams, and the sessions that they belong to.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use rampmeter_streams as streams;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::errors::of_stream;
use super::operation::{Finish, Operation, Waiting, lock};

/// Bytes that are read at once where the program asks for all.
const PIECE: usize = 256 * 1024;

/// What carries a session, for as long as something of it is used: a client or a server.
pub(super) type Carrier = Arc<dyn std::any::Any + Send + Sync>;

/// A session with another host.
#[pyclass(frozen)]
pub(crate) struct Session {
    session: streams::Session,
    carrier: Carrier,
}

impl Session {
    pub(super) fn new(session: streams::Session, carrier: Carrier) -> Self {
        Self { session, carrier }
    }
}

#[pymethods]
impl Session {
    /// The public key of the other host.
    fn peer_key(&self) -> String {
        self.session.peer_key().to_string()
    }

    /// Opens a stream.
    fn open(&self) -> Operation {
        let (session, carrier) = (self.session.clone(), Arc::clone(&self.carrier));
        Operation::of(async move { session.open().await }, move |python, opened| {
            Ok(Py::new(python, Stream::new(opened.map_err(of_stream)?, carrier))?.into_any())
        })
    }

    /// Ends the session at once.
    fn close(&self) {
        self.session.close();
    }
}

/// A stream, until it is closed.
#[pyclass(frozen)]
pub(crate) struct Stream {
    shared: Arc<Shared>,
    session: streams::Session,
    carrier: Carrier,
}

#[derive(Default)]
struct Shared {
    stream: Mutex<Option<streams::Stream>>,
    readers: Arc<Waiting>,
    writers: Arc<Waiting>,
}

impl Shared {
    fn poll<T>(
        &self,
        waiting: &Arc<Waiting>,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut streams::Stream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<PyResult<T>> {
        let mut stream = lock(&self.stream);
        let Some(stream) = stream.as_mut() else { return Poll::Ready(Err(closed())) };
        waiting.poll(context, |context| poll(Pin::new(stream), context)).map_err(Into::into)
    }

    /// Reads some bytes into the buffer, none at the end.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<PyResult<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let polled = self.poll(&self.readers, context, |stream, context| stream.poll_read(context, &mut buffer));
        polled.map_ok(|()| buffer.filled().len())
    }

    fn end(&self, finish: bool) {
        if let Some(mut stream) = lock(&self.stream).take()
            && finish
        {
            // It is ready at once.
            let _ = Pin::new(&mut stream).poll_shutdown(&mut Context::from_waker(std::task::Waker::noop()));
        }
        self.readers.wake_all();
        self.writers.wake_all();
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("this stream is closed; open another one")
}

fn finish<T: Send + 'static>(
    found: PyResult<T>,
    convert: impl FnOnce(Python<'_>, T) -> Py<PyAny> + Send + 'static,
) -> Finish {
    Box::new(move |python| Ok(convert(python, found?)))
}

impl Stream {
    pub(super) fn new(stream: streams::Stream, carrier: Carrier) -> Self {
        let session = stream.session().clone();
        let shared = Shared { stream: Mutex::new(Some(stream)), ..Shared::default() };
        Self { shared: Arc::new(shared), session, carrier }
    }
}

#[pymethods]
impl Stream {
    fn session(&self) -> Session {
        Session::new(self.session.clone(), Arc::clone(&self.carrier))
    }

    fn set_weight(&self, weight: f64) -> PyResult<()> {
        if !(weight.is_finite() && weight > 0.0) {
            return Err(PyValueError::new_err(format!("the weight is {weight}: give a positive number")));
        }
        lock(&self.shared.stream).as_ref().ok_or_else(closed)?.set_weight(weight);
        Ok(())
    }

    /// Reads up to `size` bytes, none at the end; without a size all, to the end.
    fn read(&self, size: Option<usize>) -> Operation {
        let shared = Arc::clone(&self.shared);
        let mut buffer = vec![0; size.unwrap_or(PIECE).min(PIECE)];
        let (mut bytes, mut ended) = (Vec::new(), size == Some(0));
        let to_python = |python: Python<'_>, bytes: Vec<u8>| PyBytes::new(python, &bytes).into_any().unbind();
        Operation::new(move |context| {
            while !ended {
                match shared.poll_read(context, &mut buffer) {
                    Poll::Ready(Ok(count)) => {
                        bytes.extend_from_slice(&buffer[..count]);
                        ended = count == 0 || size.is_some();
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(finish(Err(error), to_python)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(finish(Ok(std::mem::take(&mut bytes)), to_python))
        })
    }

    /// Writes all bytes.
    fn write(&self, bytes: PyBackedBytes) -> Operation {
        let shared = Arc::clone(&self.shared);
        let mut written = 0;
        Operation::new(move |context| {
            while written < bytes.len() {
                let rest = &bytes[written..];
                match shared.poll(&shared.writers, context, |stream, context| stream.poll_write(context, rest)) {
                    Poll::Ready(Ok(count)) => written += count,
                    Poll::Ready(Err(error)) => return Poll::Ready(finish(Err(error), |python, ()| python.None())),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(finish(Ok(()), |python, ()| python.None()))
        })
    }

    /// Ends this side's bytes.
    fn write_eof(&self) -> PyResult<()> {
        let mut stream = lock(&self.shared.stream);
        let stream = stream.as_mut().ok_or_else(closed)?;
        let _ = Pin::new(stream).poll_shutdown(&mut Context::from_waker(std::task::Waker::noop())); // ready at once
        self.shared.writers.wake_all();
        Ok(())
    }

    /// Ends the stream: what was written is delivered if `finish`, otherwise the peer gets a reset.
    fn close(&self, finish: bool) {
        self.shared.end(finish);
    }
}
