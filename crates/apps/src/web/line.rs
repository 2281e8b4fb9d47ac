//! The log line of a response.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use rampmeter_units::{Bytes, Rate};
use serde::Serialize;

/// The result of a response.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The client.
    pub peer: SocketAddr,
    /// The target as it was written in the request.
    pub target: String,
    /// The status.
    pub status: u16,
    /// The file that was sent.
    pub file: Option<String>,
    /// The urgency that the client gave it, 0 to 7.
    pub urgency: u8,
    /// The share by which a representation was chosen, if there were several.
    pub share_bps: Option<u64>,
    /// The smoothed round-trip time at that time.
    pub srtt_s: Option<f64>,
    /// The number of bytes sent, including the header.
    pub bytes: u64,
    /// The time from the request to the last acknowledgement.
    pub seconds: f64,
    /// Those bytes divided by that time.
    pub goodput_bps: f64,
    /// The client has acknowledged all bytes.
    pub whole: bool,
    /// The number of grants that were returned because the kernel's window was full.
    pub held_up: u64,
}

impl Line {
    /// The line of a response that starts.
    pub(crate) fn new(
        connection: &super::connection::Connection,
        target: String,
        answer: &super::answer::Answer,
    ) -> Self {
        Self {
            peer: connection.peer,
            target,
            urgency: connection.urgency,
            status: answer.status.0,
            file: answer.name.clone(),
            share_bps: answer.path.map(|path| path.rate.as_bps()),
            srtt_s: answer.path.map(|path| path.srtt.as_secs_f64()),
            bytes: 0,
            seconds: 0.0,
            goodput_bps: 0.0,
            whole: false,
            held_up: 0,
        }
    }

    pub(crate) fn end(&mut self, bytes: u64, took: Duration) {
        (self.bytes, self.seconds) = (bytes, took.as_secs_f64());
        self.goodput_bps = bytes as f64 * 8.0 / self.seconds.max(1e-6);
    }
}

/// Rounded to three significant digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names come from clients and files, so they are escaped before they reach a terminal.
        write!(f, "{} {:?} {}", self.peer, self.target, self.status)?;
        if let Some(file) = &self.file {
            write!(f, " {file:?}")?;
        }
        let (bytes, rate) =
            (Bytes::new(rounded(self.bytes as f64) as u64), Rate::from_bps_f64(rounded(self.goodput_bps)));
        write!(f, " {bytes} in {} s, {rate}", rounded(self.seconds))?;
        if let (Some(share), Some(srtt)) = (self.share_bps, self.srtt_s) {
            let share = Rate::from_bps_f64(rounded(share as f64));
            write!(f, " (its share was {share}, its round trip {} ms)", rounded(srtt * 1e3))?;
        }
        if self.whole { Ok(()) } else { f.write_str(", not all of it acknowledged") }
    }
}
