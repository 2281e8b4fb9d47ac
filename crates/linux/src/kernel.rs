//! The kernel's own TCP as senders: real sockets between the two hosts, one thread for all of them.
//!
//! A flow connects from its host's address to its peer's; its application writes at both ends. It is over when its sender's
//! stream has ended. Its response runs from the call of `connect` to the read that brings the last byte.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rampmeter_net::TcpInfo;
use rampmeter_scenario::{FlowSample, Sender};
use rampmeter_units::{Rate, Time};
use rampmeter_workload::{Alarms, End, Event, Path};
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock::sleep;
use crate::priority::{self, Priority};
use crate::sides::Side;
use crate::stage::{Account, Act, Stage, Told, acts};

/// The port that receivers listen on.
const PORT: u16 = 5001;

/// A flow under way.
struct Conversation {
    account: Account,
    /// The socket at each end.
    ends: [Option<Socket>; 2],
    /// Whether that waits for room to write.
    awaits_room: [bool; 2],
    /// The sender's connection is open.
    is_open: bool,
}

/// What woke up, a listener or a flow's end: the two low bits of an event's word; the rest says which.
const LISTENER: u64 = 0;

/// The word of a flow's end.
fn word(flow: usize, end: End) -> u64 {
    (flow as u64) << 2 | (1 + end as u64)
}

/// All flows of the kernel's.
pub(crate) struct Kernel<'a> {
    stage: Stage<'a>,
    acts: VecDeque<(Time, Act)>,
    listeners: Vec<std::net::TcpListener>,
    epoll: Epoll,
    flows: Vec<Option<Conversation>>,
    /// Flows by their senders' addresses.
    by_sender: HashMap<SocketAddr, usize>,
    /// The deadlines of applications, by what [`word`] says of their ends.
    alarms: Alarms,
    /// The host that this thread is on.
    here: Option<Side>,
    told: Told,
    scratch: Vec<u8>,
}

