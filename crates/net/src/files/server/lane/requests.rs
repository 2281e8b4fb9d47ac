//! Starts the work of a request, if the client may ask for it.

use std::sync::Arc;

use super::{Context, Lane, Next, Stage};
use crate::files::pool::Class;
use crate::files::protocol::{Refusal, Request};
use crate::files::server::jobs;

impl Lane {
    pub(super) fn on_request(&mut self, cx: &mut Context<'_>, request: &Request) -> Next {
        let name = match request {
            Request::Get { name, .. }
            | Request::List { name }
            | Request::Put { name, .. }
            | Request::Hash { name, .. }
            | Request::Delete { name }
            | Request::SetModified { name, .. } => name.clone(),
            Request::Heartbeat | Request::Sync | Request::Piece(_) => String::new(),
        };
        if self.done.name.is_empty() {
            self.done.name.clone_from(&name);
        }
        self.name.clone_from(&name);
        let directory = Arc::clone(&cx.shared.common.directory);
        let hashes = Arc::clone(&cx.shared.common.hashes);
        let allowed = match request {
            Request::List { .. } if !cx.shared.common.options.lists => Err(Refusal::NotListed),
            Request::Delete { .. } | Request::SetModified { .. } | Request::Sync if !self.access.write => {
                Err(Refusal::ReadOnly)
            }
            Request::Delete { .. } | Request::SetModified { .. } if !self.access.overwrite => Err(Refusal::NoOverwrite),
            Request::Put { flags, size, modified, .. } => {
                return self.on_put(cx, *flags, *size, *modified);
            }
            Request::Piece(_) => return Next::Failed,
            _ => directory.check(&name),
        };
        if let Err(reason) = allowed {
            self.refuse(cx, reason);
            return Next::More;
        }
        let buffer = std::mem::take(&mut self.buffer);
        match *request {
            Request::Get { offset: 0, .. } => {
                self.stage = Stage::Sending(None);
                self.submit(cx, Class::Urgent, move || jobs::open_and_read(&directory, &hashes, &name, buffer));
            }
            Request::Get { offset, prefix, .. } => {
                self.stage = Stage::Checking { source: None, prefix, until: offset };
                self.submit(cx, Class::Urgent, move || jobs::open(&directory, &hashes, &name));
            }
            Request::Hash { size, .. } => {
                self.stage = Stage::Hashing(None);
                self.submit(cx, Class::Urgent, move || jobs::open_of_size(&directory, &hashes, &name, size));
            }
            Request::List { .. } => {
                self.stage = Stage::Listing(None);
                self.submit(cx, Class::Background, move || jobs::begin_list(directory, &name));
            }
            Request::Delete { .. } => {
                self.stage = Stage::Changing;
                self.submit(cx, Class::Urgent, move || jobs::delete(&directory, &name));
            }
            Request::SetModified { modified, .. } => {
                self.stage = Stage::Changing;
                self.submit(cx, Class::Urgent, move || jobs::set_modified(&directory, &name, modified));
            }
            Request::Sync => {
                self.stage = Stage::Changing;
                self.submit(cx, Class::Background, move || jobs::sync(&directory));
            }
            Request::Put { .. } | Request::Piece(_) | Request::Heartbeat => return Next::Failed,
        }
        Next::Wait
    }
}
