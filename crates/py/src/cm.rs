//! `rampmeter._engine.CmClient`: the plain client of the Congestion Manager; `python/rampmeter/cm.py` is the public
//! interface.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rampmeter_cm::{
    Client, Error, Event, Feedback, Id, LossMode, Macroflow, Options, Share, Thresholds, default_socket,
};
use rampmeter_units::{Bytes, Duration};

use crate::SIGNAL_CHECK_INTERVAL;

pyo3::create_exception!(
    rampmeter,
    CmError,
    PyRuntimeError,
    "An error of the Congestion Manager and its remedy; `code` is the error's number in cm.h."
);

fn refuse(error: Error) -> PyErr {
    exception(error, error.to_string())
}

/// The exception for `error` with this message.
fn exception(error: Error, message: String) -> PyErr {
    let refused = CmError::new_err(message);
    // The message is enough if the number cannot be set.
    let _ = Python::attach(|python| refused.value(python).setattr("code", error.code()));
    refused
}

fn id(flow: i32) -> PyResult<Id> {
    Id::from_c(flow).ok_or_else(|| refuse(Error::Unknown))
}

fn seconds(number: f64) -> PyResult<Duration> {
    let is_valid = (0.0..=1e9).contains(&number);
    if is_valid { Ok(Duration::from_secs_f64(number)) } else { Err(refuse(Error::Invalid)) }
}

/// A number of bytes; a number in Python may be negative.
fn size(name: &str, bytes: i64) -> PyResult<u64> {
    u64::try_from(bytes).map_err(|_| PyValueError::new_err(format!("{name} is {bytes}: use 0 or more bytes")))
}

/// A port; a number in Python may be negative or above 65535.
fn port_number(port: i64) -> PyResult<u16> {
    u16::try_from(port).map_err(|_| PyValueError::new_err(format!("{port} is not a port: use 0 to 65535")))
}

fn address(python: Python<'_>, host: &str, port: u16) -> PyResult<SocketAddr> {
    let address = python.detach(|| (host, port).to_socket_addrs().ok().and_then(|mut found| found.next()));
    address.ok_or_else(|| PyValueError::new_err(format!("no address was found for the host {host}")))
}

