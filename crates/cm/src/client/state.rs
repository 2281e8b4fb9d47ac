//! A client's state under its lock: writes commands into the ring and reads notices from it.

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

/// The maximum time that a waiting client spins before it sleeps.
const SPIN: Duration = Duration::from_micros(50);

/// The daemon's answer to a request.
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
    /// Events that the program has not read yet: for each flow at most as many as its requests, and one of each other
    /// kind.
    pub(super) events: VecDeque<(u32, Event)>,
    /// Requests that wait for an answer, by token.
    pub(super) requests: HashMap<u64, Option<Answer>>,
    pub(super) next_token: u64,
    /// The connection to the daemon has ended.
    pub(super) disconnected: bool,
    /// A thread polls the files; other threads wait for that thread.
    pub(super) has_poller: bool,
    pub(super) spin: Spin,
}

impl State {
    /// A new connection; the ids of its flows start with `first_generation`.
    pub(super) fn new(memory: Arc<Memory>, first_generation: u32) -> Self {
        Self {
            commands: Producer::new(Arc::clone(&memory), COMMANDS),
            notices: Consumer::new(Arc::clone(&memory), EVENTS),
            data: Writer::new(memory),
            flows: Flows::new(first_generation),
            events: VecDeque::new(),
            requests: HashMap::new(),
            next_token: 0,
            disconnected: false,
            has_poller: false,
            spin: Spin::new(SPIN),
        }
    }

    /// Reads all waiting notices; true if there was one.
    pub(super) fn read_notices(&mut self) -> bool {
        let mut any = false;
        loop {
            match self.notices.pop() {
                Ok(Some(record)) => {
                    any = true;
                    self.on_record(&record);
                }
                Ok(None) => return any,
                Err(_) => {
                    self.disconnected = true;
                    return true;
                }
            }
        }
    }

    fn on_record(&mut self, record: &Record) {
        let Some((id, notice)) = Notice::decode(record) else {
            self.disconnected = true; // an invalid record: the daemon does not work
            return;
        };
        let answer = match notice {
            Notice::State { token, state } => Some((token, Answer::State(state))),
            Notice::Done { token, result } => Some((token, Answer::Done(result))),
            _ => None,
        };
        if let Some((token, answer)) = answer {
            if let Some(slot) = self.requests.get_mut(&token) {
                *slot = Some(answer);
            }
            return;
        }
        // Notices of flows that were closed meanwhile are ignored.
        let Ok(flow) = self.flows.get(id) else { return };
        match notice {
            Notice::State { .. } | Notice::Done { .. } => {}
            Notice::Header(socket) => flow.own_socket.get_or_insert_default().set(socket),
            Notice::Opened { mtu, state } => (flow.stage, flow.mtu, flow.state) = (Stage::Open, mtu, state),
            Notice::Grant { bytes } => {
                flow.pending_requests = flow.pending_requests.saturating_sub(1);
                self.events.push_back((id, Event::Send { bytes }));
            }
            Notice::Change(state) => {
                flow.state = state;
                // A program that reads slowly gets the latest state only.
                if !std::mem::replace(&mut flow.has_update, true) {
                    self.events.push_back((id, Event::Update(state)));
                }
            }
            Notice::Dequeued { bytes } => {
                flow.queued = flow.queued.saturating_sub(bytes.into());
                flow.datagrams = flow.datagrams.saturating_sub(1);
                if std::mem::take(&mut flow.awaits_room_event) {
                    self.send_room_event(id);
                }
            }
            Notice::Ended(error) => {
                if flow.stage == Stage::Open {
                    self.events.push_back((id, Event::Closed(error)));
                }
                flow.stage = Stage::Ended(error);
            }
        }
    }

    /// The oldest unread event, with the flow's current state.
    pub(super) fn next_event(&mut self) -> Option<(u32, Event)> {
        let (id, mut event) = self.events.pop_front()?;
        if let Ok(flow) = self.flows.get(id) {
            match &mut event {
                Event::Update(state) => (flow.has_update, *state) = (false, flow.state),
                Event::Room => flow.has_room_event = false,
                Event::Send { .. } | Event::Closed(_) => {}
            }
        }
        Some((id, event))
    }

    /// Arranges an [`Event::Room`] for a flow that got [`Error::Full`]. The event comes with the next datagram of the
    /// flow that leaves the daemon's queue; if the queue is empty, the daemon has read nothing for a while, and the
    /// event comes at once, because the program can only try again.
    pub(super) fn request_room_event(&mut self, id: u32) {
        let Ok(flow) = self.flows.open(id) else { return };
        flow.awaits_room_event = flow.datagrams > 0;
        if !flow.awaits_room_event {
            self.send_room_event(id);
        }
    }

    fn send_room_event(&mut self, id: u32) {
        let Ok(flow) = self.flows.get(id) else { return };
        if !std::mem::replace(&mut flow.has_room_event, true) {
            self.events.push_back((id, Event::Room));
        }
    }

    /// Whether `commands` commands and `data` bytes fit.
    pub(super) fn has_room(&mut self, commands: u64, data: usize) -> Result<bool, Error> {
        let room = self.commands.fits(commands).and_then(|room| Ok(room && (data == 0 || self.data.fits(data)?)));
        room.map_err(|Broken| self.fail_connection())
    }

    /// Writes a command and its data into the rings, which must have room for both.
    pub(super) fn push_command(&mut self, id: u32, command: Command, data: &[u8]) -> Result<(), Error> {
        let is_written =
            self.data.write(data).and_then(|written| Ok(written && self.commands.push(&command.encode(id))?));
        // Data without its command would be read with a later command.
        if is_written == Ok(true) { Ok(()) } else { Err(self.fail_connection()) }
    }

    fn fail_connection(&mut self) -> Error {
        self.disconnected = true;
        Error::Disconnected
    }
}
