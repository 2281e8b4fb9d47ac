//! Hosts that share a port, a key and their limits: one for each thread of a server.
//!
//! ```text
//!                        ┌─ Hello: by the network it comes from ─┐
//! datagram ──► kernel ───┤                                       ├──► socket ──► the member's own `Sessions`
//!                        └─ Finish, Sealed: by the session's id ─┘
//! ```
//!
//! A member has sessions of its own. The index in a session's id, divided by the number of members, leaves the member's
//! number, so the kernel can choose the socket from a datagram ([`owner`]), and a session stays where it was opened,
//! whatever address its packets come from.
//!
//! What limits other hosts holds for the group: it is behind a lock, which handshakes take, and packets of open sessions
//! do not. A place is looked for and taken in two steps, so a group may have as many sessions too many as it has other
//! members.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::datagram::{FINISH, SEALED};
use crate::fair_rate::{Budget, FairRate};
use crate::session::SessionId;
use crate::sessions::{HELLOS_A_SECOND, HELLOS_WITH_COOKIE_A_SECOND, REFUSALS_A_SECOND, RESETS_A_SECOND};
use crate::shares::Used;

/// The first bytes of the datagrams that begin with the id of their receiver's session.
pub const WITH_ID: [u8; 2] = [FINISH, SEALED];

/// Where a big-endian number of four bytes is whose lowest bits, by [`INDEX_MASK`], are the index in that id.
pub const INDEX_AT: usize = 5;

/// The bits of an index.
pub const INDEX_MASK: u32 = SessionId::MAX_SESSIONS as u32 - 1;

/// The member, of so many, that has the session of `datagram`; `None` if it has no id of one.
pub fn owner(datagram: &[u8], members: usize) -> Option<usize> {
    let number = datagram.get(INDEX_AT..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) & INDEX_MASK)?;
    WITH_ID.contains(datagram.first()?).then_some(number as usize % members)
}

/// What limits other hosts.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hellos: FairRate,
    pub(crate) hellos_with_cookie: FairRate,
    pub(crate) refusals: FairRate,
    pub(crate) resets: Budget,
    /// The places of sessions that other hosts have opened, by address.
    pub(crate) addresses: Used,
    /// The same, by key, if only listed keys are served.
    pub(crate) keys: Used,
    /// All sessions.
    pub(crate) sessions: usize,
}

/// One host of a group.
#[derive(Debug)]
pub struct Member {
    number: usize,
    members: usize,
    shared: Arc<Mutex<Shared>>,
}

impl Member {
    /// The members of a new group, at least one.
    pub fn group(members: usize) -> Vec<Self> {
        let members = members.max(1);
        (0..members).fold(Vec::new(), |mut group: Vec<Self>, number| {
            let shared = group.first().map_or_else(Self::new_shared, |first| Arc::clone(&first.shared));
            group.push(Self { number, members, shared });
            group
        })
    }

    /// The number of members of its group.
    pub fn members(&self) -> usize {
        self.members
    }

    /// The only member of a group.
    pub(crate) fn alone() -> Self {
        Self { number: 0, members: 1, shared: Self::new_shared() }
    }

    fn new_shared() -> Arc<Mutex<Shared>> {
        Arc::new(Mutex::new(Shared {
            hellos: FairRate::new(HELLOS_A_SECOND),
            hellos_with_cookie: FairRate::new(HELLOS_WITH_COOKIE_A_SECOND),
            refusals: FairRate::new(REFUSALS_A_SECOND),
            resets: Budget::new(RESETS_A_SECOND),
            addresses: Used::default(),
            keys: Used::default(),
            sessions: 0,
        }))
    }

    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The maximum number of this member's own sessions.
    pub(crate) fn max_slots(&self) -> usize {
        SessionId::MAX_SESSIONS / self.members
    }

    /// An id for the session in this member's `slot`.
    pub(crate) fn id(&self, slot: usize, draw: u64) -> SessionId {
        SessionId::new(slot * self.members + self.number, draw)
    }

    /// The slot of a session of this member; `None` for those of others.
    pub(crate) fn slot(&self, id: SessionId) -> Option<usize> {
        let index = id.index();
        (index % self.members == self.number).then_some(index / self.members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::{finish, retry, sealed_header};

    #[test]
    fn an_id_has_its_member_and_its_slot() {
        for members in 1..=16 {
            for (number, member) in Member::group(members).iter().enumerate() {
                for slot in [0, 1, 77, member.max_slots() - 1] {
                    let id = member.id(slot, u64::MAX / 3);
                    assert_eq!(member.slot(id), Some(slot));
                    assert_eq!(owner(&sealed_header(id.0, 1), members), Some(number));
                    assert_eq!(owner(&finish(id.0, b"message"), members), Some(number));
                    assert_eq!(owner(&retry(id.0, &[0; 16]), members), None);
                }
            }
        }
        assert_eq!(owner(&[SEALED, 0, 0, 0, 0, 0, 0, 1], 2), None, "half an id");
    }
}