/// A kind of event, its flow, and two numbers whose meaning depends on the kind.
type PyEvent = (&'static str, i32, f64, f64);

/// A macroflow, by one of its flows or by name.
#[derive(FromPyObject)]
enum MacroflowName {
    Flow(i32),
    Name(String),
}

/// A connection to the daemon.
#[pyclass(frozen)]
pub(crate) struct CmClient {
    client: Client,
}

#[pymethods]
impl CmClient {
    #[new]
    fn new(python: Python<'_>, path: Option<PathBuf>) -> PyResult<Self> {
        let path = path.unwrap_or_else(default_socket);
        let client = python.detach(|| Client::connect_to(&path));
        let client = client.map_err(|error| exception(error, format!("{}: {error}", path.display())))?;
        Ok(Self { client })
    }

    fn open(&self, python: Python<'_>, host: &str, port: i64, weight: f64) -> PyResult<i32> {
        let to = address(python, host, port_number(port)?)?;
        let options = Options { share: Share { weight, ..Share::default() } };
        python.detach(|| self.client.open(to, &options)).map(Id::to_c).map_err(refuse)
    }

    fn mtu(&self, flow: i32) -> PyResult<u32> {
        self.client.mtu(id(flow)?).map_err(refuse)
    }

    fn request(&self, python: Python<'_>, flow: i32) -> PyResult<()> {
        let flow = id(flow)?;
        python.detach(|| self.client.request(flow)).map_err(refuse)
    }

    fn notify(&self, python: Python<'_>, flow: i32, sent: i64) -> PyResult<()> {
        let (flow, sent) = (id(flow)?, size("sent", sent)?);
        python.detach(|| self.client.notify(flow, sent)).map_err(refuse)
    }

    fn update(
        &self,
        python: Python<'_>,
        flow: i32,
        received: i64,
        lost: i64,
        loss: Option<&str>,
        rtt: Option<f64>,
    ) -> PyResult<()> {
        let mode = match loss {
            None => None,
            Some("persistent") => Some(LossMode::Persistent),
            Some("transient") => Some(LossMode::Transient),
            Some("ecn") => Some(LossMode::Ecn),
            Some(loss) => {
                let message = format!("no loss is called \"{loss}\": use \"persistent\", \"transient\" or \"ecn\"");
                return Err(exception(Error::Invalid, message));
            }
        };
        let rtt = rtt.map(seconds).transpose()?;
        let (received, lost) = (size("received", received)?, size("lost", lost)?);
        let feedback = Feedback { received: Bytes::new(received), lost: Bytes::new(lost), mode, rtt };
        let flow = id(flow)?;
        python.detach(|| self.client.update(flow, &feedback)).map_err(refuse)
    }

    fn query(&self, python: Python<'_>, flow: i32) -> PyResult<(f64, f64)> {
        let flow = id(flow)?;
        let state = python.detach(|| self.client.query(flow)).map_err(refuse)?;
        Ok((state.rate.as_bps_f64(), state.srtt.as_secs_f64()))
    }

    fn thresholds(&self, flow: i32, down: f64, up: f64) -> PyResult<()> {
        self.client.thresholds(id(flow)?, &Thresholds { down, up }).map_err(refuse)
    }

    fn weigh(&self, flow: i32, weight: f64) -> PyResult<()> {
        let flow = id(flow)?;
        let share = self.client.share_of(flow).map_err(refuse)?;
        self.client.share(flow, Share { weight, ..share }).map_err(refuse)
    }

    /// `with_flow` is a flow's number, or "new" or "default".
    fn set_macroflow(&self, python: Python<'_>, flow: i32, with_flow: MacroflowName) -> PyResult<()> {
        let to = match with_flow {
            MacroflowName::Flow(other) => Macroflow::Of(id(other)?),
            MacroflowName::Name(name) if name == "new" => Macroflow::New,
            MacroflowName::Name(name) if name == "default" => Macroflow::Default,
            MacroflowName::Name(name) => {
                let message =
                    format!("no macroflow is called \"{name}\": use \"new\", \"default\" or one of your flows");
                return Err(exception(Error::Invalid, message));
            }
        };
        let flow = id(flow)?;
        python.detach(|| self.client.set_macroflow(flow, to)).map_err(refuse)
    }

    fn send(&self, python: Python<'_>, flow: i32, data: &[u8]) -> PyResult<()> {
        let flow = id(flow)?;
        python.detach(|| self.client.send(flow, data)).map_err(refuse)
    }

    /// The header of a packet, and the address that it goes to.
    fn header(&self, python: Python<'_>, flow: i32, length: i64) -> PyResult<(Vec<u8>, (String, u16))> {
        let (flow, length) = (id(flow)?, size("length", length)? as usize);
        let header = python.detach(|| self.client.header(flow, length)).map_err(refuse)?;
        let host = match header.to {
            SocketAddr::V6(to) if to.scope_id() != 0 => format!("{}%{}", to.ip(), to.scope_id()),
            to => to.ip().to_string(),
        };
        Ok((header.bytes, (host, header.to.port())))
    }

    fn listen(&self, python: Python<'_>, port: i64, on: bool) -> PyResult<()> {
        let port = port_number(port)?;
        python.detach(|| if on { self.client.listen(port) } else { self.client.unlisten(port) }).map_err(refuse)
    }

    #[allow(clippy::needless_pass_by_value, reason = "Python gives it away")]
    fn hint(&self, python: Python<'_>, host: &str, weights: Vec<(u16, u32)>) -> PyResult<()> {
        let peer = address(python, host, 0)?;
        python.detach(|| self.client.hint(peer.ip(), &weights)).map_err(refuse)
    }

    fn close(&self, flow: i32) -> PyResult<()> {
        self.client.close(id(flow)?).map_err(refuse)
    }

    /// The next event, or `None` after `timeout` seconds. Python's lock is released while this waits, and Ctrl-C ends
    /// it.
    fn next(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Option<PyEvent>> {
        let mut left = timeout.map(seconds).transpose()?;
        loop {
            let interval = Duration::from_nanos(SIGNAL_CHECK_INTERVAL.as_nanos() as u64);
            let wait = left.map_or(interval, |left| left.min(interval));
            let event = python.detach(|| self.client.next(Some(wait))).map_err(refuse)?;
            if let Some((flow, event)) = event {
                let (kind, a, b) = match event {
                    Event::Send { bytes } => ("send", f64::from(bytes), 0.0),
                    Event::Update(path) => ("update", path.rate.as_bps_f64(), path.srtt.as_secs_f64()),
                    Event::Room => ("room", 0.0, 0.0),
                    Event::Closed(error) => ("closed", f64::from(error.code()), 0.0),
                };
                return Ok(Some((kind, flow.to_c(), a, b)));
            }
            python.check_signals()?;
            left = left.map(|left| left.saturating_sub(wait));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
        }
    }

    fn fileno(&self) -> PyResult<i32> {
        use std::os::fd::AsRawFd;
        self.client.file().map(|file| file.as_raw_fd()).map_err(refuse)
    }
}

/// The text of an error's number.
#[pyfunction]
pub(crate) fn cm_strerror(code: i32) -> Option<String> {
    Error::from_code(code).map(|error| error.to_string())
}
