//! The connections of all threads of a server: how many there are, which of them have a place, and which wait for one.
//!
//! ```text
//! open ──► wait ──► place ──► (all was sent) ──► wait ...       close at any time
//! ```
//!
//! Each thread that handles an event gives free places to the connections that have waited longest, and wakes the threads
//! that have them. A connection that has received all it asked for keeps its place until another one waits.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rampmeter_net::Alarm;
use rampmeter_session::shares::Shares;
use rampmeter_transport::ConnectionId;

/// A connection that waits for a place.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    thread: usize,
    id: ConnectionId,
    ip: IpAddr,
}

/// The connections of all threads.
#[derive(Debug)]
pub(super) struct Admission {
    state: Mutex<State>,
    /// Connections that wait, and those that have a place and do not know it yet.
    pending: AtomicUsize,
}

#[derive(Debug)]
struct State {
    connections: Shares,
    served: Shares,
    /// The longest wait first.
    waiting: VecDeque<Waiter>,
    granted: Vec<Waiter>,
    alarms: Vec<Option<Alarm>>,
}

impl State {
    /// Gives places to connections that wait, and wakes their threads. `caller` is awake.
    fn grant(&mut self, caller: usize) {
        let Self { served, waiting, granted, alarms, .. } = self;
        waiting.retain(|waiter| {
            let has_place = served.take(waiter.ip, 1);
            if has_place {
                granted.push(*waiter);
                if let Some(Some(alarm)) = alarms.get(waiter.thread).filter(|_| waiter.thread != caller) {
                    alarm.ring();
                }
            }
            !has_place
        });
    }
}

impl Admission {
    pub(super) fn new(threads: usize, max_connections: usize, max_served: usize) -> Self {
        let state = State {
            connections: Shares::new(max_connections as u64),
            served: Shares::new(max_served as u64),
            waiting: VecDeque::new(),
            granted: Vec::new(),
            alarms: vec![None; threads],
        };
        Self { state: Mutex::new(state), pending: AtomicUsize::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, state: &State) {
        self.pending.store(state.waiting.len() + state.granted.len(), Ordering::Relaxed);
    }

    /// Wakes `thread` with this alarm.
    pub(super) fn set_alarm(&self, thread: usize, alarm: Alarm) {
        if let Some(place) = self.state().alarms.get_mut(thread) {
            *place = Some(alarm);
        }
    }

    /// Whether a connection from `ip` is accepted.
    pub(super) fn open(&self, ip: IpAddr) -> bool {
        self.state().connections.take(ip, 1)
    }

    /// A connection that was accepted has ended.
    pub(super) fn close(&self, thread: usize, id: ConnectionId, ip: IpAddr, has_place: bool) {
        let mut state = self.state();
        state.connections.give_back(ip, 1);
        let is_other = |waiter: &Waiter| (waiter.thread, waiter.id) != (thread, id);
        let granted = state.granted.len();
        state.granted.retain(is_other);
        if has_place || state.granted.len() < granted {
            state.served.give_back(ip, 1);
        }
        state.waiting.retain(is_other);
        state.grant(thread);
        self.finish(&state);
    }

    /// Whether a connection waits, or has got a place.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// Queues connections of `thread`, takes places back that it needs no more, and returns its connections that have
    /// got a place.
    pub(super) fn exchange(
        &self,
        thread: usize,
        waiting: &[(ConnectionId, IpAddr)],
        given_up: &[IpAddr],
    ) -> Vec<ConnectionId> {
        let mut state = self.state();
        state.waiting.extend(waiting.iter().map(|&(id, ip)| Waiter { thread, id, ip }));
        for &ip in given_up {
            state.served.give_back(ip, 1);
        }
        state.grant(thread);
        if !waiting.is_empty() && !state.waiting.is_empty() {
            // Others may have places that they need no more.
            let others = state.alarms.iter().enumerate().filter(|(other, _)| *other != thread);
            others.filter_map(|(_, alarm)| alarm.as_ref()).for_each(Alarm::ring);
        }
        let own = state.granted.iter().filter(|waiter| waiter.thread == thread).map(|waiter| waiter.id).collect();
        state.granted.retain(|waiter| waiter.thread != thread);
        self.finish(&state);
        own
    }
}
