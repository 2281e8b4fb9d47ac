//! Other transports' stacks on UDP sockets of the two hosts, all on one thread.
//!
//! ```text
//!   sender's host ── a socket a flow ──►  ...  ──► a socket a host ── receiver's host
//! ```
//!
//! As in the simulator there is one host of the stack for every pair of node and scheme. A flow has a socket of its own
//! at its sender, whose port distinguishes the flow from others. A path is a flow's direction.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use nix::cmsg_space;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendmsg, setsockopt, sockopt,
};
use rampmeter_run::{Event, Host, Opening, Sent};
use rampmeter_scenario::stack::{Datagram, Peer, Setup, StackHost};
use rampmeter_scenario::{NodeId, Sender, SenderState};
use rampmeter_units::{Bytes, Duration, Ecn, Streams, Time};
use rampmeter_workload::Path;

use crate::clock::sleep;
use crate::datagram::{DATA_TOS, STACK_PORTS};
use crate::drive::Sockets;
use crate::run_state::RunState;
use crate::sides::Side;

/// How long the socket of an ended flow still answers its peer. Packets after that are lost, and nobody waits for them.
const LINGER: Duration = Duration::from_secs(10);

/// The bytes of the kernel's buffers, for bursts that arrive while the thread is busy.
const KERNEL_BUFFER: usize = 4 << 20;

/// The bytes of a system call that receives: the largest datagram.
const LARGEST: usize = 65_536;

/// A socket, as in the data of epoll's events: that of an opened flow, or that on which a host accepts flows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SocketKey {
    Flow(u32),
    Site(usize),
}

impl SocketKey {
    fn encode(self) -> u64 {
        match self {
            Self::Flow(flow) => u64::from(flow) << 1,
            Self::Site(site) => (site as u64) << 1 | 1,
        }
    }

    fn decode(data: u64) -> Self {
        match data & 1 {
            0 => Self::Flow((data >> 1) as u32),
            _ => Self::Site((data >> 1) as usize),
        }
    }
}

/// The path of a flow from its sender.
fn forward(flow: u32) -> Peer {
    flow << 1
}

/// The path of a flow to its sender.
fn backward(flow: u32) -> Peer {
    flow << 1 | 1
}

/// A host of a stack.
struct Site {
    host: Box<StackHost>,
    /// On which it accepts flows.
    socket: UdpSocket,
    address: SocketAddrV4,
}

/// A flow that was opened.
struct Opened {
    socket: UdpSocket,
    from: SocketAddrV4,
    /// The hosts of its ends.
    sites: [usize; 2],
}

pub(crate) struct Stacks<'a> {
    run: RunState<'a>,
    sites: Vec<Site>,
    places: BTreeMap<(NodeId, usize), usize>,
    flows: HashMap<u32, Opened>,
    /// Flows by the addresses of their senders.
    by_sender: HashMap<SocketAddrV4, u32>,
    /// Ended flows, and when their sockets are closed.
    closing: VecDeque<(Time, u32)>,
    epoll: Epoll,
    /// The host whose namespace this thread is in.
    here: Option<Side>,
    /// What failed in a call that returns no error.
    failure: io::Result<()>,
    buffer: Vec<u8>,
}

impl fmt::Debug for Stacks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stacks").field("places", &self.places).finish_non_exhaustive()
    }
}

impl<'a> Stacks<'a> {
    /// Opens the sockets on which flows are accepted. The thread that uses them stays in the namespace of a host, and
    /// must not be used for anything else later.
    pub(crate) fn new(run: RunState<'a>) -> io::Result<Self> {
        let mut stacks = Self {
            run,
            sites: Vec::new(),
            places: BTreeMap::new(),
            flows: HashMap::new(),
            by_sender: HashMap::new(),
            closing: VecDeque::new(),
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            here: None,
            failure: Ok(()),
            buffer: vec![0; LARGEST],
        };
        for flow in &run.plan.flows {
            stacks.add(flow.from, flow.scheme)?;
            stacks.add(flow.to, flow.scheme)?;
        }
        Ok(stacks)
    }

