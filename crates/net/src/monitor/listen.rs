//! Threads that answer readers: few at once, each within a time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use super::request::{Answer, parse};

/// The maximum number of readers at once; further ones are disconnected.
pub(super) const MAX_READERS: usize = 8;

/// The time in which a reader has to ask and to read.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum size of a state as JSON.
const MAX_STATE: u64 = 1 << 20;

/// The wait after an error of the system, such as too many open files.
const RETRY: Duration = Duration::from_millis(100);

/// A stream with timeouts.
pub(super) trait Timeouts: Read + Write + Send + 'static {
    fn set_timeouts(&self, left: Duration) -> io::Result<()>;
}

macro_rules! timeouts {
    ($($stream:ty),*) => {
        $(impl Timeouts for $stream {
            fn set_timeouts(&self, left: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(left))?;
                self.set_write_timeout(Some(left))
            }
        })*
    };
}

timeouts!(TcpStream, UnixStream);

/// Calls `answer` in a thread of its own for each stream that `accept` returns.
pub(super) fn spawn<S: Timeouts>(
    name: &'static str,
    accept: impl Fn() -> io::Result<S> + Send + 'static,
    answer: impl Fn(&mut S, Instant) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    let answer = Arc::new(answer);
    // One reference of each reader.
    let readers = Arc::new(());
    Builder::new().name(name.into()).spawn(move || {
        loop {
            let Ok(mut stream) = accept() else {
                sleep(RETRY);
                continue;
            };
            if Arc::strong_count(&readers) > MAX_READERS {
                continue;
            }
            let (answer, reader) = (Arc::clone(&answer), Arc::clone(&readers));
            let _ = Builder::new().name(name.into()).spawn(move || {
                // A reader that leaves early needs no error.
                let _ = answer(&mut stream, Instant::now() + READ_TIMEOUT);
                drop(reader);
            });
        }
    })?;
    Ok(())
}

/// Sets the stream's timeouts to what is left until then.
fn limit<S: Timeouts>(stream: &S, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_timeouts(left)
}

/// Writes `bytes`, within the time.
pub(super) fn write<S: Timeouts>(stream: &mut S, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        limit(stream, until)?;
        let count = stream.write(bytes)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Reads a request and answers it, `body` being what `/metrics` has.
pub(super) fn answer_http<S: Timeouts>(
    stream: &mut S,
    until: Instant,
    body: impl FnOnce() -> String,
) -> io::Result<()> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    let answer = loop {
        limit(stream, until)?;
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        request.extend(&piece[..count]);
        if let Some(answer) = parse(&request) {
            break answer;
        }
    };
    match answer {
        Answer::Metrics => respond(stream, "200 OK", &body(), until),
        Answer::Refusal(status, text) => respond(stream, status, text, until),
    }
}

fn respond<S: Timeouts>(stream: &mut S, status: &str, body: &str, until: Instant) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    write(stream, (head + body).as_bytes(), until)
}

/// All bytes of a state.
pub(super) fn read_all(stream: &UnixStream) -> io::Result<Vec<u8>> {
    stream.set_timeouts(READ_TIMEOUT)?;
    let mut bytes = Vec::new();
    stream.take(MAX_STATE).read_to_end(&mut bytes)?;
    Ok(bytes)
}
