//! The receiver's side of the API (sections 2 and 3.2.1 of the paper): who takes what comes with a CM header, and which
//! shares senders' flows should have; and how questions are asked.

use std::net::IpAddr;

use rampmeter_wire::MAX_COUNTS;

use super::state::Answer;
use super::wait::{self, Guard};
use super::{Client, Error};
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
    /// next asks what has arrived. A flow without a hint has a weight of 1 as a rule.
    pub fn hint(&self, peer: IpAddr, weights: &[(u16, u32)]) -> Result<(), Error> {
        if weights.len() > MAX_COUNTS || weights.iter().any(|&(port, weight)| port == 0 || weight == 0) {
            return Err(Error::Invalid);
        }
        weights.iter().try_for_each(|&(port, weight)| self.settle(|token| Command::Hint { token, peer, port, weight }))
    }

    /// Asks for something to be done.
    fn settle(&self, command: impl Fn(u64) -> Command) -> Result<(), Error> {
        match self.ask(self.lock()?, NO_FLOW, command)? {
            Answer::Done(result) => result,
            Answer::State(_) => Err(Error::Gone), // a daemon that answers something else is none
        }
    }

    /// Asks, and waits for the answer. If it is about a flow, that may end meanwhile.
    pub(super) fn ask<'a>(
        &'a self,
        mut state: Guard<'a>,
        flow: u32,
        command: impl Fn(u64) -> Command,
    ) -> Result<Answer, Error> {
        let token = state.next_token;
        state.next_token += 1;
        state.questions.insert(token, None);
        let until = now() + wait::SILENCE;
        let mut state = self.say(state, flow, command(token))?;
        loop {
            if let Some(answer) = state.questions.get(&token).copied().flatten() {
                state.questions.remove(&token);
                return Ok(answer);
            }
            if flow != NO_FLOW {
                if let Err(error) = state.flows.open(flow) {
                    state.questions.remove(&token);
                    return Err(error);
                }
            }
            state = self.wait_for_answer(state, until)?;
        }
    }
}
