//! Senders that use the kernel's TCP: real sockets between the two hosts, all on one thread.
//!
//! A flow connects from the address of its host to that of its peer. Its application writes at both ends. The flow ends
//! when the sender's stream ends. Its completion time is from the call of `connect` to the read of the last byte.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rampmeter_net::TcpInfo;
use rampmeter_scenario::{FlowSample, Limits, Sender};
use rampmeter_units::{Duration, Rate, Time};
use rampmeter_workload::{Alarms, End, Event, Path};
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock::sleep;
use crate::priority::{self, Priority};
use crate::run_state::{FlowAction, FlowRecord, FlowResults, RunState, actions};
use crate::sides::Side;

/// The port that receivers listen on.
const PORT: u16 = 5001;

struct ActiveFlow {
    record: FlowRecord,
    ends: [Option<Socket>; 2],
    /// Whether each end waits until its socket is writable.
    awaits_writable: [bool; 2],
    is_open: bool,
}

/// The two low bits of an event's word for a listener. Other values mean an end of a flow. The other bits are the index
/// of the listener or the flow.
const LISTENER: u64 = 0;

/// The event word of a flow's end.
fn word(flow: usize, end: End) -> u64 {
    (flow as u64) << 2 | (1 + end as u64)
}

pub(crate) struct Kernel<'a> {
    run: RunState<'a>,
    actions: VecDeque<(Time, FlowAction)>,
    listeners: Vec<std::net::TcpListener>,
    epoll: Epoll,
    flows: Vec<Option<ActiveFlow>>,
    /// Flows by the addresses of their senders.
    by_sender: HashMap<SocketAddr, usize>,
    /// The deadlines of applications, by the [`word`] of the flow's end.
    alarms: Alarms,
    /// The host whose namespace this thread is in.
    here: Option<Side>,
    results: FlowResults,
    scratch: Vec<u8>,
}

