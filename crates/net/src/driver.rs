//! An event loop for many hosts in one thread: waits for packets and deadlines, and runs the hosts that are due.
//!
//! ```text
//! loop { run_once(until) ──► poll_event until it returns none ──► act through host_mut }
//! ```
//!
//! An [`EventLoop`] owns its hosts, the clock that they share and the receive buffers. An application owns the loop and
//! its own protocol state; there are no callbacks.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};
use rampmeter_control::Controller;
use rampmeter_manager::Timers;
use rampmeter_units::{Duration, Time};

use crate::clock::{Clock, set_min_timer_slack};
use crate::host::{Event, Host};
use crate::ready::Ready;
use crate::socket::{ReceiveBatch, Socket};

/// A sender whose next packet leaves this soon reads acknowledgements at that time and not as they arrive: one wake-up
/// a packet instead of two, from 20 Mb/s in packets of 1250 bytes on.
const COALESCING_DELAY: Duration = Duration::from_micros(500);

/// The id of a host in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u32);

/// An event loop for hosts.
#[derive(Debug)]
pub struct EventLoop<C> {
    clock: Clock,
    ready: Ready,
    hosts: Vec<Option<Host<C>>>,
    /// Each host's next deadline.
    timers: Timers,
    /// Hosts with events or with remaining work.
    busy: VecDeque<u32>,
    is_busy: Vec<bool>,
    arrivals: ReceiveBatch,
    events: VecDeque<(HostId, Event)>,
    /// Connections whose `Closed` event the application has received.
    closed: Vec<(HostId, rampmeter_transport::ConnectionId)>,
    alarm: Option<Alarm>,
}

/// The token of the alarm, which is no index of a host.
const ALARM: u64 = u64::MAX;

/// Ends the wait of an [`EventLoop`] from another thread.
#[derive(Debug, Clone)]
pub struct Alarm(Arc<EventFd>);

impl Alarm {
    /// Ends the loop's present wait, or its next one. During a short wait for a departure, it takes effect at its end.
    pub fn ring(&self) {
        // It fails only if it has been rung 2^64 - 2 times without effect: then the loop's wait ends anyway.
        let _ = self.0.write(1);
    }
}

impl<C: Controller> EventLoop<C> {
    /// A loop without hosts, for packets of up to `largest` bytes. Run it in the thread that made it: that thread's
    /// timer slack is set.
    pub fn new(largest: usize) -> io::Result<Self> {
        Self::with_clock(Clock::start(), largest)
    }

    /// The same with a clock that other loops have, too.
    pub fn with_clock(clock: Clock, largest: usize) -> io::Result<Self> {
        set_min_timer_slack();
        Ok(Self {
            clock,
            ready: Ready::new()?,
            hosts: Vec::new(),
            timers: Timers::default(),
            busy: VecDeque::new(),
            is_busy: Vec::new(),
            arrivals: ReceiveBatch::new(largest),
            events: VecDeque::new(),
            closed: Vec::new(),
            alarm: None,
        })
    }

    /// The current time, on the clock of all hosts.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The loop's alarm.
    pub fn alarm(&mut self) -> io::Result<Alarm> {
        if let Some(alarm) = &self.alarm {
            return Ok(alarm.clone());
        }
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let alarm = Alarm(Arc::new(EventFd::from_value_and_flags(0, flags)?));
        self.ready.add(&*alarm.0, ALARM)?;
        self.alarm = Some(alarm.clone());
        Ok(alarm)
    }

    /// Adds a host.
    pub fn add(&mut self, host: Host<C>) -> io::Result<HostId> {
        let index = self.hosts.len() as u32;
        self.ready.add(host.socket(), index.into())?;
        self.hosts.push(Some(host));
        self.is_busy.push(false);
        self.mark_busy(index);
        Ok(HostId(index))
    }

    /// Removes a host, with its socket and its connections as they are.
    pub fn remove(&mut self, id: HostId) -> Option<Host<C>> {
        let host = self.hosts.get_mut(id.0 as usize)?.take()?;
        self.ready.remove(host.socket());
        self.events.retain(|(owner, _)| *owner != id);
        Some(host)
    }

    /// Gives a host another socket, and with it another address.
    pub fn replace_socket(&mut self, id: HostId, socket: Socket) -> io::Result<()> {
        let Some(Some(host)) = self.hosts.get_mut(id.0 as usize) else { return Ok(()) };
        self.ready.add(&socket, id.0.into())?;
        let before = host.replace_socket(socket);
        self.ready.remove(&before);
        self.mark_busy(id.0);
        Ok(())
    }

