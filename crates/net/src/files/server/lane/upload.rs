//! A file that a client puts.
//!
//! ```text
//! on_put ──► Opening ──► (hashing ──► Partial ──► From) ──► Open ◄──► Writing ──► Completing ──► done
//!    └──────────┴───────── refused: what still arrives of it is dropped
//! ```

use std::sync::Arc;

use super::{Context, Lane, Next, Stage};
use crate::files::pool::Class;
use crate::files::protocol::{Answer, Hash, Modified, Piece, PutFlags, Refusal, check_name};
use crate::files::server::common::Common;
use crate::files::server::jobs::{HASHED_A_JOB, Outcome, write_refusal};
use crate::files::server::uploads::Claim;
use crate::files::sink::Sink;

/// An upload.
#[derive(Debug)]
pub(in super::super) struct Upload {
    size: u64,
    modified: Modified,
    flags: PutFlags,
    state: State,
    claim: Claim,
}

#[derive(Debug)]
enum State {
    /// A job opens the part file, hashes it, writes to it or completes it.
    InJob(Job),
    /// Bytes of an earlier upload are hashed as soon as the client's budget allows.
    Unhashed(Sink),
    /// The client receives what is here of the file; where it begins follows.
    Offered(Sink),
    Open(Sink),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Open,
    Hash,
    Write,
    Complete,
}

/// Charges the bytes that are to arrive, and opens the part file. Those of an earlier upload, in its part, are charged
/// already.
fn open(common: &Common, name: &str, size: u64, flags: PutFlags, may_overwrite: bool) -> Outcome {
    let before = Sink::part_len(&common.directory, name).unwrap_or(0);
    let more = size.saturating_sub(before);
    if let Err(reason) = common.quota().charge(size, more) {
        return Outcome::Failed(reason, 0);
    }
    let opened = Sink::open(&common.directory, name).and_then(|sink| {
        let exists = sink.existing()?.is_some();
        Ok((sink, exists))
    });
    let (mut sink, exists) = match opened {
        Err(error) => return Outcome::Failed(write_refusal(&error), more),
        Ok(opened) => opened,
    };
    let refusal = match () {
        () if sink.len != before => Some(Refusal::Changed),
        () if exists && !flags.replace => Some(Refusal::Exists),
        () if exists && !may_overwrite => Some(Refusal::NoOverwrite),
        () => None,
    };
    if let Some(refusal) = refusal {
        sink.close();
        return Outcome::Failed(refusal, more);
    }
    sink.expected = size;
    if flags.at_once || before > size {
        if let Err(error) = sink.clear() {
            return Outcome::Failed(write_refusal(&error), more);
        }
    }
    common.quota().give_back(before.saturating_sub(size));
    Outcome::PartOpened(sink)
}

fn hash(mut sink: Sink) -> Outcome {
    match sink.read_back(HASHED_A_JOB) {
        Ok(()) => Outcome::PartHashed(sink),
        Err(error) => Outcome::Failed(write_refusal(&error), sink.missing()),
    }
}

fn append(mut sink: Sink, bytes: &[u8]) -> Outcome {
    match sink.append(bytes) {
        Ok(()) => Outcome::Written(sink),
        Err(error) => Outcome::Failed(write_refusal(&error), sink.missing()),
    }
}

fn complete(sink: Sink, hash: &Hash, modified: Modified, replace: bool) -> Outcome {
    if sink.missing() > 0 || sink.hash() != *hash {
        let size = sink.expected;
        sink.discard();
        return Outcome::Failed(Refusal::Damaged, size);
    }
    let replaced = sink.existing().ok().flatten().unwrap_or(0);
    match sink.complete(modified, replace) {
        Ok(()) => Outcome::Done(replaced),
        Err(error) => Outcome::Failed(write_refusal(&error), 0),
    }
}

impl Upload {
    /// Whether bytes of an earlier upload are to be hashed.
    pub(super) fn is_unhashed(&self) -> bool {
        matches!(self.state, State::Unhashed(_))
    }

    /// Whether another upload of its name and key has asked for the name since the last call.
    pub(in super::super) fn take_awaited(&self) -> bool {
        self.claim.take_awaited()
    }

    /// The open part file.
    pub(in super::super) fn into_sink(self) -> Option<Sink> {
        match self.state {
            State::Unhashed(sink) | State::Offered(sink) | State::Open(sink) => Some(sink),
            State::InJob(_) => None,
        }
    }
}

impl Lane {
    pub(super) fn on_put(&mut self, cx: &mut Context<'_>, flags: PutFlags, size: u64, modified: Modified) -> Next {
        let allowed = if !self.access.write {
            Err(Refusal::ReadOnly)
        } else if check_name(&self.name).is_err() {
            Err(Refusal::BadName)
        } else {
            cx.shared.common.directory.check(&self.name).map_err(|_| Refusal::Hidden)
        };
        let claimed = allowed.and_then(|()| cx.shared.common.uploads.claim(&self.name, self.key).ok_or(Refusal::InUse));
        let claim = match claimed {
            Ok(claim) => claim,
            Err(reason) => {
                self.refuse(cx, reason);
                if flags.at_once {
                    self.stage = Stage::Skipping;
                }
                return Next::More;
            }
        };
        self.open_window(cx);
        self.stage = Stage::Receiving(Upload { size, modified, flags, state: State::InJob(Job::Open), claim });
        let (common, name, may_overwrite) = (Arc::clone(&cx.shared.common), self.name.clone(), self.access.overwrite);
        self.submit(cx, Class::Urgent, move || open(&common, &name, size, flags, may_overwrite));
        Next::Wait
    }

