//! What jobs found becomes answers: a file's bytes, hashes, lists.

use super::{Context, Lane, Next, Stage};
use crate::files::protocol::{Answer, Piece, Refusal};
use crate::files::server::jobs::Outcome;
use crate::files::source::Source;

impl Lane {
    /// A job has ended.
    pub(in super::super) fn on_outcome(&mut self, cx: &mut Context<'_>, outcome: Outcome) -> Next {
        self.has_job = false;
        self.charge_hashing(cx.now, &cx.shared.common);
        let stage = std::mem::replace(&mut self.stage, Stage::Ready);
        match (stage, outcome) {
            (Stage::Ended, _) => self.stage = Stage::Ended,
            (stage @ Stage::Receiving(_), outcome) => {
                self.stage = stage;
                return self.on_upload_outcome(cx, outcome);
            }
            (_, Outcome::Refused(reason)) => self.refuse(cx, reason),
            (Stage::Sending(_), Outcome::Opened(source, bytes)) => self.start(cx, source, bytes),
            (Stage::Sending(_), Outcome::Read(source, bytes)) => self.send(cx, source, bytes),
            // It became shorter, or its disk fails: the client's bytes are not wrong, but the file has other ones.
            (Stage::Sending(_), Outcome::ReadFailed) => {
                self.note_refusal(Refusal::Changed);
                self.answer(cx, &Answer::Piece(Piece::Abort));
            }
            (Stage::Checking { prefix, until, .. }, Outcome::Opened(source, _)) => {
                if until > source.size {
                    self.restart(cx, source);
                } else {
                    self.answer(cx, &Answer::Busy);
                    self.stage = Stage::Checking { source: Some(source), prefix, until };
                }
            }
            (Stage::Checking { prefix, until, .. }, Outcome::Read(source, buffer)) => {
                self.buffer = buffer;
                if source.at < until {
                    self.stage = Stage::Checking { source: Some(source), prefix, until };
                } else if source.hash() == prefix {
                    self.start(cx, source, Vec::new());
                } else {
                    self.restart(cx, source);
                }
            }
            (Stage::Hashing(_), Outcome::Opened(source, _)) => match source.known_hash() {
                Some(hash) => self.answer(cx, &Answer::Hashed(hash)),
                None => self.stage = Stage::Hashing(Some(source)),
            },
            (Stage::Hashing(_), Outcome::Read(source, buffer)) => {
                self.buffer = buffer;
                if !source.is_at_end() {
                    self.stage = Stage::Hashing(Some(source));
                } else if source.was_unchanged {
                    self.answer(cx, &Answer::Hashed(source.hash()));
                } else {
                    self.refuse(cx, Refusal::Changed);
                }
            }
            (Stage::Checking { .. } | Stage::Hashing(_), Outcome::ReadFailed) => self.refuse(cx, Refusal::Changed),
            (Stage::Listing(_), Outcome::Listed(listing, bytes)) => {
                self.output.extend(bytes);
                if listing.is_complete() {
                    let (files, skipped) = listing.counts();
                    self.answer(cx, &Answer::Listed { files, skipped });
                } else {
                    self.stage = Stage::Listing(Some(listing));
                }
            }
            (Stage::Changing, Outcome::Done(given_back)) => {
                cx.shared.common.quota().give_back(given_back);
                self.answer(cx, &Answer::Done);
            }
            _ => return Next::Failed,
        }
        Next::More
    }

    /// Sends a file from its beginning.
    fn restart(&mut self, cx: &mut Context<'_>, mut source: Source) {
        match source.rewind() {
            Ok(()) => self.start(cx, source, Vec::new()),
            Err(_) => self.refuse(cx, Refusal::Unreadable),
        }
    }

    /// Sends a file from where `source` is, less the `bytes` that were read already.
    fn start(&mut self, cx: &mut Context<'_>, source: Source, bytes: Vec<u8>) {
        let offset = source.at - bytes.len() as u64;
        let (size, modified) = (source.size, source.modified);
        Answer::Start { size, modified, offset }.encode(&mut self.output);
        self.send(cx, source, bytes);
    }

    /// Sends bytes of a file that were just read, and its end after the last ones.
    pub(super) fn send(&mut self, cx: &mut Context<'_>, source: Source, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let len = bytes.len() as u64;
            Piece::Bytes(bytes.len() as u32).encode(&mut self.output);
            self.flush(cx);
            // Usually there is room: it was read because there was.
            if self.output.is_empty() {
                cx.host.write_piece(cx.now, cx.id, bytes);
                self.on_moved(cx, len as usize);
                self.written += len;
            } else {
                self.output.extend_from_slice(&bytes);
            }
            self.done.sent += len;
            self.handled += len;
        }
        if !source.is_at_end() {
            self.stage = Stage::Sending(Some(source));
            return;
        }
        if source.was_unchanged {
            self.done.files += 1;
            Piece::End(source.hash()).encode(&mut self.output);
        } else {
            self.note_refusal(Refusal::Changed);
            Piece::Abort.encode(&mut self.output);
        }
        self.flush(cx);
    }
}
