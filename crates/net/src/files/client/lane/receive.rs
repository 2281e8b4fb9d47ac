//! The answers to a get: the file's size and where its bytes begin, the bytes, the hash of the whole file.

use super::{Active, Context, Lane, Stage};
use crate::files::client::output::Output;
use crate::files::client::task::{Done, Moved, Task, TaskResult};
use crate::files::error::NetError;
use crate::files::protocol::{Hash, Modified};

impl Active {
    /// The bytes of a get follow from `offset` on. An error ends the session.
    fn begin_receiving(
        &mut self,
        cx: &Context<'_>,
        size: u64,
        modified: Modified,
        offset: u64,
    ) -> Result<(), NetError> {
        let Task::Get(get) = &mut self.task else { return Err(NetError::BadAnswer(cx.address)) };
        if size > get.max_size {
            // The rest of the answer is not wanted, so the lane cannot go on.
            return Err(NetError::TooLarge { name: get.name.clone(), size, max: get.max_size });
        }
        get.size = Some(size);
        self.stage = Stage::Receiving { size, modified };
        let output = match &mut self.output {
            Some(output) => output,
            none => match Output::open(get.target.closed(), false) {
                Ok(output) => none.insert(output),
                Err(error) => {
                    self.failed = Some(error);
                    return Ok(());
                }
            },
        };
        if offset == 0 {
            output.clear()?;
        } else if offset != output.len() {
            return Err(NetError::BadAnswer(cx.address));
        }
        self.resumed_from = offset;
        Ok(())
    }

    /// All bytes of a get have arrived; the file has this `hash`. `None` if the task is not receiving.
    fn end_receiving(&mut self, hash: &Hash) -> Option<TaskResult> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let (Stage::Receiving { size, modified }, Some(output), Task::Get(get)) =
            (&self.stage, self.output.take(), &self.task)
        else {
            return None;
        };
        let (size, resumed_from, deleted) = (*size, self.resumed_from, output.is_resumable());
        let name = get.name.clone();
        Some(if output.len() != size || output.hash() != *hash {
            output.discard();
            Err(NetError::Corrupt { name, deleted })
        } else if get.blake3.is_some_and(|expected| expected != *hash) {
            output.discard();
            let blake3 = blake3::Hash::from(*hash).to_hex().to_string();
            Err(NetError::OtherContent { name, blake3, deleted })
        } else {
            output.complete(*modified).map(|path| Done::Moved(Moved { path, size, resumed_from, blake3: *hash }))
        })
    }
}

impl Lane {
    pub(super) fn on_start(
        &mut self,
        cx: &mut Context<'_>,
        size: u64,
        modified: Modified,
        offset: u64,
    ) -> Result<(), NetError> {
        let active = self.pipeline.front_mut().ok_or(NetError::BadAnswer(cx.address))?;
        active.begin_receiving(cx, size, modified, offset)?;
        *cx.moved += active.resumed_from;
        Ok(())
    }

    /// A piece of `len` bytes follows.
    pub(super) fn on_piece(&mut self, cx: &Context<'_>, len: u32) -> Result<(), NetError> {
        let bad_answer = NetError::BadAnswer(cx.address);
        let Some(active) = self.pipeline.front() else { return Err(bad_answer) };
        let Stage::Receiving { size, .. } = active.stage else { return Err(bad_answer) };
        let received = active.output.as_ref().map_or(0, Output::len);
        if received.saturating_add(len.into()) > size {
            return Err(bad_answer);
        }
        self.piece_left = len as usize;
        Ok(())
    }

    pub(super) fn on_bytes(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<(), NetError> {
        let active = self.pipeline.front_mut().ok_or(NetError::BadAnswer(cx.address))?;
        *cx.moved += bytes.len() as u64;
        if active.failed.is_some() {
            return Ok(());
        }
        // A file that cannot be written fails all others, too: most likely the disk is full.
        active.output.as_mut().ok_or(NetError::BadAnswer(cx.address))?.append(bytes)
    }

    pub(super) fn on_end(&mut self, cx: &mut Context<'_>, hash: &Hash) -> Result<(), NetError> {
        let result = self.pipeline.front_mut().and_then(|active| active.end_receiving(hash));
        self.finish(cx, result.ok_or(NetError::BadAnswer(cx.address))?);
        Ok(())
    }
}
