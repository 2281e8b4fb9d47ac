//! The receiver's side of the API (sections 2 and 3.2.1 of the paper): which process receives datagrams that come with
//! a CM header, and the shares that it requests for the senders' flows; and requests that wait for a result.

use std::net::IpAddr;

use rampmeter_wire::MAX_COUNTS;

use super::state::{Answer, State};
use super::{Client, Error, Id};
use crate::message::Command;

/// The id of requests that concern no flow.
const NO_FLOW: u32 = 0;

impl Client {
    /// This process receives the datagrams for the UDP port `port` of this host that come with a CM header
    /// (`cm_listen`): the daemon removes the header and forwards them to the port, until the process ends or calls
    /// [`Client::unlisten`]. The daemon forwards nothing to ports that no process listens to.
    pub fn listen(&self, port: u16) -> Result<(), Error> {
        self.execute(None, |token| Command::Listen { token, port, on: true })
    }

    /// This process stops receiving them.
    pub fn unlisten(&self, port: u16) -> Result<(), Error> {
        self.execute(None, |token| Command::Listen { token, port, on: false })
    }

    /// Requests shares in proportion to these weights for flows from the host `peer`: `[o1:r1, ...]`, where a flow is
    /// named by the local port that it sends to (`cm_hint`). The sender's congestion manager gets the weights with the
    /// next answer to one of its probes. A flow without a hint usually has a weight of 1. The weights are sent one
    /// after the other: if one is refused, those before it stay in force.
    pub fn hint(&self, peer: IpAddr, weights: &[(u16, u32)]) -> Result<(), Error> {
        if weights.len() > MAX_COUNTS || weights.iter().any(|&(port, weight)| port == 0 || weight == 0) {
            return Err(Error::Invalid);
        }
        weights
            .iter()
            .try_for_each(|&(port, weight)| self.execute(None, |token| Command::Hint { token, peer, port, weight }))
    }

    /// Sends a command, about `flow` if there is one, and waits for its result.
    pub(super) fn execute(&self, flow: Option<Id>, command: impl Fn(u64) -> Command) -> Result<(), Error> {
        match self.ask(flow, command)? {
            Answer::Done(result) => result,
            Answer::State(_) => Err(Error::Disconnected), // the daemon sent the wrong answer
        }
    }

    /// Sends a command and waits for the answer. If `flow` is closed meanwhile, the call fails.
    pub(super) fn ask(&self, flow: Option<Id>, command: impl Fn(u64) -> Command) -> Result<Answer, Error> {
        let is_open = |state: &mut State| flow.map_or(Ok(()), |flow| state.flows.open(flow.0).map(drop));
        let mut state = self.lock_with_room(1, 0, is_open)?;
        let token = state.next_token;
        state.next_token += 1;
        state.requests.insert(token, None);
        self.send_command(&mut state, flow.map_or(NO_FLOW, |flow| flow.0), command(token))?;
        self.wait_for_answer(state, |state| {
            let answer = state.requests.get(&token).copied().flatten().map(Ok);
            let answer = answer.or_else(|| is_open(state).err().map(Err));
            if answer.is_some() {
                state.requests.remove(&token);
            }
            answer
        })
    }
}