    /// A host, for reading.
    pub fn host(&self, id: HostId) -> Option<&Host<C>> {
        self.hosts.get(id.0 as usize)?.as_ref()
    }

    /// A host, for calls; their effects take place in the next run.
    pub fn host_mut(&mut self, id: HostId) -> Option<&mut Host<C>> {
        self.mark_busy(id.0);
        self.hosts.get_mut(id.0 as usize)?.as_mut()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<(HostId, Event)> {
        let (id, event) = self.events.pop_front()?;
        if let Event::Closed(connection, ..) = &event {
            self.closed.push((id, *connection));
        }
        Some((id, event))
    }

    /// Runs what is due; if nothing is, waits for arrivals or deadlines and handles them. Returns once there are
    /// events, at `until` at the latest, and after a signal.
    pub fn run_once(&mut self, until: Time) -> io::Result<()> {
        for (id, connection) in std::mem::take(&mut self.closed) {
            if let Some(Some(host)) = self.hosts.get_mut(id.0 as usize) {
                host.discard(connection);
            }
        }
        self.serve()?;
        let wake_up = self.timers.next().min(until);
        let now = self.clock.now();
        let idle = self.events.is_empty() && self.busy.is_empty() && now < wake_up;
        if idle && wake_up.since(now) <= COALESCING_DELAY && self.can_defer_receiving() {
            self.clock.sleep(wake_up);
            self.report_stall();
            self.receive_at(0);
        } else {
            if idle {
                self.clock.wait(&mut self.ready, wake_up)?;
                self.report_stall();
            } else {
                self.ready.wait(Duration::ZERO)?;
            }
            while let Some((index, writable)) = self.ready.next() {
                if index == ALARM {
                    if let Some(alarm) = &self.alarm {
                        let _ = alarm.0.read(); // it counts the rings, and is rung
                    }
                    continue;
                }
                let index = index as u32;
                if let Some(Some(host)) = self.hosts.get_mut(index as usize).filter(|_| writable) {
                    host.blocked = false;
                    self.ready.set_write_interest(host.socket(), index.into(), false)?;
                }
                self.receive_at(index);
            }
        }
        while let Some(index) = self.timers.due(self.clock.now()) {
            self.mark_busy(index);
        }
        self.serve()
    }

    /// Whether arrivals may stay in the kernel until the next deadline: there is one host, and no peer waits for its
    /// reply.
    fn can_defer_receiving(&self) -> bool {
        matches!(&self.hosts[..], [Some(host)] if host.can_defer_receiving())
    }

    /// After a wait that ended in a stall: notifies all hosts before the packets that arrived in the meantime.
    fn report_stall(&mut self) {
        if let Some(since) = self.clock.take_stall() {
            let now = self.clock.now();
            self.hosts.iter_mut().flatten().for_each(|host| host.on_stall(now, since));
        }
    }

    fn receive_at(&mut self, index: u32) {
        if let Some(Some(host)) = self.hosts.get_mut(index as usize) {
            // Remaining packets are read in the next run.
            host.receive(&mut self.clock, &mut self.arrivals);
            self.mark_busy(index);
        }
    }

    fn mark_busy(&mut self, index: u32) {
        if self.is_busy.get_mut(index as usize).is_some_and(|busy| !std::mem::replace(busy, true)) {
            self.busy.push_back(index);
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        for _ in 0..self.busy.len() {
            let Some(index) = self.busy.pop_front() else { break };
            self.is_busy[index as usize] = false;
            let Some(host) = &mut self.hosts[index as usize] else { continue };
            let was_blocked = host.blocked;
            let more = host.serve(&self.clock);
            if host.blocked && !was_blocked {
                self.ready.set_write_interest(host.socket(), index.into(), true)?;
            }
            self.timers.arm(index, host.deadline());
            self.events.extend(host.events.drain(..).map(|event| (HostId(index), event)));
            if more {
                self.mark_busy(index);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_control::newreno::NewReno;

    use super::*;

    #[test]
    fn an_alarm_ends_a_wait_once() {
        let mut net = EventLoop::<NewReno>::new(1500).unwrap();
        let alarm = net.alarm().unwrap();
        let ringing = std::thread::spawn(move || alarm.ring());
        let began = net.now();
        net.run_once(began + Duration::from_secs(30)).unwrap();
        ringing.join().unwrap();
        assert!(net.now().since(began) < Duration::from_secs(20));
        let began = net.now();
        net.run_once(began + Duration::from_millis(20)).unwrap();
        assert!(net.now().since(began) >= Duration::from_millis(20), "it ends one wait");
    }
}