    fn add(&mut self, node: NodeId, scheme: usize) -> io::Result<()> {
        let plan = self.run.plan;
        let Sender::Stack { stack, controller } = &plan.schemes[scheme].sender else { return Ok(()) };
        let site = self.sites.len();
        if self.places.contains_key(&(node, scheme)) {
            return Ok(());
        }
        let random = Streams::new(plan.seed).stream("stack", site as u64);
        let host = stack.host(controller, Setup { packet: plan.packet, random });
        let (socket, address) = self.socket(node, STACK_PORTS + scheme as u16, SocketKey::Site(site))?;
        self.sites.push(Site { host, socket, address });
        self.places.insert((node, scheme), site);
        Ok(())
    }

    /// A socket at a node, with this port, or any if it is zero.
    fn socket(&mut self, node: NodeId, port: u16, key: SocketKey) -> io::Result<(UdpSocket, SocketAddrV4)> {
        let side = self.run.sides.side(node);
        if self.here != Some(side) {
            self.run.host(side).namespace.enter()?;
            self.here = Some(side);
        }
        let socket = UdpSocket::bind((self.run.sides.address(node), port))?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::IpRecvTos, &true)?;
        // As our own sockets have: all flows to a host share one, and this thread may be late.
        if setsockopt(&socket, sockopt::RcvBufForce, &KERNEL_BUFFER).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &KERNEL_BUFFER)?;
        }
        if setsockopt(&socket, sockopt::SndBufForce, &KERNEL_BUFFER).is_err() {
            setsockopt(&socket, sockopt::SndBuf, &KERNEL_BUFFER)?;
        }
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, key.encode()))?;
        match socket.local_addr()? {
            SocketAddr::V4(address) => Ok((socket, address)),
            SocketAddr::V6(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }

    fn connect(&mut self, flow: u32) -> io::Result<usize> {
        let planned = &self.run.plan.flows[flow as usize];
        let sites = [planned.from, planned.to].map(|node| self.places[&(node, planned.scheme)]);
        let (socket, from) = self.socket(planned.from, 0, SocketKey::Flow(flow))?;
        self.by_sender.insert(from, flow);
        self.flows.insert(flow, Opened { socket, from, sites });
        Ok(sites[0])
    }

    /// Sends all that the hosts have to send. What the kernel does not take is lost, like any packet.
    fn transmit(&mut self) {
        for site in 0..self.sites.len() {
            while let Some(datagram) = self.sites[site].host.transmit(self.run.clock.now(), &mut ()) {
                let flow = datagram.peer >> 1;
                let Some(Opened { socket, from, sites: [_, receiver] }) = self.flows.get(&flow) else {
                    continue; // its socket is closed
                };
                let _ = if datagram.peer == forward(flow) {
                    send(socket, self.sites[*receiver].address, &datagram)
                } else {
                    send(&self.sites[site].socket, *from, &datagram)
                };
            }
        }
    }

    /// Gives the host of a socket all that has arrived there.
    fn receive(&mut self, key: SocketKey) -> io::Result<()> {
        loop {
            let socket = match key {
                SocketKey::Site(site) => &self.sites[site].socket,
                SocketKey::Flow(flow) => match self.flows.get(&flow) {
                    Some(opened) => &opened.socket,
                    None => return Ok(()),
                },
            };
            let Some((length, from, ecn)) = receive(socket, &mut self.buffer)? else { return Ok(()) };
            let (site, flow, peer) = match key {
                SocketKey::Site(site) => match self.by_sender.get(&from) {
                    Some(&flow) => (site, flow, backward(flow)),
                    None => continue,
                },
                SocketKey::Flow(flow) => (self.flows[&flow].sites[0], flow, forward(flow)),
            };
            let contents = self.buffer[..length].to_vec();
            let datagram = Datagram { flow, peer, contents, payload: 0, ecn };
            self.sites[site].host.receive(self.run.clock.now(), datagram, &mut ());
        }
    }

    /// Closes the sockets of flows that ended some time ago.
    fn close(&mut self, now: Time) {
        while let Some(&(_, flow)) = self.closing.front().filter(|(at, _)| *at <= now) {
            self.closing.pop_front();
            self.forget(flow);
        }
    }

    fn forget(&mut self, flow: u32) {
        if let Some(opened) = self.flows.remove(&flow) {
            self.by_sender.remove(&opened.from);
        }
    }
}

/// Sends a datagram with its ECN code and, if it has data, the mark for the router's counts.
fn send(socket: &UdpSocket, to: SocketAddrV4, datagram: &Datagram) -> nix::Result<usize> {
    let tos = datagram.ecn.bits() | if datagram.payload > 0 { DATA_TOS } else { 0 };
    let (contents, control) = ([IoSlice::new(&datagram.contents)], [ControlMessage::Ipv4Tos(&tos)]);
    sendmsg(socket.as_raw_fd(), &contents, &control, MsgFlags::empty(), Some(&SockaddrIn::from(to)))
}

