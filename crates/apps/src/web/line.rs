//! What is told of a response: one line.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use rampmeter_units::{Bytes, Rate};
use serde::Serialize;

/// How a response went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Whose request.
    pub peer: SocketAddr,
    /// What was asked for, as it was written.
    pub target: String,
    /// The status.
    pub status: u16,
    /// The file that was sent.
    pub file: Option<String>,
    /// Where there was a choice: the share and the round trip that it was made by.
    pub share_bps: Option<u64>,
    /// As above.
    pub srtt_s: Option<f64>,
    /// Bytes that were sent, head included.
    pub bytes: u64,
    /// From the request to the last acknowledgement.
    pub seconds: f64,
    /// Those bytes over that time.
    pub goodput_bps: f64,
    /// The client has all of it.
    pub whole: bool,
    /// Grants that were given back because the kernel's own window was full.
    pub held_up: u64,
}

impl Line {
    /// Of a response that begins.
    pub(crate) fn new(peer: SocketAddr, target: String, answer: &super::answer::Answer) -> Self {
        Self {
            peer,
            target,
            status: answer.status.words().0,
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

/// To three significant digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names come from strangers and files: nothing in them reaches a terminal raw.
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
