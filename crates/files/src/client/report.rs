//! The report of a client.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Serialize;

use super::download::Complete;
use super::session::{Downloads, Facts};
use crate::error::NetError;

/// One file.
#[derive(Debug, Clone, Serialize)]
pub struct FileReport {
    /// Its name at the server.
    pub name: String,
    /// Its path on this machine.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Bytes that an earlier transfer had moved.
    pub resumed_from: u64,
    /// The verified BLAKE3 hash of a complete file; empty otherwise.
    pub blake3: String,
    /// Why it failed.
    pub error: Option<String>,
}

/// The report of a client.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The server's address.
    pub server: SocketAddr,
    /// The server's public key.
    pub server_key: String,
    /// Whether this was the first contact, and its key was stored.
    pub is_new_server: bool,
    /// The controller that sent the files, as the server reports.
    pub controller: String,
    /// The sizes of all complete files.
    pub bytes: u64,
    /// Bytes of them that earlier transfers had moved.
    pub resumed_from: u64,
    /// The number of complete files.
    pub complete: usize,
    /// The number of files that failed.
    pub failed: usize,
    /// The time from the first packet to the last byte.
    pub seconds: f64,
    /// Moved bits of files per second over that time.
    pub goodput_bps: f64,
    /// The round-trip time of the handshake.
    pub handshake_s: f64,
    /// The minimum round-trip time.
    pub min_rtt_s: f64,
    /// The smoothed round-trip time at the end.
    pub rtt_s: f64,
    /// The fraction of the server's packets that did not arrive.
    pub loss: f64,
    /// The files.
    pub files: Vec<FileReport>,
}

impl FileReport {
    pub(super) fn new(name: String, path: PathBuf, result: Result<Complete, NetError>) -> Self {
        match result {
            Ok(Complete { size, resumed_from, blake3 }) => {
                Self { name, path, bytes: size, resumed_from, blake3, error: None }
            }
            Err(error) => {
                Self { name, path, bytes: 0, resumed_from: 0, blake3: String::new(), error: Some(error.to_string()) }
            }
        }
    }
}

impl Report {
    pub(super) fn new(downloads: &Downloads<'_>, facts: &Facts, files: Vec<FileReport>) -> Self {
        let seconds = downloads.ended.duration_since(downloads.started).as_secs_f64();
        let complete = files.iter().filter(|file| file.error.is_none());
        let (complete, bytes, resumed_from) =
            complete.fold((0, 0, 0), |sum, file| (sum.0 + 1, sum.1 + file.bytes, sum.2 + file.resumed_from));
        let measured = downloads.state.measured();
        Self {
            server: facts.address,
            server_key: facts.key.to_string(),
            is_new_server: downloads.is_new_server,
            controller: measured.controller,
            bytes,
            resumed_from,
            complete,
            failed: files.len() - complete,
            seconds,
            goodput_bps: bytes.saturating_sub(resumed_from) as f64 * 8.0 / seconds.max(1e-9),
            handshake_s: facts.handshake.as_secs_f64(),
            min_rtt_s: measured.min_rtt.as_secs_f64(),
            rtt_s: measured.rtt.as_secs_f64(),
            loss: measured.loss,
            files,
        }
    }
}
