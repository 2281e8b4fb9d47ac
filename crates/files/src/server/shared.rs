//! What all connections of a thread use.

use std::collections::BTreeMap;
use std::sync::Arc;

use rampmeter_control::AnyController;
use rampmeter_net::{ControllerPolicy, Host};
use rampmeter_session::SessionId;
use rampmeter_transport::ConnectionId;
use rampmeter_units::Time;

use super::common::Common;
use super::lane::Outcome;
use crate::pool::Pool;
use crate::protocol::Refusal;

/// Pieces of files that the thread itself reads and hashes in a turn, if the kernel has them in memory: some tenths of
/// a millisecond, during which packets wait.
const READS_A_TURN: u32 = 4;

/// What all connections of a thread use.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) common: Arc<Common>,
    pub(super) pool: Pool<ConnectionId, Outcome>,
    pub(super) policy: ControllerPolicy,
    /// The macroflow of each session.
    pub(super) macroflows: BTreeMap<SessionId, Macroflow>,
    /// Pieces that the thread itself may still read in this turn.
    pub(super) reads_left: u32,
}

impl Shared {
    pub(super) fn new(common: Arc<Common>, pool: Pool<ConnectionId, Outcome>, policy: ControllerPolicy) -> Self {
        Self { common, pool, policy, macroflows: BTreeMap::new(), reads_left: 0 }
    }

    /// All connections have had their turn, and packets have been handled since.
    pub(super) fn begin_turn(&mut self) {
        self.reads_left = READS_A_TURN;
    }

    /// A connection of `session` was accepted. It joins the macroflow of the session's others. Returns its controller.
    pub(super) fn join(
        &mut self,
        now: Time,
        host: &mut Host<AnyController>,
        session: SessionId,
        id: ConnectionId,
    ) -> String {
        let own = self.policy.own();
        let macroflow = self.macroflows.entry(session);
        let macroflow = macroflow.or_insert_with(|| Macroflow { controller: own.to_owned(), connections: Vec::new() });
        if let Some(&other) = macroflow.connections.first() {
            host.join_macroflow(now, id, other);
        }
        macroflow.connections.push(id);
        macroflow.controller.clone()
    }

    /// A connection of `session` has ended.
    pub(super) fn leave(&mut self, session: SessionId, id: ConnectionId) {
        if let Some(macroflow) = self.macroflows.get_mut(&session) {
            macroflow.connections.retain(|&other| other != id);
            if macroflow.connections.is_empty() {
                self.macroflows.remove(&session);
            }
        }
    }

    /// Gives the connection's macroflow the controller that the client asks for. Returns its name.
    pub(super) fn select_controller(
        &mut self,
        now: Time,
        host: &mut Host<AnyController>,
        id: ConnectionId,
        name: Option<&str>,
    ) -> Result<String, Refusal> {
        let session = host.session(id).ok_or(Refusal::BadRequest)?;
        let Some(macroflow) = self.macroflows.get_mut(&session) else { return Err(Refusal::BadRequest) };
        if let Some(name) = name {
            let controller = self.policy.select(name)?;
            // Another connection of the session may have asked for it already, and the controller knows the path.
            if macroflow.controller != name {
                host.replace_controller(now, id, controller);
                name.clone_into(&mut macroflow.controller);
            }
        }
        Ok(macroflow.controller.clone())
    }

    /// The client of `session` has another address, and its macroflow a new controller of the server's: the client gets
    /// the one that it has asked for again.
    pub(super) fn on_moved(&mut self, now: Time, host: &mut Host<AnyController>, session: SessionId) {
        let Some(macroflow) =
            self.macroflows.get(&session).filter(|macroflow| macroflow.controller != self.policy.own())
        else {
            return;
        };
        if let (Some(&id), Ok(controller)) = (macroflow.connections.first(), self.policy.select(&macroflow.controller))
        {
            host.replace_controller(now, id, controller);
        }
    }
}

/// The connections of a session: they share congestion control.
#[derive(Debug)]
pub(super) struct Macroflow {
    controller: String,
    connections: Vec<ConnectionId>,
}