/// The length, the sender and the ECN code of the next datagram, whose contents are in `buffer`; `None`: there is none.
/// Reports of routers (ICMP) reach connected sockets only, and these are not.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddrV4, Ecn)>> {
    let (mut contents, mut control) = ([IoSliceMut::new(buffer)], cmsg_space!(u8));
    let message = match recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut contents, Some(&mut control), MsgFlags::empty())
    {
        Err(nix::Error::EAGAIN) => return Ok(None),
        message => message?,
    };
    let tos = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
        _ => None,
    });
    let from = message.address.map_or_else(|| SocketAddrV4::new(0.into(), 0), SocketAddrV4::from);
    Ok(Some((message.bytes, from, Ecn::from_bits(tos.unwrap_or(0)))))
}

impl Sockets for Stacks<'_> {
    fn wait(&mut self, until: Time) -> io::Result<()> {
        std::mem::replace(&mut self.failure, Ok(()))?;
        self.transmit();
        let deadline = self.sites.iter().map(|site| site.host.deadline()).fold(until, Time::min);
        sleep([self.epoll.0.as_fd()], deadline.since(self.run.clock.now()))?;
        let mut events = [EpollEvent::empty(); 64];
        let ready = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Err(nix::Error::EINTR) => 0,
            ready => ready?,
        };
        events[..ready].iter().try_for_each(|event| self.receive(SocketKey::decode(event.data())))?;
        let now = self.run.clock.now();
        for site in &mut self.sites {
            if site.host.deadline() <= now {
                site.host.on_deadline(now);
            }
        }
        self.close(now);
        self.transmit();
        Ok(())
    }
}

/// A flow's end is called by the place of its host in the list, and the flow.
impl Host for Stacks<'_> {
    type Id = (usize, u32);
    type Address = ();

    fn open(&mut self, now: Time, opening: &Opening<()>) -> Option<(usize, u32)> {
        let &Opening { flow, carrier, share, uses_share, .. } = opening;
        match self.connect(flow) {
            Ok(site) => {
                let opening = Opening { flow, to: forward(flow), carrier, share, uses_share };
                let opened = self.sites[site].host.open(now, &opening);
                if opened.is_none() {
                    self.forget(flow);
                }
                opened.map(|flow| (site, flow))
            }
            Err(error) => {
                self.failure = Err(error);
                None
            }
        }
    }

    fn write(&mut self, now: Time, (site, flow): (usize, u32), bytes: u64) {
        self.sites[site].host.write(now, flow, bytes);
    }

    fn finish(&mut self, now: Time, (site, flow): (usize, u32)) {
        self.sites[site].host.finish(now, flow);
    }

    fn stop(&mut self, now: Time, (site, flow): (usize, u32)) {
        self.sites[site].host.stop(now, flow);
    }

    fn read(&mut self, now: Time, (site, flow): (usize, u32), read: Bytes) -> Option<(Bytes, bool)> {
        self.sites[site].host.read(now, flow, read)
    }

    fn queue_datagrams(&mut self, now: Time, (site, flow): (usize, u32), count: u64) {
        self.sites[site].host.queue_datagrams(now, flow, count);
    }

    fn send_datagram(&mut self, now: Time, (site, flow): (usize, u32)) {
        self.sites[site].host.send_datagram(now, flow);
    }

    fn path(&self, now: Time, (site, flow): (usize, u32)) -> Path {
        self.sites[site].host.path(now, flow)
    }

    fn poll_event(&mut self) -> Option<Event<(usize, u32)>> {
        let mut sites = self.sites.iter_mut().enumerate();
        let (site, event) = sites.find_map(|(place, site)| Some((place, site.host.poll_event()?)))?;
        if let Event::Closed(flow, ..) = event {
            self.closing.push_back((self.run.clock.now() + LINGER, flow));
        }
        Some(event.named(|flow| (site, flow)))
    }

    fn state(&self, (site, flow): (usize, u32)) -> Option<SenderState> {
        self.sites[site].host.state(flow)
    }

    fn sent(&self, (site, flow): (usize, u32)) -> Option<Sent> {
        self.sites[site].host.sent(flow)
    }
}
