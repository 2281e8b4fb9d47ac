//! A client's side of the conversation, under its lock: what goes into the rings, and what comes out of them.

use std::collections::{HashMap, VecDeque};

use super::Event;
use super::flows::{Flows, Stage};
use crate::data::Writer;
use crate::error::Error;
use crate::message::{Command, Notice, PathState};
use crate::ring::{Consumer, Producer, Record};
use crate::spin::Spin;

/// What the daemon answers to a question.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    State(PathState),
    Done(Result<(), Error>),
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) commands: Producer,
    pub(super) notices: Consumer,
    pub(super) data: Writer,
    pub(super) flows: Flows,
    /// Events that nobody has asked for yet.
    pub(super) events: VecDeque<(u32, Event)>,
    /// Questions that wait for an answer.
    pub(super) questions: HashMap<u64, Option<Answer>>,
    pub(super) next_token: u64,
    /// The daemon is gone.
    pub(super) gone: bool,
    /// Somebody waits for the bell; others wait for that one.
    pub(super) has_listener: bool,
    pub(super) spin: Spin,
}

impl State {
    /// Takes in what has come; true if there was something.
    pub(super) fn take_in(&mut self) -> bool {
        let mut some = false;
        loop {
            match self.notices.pop() {
                Ok(Some(record)) => {
                    some = true;
                    self.hear(&record);
                }
                Ok(None) => return some,
                Err(_) => {
                    self.gone = true;
                    return true;
                }
            }
        }
    }

    fn hear(&mut self, record: &Record) {
        let Some((id, notice)) = Notice::decode(record) else {
            self.gone = true; // a daemon that writes nonsense is none
            return;
        };
        let answer = match notice {
            Notice::State { token, state } => Some((token, Answer::State(state))),
            Notice::Done { token, result } => Some((token, Answer::Done(result))),
            _ => None,
        };
        if let Some((token, answer)) = answer {
            if let Some(place) = self.questions.get_mut(&token) {
                *place = Some(answer);
            }
            return;
        }
        // What is said of flows that were closed meanwhile is of no interest.
        let Ok(flow) = self.flows.get(id) else { return };
        match notice {
            Notice::State { .. } | Notice::Done { .. } => {}
            Notice::Opened { mtu, state } => (flow.stage, flow.mtu, flow.state) = (Stage::Open, mtu, state),
            Notice::Grant { bytes } => {
                flow.wanted = flow.wanted.saturating_sub(1);
                self.events.push_back((id, Event::Send { bytes }));
            }
            Notice::Change(state) => {
                flow.state = state;
                // Who is behind needs the latest only.
                let waiting = self.events.iter_mut().rev().take(16);
                let older = waiting.filter(|(other, _)| *other == id).find_map(|(_, event)| match event {
                    Event::Update(older) => Some(older),
                    _ => None,
                });
                match older {
                    Some(older) => *older = state,
                    None => self.events.push_back((id, Event::Update(state))),
                }
            }
            Notice::Left { bytes } => {
                flow.queued = flow.queued.saturating_sub(bytes.into());
                flow.datagrams = flow.datagrams.saturating_sub(1);
                if std::mem::take(&mut flow.wants_room) {
                    self.events.push_back((id, Event::Room));
                }
            }
            Notice::Over(error) => {
                if flow.stage == Stage::Open {
                    self.events.push_back((id, Event::Closed(error)));
                }
                flow.stage = Stage::Over(error);
            }
        }
    }

    /// Puts a command into the ring; false if it is full.
    pub(super) fn say(&mut self, id: u32, command: Command) -> Result<bool, Error> {
        self.commands.push(&command.encode(id)).map_err(|_| {
            self.gone = true;
            Error::Gone
        })
    }
}