impl<'a> Kernel<'a> {
    pub(crate) fn new(run: RunState<'a>) -> io::Result<Self> {
        let plan = run.plan;
        let is_kernel = |flow: usize| matches!(plan.schemes[plan.flows[flow].scheme].sender, Sender::Kernel { .. });
        let flows: Vec<usize> = (0..plan.flows.len()).filter(|&flow| is_kernel(flow)).collect();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut receivers: Vec<_> = flows.iter().map(|&flow| plan.flows[flow].to).collect();
        receivers.sort();
        receivers.dedup();
        let mut listeners = Vec::new();
        for host in receivers {
            let namespace = &run.host(run.sides.side(host)).namespace;
            let listener = namespace.inside(|| listen(run.sides.address(host)))?;
            epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, (listeners.len() as u64) << 2 | LISTENER))?;
            listeners.push(listener);
        }
        Ok(Self {
            run,
            actions: actions(plan, is_kernel).into(),
            listeners,
            epoll,
            flows: plan.flows.iter().map(|_| None).collect(),
            by_sender: HashMap::new(),
            alarms: Alarms::default(),
            here: None,
            results: FlowResults::default(),
            scratch: vec![0; 1 << 16],
        })
    }

    /// Runs on this thread. The thread stays in the namespace of a host and must not be used for anything else later.
    pub(crate) fn run(mut self) -> io::Result<FlowResults> {
        let _ = priority::raise(Priority::Hosts);
        let mut events = [EpollEvent::empty(); 64];
        while !self.run.is_over() {
            self.act()?;
            let next = self.actions.front().map_or(Time::MAX, |(at, _)| *at).min(self.alarms.next());
            sleep([self.epoll.0.as_fd()], next.since(self.run.clock.now()))?;
            let ready = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
                Err(nix::Error::EINTR) => 0,
                ready => ready?,
            };
            for event in &events[..ready] {
                self.on_event(event.data(), event.events())?;
            }
            while let Some(word) = self.alarms.due(self.run.clock.now()) {
                let (flow, end) = flow_end(word.into());
                self.alarms.set(word, Time::MAX);
                if let Some(conversation) = &mut self.flows[flow] {
                    let _ = conversation.record.on_deadline(&self.run, end);
                }
                self.send(flow, end)?;
            }
        }
        for flow in 0..self.flows.len() {
            self.end(flow);
        }
        Ok(self.results)
    }

    fn act(&mut self) -> io::Result<()> {
        while let Some(&(at, act)) = self.actions.front() {
            if at > self.run.clock.now() {
                break;
            }
            self.actions.pop_front();
            match act {
                FlowAction::Start(flow) => self.start(flow)?,
                FlowAction::Stop(flow) => self.stop(flow),
                FlowAction::Sample => self.sample(at),
                FlowAction::Report => {
                    for conversation in self.flows.iter_mut().flatten() {
                        conversation.record.report(&self.run);
                    }
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, flow: usize) -> io::Result<()> {
        let plan = self.run.plan;
        let planned = &plan.flows[flow];
        let Sender::Kernel { algorithm } = &plan.schemes[planned.scheme].sender else { return Ok(()) };
        let side = self.run.sides.side(planned.from);
        if self.here != Some(side) {
            self.run.host(side).namespace.enter()?;
            self.here = Some(side);
        }
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        socket.set_tcp_congestion(algorithm.as_bytes())?;
        socket.set_tcp_nodelay(true)?;
        socket.bind(&SocketAddrV4::new(self.run.sides.address(planned.from), 0).into())?;
        let mut record = FlowRecord::new(plan, flow, self.run.clock.now());
        match socket.connect(&SocketAddrV4::new(self.run.sides.address(planned.to), PORT).into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        if let Some(address) = socket.local_addr()?.as_socket() {
            self.by_sender.insert(address, flow);
        }
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLOUT, word(flow, End::Sender)))?;
        let _ = record.start(&self.run, Path::default());
        self.flows[flow] =
            Some(ActiveFlow { record, ends: [Some(socket), None], awaits_writable: [true, false], is_open: false });
        Ok(())
    }

    fn stop(&mut self, flow: usize) {
        let Some(ActiveFlow { record, ends, .. }) = &mut self.flows[flow] else { return };
        record.stop(&self.run);
        let _ = ends[End::Sender as usize].as_ref().map(|sender| sender.shutdown(std::net::Shutdown::Write));
    }

    fn on_event(&mut self, word: u64, ready: EpollFlags) -> io::Result<()> {
        if word & 3 == LISTENER {
            return self.accept((word >> 2) as usize);
        }
        let (flow, end) = flow_end(word);
        if ready.intersects(EpollFlags::EPOLLOUT) {
            if let Some(ActiveFlow { record, is_open: is_open @ false, .. }) = &mut self.flows[flow] {
                *is_open = true;
                let _ = record.notify(&self.run, end, &Event::Opened(Path::default()));
            }
            self.send(flow, end)?;
        }
        if ready != EpollFlags::EPOLLOUT {
            self.receive(flow, end)?;
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        loop {
            let (receiver, from) = match self.listeners[listener].accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some(flow) = self.by_sender.remove(&from) else { continue };
            let Some(conversation) = &mut self.flows[flow] else { continue };
            receiver.set_nonblocking(true)?;
            self.epoll.add(&receiver, EpollEvent::new(EpollFlags::EPOLLIN, word(flow, End::Receiver)))?;
            conversation.ends[End::Receiver as usize] = Some(receiver.into());
            let _ = conversation.record.notify(&self.run, End::Receiver, &Event::Opened(Path::default()));
            self.send(flow, End::Receiver)?;
        }
    }

    /// Writes as many unsent bytes of an end as its socket accepts, and waits until it is writable if bytes are left.
    fn send(&mut self, flow: usize, end: End) -> io::Result<()> {
        let Some(ActiveFlow { record, ends, awaits_writable, .. }) = &mut self.flows[flow] else { return Ok(()) };
        self.alarms.set(word(flow, end) as u32, record.deadline(end));
        let Some(socket) = &ends[end as usize] else { return Ok(()) };
        let outgoing = &mut record.outgoing[end as usize];
        while outgoing.unsent > 0 {
            let chunk = outgoing.unsent.min(self.scratch.len() as u64) as usize;
            match socket.send(&self.scratch[..chunk]) {
                Ok(sent) => outgoing.unsent -= sent as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.end(flow);
                    return Ok(());
                }
            }
        }
        let full = outgoing.unsent > 0;
        if !full && std::mem::take(&mut outgoing.finish) {
            let _ = socket.shutdown(std::net::Shutdown::Write);
        }
        if std::mem::replace(&mut awaits_writable[end as usize], full) != full {
            let writable = if full { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            self.epoll.modify(socket, &mut EpollEvent::new(EpollFlags::EPOLLIN | writable, word(flow, end)))?;
        }
        Ok(())
    }

    fn receive(&mut self, flow: usize, end: End) -> io::Result<()> {
        let Some(ActiveFlow { record, ends, .. }) = &mut self.flows[flow] else { return Ok(()) };
        let Some(mut socket) = ends[end as usize].as_ref() else { return Ok(()) };
        let ended = loop {
            match socket.read(&mut self.scratch) {
                Ok(0) => break true,
                Ok(bytes) => {
                    let _ = record.read(&self.run, end, bytes as u64, false);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        if ended {
            self.end(flow);
            return Ok(());
        }
        self.send(flow, end)
    }

    /// Completes a flow's record and closes its sockets.
    fn end(&mut self, flow: usize) {
        let Some(ActiveFlow { mut record, ends, .. }) = self.flows[flow].take() else { return };
        record.finish(&self.run);
        record.report(&self.run);
        for end in End::ALL {
            self.alarms.set(word(flow, end) as u32, Time::MAX);
        }
        let mut outcome = record.outcome;
        if let Some(Ok(info)) = ends[End::Sender as usize].as_ref().map(TcpInfo::of) {
            outcome.sent_packets = u64::from(info.data_packets);
            outcome.retransmitted_packets = u64::from(info.retransmitted);
            outcome.limits = Limits {
                busy: Duration::from_micros(info.busy_us),
                receive_window: Duration::from_micros(info.receive_window_us),
                ..Limits::default()
            };
        }
        self.results.flows.push(outcome);
    }

    fn sample(&mut self, at: Time) {
        let plan = self.run.plan;
        for conversation in self.flows.iter().flatten() {
            let outcome = &conversation.record.outcome;
            let info = conversation.ends[End::Sender as usize].as_ref().map(TcpInfo::of);
            let (true, Some(Ok(info))) = (plan.traffic[outcome.traffic].measured, info) else { continue };
            self.results.samples.push(FlowSample {
                at,
                flow: outcome.flow,
                window: Some(plan.packet * u64::from(info.window)),
                rate: Some(Rate::from_bps(info.pacing_rate.saturating_mul(8))).filter(|&rate| rate < Rate::MAX),
                delivered: outcome.delivered,
            });
        }
    }
}

/// The flow and the end of a [`word`].
fn flow_end(word: u64) -> (usize, End) {
    ((word >> 2) as usize, if word & 3 == 1 { End::Sender } else { End::Receiver })
}

fn listen(address: Ipv4Addr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.bind(&SocketAddrV4::new(address, PORT).into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}
