//! The kernel's own TCP as senders: real sockets between the two hosts, one thread for all of them.
//!
//! A flow connects from its host's address to its peer's, writes its bytes and closes. Its response runs from the call
//! of `connect` to the read that brings the last byte.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rampmeter_net::TcpInfo;
use rampmeter_scenario::{FlowSample, Sender};
use rampmeter_units::{Rate, Time};
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
    sender: Option<Socket>,
    receiver: Option<std::net::TcpStream>,
    /// Bytes the sender has yet to write.
    unsent: u64,
}

/// What woke up: the two low bits of an event's word; the rest says which.
const LISTENER: u64 = 0;
const SENDER: u64 = 1;
const RECEIVER: u64 = 2;

/// All flows of the kernel's.
pub(crate) struct Kernel<'a> {
    stage: Stage<'a>,
    acts: VecDeque<(Time, Act)>,
    listeners: Vec<std::net::TcpListener>,
    epoll: Epoll,
    flows: Vec<Option<Conversation>>,
    /// Flows by their senders' addresses.
    by_sender: HashMap<SocketAddr, usize>,
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
            let next = self.acts.front().map_or(Time::MAX, |(at, _)| *at);
            sleep([self.epoll.0.as_fd()], self.stage.clock.until(next))?;
            let ready = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
                Err(nix::Error::EINTR) => 0,
                ready => ready?,
            };
            for event in &events[..ready] {
                self.serve(event.data())?;
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
        let account = Account::new(plan, flow, self.stage.clock.now());
        match socket.connect(&SocketAddrV4::new(self.stage.sides.address(planned.to), PORT).into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        if let Some(address) = socket.local_addr()?.as_socket() {
            self.by_sender.insert(address, flow);
        }
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLOUT, (flow as u64) << 2 | SENDER))?;
        let unsent = planned.to_write();
        self.flows[flow] = Some(Conversation { account, sender: Some(socket), receiver: None, unsent });
        Ok(())
    }

    fn stop(&mut self, flow: usize) {
        let Some(conversation) = &mut self.flows[flow] else { return };
        conversation.unsent = 0;
        conversation.account.settle(&self.stage);
        let _ = conversation.sender.as_ref().map(|sender| sender.shutdown(std::net::Shutdown::Write));
    }

    fn serve(&mut self, word: u64) -> io::Result<()> {
        let which = (word >> 2) as usize;
        match word & 3 {
            LISTENER => self.accept(which)?,
            SENDER => self.send(which),
            _ => self.receive(which),
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
            self.epoll.add(&receiver, EpollEvent::new(EpollFlags::EPOLLIN, (flow as u64) << 2 | RECEIVER))?;
            conversation.receiver = Some(receiver);
        }
    }

    fn send(&mut self, flow: usize) {
        let Some(conversation) = &mut self.flows[flow] else { return };
        let Some(sender) = &conversation.sender else { return };
        let failed = loop {
            if conversation.unsent == 0 {
                let _ = sender.shutdown(std::net::Shutdown::Write);
                break self.epoll.delete(sender).is_err();
            }
            let chunk = conversation.unsent.min(self.scratch.len() as u64) as usize;
            match sender.send(&self.scratch[..chunk]) {
                Ok(sent) => conversation.unsent -= sent as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        if failed {
            self.end(flow);
        }
    }

    fn receive(&mut self, flow: usize) {
        let Some(Conversation { account, receiver: Some(receiver), .. }) = &mut self.flows[flow] else {
            return;
        };
        let ended = loop {
            match receiver.read(&mut self.scratch) {
                Ok(0) => break true,
                Ok(bytes) => account.deliver(&self.stage, bytes as u64),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        if ended {
            self.end(flow);
        }
    }

    /// Closes a flow's account and its sockets.
    fn end(&mut self, flow: usize) {
        let Some(mut conversation) = self.flows[flow].take() else { return };
        conversation.account.settle(&self.stage);
        let mut outcome = conversation.account.outcome;
        if let Some(Ok(info)) = conversation.sender.as_ref().map(TcpInfo::of) {
            outcome.sent_packets = u64::from(info.data_packets);
            outcome.retransmitted_packets = u64::from(info.retransmitted);
        }
        self.told.flows.push(outcome);
    }

    fn sample(&mut self, at: Time) {
        let plan = self.stage.plan;
        for conversation in self.flows.iter().flatten() {
            let outcome = &conversation.account.outcome;
            let info = conversation.sender.as_ref().map(TcpInfo::of);
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

fn listen(address: Ipv4Addr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.bind(&SocketAddrV4::new(address, PORT).into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}
