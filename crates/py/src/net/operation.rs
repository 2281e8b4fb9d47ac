//! What takes time. A program waits for it, in a thread, with Python's lock released and Ctrl-C heard; or an event loop
//! polls it. The threads of the network never wait for Python's lock: they only write to an eventfd, which the event
//! loop watches.
//!
//! ```text
//! Operation.wait           polls, parks the thread, looks for signals
//! Operation.poll(Wakeups)  polls once; later the token is in Wakeups, whose descriptor becomes readable
//! ```

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::SIGNAL_CHECK_INTERVAL;

/// Makes the result of an operation.
pub(super) type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Step = Box<dyn FnMut(&mut Context<'_>) -> Poll<Finish> + Send>;

/// The lock of a mutex, which no panic leaves in a state that matters.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that takes time, once.
#[pyclass(frozen)]
pub(crate) struct Operation(Mutex<Option<Step>>);

impl Operation {
    pub(super) fn new(step: impl FnMut(&mut Context<'_>) -> Poll<Finish> + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(step))))
    }

    /// The future's result, converted.
    pub(super) fn of<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let mut future = Box::pin(future);
        let mut convert = Some(convert);
        Self::new(move |context| {
            future.as_mut().poll(context).map(|found| -> Finish {
                let convert = convert.take();
                Box::new(move |python| match convert {
                    Some(convert) => convert(python, found),
                    None => Ok(python.None()),
                })
            })
        })
    }

    /// Polls once. The step is dropped when it is done.
    fn step(&self, waker: &Waker) -> PyResult<Poll<Finish>> {
        let mut step = lock(&self.0);
        let Some(run) = step.as_mut() else {
            return Err(PyRuntimeError::new_err("this operation has ended"));
        };
        let polled = run(&mut Context::from_waker(waker));
        if polled.is_ready() {
            *step = None;
        }
        Ok(polled)
    }
}

#[pymethods]
impl Operation {
    /// Waits for the result, for up to `timeout` seconds: whether there is one, and the result.
    fn wait(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<(bool, Py<PyAny>)> {
        let deadline = timeout.map(seconds).transpose()?.and_then(|timeout| Instant::now().checked_add(timeout));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            let look = Instant::now() + SIGNAL_CHECK_INTERVAL;
            let until = deadline.map_or(look, |deadline| deadline.min(look));
            let polled = python.detach(|| {
                loop {
                    let polled = self.step(&waker)?;
                    let left = until.saturating_duration_since(Instant::now());
                    if polled.is_ready() || left.is_zero() {
                        return PyResult::Ok(polled);
                    }
                    thread::park_timeout(left);
                }
            })?;
            if let Poll::Ready(finish) = polled {
                return Ok((true, finish(python)?));
            }
            python.check_signals()?;
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok((false, python.None()));
            }
        }
    }

    /// Polls once: whether there is a result, and the result. Without one, the token is in `wakeups` when this should be
    /// called again.
    fn poll(&self, python: Python<'_>, wakeups: &Wakeups, token: u64) -> PyResult<(bool, Py<PyAny>)> {
        let waker = Waker::from(Arc::new(Token { wakeups: Arc::clone(&wakeups.0), token }));
        match python.detach(|| self.step(&waker))? {
            Poll::Ready(finish) => Ok((true, finish(python)?)),
            Poll::Pending => Ok((false, python.None())),
        }
    }

    /// Gives the operation up.
    fn cancel(&self, python: Python<'_>) {
        python.detach(|| drop(lock(&self.0).take()));
    }
}

/// A time in seconds.
pub(super) fn seconds(number: f64) -> PyResult<Duration> {
    let problem = || PyValueError::new_err(format!("`{number}` is no time: give 0 or more seconds, or None"));
    Duration::try_from_secs_f64(number).map_err(|_| problem())
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Operations that an event loop should poll again.
#[pyclass(frozen)]
pub(crate) struct Wakeups(Arc<Ready>);

struct Ready {
    tokens: Mutex<Vec<u64>>,
    event: EventFd,
}

#[pymethods]
impl Wakeups {
    #[new]
    fn new() -> PyResult<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let event = EventFd::from_flags(flags).map_err(std::io::Error::from)?;
        Ok(Self(Arc::new(Ready { tokens: Mutex::default(), event })))
    }

    /// The descriptor that is readable while there are tokens.
    fn fileno(&self) -> i32 {
        self.0.event.as_fd().as_raw_fd()
    }

    /// Takes the tokens of the operations that should be polled.
    fn take(&self) -> Vec<u64> {
        let _ = self.0.event.read(); // nothing to read: somebody else was faster
        std::mem::take(&mut lock(&self.0.tokens))
    }
}

struct Token {
    wakeups: Arc<Ready>,
    token: u64,
}

impl Wake for Token {
    fn wake(self: Arc<Self>) {
        lock(&self.wakeups.tokens).push(self.token);
        let _ = self.wakeups.event.write(1); // a full counter is readable already
    }
}

/// Wakers of several operations that wait for the same, of which the waited-for keeps only one.
#[derive(Default)]
pub(super) struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    /// Polls with a waker for all operations that wait here.
    pub(super) fn poll<T>(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        {
            let mut wakers = lock(&self.0);
            if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                wakers.push(context.waker().clone());
            }
        }
        poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
    }

    /// Wakes all of them.
    pub(super) fn wake_all(&self) {
        let wakers = std::mem::take(&mut *lock(&self.0));
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}
