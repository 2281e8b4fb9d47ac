//! The clients of a server, and the comments of their keys. An operator may change both while the server runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rampmeter_session::{Clients, PublicKey};

/// The comments of keys.
pub type Comments = BTreeMap<PublicKey, String>;

/// The clients of a server. Copies share them.
#[derive(Debug, Clone)]
pub struct Access(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    clients: Clients,
    comments: Comments,
    /// How often they were changed.
    changes: u64,
}

impl Access {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clients.
    pub fn clients(&self) -> Clients {
        self.state().clients.clone()
    }

    /// Serves others from now on, within a second. Sessions of keys that are no longer listed end, and no others.
    pub fn set(&self, clients: Clients, comments: Comments) {
        let mut state = self.state();
        *state = State { clients, comments, changes: state.changes + 1 };
    }

    /// The same with the keys that have these comments.
    pub fn set_listed(&self, comments: Comments) {
        self.set(Clients::Listed(comments.keys().copied().collect()), comments);
    }

    /// The clients, if they were changed since the last call with the same `seen`.
    pub(crate) fn changed(&self, seen: &mut u64) -> Option<Clients> {
        let state = self.state();
        (std::mem::replace(seen, state.changes) != state.changes).then(|| state.clients.clone())
    }

    /// A key, and its comment if it has one.
    pub fn label(&self, key: PublicKey) -> String {
        match self.state().comments.get(&key).filter(|comment| !comment.is_empty()) {
            Some(comment) => format!("{key} ({comment})"),
            None => key.to_string(),
        }
    }
}

impl From<Clients> for Access {
    fn from(clients: Clients) -> Self {
        Self(Arc::new(Mutex::new(State { clients, comments: Comments::new(), changes: 0 })))
    }
}

impl From<Comments> for Access {
    /// The keys that have these comments.
    fn from(comments: Comments) -> Self {
        let access = Self::from(Clients::None);
        access.set_listed(comments);
        access
    }
}
