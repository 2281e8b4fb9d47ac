//! The sender's side of the API: the calls of a flow from its opening to its end, as in the paper's Figure 4.

use std::net::SocketAddr;

use rampmeter_manager::{Share, Thresholds};
use rampmeter_units::{Bytes, Duration};

use super::flows::{ClientFlow, Stage};
use super::state::Answer;
use super::{Client, Id, Options};
use crate::error::Error;
use crate::limits::{MAX_PACKET_BYTES, MAX_REQUESTS};
use crate::message::{Command, Feedback, MAX_RTT, Macroflow, PathState, are_valid, is_valid};

impl Client {
    /// Opens a flow to `to` (`cm_open`). Only [`Client::send`] and [`Client::header`] use the port.
    pub fn open(&self, to: SocketAddr, options: &Options) -> Result<Id, Error> {
        self.open_with(to, options, |_| ())
    }

    /// The same, for programs in which another thread reads the events: `on_id` is called with the id before the daemon
    /// gets it, so before there can be an event of the flow. It is called under the client's lock and must not call the
    /// client. It is also called for a flow that cannot be opened; the error follows.
    pub fn open_with(&self, to: SocketAddr, options: &Options, on_id: impl FnOnce(Id)) -> Result<Id, Error> {
        if !is_valid(&options.share) {
            return Err(Error::Invalid);
        }
        let mut state = self.lock_with_room(2, 0, |_| Ok(()))?;
        let id = state.flows.add(ClientFlow::new(options.share, to))?;
        on_id(Id(id));
        self.send_command(&mut state, id, Command::Open { to, share: options.share })?;
        if options.share.curve.is_some() {
            self.send_command(&mut state, id, Command::Share(options.share))?; // `Open` has no field for the curve
        }
        self.wait_for_answer(state, |state| match state.flows.get(id).map(|flow| flow.stage) {
            Ok(Stage::Opening) => None,
            Ok(Stage::Open) => Some(Ok(Id(id))),
            Ok(Stage::Ended(error)) => Some(state.flows.remove(id).and(Err(error))),
            Err(error) => Some(Err(error)),
        })
    }

    /// The number of application bytes that a packet of the flow may carry (`cm_mtu`): the path's MTU without the
    /// headers of IP and UDP.
    pub fn mtu(&self, flow: Id) -> Result<u32, Error> {
        Ok(self.lock()?.flows.open(flow.0)?.mtu)
    }

    /// Requests permission to send one packet (`cm_request`). Each request is answered by one
    /// [`Event::Send`](super::Event::Send).
    pub fn request(&self, flow: Id) -> Result<(), Error> {
        let mut state = self.lock_for_flow(flow)?;
        let f = state.flows.open(flow.0)?;
        if f.pending_requests >= MAX_REQUESTS {
            return Err(Error::Full);
        }
        f.pending_requests += 1;
        self.send_command(&mut state, flow.0, Command::Request)
    }

    /// Reports a packet of `sent` bytes, or zero if nothing was sent (`cm_notify`). If the flow has grants, this
    /// answers the oldest one; without a grant it reports a packet that the flow has sent by its own clock.
    pub fn notify(&self, flow: Id, sent: u64) -> Result<(), Error> {
        if sent > MAX_PACKET_BYTES {
            return Err(Error::TooLarge);
        }
        let mut state = self.lock_for_flow(flow)?;
        let tag = state.flows.open(flow.0)?.own_socket.as_mut().and_then(|own| own.on_notify(sent > 0));
        self.send_command(&mut state, flow.0, Command::Notify { sent: Bytes::new(sent), tag })
    }

    /// Reports what arrived and what was lost (`cm_update`).
    pub fn update(&self, flow: Id, feedback: &Feedback) -> Result<(), Error> {
        let max = Bytes::new(1 << 40);
        let is_valid = feedback.received <= max
            && feedback.lost <= max
            && feedback.rtt.is_none_or(|rtt| rtt > Duration::ZERO && rtt <= MAX_RTT);
        if !is_valid {
            return Err(Error::Invalid);
        }
        let mut state = self.lock_for_flow(flow)?;
        self.send_command(&mut state, flow.0, Command::Update(*feedback))
    }

    /// The flow's share of its path's rate, and the round-trip time (`cm_query`).
    pub fn query(&self, flow: Id) -> Result<PathState, Error> {
        match self.ask(Some(flow), |token| Command::Query { token })? {
            Answer::State(state) => Ok(state),
            Answer::Done(_) => Err(Error::Disconnected), // the daemon sent the wrong answer
        }
    }

    /// Queues a datagram in the congestion manager, which sends it when it is the flow's turn (`cm_send`).
    pub fn send(&self, flow: Id, data: &[u8]) -> Result<(), Error> {
        let length = data.len() as u64;
        let locked = self.lock_with_room(1, data.len(), |state| state.flows.open(flow.0)?.check_datagram(length));
        let mut state = locked.inspect_err(|error| {
            if *error == Error::Full {
                self.request_room_event(flow.0);
            }
        })?;
        let f = state.flows.open(flow.0)?;
        f.queued += length;
        f.datagrams += 1;
        self.send_command_with_data(&mut state, flow.0, Command::Send { length: length as u32 }, data)
    }

    /// The flow's current share settings.
    pub fn share_of(&self, flow: Id) -> Result<Share, Error> {
        Ok(self.lock()?.flows.open(flow.0)?.share)
    }

    /// Sets the flow's share of its path. Guarantees need a daemon with a scheduler that keeps them.
    pub fn share(&self, flow: Id, share: Share) -> Result<(), Error> {
        if !is_valid(&share) {
            return Err(Error::Invalid);
        }
        let mut state = self.lock_for_flow(flow)?;
        state.flows.open(flow.0)?.share = share;
        self.send_command(&mut state, flow.0, Command::Share(share))
    }

    /// Puts the flow into another macroflow (`cm_set_macroflow`), for flows that the network treats differently from
    /// others to the same destination (section 4.5). It stays there until the next call. Its bytes in flight remain with
    /// the macroflow that sent them, and reports about them count there. Separate macroflows compete as separate TCP
    /// flows do.
    pub fn set_macroflow(&self, flow: Id, to: Macroflow) -> Result<(), Error> {
        if let Macroflow::Of(other) = to {
            self.lock()?.flows.open(other.0)?;
        }
        self.execute(Some(flow), |token| Command::SetMacroflow { token, to })
    }

    /// Sets the changes of the rate that cause an [`Event::Update`](super::Event::Update) (RFC 3124, `cm_thresh`).
    pub fn thresholds(&self, flow: Id, thresholds: &Thresholds) -> Result<(), Error> {
        if !are_valid(thresholds) {
            return Err(Error::Invalid);
        }
        let mut state = self.lock_for_flow(flow)?;
        self.send_command(&mut state, flow.0, Command::Watch(*thresholds))
    }

    /// Closes the flow (`cm_close`). No event of it follows. After [`Error::Full`] the flow is still open.
    pub fn close(&self, flow: Id) -> Result<(), Error> {
        // The daemon must get the command before another flow uses the slot.
        let mut state = self.lock_with_room(1, 0, |state| match state.flows.get(flow.0)?.stage {
            Stage::Opening => Err(Error::Unknown),
            Stage::Open | Stage::Ended(_) => Ok(()),
        })?;
        let closed = state.flows.remove(flow.0)?;
        state.events.retain(|(id, _)| *id != flow.0);
        if closed.stage == Stage::Open { self.send_command(&mut state, flow.0, Command::Close) } else { Ok(()) }
    }
}
