//! Many hosts, one thread: waits for packets and deadlines, and lets each host do what is due.
//!
//! ```text
//! loop { turn(until) ──► poll_event until there is no more ──► act through host_mut }
//! ```
//!
//! A [`Loop`] owns its hosts, the clock they share and the buffers packets arrive in. An application owns the loop and
//! everything that its own protocol needs; nothing calls back.

use std::collections::VecDeque;
use std::io;

use rampmeter_control::Controller;
use rampmeter_manager::Timers;
use rampmeter_units::{Duration, Time};

use crate::clock::{Clock, be_punctual};
use crate::host::{Event, Host};
use crate::ready::Ready;
use crate::socket::ReceiveBatch;

/// A sender whose next packet leaves this soon reads acknowledgements when it does, not as they come: one wake-up a packet
/// instead of two. 20 Mb/s in packets of 1250 bytes, and faster.
const SOON: Duration = Duration::from_micros(500);

/// A host's name in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u32);

/// Drives hosts.
#[derive(Debug)]
pub struct Loop<C> {
    clock: Clock,
    ready: Ready,
    hosts: Vec<Option<Host<C>>>,
    /// Each host's next deadline.
    timers: Timers,
    /// Hosts that something happened to, or that have more to do.
    busy: VecDeque<u32>,
    is_busy: Vec<bool>,
    arrivals: ReceiveBatch,
    events: VecDeque<(HostId, Event)>,
    /// Connections that the application has been told are over.
    over: Vec<(HostId, rampmeter_transport::ConnectionId)>,
}

impl<C: Controller> Loop<C> {
    /// A loop without hosts, for packets of up to `largest` bytes. Drive it from the thread that made it: that thread's
    /// timers are made precise.
    pub fn new(largest: usize) -> io::Result<Self> {
        be_punctual();
        Ok(Self {
            clock: Clock::start(),
            ready: Ready::new()?,
            hosts: Vec::new(),
            timers: Timers::default(),
            busy: VecDeque::new(),
            is_busy: Vec::new(),
            arrivals: ReceiveBatch::new(largest),
            events: VecDeque::new(),
            over: Vec::new(),
        })
    }

    /// Now, on the clock of all its hosts.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Takes a host in.
    pub fn add(&mut self, host: Host<C>) -> io::Result<HostId> {
        let index = self.hosts.len() as u32;
        self.ready.add(host.socket(), index.into())?;
        self.hosts.push(Some(host));
        self.is_busy.push(false);
        self.wake(index);
        Ok(HostId(index))
    }

    /// Gives a host back, with its socket and its connections as they are.
    pub fn remove(&mut self, id: HostId) -> Option<Host<C>> {
        let host = self.hosts.get_mut(id.0 as usize)?.take()?;
        self.ready.remove(host.socket());
        self.events.retain(|(owner, _)| *owner != id);
        Some(host)
    }

    /// A host, to look at.
    pub fn host(&self, id: HostId) -> Option<&Host<C>> {
        self.hosts.get(id.0 as usize)?.as_ref()
    }

    /// A host, to act through; what that makes due is done at the next turn.
    pub fn host_mut(&mut self, id: HostId) -> Option<&mut Host<C>> {
        self.wake(id.0);
        self.hosts.get_mut(id.0 as usize)?.as_mut()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<(HostId, Event)> {
        let (id, event) = self.events.pop_front()?;
        if let Event::Closed(connection, ..) = &event {
            self.over.push((id, *connection));
        }
        Some((id, event))
    }

    /// Does what is due, waits for something to happen if nothing was, and does that. Returns as soon as there are
    /// events, at `until` at the latest, and after a signal.
    pub fn turn(&mut self, until: Time) -> io::Result<()> {
        for (id, connection) in std::mem::take(&mut self.over) {
            if let Some(Some(host)) = self.hosts.get_mut(id.0 as usize) {
                host.forget(connection);
            }
        }
        self.serve()?;
        let wake_up = self.timers.next().min(until);
        let now = self.clock.now();
        let idle = self.events.is_empty() && self.busy.is_empty() && now < wake_up;
        if idle && wake_up.since(now) <= SOON && self.is_patient() {
            self.clock.sleep(wake_up);
            self.tell_stall();
            self.take_in(0);
        } else {
            if idle {
                self.clock.wait(&mut self.ready, wake_up)?;
                self.tell_stall();
            } else {
                self.ready.wait(Duration::ZERO)?;
            }
            while let Some((index, room)) = self.ready.next() {
                let index = index as u32;
                if let Some(Some(host)) = self.hosts.get_mut(index as usize).filter(|_| room) {
                    host.unblock();
                    self.ready.await_room(host.socket(), index.into(), false)?;
                }
                self.take_in(index);
            }
        }
        while let Some(index) = self.timers.due(self.clock.now()) {
            self.wake(index);
        }
        self.serve()
    }

    /// Whether what comes in may wait until something is due: there is one host, and nobody waits for it to answer.
    fn is_patient(&self) -> bool {
        matches!(&self.hosts[..], [Some(host)] if host.is_patient())
    }

    /// After a wait that ended late: all hosts learn of it before what has come in meanwhile.
    fn tell_stall(&mut self) {
        if let Some(since) = self.clock.take_stall() {
            let now = self.clock.now();
            self.hosts.iter_mut().flatten().for_each(|host| host.on_stall(now, since));
        }
    }

    fn take_in(&mut self, index: u32) {
        if let Some(Some(host)) = self.hosts.get_mut(index as usize) {
            // What is left shows at the next turn.
            host.receive(&mut self.clock, &mut self.arrivals);
            self.wake(index);
        }
    }

    fn wake(&mut self, index: u32) {
        if self.is_busy.get_mut(index as usize).is_some_and(|busy| !std::mem::replace(busy, true)) {
            self.busy.push_back(index);
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        for _ in 0..self.busy.len() {
            let Some(index) = self.busy.pop_front() else { break };
            self.is_busy[index as usize] = false;
            let Some(host) = &mut self.hosts[index as usize] else { continue };
            let was_blocked = host.is_blocked();
            let more = host.serve(&self.clock);
            if host.is_blocked() && !was_blocked {
                self.ready.await_room(host.socket(), index.into(), true)?;
            }
            let deadline = host.deadline();
            if deadline < Time::MAX {
                self.timers.arm(index, deadline);
            }
            while let Some(event) = host.poll_event() {
                self.events.push_back((HostId(index), event));
            }
            if more {
                self.wake(index);
            }
        }
        Ok(())
    }
}
