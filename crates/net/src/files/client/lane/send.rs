//! A put: its request, what the server has of the file already, and its bytes.
//!
//! ```text
//! small:  request, bytes, end
//! large:  request ──► Offering ──► a job compares what the server has ──► offset, bytes, end
//! ```

use std::io;

use super::work::AT_ONCE;
use super::{Active, Context, Lane, MAX_OUTPUT, Stage};
use crate::files::client::task::{Done, Moved, PutTask, Task};
use crate::files::error::NetError;
use crate::files::protocol::{Hash, Piece, PutFlags, Request};
use crate::files::source::Source;

impl Lane {
    /// Sends the request of a put, whose file is open, with `bytes` of it.
    pub(super) fn begin_put(&mut self, cx: &mut Context<'_>, index: usize, task: Task, source: Source, bytes: &[u8]) {
        let Task::Put(PutTask { name, replace, resume, .. }) = &task else { return };
        let at_once = source.size <= AT_ONCE || !*resume;
        let flags = PutFlags { replace: *replace, at_once };
        let (size, modified) = (source.size, source.modified);
        Request::Put { name: name.clone(), flags, size, modified }.encode(&mut self.output);
        let at = self.pipeline.len();
        if at_once {
            self.pipeline.push_back(Active::new(index, task, Stage::Asked));
            self.push_bytes(cx, at, source, bytes);
        } else {
            self.pipeline.push_back(Active::new(index, task, Stage::Offering(source)));
        }
    }

    /// Sends `bytes` of the put at `at`, and the end of the file after its last bytes.
    fn push_bytes(&mut self, cx: &mut Context<'_>, at: usize, source: Source, bytes: &[u8]) {
        if !bytes.is_empty() {
            Piece::Bytes(bytes.len() as u32).encode(&mut self.output);
            self.output.extend_from_slice(bytes);
            *cx.moved += bytes.len() as u64;
        }
        let active = &mut self.pipeline[at];
        active.stage = if !source.is_at_end() {
            Stage::Sending(source)
        } else if source.was_unchanged {
            active.hash = Some(source.hash());
            Piece::End(source.hash()).encode(&mut self.output);
            Stage::Sent
        } else {
            Piece::Abort.encode(&mut self.output);
            Stage::Sent
        };
    }

    /// Ends the bytes of the put at `at`, whose file cannot be read. The server answers with a refusal.
    fn push_abort(&mut self, at: usize) {
        Piece::Abort.encode(&mut self.output);
        self.pipeline[at].stage = Stage::Sent;
    }

    /// Starts to read the next bytes of a put, if there is space for them.
    pub(super) fn read_more(&mut self, cx: &mut Context<'_>) {
        let Some(active) = self.pipeline.back_mut() else { return };
        if !matches!(active.stage, Stage::Sending(_)) || self.output.len() - self.flushed > MAX_OUTPUT / 2 {
            return;
        }
        if !cx.host.is_writable(self.id) {
            return cx.host.notify_writable(self.id);
        }
        if let Stage::Sending(source) = std::mem::replace(&mut active.stage, Stage::InJob { refused: None }) {
            cx.jobs.read(active.index, source);
        }
    }

    pub(super) fn on_read(&mut self, cx: &mut Context<'_>, at: usize, read: io::Result<(Source, Vec<u8>)>) {
        let Stage::InJob { refused } = self.pipeline[at].stage else { return };
        match (refused, read) {
            (Some(reason), _) => {
                Piece::Abort.encode(&mut self.output);
                self.fail(cx, at, reason);
            }
            (None, Err(_)) => self.push_abort(at),
            (None, Ok((source, bytes))) => self.push_bytes(cx, at, source, &bytes),
        }
    }

    /// The server has the first `offset` bytes of the file, with the hash `prefix`, or other bytes.
    pub(super) fn on_partial(&mut self, cx: &Context<'_>, offset: u64, prefix: Hash) -> Result<(), NetError> {
        let active = self.pipeline.front_mut().ok_or(NetError::BadAnswer(cx.address))?;
        let Stage::Offering(source) = std::mem::replace(&mut active.stage, Stage::InJob { refused: None }) else {
            return Err(NetError::BadAnswer(cx.address));
        };
        cx.jobs.match_part(active.index, source, offset, prefix);
        Ok(())
    }

    pub(super) fn on_matched(&mut self, cx: &mut Context<'_>, at: usize, matched: io::Result<(Source, bool)>) {
        let Stage::InJob { refused: None } = self.pipeline[at].stage else {
            return self.on_read(cx, at, matched.map(|(source, _)| (source, Vec::new())));
        };
        let rewound = matched.and_then(|(mut source, is_same)| {
            if !is_same {
                source.rewind()?;
            }
            Ok(source)
        });
        match rewound {
            Ok(source) => {
                self.pipeline[at].resumed_from = source.at;
                *cx.moved += source.at;
                Piece::From(source.at).encode(&mut self.output);
                self.push_bytes(cx, at, source, &[]);
            }
            Err(_) => self.push_abort(at),
        }
    }

    /// The server has the whole file.
    pub(super) fn on_put_done(&mut self, cx: &mut Context<'_>) -> Result<(), NetError> {
        let bad_answer = NetError::BadAnswer(cx.address);
        let Some(Active { task: Task::Put(put), resumed_from, hash, .. }) = self.pipeline.front() else {
            return Err(bad_answer);
        };
        let blake3 = hash.ok_or(bad_answer)?;
        let moved = Moved { path: put.local.path(), size: put.size, resumed_from: *resumed_from, blake3 };
        self.finish(cx, Ok(Done::Moved(moved)));
        Ok(())
    }
}
