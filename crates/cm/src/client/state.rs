//! A client's side of the conversation, under its lock: what goes into the rings, and what comes out of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rampmeter_units::Duration;

use super::Event;
use super::flows::{Flows, Stage};
use crate::data::Writer;
use crate::error::Error;
use crate::layout::{COMMANDS, EVENTS};
use crate::memory::Memory;
use crate::message::{Command, Notice, PathState};
use crate::ring::{Broken, Consumer, Producer, Record};
use crate::spin::Spin;

/// The longest that a waiting client spins before it sleeps.
const SPIN: Duration = Duration::from_micros(50);

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
    /// Events that nobody has asked for yet: of each flow no more than its requests, and one of each other kind.
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
    /// A conversation that begins; its flows' ids begin with `first_generation`.
    pub(super) fn new(memory: Arc<Memory>, first_generation: u32) -> Self {
        Self {
            commands: Producer::new(Arc::clone(&memory), COMMANDS),
            notices: Consumer::new(Arc::clone(&memory), EVENTS),
            data: Writer::new(memory),
            flows: Flows::new(first_generation),
            events: VecDeque::new(),
            questions: HashMap::new(),
            next_token: 0,
            gone: false,
            has_listener: false,
            spin: Spin::new(SPIN),
        }
    }

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
                if !std::mem::replace(&mut flow.has_update, true) {
                    self.events.push_back((id, Event::Update(state)));
                }
            }
            Notice::Left { bytes } => {
                flow.queued = flow.queued.saturating_sub(bytes.into());
                flow.datagrams = flow.datagrams.saturating_sub(1);
                if std::mem::take(&mut flow.wants_room) {
                    self.tell_room(id);
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

    /// The oldest event that nobody has asked for yet, with what is known of the flow by now.
    pub(super) fn next_event(&mut self) -> Option<(u32, Event)> {
        let (id, mut event) = self.events.pop_front()?;
        if let Ok(flow) = self.flows.get(id) {
            match &mut event {
                Event::Update(state) => (flow.has_update, *state) = (false, flow.state),
                Event::Room => flow.has_room = false,
                Event::Send { .. } | Event::Closed(_) => {}
            }
        }
        Some((id, event))
    }

    /// The flow was told that there is no room: it is to hear of some. That comes with the next of its datagrams that
    /// leaves; if none waits, it was the daemon that took nothing for a while, and trying again is all that can be done.
    pub(super) fn promise_room(&mut self, id: u32) {
        let Ok(flow) = self.flows.open(id) else { return };
        flow.wants_room = flow.datagrams > 0;
        if !flow.wants_room {
            self.tell_room(id);
        }
    }

    fn tell_room(&mut self, id: u32) {
        let Ok(flow) = self.flows.get(id) else { return };
        if !std::mem::replace(&mut flow.has_room, true) {
            self.events.push_back((id, Event::Room));
        }
    }

    /// Whether there is room for so many commands, and for `data` bytes that go with them.
    pub(super) fn has_room(&mut self, commands: u64, data: usize) -> Result<bool, Error> {
        let room =
            self.commands.has_room(commands).and_then(|room| Ok(room && (data == 0 || self.data.has_room(data)?)));
        room.map_err(|Broken| self.break_off())
    }

    /// Puts a command into the ring, where there is room for it, behind the data that goes with it.
    pub(super) fn say(&mut self, id: u32, command: Command, data: &[u8]) -> Result<(), Error> {
        let is_said = self.data.write(data).and_then(|written| Ok(written && self.commands.push(&command.encode(id))?));
        // Data without its command: nobody could tell what belongs to what any more.
        if is_said == Ok(true) { Ok(()) } else { Err(self.break_off()) }
    }

    fn break_off(&mut self) -> Error {
        self.gone = true;
        Error::Gone
    }
}
