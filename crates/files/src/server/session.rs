//! One session: its transfers, and the report of them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rampmeter_net::SessionEnd;
use rampmeter_streams::{Session, Stream};
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::transfer::{Done, Transfer};

/// The time for transfers to notice that their session has ended.
const END_TIMEOUT: Duration = Duration::from_millis(100);

/// The server's report of a session that has ended.
#[derive(Debug, Clone, Serialize)]
pub struct TransferReport {
    /// The client's address.
    pub peer: SocketAddr,
    /// The client's public key, and its comment in the list of clients.
    pub client: String,
    /// The name in the first request; empty without a request. It comes from the network: escape it before printing it
    /// to a terminal.
    pub name: String,
    /// Files that were sent completely.
    pub files: u64,
    /// The controller that sent the files.
    pub controller: String,
    /// Bytes of files that were sent.
    pub bytes: u64,
    /// The time from the first request to the end of the last transfer.
    pub seconds: f64,
    /// `finished`, `refused` if nothing else was done, `timed_out`, `reset` by the client or `aborted` by this server.
    pub ended: &'static str,
    /// Requests that were refused.
    pub refused: u64,
    /// The name in the last request that was refused. It comes from the network.
    pub refused_name: Option<String>,
    /// Why that request was refused.
    pub refusal: Option<String>,
}

/// Serves the streams of a session until it ends. Returns the session.
pub(super) async fn serve(server: Arc<Shared>, session: Session, mut streams: UnboundedReceiver<Stream>) -> Session {
    let (began, done, mut running) = (Instant::now(), Arc::<Mutex<Done>>::default(), JoinSet::new());
    let (mut degraded, mut is_idle) = (None, false);
    let end = loop {
        tokio::select! {
            Some(stream) = streams.recv() => {
                let (server, session, done) = (Arc::clone(&server), session.clone(), Arc::clone(&done));
                running.spawn(Transfer { server, session, done }.run(stream));
            }
            Some(_) = running.join_next(), if !running.is_empty() => {}
            Some(now) = session.degraded(degraded) => {
                if let Some(on_degraded) = &server.on_degraded {
                    on_degraded(session.address(), now.controller, now.reason);
                }
                degraded = Some(now);
            }
            end = session.ended() => break end,
            () = sleep(server.max_idle), if running.is_empty() => {
                is_idle = true;
                session.close();
            }
        }
    };
    let _ = timeout(END_TIMEOUT, async { while running.join_next().await.is_some() {} }).await;
    running.shutdown().await;
    let Some(on_transfer) = &server.on_transfer else { return session };
    let done = std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner));
    let ended = match end {
        _ if done.refusal.is_some() && done.files == 0 => "refused",
        SessionEnd::NoAnswer => "timed_out",
        SessionEnd::Stopping => "aborted",
        _ if is_idle => "aborted",
        _ if done.open > 0 => "reset",
        _ => "finished",
    };
    let (refused_name, refusal) = done.refusal.unzip();
    on_transfer(&TransferReport {
        peer: session.address(),
        client: server.clients.label(session.peer_key()),
        name: done.name.unwrap_or_default(),
        files: done.files,
        controller: session.controller().unwrap_or_else(|| server.controller.clone()),
        bytes: done.sent,
        seconds: done.ended.unwrap_or_else(Instant::now).duration_since(began).as_secs_f64(),
        ended,
        refused: done.refused,
        refused_name,
        refusal: refusal.map(|refusal| refusal.to_string()),
    });
    session
}
