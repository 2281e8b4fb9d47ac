//! The receiver's side of the API (sections 2 and 3.2.1 of the paper): who takes what comes with a CM header, and which
//! shares senders' flows should have; and how questions are asked.

use std::net::IpAddr;

use rampmeter_wire::MAX_COUNTS;

use super::state::{Answer, State};
use super::wait::Guard;
use super::{Client, Error, Id};
use crate::meeting::SILENCE;
use crate::message::Command;
use crate::time::now;

/// The id of no flow.
const NO_FLOW: u32 = 0;

impl Client {
    /// This process takes datagrams that come to the UDP port `port` of this host (`cm_listen`): the daemon takes off
    /// their CM headers and hands them on to that port, until the process ends or says [`Client::unlisten`]. Nothing is
    /// handed on to ports that nobody has asked for.
    pub fn listen(&self, port: u16) -> Result<(), Error> {
        self.settle(|token| Command::Listen { token, port, on: true })
    }

    /// This process does not take them any more.
    pub fn unlisten(&self, port: u16) -> Result<(), Error> {
        self.settle(|token| Command::Listen { token, port, on: false })
    }

    /// Flows from the host `peer` should have shares of their path in proportion to these weights: `[o1:r1, ...]`, flows
    /// being named by the port here that they come to (`cm_hint`). The sender's congestion manager hears of it when it
    /// next asks what has arrived. A flow without a hint has a weight of 1 as a rule. They are taken one after the other:
    /// those before one that is refused stand.
    pub fn hint(&self, peer: IpAddr, weights: &[(u16, u32)]) -> Result<(), Error> {
        if weights.len() > MAX_COUNTS || weights.iter().any(|&(port, weight)| port == 0 || weight == 0) {
            return Err(Error::Invalid);
        }
        weights.iter().try_for_each(|&(port, weight)| self.settle(|token| Command::Hint { token, peer, port, weight }))
    }

    /// Asks for something to be done.
    fn settle(&self, command: impl Fn(u64) -> Command) -> Result<(), Error> {
        match self.ask(None, command)? {
            Answer::Done(result) => result,
            Answer::State(_) => Err(Error::Gone), // a daemon that answers something else is none
        }
    }

    /// Asks, and waits for the answer. If it is about a flow, that may end meanwhile.
    pub(super) fn ask(&self, flow: Option<Id>, command: impl Fn(u64) -> Command) -> Result<Answer, Error> {
        let is_open = |state: &mut State| flow.map_or(Ok(()), |flow| state.flows.open(flow.0).map(drop));
        let mut state = self.room(1, 0, is_open)?;
        let token = state.next_token;
        state.next_token += 1;
        state.questions.insert(token, None);
        self.say(&mut state, flow.map_or(NO_FLOW, |flow| flow.0), command(token))?;
        let answer = self.hear(state, token, is_open);
        self.leave_after_waiting();
        answer
    }

    fn hear<'a>(
        &'a self,
        mut state: Guard<'a>,
        token: u64,
        is_open: impl Fn(&mut State) -> Result<(), Error>,
    ) -> Result<Answer, Error> {
        let until = now() + SILENCE;
        loop {
            if let Some(answer) = state.questions.get(&token).copied().flatten() {
                state.questions.remove(&token);
                return Ok(answer);
            }
            if let Err(error) = is_open(&mut state) {
                state.questions.remove(&token);
                return Err(error);
            }
            state = self.wait_for_answer(state, until)?;
        }
    }
}
