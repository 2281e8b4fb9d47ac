//! `librampmeter_cm`: the functions of `include/cm.h`, which documents them. One connection serves the whole process.
//!
//! Callbacks are called without any lock, so they may call these functions. The connection stores the thread that
//! dispatches: `cm_dispatch` from within a callback is refused, and `cm_close` waits for a callback that runs in
//! another thread.

#![allow(missing_docs, reason = "cm.h documents these functions")]

mod address;
mod connection;

use std::ffi::{CStr, OsStr, c_char, c_double, c_int, c_uint, c_ushort, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cm::{Client, Error, Feedback, Id, LossMode, Macroflow, ServiceCurve, Share, Thresholds};
use libc::{sockaddr, sockaddr_storage, socklen_t};
use rampmeter_units::{Bytes, Duration, Rate};

use crate::connection::{Callbacks, User};

/// A result as C's error number.
fn code(result: Result<c_int, Error>) -> c_int {
    result.unwrap_or_else(Error::code)
}

fn done(result: Result<(), Error>) -> c_int {
    code(result.map(|()| 0))
}

fn id(id: c_int) -> Result<Id, Error> {
    Id::from_c(id).ok_or(Error::Unknown)
}

/// Calls the client of the current connection about `flow`.
fn about(flow: c_int, call: impl FnOnce(&Client, Id) -> Result<(), Error>) -> c_int {
    done(connection::existing().and_then(|connection| call(&connection.client, id(flow)?)))
}

/// A number of bytes, which may be negative in C.
fn bytes(number: c_int) -> Result<u64, Error> {
    u64::try_from(number).map_err(|_| Error::Invalid)
}

fn seconds(number: c_double) -> Result<Option<Duration>, Error> {
    if number == 0.0 {
        return Ok(None);
    }
    let is_valid = (1e-9..=600.0).contains(&number);
    if is_valid { Ok(Some(Duration::from_secs_f64(number))) } else { Err(Error::Invalid) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_strerror(error: c_int) -> *const c_char {
    connection::describe(error).as_ptr()
}

/// # Safety
/// `path` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_connect(path: *const c_char) -> c_int {
    let path = if path.is_null() {
        cm::default_socket()
    } else {
        // SAFETY: the caller gives a string, as `cm.h` asks.
        let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
        Path::new(OsStr::from_bytes(bytes)).to_owned()
    };
    done(connection::connect(&path))
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_disconnect() -> c_int {
    done(connection::disconnect())
}

/// # Safety
/// `to` is null or an address of `length` bytes; `callbacks` is null or points to a structure of functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_open(
    to: *const sockaddr,
    length: socklen_t,
    callbacks: *const Callbacks,
    user: *mut c_void,
) -> c_int {
    if to.is_null() {
        return Error::Invalid.code();
    }
    // SAFETY: not null, so an address of that length, as `cm.h` asks; copied here.
    let address = unsafe { std::slice::from_raw_parts(to.cast::<u8>(), length as usize) };
    // SAFETY: null or a structure, as `cm.h` asks; copied here.
    let callbacks = unsafe { callbacks.as_ref() }.copied().unwrap_or_default();
    let open = || {
        let to = address::read(address)?;
        connection::get()?.open(to, callbacks, User(user))
    };
    code(open().map(Id::to_c))
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_mtu(flow: c_int) -> c_int {
    let mtu = connection::existing().and_then(|connection| connection.client.mtu(id(flow)?));
    code(mtu.map(|mtu| mtu as c_int))
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_request(flow: c_int) -> c_int {
    about(flow, Client::request)
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_notify(flow: c_int, sent: c_int) -> c_int {
    about(flow, |client, id| client.notify(id, bytes(sent)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_update(flow: c_int, received: c_int, lost: c_int, loss: c_int, rtt: c_double) -> c_int {
    let update = || {
        let mode = match loss {
            0 => None,
            1 => Some(LossMode::Persistent),
            2 => Some(LossMode::Transient),
            3 => Some(LossMode::Ecn),
            _ => return Err(Error::Invalid),
        };
        let (received, lost) = (Bytes::new(bytes(received)?), Bytes::new(bytes(lost)?));
        connection::existing()?.client.update(id(flow)?, &Feedback { received, lost, mode, rtt: seconds(rtt)? })
    };
    done(update())
}

/// # Safety
/// `rate` and `srtt` are null or point to a number each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_query(flow: c_int, rate: *mut c_double, srtt: *mut c_double) -> c_int {
    about(flow, |client, id| {
        let state = client.query(id)?;
        // SAFETY: null or a pointer to a number, as `cm.h` asks.
        if let Some(rate) = unsafe { rate.as_mut() } {
            *rate = state.rate.as_bps_f64();
        }
        // SAFETY: as above.
        if let Some(srtt) = unsafe { srtt.as_mut() } {
            *srtt = state.srtt.as_secs_f64();
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_thresh(flow: c_int, down: c_double, up: c_double) -> c_int {
    about(flow, |client, id| client.thresholds(id, &Thresholds { down, up }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_weight(flow: c_int, weight: c_double) -> c_int {
    about(flow, |client, id| client.share(id, Share { weight, ..client.share_of(id)? }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_guarantee(flow: c_int, rate: c_double, delay: c_double) -> c_int {
    about(flow, |client, id| {
        if !(0.0..=1e15).contains(&rate) {
            return Err(Error::Invalid);
        }
        let packet = Bytes::new(client.mtu(id)?.into());
        let rate = Rate::from_bps_f64(rate);
        let curve = match seconds(delay)? {
            _ if rate == Rate::ZERO => None,
            None => Some(ServiceCurve::linear(rate)),
            Some(delay) => Some(ServiceCurve::within(delay, packet, rate)),
        };
        client.share(id, Share { curve, ..client.share_of(id)? })
    })
}

/// The values of `enum cm_macroflow` in `cm.h`. No id and no error has them.
const NEW_MACROFLOW: c_int = -1001;
const DEFAULT_MACROFLOW: c_int = -1002;

#[unsafe(no_mangle)]
pub extern "C" fn cm_set_macroflow(flow: c_int, with: c_int) -> c_int {
    about(flow, |client, flow| {
        let to = match with {
            NEW_MACROFLOW => Macroflow::New,
            DEFAULT_MACROFLOW => Macroflow::Default,
            other => Macroflow::Of(id(other)?),
        };
        client.set_macroflow(flow, to)
    })
}

/// # Safety
/// `data` is null or points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_send(flow: c_int, data: *const c_void, length: c_int) -> c_int {
    let send = || {
        let length = bytes(length)? as usize;
        if data.is_null() {
            return Err(Error::Invalid);
        }
        // SAFETY: not null, so that many bytes, as `cm.h` asks.
        let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
        connection::existing()?.client.send(id(flow)?, data)
    };
    done(send())
}

/// # Safety
/// `header` is null or has room for [`cm::HEADER_BYTES`] bytes; `to` and `to_length` are null or point to their types.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_header(
    flow: c_int,
    length: c_int,
    header: *mut c_void,
    to: *mut sockaddr_storage,
    to_length: *mut socklen_t,
) -> c_int {
    let write = || {
        if header.is_null() || to.is_null() || to_length.is_null() {
            return Err(Error::Invalid);
        }
        let written = connection::existing()?.client.header(id(flow)?, bytes(length)? as usize)?;
        let address = address::write(written.to);
        // SAFETY: not null, so of these types, as `cm.h` asks; a header has at most `HEADER_BYTES` bytes, and every
        // address fits into `sockaddr_storage`.
        unsafe {
            std::ptr::copy_nonoverlapping(written.bytes.as_ptr(), header.cast::<u8>(), written.bytes.len());
            std::ptr::copy_nonoverlapping(address.as_ptr(), to.cast::<u8>(), address.len());
            *to_length = address.len() as socklen_t;
        }
        Ok(written.bytes.len() as c_int)
    };
    code(write())
}

fn port(number: c_int) -> Result<u16, Error> {
    u16::try_from(number).map_err(|_| Error::Invalid)
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_listen(number: c_int) -> c_int {
    done(connection::get().and_then(|connection| connection.client.listen(port(number)?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_unlisten(number: c_int) -> c_int {
    done(connection::connected().and_then(|connection| connection.client.unlisten(port(number)?)))
}

/// # Safety
/// `peer` is null or an address of `length` bytes; `ports` and `weights` are null or point to `count` numbers each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_hint(
    peer: *const sockaddr,
    length: socklen_t,
    ports: *const c_ushort,
    weights: *const c_uint,
    count: c_int,
) -> c_int {
    let hint = || {
        let count = bytes(count)? as usize;
        if peer.is_null() || ports.is_null() || weights.is_null() {
            return Err(Error::Invalid);
        }
        // SAFETY: not null, so an address of that length, as `cm.h` asks.
        let peer = address::read(unsafe { std::slice::from_raw_parts(peer.cast::<u8>(), length as usize) })?;
        // SAFETY: not null, so `count` ports, as `cm.h` asks.
        let ports = unsafe { std::slice::from_raw_parts(ports, count) };
        // SAFETY: not null, so `count` weights, as `cm.h` asks.
        let weights = unsafe { std::slice::from_raw_parts(weights, count) };
        let hints: Vec<_> = ports.iter().copied().zip(weights.iter().copied()).collect();
        connection::connected()?.client.hint(peer.ip(), &hints)
    };
    done(hint())
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_close(flow: c_int) -> c_int {
    done(connection::existing().and_then(|connection| connection.close(id(flow)?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_dispatch(milliseconds: c_int) -> c_int {
    let timeout = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    code(connection::connected().and_then(|connection| connection.dispatch(timeout)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cm_fd() -> c_int {
    use std::os::fd::AsRawFd;
    let file = || Ok(connection::get()?.client.file()?.as_raw_fd());
    code(file())
}