impl<'a> Kernel<'a> {
    /// Ready to run, listeners and all.
    pub(crate) fn new(stage: Stage<'a>) -> io::Result<Self> {
        let plan = stage.plan;
        let ours = |flow: usize| matches!(plan.schemes[plan.flows[flow].scheme].sender, Sender::Kernel { .. });
        let flows: Vec<usize> = (0..plan.flows.len()).filter(|&flow| ours(flow)).collect();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut receivers: Vec<_> = flows.iter().map(|&flow| plan.flows[flow].to).collect();
        receivers.sort();
        receivers.dedup();
        let mut listeners = Vec::new();
        for host in receivers {
            let namespace = &stage.host(stage.sides.side(host)).namespace;
            let listener = namespace.inside(|| listen(stage.sides.address(host)))?;
            epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, (listeners.len() as u64) << 2 | LISTENER))?;
            listeners.push(listener);
        }
        Ok(Self {
            stage,
            acts: acts(plan, ours).into(),
            listeners,
            epoll,
            flows: plan.flows.iter().map(|_| None).collect(),
            by_sender: HashMap::new(),
            alarms: Alarms::default(),
            here: None,
            told: Told::default(),
            scratch: vec![0; 1 << 16],
        })
    }

    /// Runs on this thread, which is good for nothing else afterwards: it ends on one of the hosts.
    pub(crate) fn run(mut self) -> io::Result<Told> {
        let _ = priority::raise(Priority::Hosts);
        let mut events = [EpollEvent::empty(); 64];
        while !self.stage.is_over() {
            self.act()?;
            let next = self.acts.front().map_or(Time::MAX, |(at, _)| *at).min(self.alarms.next());
            sleep([self.epoll.0.as_fd()], self.stage.clock.until(next))?;
            let ready = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
                Err(nix::Error::EINTR) => 0,
                ready => ready?,
            };
            for event in &events[..ready] {
                self.serve(event.data(), event.events())?;
            }
            while let Some(word) = self.alarms.due(self.stage.clock.now()) {
                let (flow, end) = place(word.into());
                self.alarms.set(word, Time::MAX);
                if let Some(conversation) = &mut self.flows[flow] {
                    let _ = conversation.account.on_deadline(&self.stage, end);
                }
                self.send(flow, end)?;
            }
        }
        for flow in 0..self.flows.len() {
            self.end(flow);
        }
        Ok(self.told)
    }

    fn act(&mut self) -> io::Result<()> {
        while let Some(&(at, act)) = self.acts.front() {
            if at > self.stage.clock.now() {
                break;
            }
            self.acts.pop_front();
            match act {
                Act::Start(flow) => self.start(flow)?,
                Act::Stop(flow) => self.stop(flow),
                Act::Sample => self.sample(at),
                Act::Report => {
                    for conversation in self.flows.iter_mut().flatten() {
                        conversation.account.report(&self.stage);
                    }
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, flow: usize) -> io::Result<()> {
        let plan = self.stage.plan;
        let planned = &plan.flows[flow];
        let Sender::Kernel { algorithm } = &plan.schemes[planned.scheme].sender else { return Ok(()) };
        let side = self.stage.sides.side(planned.from);
        if self.here != Some(side) {
            self.stage.host(side).namespace.enter()?;
            self.here = Some(side);
        }
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        socket.set_tcp_congestion(algorithm.as_bytes())?;
        socket.set_tcp_nodelay(true)?;
        socket.bind(&SocketAddrV4::new(self.stage.sides.address(planned.from), 0).into())?;
        let mut account = Account::new(plan, flow, self.stage.clock.now());
        match socket.connect(&SocketAddrV4::new(self.stage.sides.address(planned.to), PORT).into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        if let Some(address) = socket.local_addr()?.as_socket() {
            self.by_sender.insert(address, flow);
        }
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLOUT, word(flow, End::Sender)))?;
        let _ = account.start(&self.stage, Path::default());
        self.flows[flow] =
            Some(Conversation { account, ends: [Some(socket), None], awaits_room: [true, false], is_open: false });
        Ok(())
    }

    fn stop(&mut self, flow: usize) {
        let Some(Conversation { account, ends, .. }) = &mut self.flows[flow] else { return };
        account.stop(&self.stage);
        let _ = ends[End::Sender as usize].as_ref().map(|sender| sender.shutdown(std::net::Shutdown::Write));
    }

    fn serve(&mut self, word: u64, ready: EpollFlags) -> io::Result<()> {
        if word & 3 == LISTENER {
            return self.accept((word >> 2) as usize);
        }
        let (flow, end) = place(word);
        if ready.intersects(EpollFlags::EPOLLOUT) {
            if let Some(Conversation { account, is_open: is_open @ false, .. }) = &mut self.flows[flow] {
                *is_open = true;
                let _ = account.tell(&self.stage, end, &Event::Opened(Path::default()));
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
            let _ = conversation.account.tell(&self.stage, End::Receiver, &Event::Opened(Path::default()));
            self.send(flow, End::Receiver)?;
        }
    }

    /// Writes what an end has to write, as much as there is room for, and waits for what it waits for then.
    fn send(&mut self, flow: usize, end: End) -> io::Result<()> {
        let Some(Conversation { account, ends, awaits_room, .. }) = &mut self.flows[flow] else { return Ok(()) };
        self.alarms.set(word(flow, end) as u32, account.deadline(end));
        let Some(socket) = &ends[end as usize] else { return Ok(()) };
        let outgoing = &mut account.outgoing[end as usize];
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
        if std::mem::replace(&mut awaits_room[end as usize], full) != full {
            let room = if full { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            self.epoll.modify(socket, &mut EpollEvent::new(EpollFlags::EPOLLIN | room, word(flow, end)))?;
        }
        Ok(())
    }

    fn receive(&mut self, flow: usize, end: End) -> io::Result<()> {
        let Some(Conversation { account, ends, .. }) = &mut self.flows[flow] else { return Ok(()) };
        let Some(mut socket) = ends[end as usize].as_ref() else { return Ok(()) };
        let ended = loop {
            match socket.read(&mut self.scratch) {
                Ok(0) => break true,
                Ok(bytes) => {
                    let _ = account.read(&self.stage, end, bytes as u64, false);
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

    /// Closes a flow's account and its sockets.
    fn end(&mut self, flow: usize) {
        let Some(Conversation { mut account, ends, .. }) = self.flows[flow].take() else { return };
        account.settle(&self.stage);
        account.report(&self.stage);
        for end in End::ALL {
            self.alarms.set(word(flow, end) as u32, Time::MAX);
        }
        let mut outcome = account.outcome;
        if let Some(Ok(info)) = ends[End::Sender as usize].as_ref().map(TcpInfo::of) {
            outcome.sent_packets = u64::from(info.data_packets);
            outcome.retransmitted_packets = u64::from(info.retransmitted);
        }
        self.told.flows.push(outcome);
    }

    fn sample(&mut self, at: Time) {
        let plan = self.stage.plan;
        for conversation in self.flows.iter().flatten() {
            let outcome = &conversation.account.outcome;
            let info = conversation.ends[End::Sender as usize].as_ref().map(TcpInfo::of);
            let (true, Some(Ok(info))) = (plan.traffic[outcome.traffic].measured, info) else { continue };
            self.told.samples.push(FlowSample {
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
fn place(word: u64) -> (usize, End) {
    ((word >> 2) as usize, if word & 3 == 1 { End::Sender } else { End::Receiver })
}

fn listen(address: Ipv4Addr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.bind(&SocketAddrV4::new(address, PORT).into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}