    /// Hashes more of the bytes of an earlier upload, if the budget allows.
    pub(super) fn hash_part(&mut self, cx: &mut Context<'_>) -> Next {
        if let Some(until) = self.wait_to_hash(cx) {
            return Next::WaitUntil(until);
        }
        let Stage::Receiving(upload) = &mut self.stage else { return Next::Failed };
        let State::Unhashed(sink) = std::mem::replace(&mut upload.state, State::InJob(Job::Hash)) else {
            return Next::Failed;
        };
        let bytes = HASHED_A_JOB.min(sink.unhashed());
        self.submit_hashing(cx, bytes, move || hash(sink));
        Next::Wait
    }

    /// A message about the bytes of an upload, or of a refused one.
    pub(super) fn on_piece(&mut self, cx: &mut Context<'_>, piece: Piece) -> Next {
        let stage = std::mem::replace(&mut self.stage, Stage::Ready);
        let Stage::Receiving(mut upload) = stage else {
            // What follows a refused upload.
            match piece {
                Piece::Bytes(len) => self.piece_left = len as usize,
                Piece::End(_) | Piece::Abort => return Next::More,
                Piece::From(_) => {}
            }
            self.stage = Stage::Skipping;
            return Next::More;
        };
        match (piece, std::mem::replace(&mut upload.state, State::InJob(Job::Complete))) {
            (Piece::From(0), State::Offered(mut sink)) => {
                // The part has few bytes or none, or other ones: shortening a file writes nothing.
                if let Err(error) = sink.clear() {
                    return self.fail(cx, write_refusal(&error), sink.missing(), true);
                }
                upload.state = State::Open(sink);
            }
            (Piece::From(offset), State::Offered(sink)) if offset == sink.len => upload.state = State::Open(sink),
            (Piece::Bytes(len), State::Open(sink)) => {
                if sink.len.saturating_add(len.into()) > upload.size {
                    return Next::Failed;
                }
                self.piece_left = len as usize;
                upload.state = State::Open(sink);
            }
            (Piece::End(hash), State::Open(sink)) => {
                let (modified, replace) = (upload.modified, upload.flags.replace && self.access.overwrite);
                self.stage = Stage::Receiving(upload);
                self.submit(cx, Class::Urgent, move || complete(sink, &hash, modified, replace));
                return Next::Wait;
            }
            (Piece::Abort, State::Open(sink) | State::Offered(sink)) => {
                cx.shared.common.quota().give_back(sink.missing());
                self.stage = Stage::Changing;
                self.submit(cx, Class::Urgent, move || {
                    sink.close();
                    Outcome::Refused(Refusal::Changed)
                });
                return Next::Wait;
            }
            _ => return Next::Failed,
        }
        self.stage = Stage::Receiving(upload);
        Next::More
    }

    /// Bytes of an upload, or of a refused one.
    pub(super) fn on_bytes(&mut self, cx: &mut Context<'_>, bytes: Vec<u8>) -> Next {
        let Stage::Receiving(upload) = &mut self.stage else { return Next::More };
        let State::Open(sink) = std::mem::replace(&mut upload.state, State::InJob(Job::Write)) else {
            return Next::Failed;
        };
        self.done.received += bytes.len() as u64;
        self.submit(cx, Class::Urgent, move || append(sink, &bytes));
        Next::Wait
    }

    /// A job of the upload has ended.
    pub(super) fn on_upload_outcome(&mut self, cx: &mut Context<'_>, outcome: Outcome) -> Next {
        let Stage::Receiving(upload) = &mut self.stage else { return Next::Failed };
        match outcome {
            Outcome::PartOpened(sink) => {
                if upload.flags.at_once {
                    upload.state = State::Open(sink);
                    return Next::More;
                }
                self.offer(cx, sink);
            }
            Outcome::PartHashed(sink) => self.offer(cx, sink),
            Outcome::Written(sink) => upload.state = State::Open(sink),
            Outcome::Done(replaced) => {
                cx.shared.common.quota().give_back(replaced);
                self.done.files += 1;
                self.stage = Stage::Ready;
                self.answer(cx, &Answer::Done);
            }
            Outcome::Failed(reason, missing) => {
                let has_more = match upload.state {
                    State::InJob(Job::Open) => upload.flags.at_once,
                    State::InJob(Job::Hash | Job::Complete) => false,
                    _ => true,
                };
                return self.fail(cx, reason, missing, has_more);
            }
            _ => return Next::Failed,
        }
        Next::More
    }

    /// Offers the bytes of an earlier upload, once they are hashed.
    fn offer(&mut self, cx: &mut Context<'_>, sink: Sink) {
        let Stage::Receiving(upload) = &mut self.stage else { return };
        if sink.unhashed() > 0 {
            upload.state = State::Unhashed(sink);
            return;
        }
        let offer = Answer::Partial { offset: sink.len, prefix: sink.hash() };
        upload.state = State::Offered(sink);
        self.answer(cx, &offer);
    }

    /// Refuses the upload. `has_more`: whether the client sends bytes of it.
    fn fail(&mut self, cx: &mut Context<'_>, reason: Refusal, missing: u64, has_more: bool) -> Next {
        cx.shared.common.quota().give_back(missing);
        self.refuse(cx, reason);
        self.stage = if has_more { Stage::Skipping } else { Stage::Ready };
        Next::More
    }
}
