//! The sender's side of the API: a flow from its opening to its end, the paper's Figure 4.

use std::net::SocketAddr;

use rampmeter_manager::{Share, Thresholds};
use rampmeter_units::{Bytes, Duration};

use super::flows::{Flow, Stage};
use super::state::Answer;
use super::wait::Guard;
use super::{Client, Id, Options};
use crate::error::Error;
use crate::limits::{MAX_PACKET_BYTES, MAX_REQUESTS};
use crate::meeting::SILENCE;
use crate::message::{Command, Feedback, MAX_RTT, PathState, are_sound, is_sound};
use crate::time::now;

impl Client {
    /// Opens a flow to `to` (`cm_open`). The port matters to [`Client::send`] only.
    pub fn open(&self, to: SocketAddr, options: &Options) -> Result<Id, Error> {
        self.open_named(to, options, |_| ())
    }

    /// The same, for programs in which another thread asks for events: `named` hears the id before the daemon does, so
    /// before there can be an event of the flow. It is called under the client's lock and must not call the client. A flow
    /// that can't be opened has a name too, and an error follows.
    pub fn open_named(&self, to: SocketAddr, options: &Options, named: impl FnOnce(Id)) -> Result<Id, Error> {
        if !is_sound(&options.share) {
            return Err(Error::Invalid);
        }
        let mut state = self.room(2, 0, |_| Ok(()))?;
        let id = state.flows.add(Flow::new(options.share, to.port() > 0))?;
        named(Id(id));
        self.say(&mut state, id, Command::Open { to, share: options.share })?;
        if options.share.curve.is_some() {
            self.say(&mut state, id, Command::Share(options.share))?; // for which the other has no place
        }
        let opened = self.await_opening(state, id);
        self.leave_after_waiting();
        opened
    }

    fn await_opening<'a>(&'a self, mut state: Guard<'a>, id: u32) -> Result<Id, Error> {
        let until = now() + SILENCE;
        loop {
            match state.flows.get(id)?.stage {
                Stage::Open => return Ok(Id(id)),
                Stage::Over(error) => {
                    state.flows.remove(id)?;
                    return Err(error);
                }
                Stage::Opening => state = self.wait_for_answer(state, until)?,
            }
        }
    }

    /// The most that a packet of the flow may carry (`cm_mtu`): the path's MTU without headers of IP and UDP.
    pub fn mtu(&self, flow: Id) -> Result<u32, Error> {
        Ok(self.lock()?.flows.open(flow.0)?.mtu)
    }

    /// The flow has a packet to send (`cm_request`); [`Event::Send`](super::Event::Send) says when it may. One event comes
    /// for each request.
    pub fn request(&self, flow: Id) -> Result<(), Error> {
        let mut state = self.room_for(flow)?;
        let f = state.flows.open(flow.0)?;
        if f.wanted >= MAX_REQUESTS {
            return Err(Error::Full);
        }
        f.wanted += 1;
        self.say(&mut state, flow.0, Command::Request)
    }

    /// The flow has sent a packet of `sent` bytes, or none if that is zero (`cm_notify`). Answers the oldest grant that
    /// has no answer; without one it says what a flow has sent by its own clock.
    pub fn notify(&self, flow: Id, sent: u64) -> Result<(), Error> {
        if sent > MAX_PACKET_BYTES {
            return Err(Error::TooLarge);
        }
        let mut state = self.room_for(flow)?;
        self.say(&mut state, flow.0, Command::Notify { sent: Bytes::new(sent) })
    }

    /// How packets of the flow fared (`cm_update`).
    pub fn update(&self, flow: Id, feedback: &Feedback) -> Result<(), Error> {
        let most = Bytes::new(1 << 40);
        let is_sound = feedback.received <= most
            && feedback.lost <= most
            && feedback.rtt.is_none_or(|rtt| rtt > Duration::ZERO && rtt <= MAX_RTT);
        if !is_sound {
            return Err(Error::Invalid);
        }
        let mut state = self.room_for(flow)?;
        self.say(&mut state, flow.0, Command::Update(*feedback))
    }

    /// The flow's share of its path's rate, and the round-trip time (`cm_query`).
    pub fn query(&self, flow: Id) -> Result<PathState, Error> {
        match self.ask(Some(flow), |token| Command::Query { token })? {
            Answer::State(state) => Ok(state),
            Answer::Done(_) => Err(Error::Gone), // a daemon that answers something else is none
        }
    }

    /// Leaves a datagram with the congestion manager, which sends it when its turn comes (`cm_send`).
    pub fn send(&self, flow: Id, data: &[u8]) -> Result<(), Error> {
        let length = data.len() as u64;
        let room = self.room(1, data.len(), |state| state.flows.open(flow.0)?.takes(length));
        let mut state = room.inspect_err(|error| {
            if *error == Error::Full {
                self.promise_room(flow.0);
            }
        })?;
        let f = state.flows.open(flow.0)?;
        f.queued += length;
        f.datagrams += 1;
        self.say_with(&mut state, flow.0, Command::Send { length: length as u32 }, data)
    }

    /// The share that the flow was given.
    pub fn share_of(&self, flow: Id) -> Result<Share, Error> {
        Ok(self.lock()?.flows.open(flow.0)?.share)
    }

    /// The flow is to have this share of its path. Guarantees need a daemon whose scheduler keeps them.
    pub fn share(&self, flow: Id, share: Share) -> Result<(), Error> {
        if !is_sound(&share) {
            return Err(Error::Invalid);
        }
        let mut state = self.room_for(flow)?;
        state.flows.open(flow.0)?.share = share;
        self.say(&mut state, flow.0, Command::Share(share))
    }

    /// The flow wants [`Event::Update`](super::Event::Update) for changes beyond these (RFC 3124, `cm_thresh`).
    pub fn thresholds(&self, flow: Id, thresholds: &Thresholds) -> Result<(), Error> {
        if !are_sound(thresholds) {
            return Err(Error::Invalid);
        }
        let mut state = self.room_for(flow)?;
        self.say(&mut state, flow.0, Command::Watch(*thresholds))
    }

    /// The flow ends (`cm_close`). No event of it comes any more. After [`Error::Full`] it is as open as before.
    pub fn close(&self, flow: Id) -> Result<(), Error> {
        // The daemon must hear of it before the place is another's.
        let mut state = self.room(1, 0, |state| match state.flows.get(flow.0)?.stage {
            Stage::Opening => Err(Error::Unknown),
            Stage::Open | Stage::Over(_) => Ok(()),
        })?;
        let closed = state.flows.remove(flow.0)?;
        state.events.retain(|(id, _)| *id != flow.0);
        if closed.stage == Stage::Open { self.say(&mut state, flow.0, Command::Close) } else { Ok(()) }
    }
}
