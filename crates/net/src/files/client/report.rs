//! What a client reports.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Serialize;

/// What was done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileResult {
    /// It was received or sent, and its hash is right.
    Complete,
    /// Both ends had the same file already.
    Unchanged,
    /// It was deleted.
    Deleted,
    /// A dry run would receive or send it.
    WouldTransfer,
    /// A dry run would delete it.
    WouldDelete,
    /// It could not be received, sent or deleted.
    Failed,
}

/// One file.
#[derive(Debug, Clone, Serialize)]
pub struct FileReport {
    /// Its name at the server.
    pub name: String,
    /// Its path on this machine.
    pub path: PathBuf,
    /// What was done with it.
    pub result: FileResult,
    /// Its size.
    pub bytes: u64,
    /// Bytes that an earlier transfer had moved.
    pub resumed_from: u64,
    /// The BLAKE3 hash of a complete file, verified at the receiver; empty otherwise.
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
    /// The controller that sent the files, as the sender reports.
    pub controller: String,
    /// The sizes of all complete files.
    pub bytes: u64,
    /// Bytes of them that earlier transfers had moved.
    pub resumed_from: u64,
    /// The number of complete files.
    pub complete: usize,
    /// The number of files that both ends had already.
    pub unchanged: usize,
    /// The number of files that failed.
    pub failed: usize,
    /// Files that the server cannot serve: links, devices, names that the protocol does not carry.
    pub skipped: u64,
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
    /// The fraction of the sender's packets that did not arrive.
    pub loss: f64,
    /// The files.
    pub files: Vec<FileReport>,
}
