//! Senders that use the kernel's TCP: real sockets between the two hosts, all on one thread.
//!
//! A flow connects from the address of its host to that of its peer. Its application writes at both ends. The flow ends
//! when the stream of either end does. Its completion time is from the call of `connect` to the read of the last byte.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rampmeter_net::TcpInfo;
use rampmeter_run::{Event, Host, Opening, Sent};
use rampmeter_scenario::{Limits, Sender, SenderState};
use rampmeter_units::{Bytes, Duration, Rate, Time};
use rampmeter_workload::End;
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock::sleep;
use crate::drive::{Outgoing, Sockets};
use crate::run_state::RunState;
use crate::sides::Side;

/// The port that receivers listen on.
const PORT: u16 = 5001;

/// An end of a flow, as in the words of epoll's events: the flow's index and, in the two low bits, one more than the
/// end. Zero there means a listener.
type Word = u64;

fn word(flow: u32, end: End) -> Word {
    u64::from(flow) << 2 | (1 + end as u64)
}

/// The flow and the end of a [`Word`].
fn flow_end(word: Word) -> (u32, End) {
    ((word >> 2) as u32, if word & 3 == 1 { End::Sender } else { End::Receiver })
}

struct Stream {
    socket: Socket,
    outgoing: Outgoing,
    is_open: bool,
    /// Whether it waits until its socket is writable.
    awaits_writable: bool,
}

pub(crate) struct Kernel<'a> {
    run: RunState<'a>,
    listeners: Vec<std::net::TcpListener>,
    epoll: Epoll,
    streams: HashMap<Word, Stream>,
    /// Flows by the addresses of their senders.
    by_sender: HashMap<SocketAddr, u32>,
    /// The host whose namespace this thread is in.
    here: Option<Side>,
    events: VecDeque<Event<Word>>,
    /// What failed in a call that returns no error.
    failure: io::Result<()>,
    scratch: Vec<u8>,
}

impl<'a> Kernel<'a> {
    /// Opens the listeners. The thread that uses them stays in the namespace of a host, and must not be used for anything
    /// else later.
    pub(crate) fn new(run: RunState<'a>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flows = (0..run.plan.flows.len()).filter(|&flow| matches!(run.plan.sender(flow), Sender::Kernel { .. }));
        let mut receivers: Vec<_> = flows.map(|flow| run.plan.flows[flow].to).collect();
        receivers.sort();
        receivers.dedup();
        let mut listeners = Vec::new();
        for host in receivers {
            let namespace = &run.host(run.sides.side(host)).namespace;
            let listener = namespace.inside(|| listen(run.sides.address(host)))?;
            epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, (listeners.len() as u64) << 2))?;
            listeners.push(listener);
        }
        Ok(Self {
            run,
            listeners,
            epoll,
            streams: HashMap::new(),
            by_sender: HashMap::new(),
            here: None,
            events: VecDeque::new(),
            failure: Ok(()),
            scratch: vec![0; 1 << 16],
        })
    }

    fn connect(&mut self, flow: u32) -> io::Result<Word> {
        let (plan, sides) = (self.run.plan, self.run.sides);
        let planned = &plan.flows[flow as usize];
        let side = sides.side(planned.from);
        if self.here != Some(side) {
            self.run.host(side).namespace.enter()?;
            self.here = Some(side);
        }
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        if let Sender::Kernel { algorithm } = &plan.schemes[planned.scheme].sender {
            socket.set_tcp_congestion(algorithm.as_bytes())?;
        }
        socket.set_tcp_nodelay(true)?;
        socket.bind(&SocketAddrV4::new(sides.address(planned.from), 0).into())?;
        match socket.connect(&SocketAddrV4::new(sides.address(planned.to), PORT).into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        if let Some(address) = socket.local_addr()?.as_socket() {
            self.by_sender.insert(address, flow);
        }
        self.add(word(flow, End::Sender), socket, EpollFlags::EPOLLOUT)
    }

    fn add(&mut self, word: Word, socket: Socket, awaited: EpollFlags) -> io::Result<Word> {
        self.epoll.add(&socket, EpollEvent::new(awaited, word))?;
        let awaits_writable = awaited.contains(EpollFlags::EPOLLOUT);
        let outgoing = Outgoing::default();
        self.streams.insert(word, Stream { socket, outgoing, is_open: !awaits_writable, awaits_writable });
        Ok(word)
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        loop {
            let (receiver, from) = match self.listeners[listener].accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some(flow) = self.by_sender.remove(&from) else { continue };
            // Its sender has not ended.
            if self.streams.contains_key(&word(flow, End::Sender)) {
                receiver.set_nonblocking(true)?;
                let word = self.add(word(flow, End::Receiver), receiver.into(), EpollFlags::EPOLLIN)?;
                self.events.push_back(Event::Accepted(flow, word));
            }
        }
    }

    fn on_ready(&mut self, word: Word, ready: EpollFlags) -> io::Result<()> {
        if word.trailing_zeros() >= 2 {
            return self.accept((word >> 2) as usize);
        }
        let (flow, end) = flow_end(word);
        let Some(stream) = self.streams.get_mut(&word) else { return Ok(()) };
        if ready.intersects(EpollFlags::EPOLLOUT) {
            if !std::mem::replace(&mut stream.is_open, true) {
                self.events.push_back(Event::Opened(flow));
            }
            self.flush(word)?;
        }
        if ready != EpollFlags::EPOLLOUT {
            self.events.push_back(Event::Readable(flow, end));
        }
        Ok(())
    }

    /// Writes as many unsent bytes of an end as its socket accepts, and waits until it is writable if bytes are left.
    fn flush(&mut self, word: Word) -> io::Result<()> {
        let Some(Stream { socket, outgoing, awaits_writable, is_open }) = self.streams.get_mut(&word) else {
            return Ok(());
        };
        if !*is_open {
            return Ok(());
        }
        while outgoing.unsent > 0 {
            let chunk = outgoing.unsent.min(self.scratch.len() as u64) as usize;
            match socket.send(&self.scratch[..chunk]) {
                Ok(sent) => outgoing.unsent -= sent as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.close(flow_end(word).0);
                    return Ok(());
                }
            }
        }
        let full = outgoing.unsent > 0;
        if !full && std::mem::take(&mut outgoing.finish) {
            let _ = socket.shutdown(Shutdown::Write);
        }
        if std::mem::replace(awaits_writable, full) != full {
            let writable = if full { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            self.epoll.modify(socket, &mut EpollEvent::new(EpollFlags::EPOLLIN | writable, word))?;
        }
        Ok(())
    }

    /// The application has changed what an end writes.
    fn output(&mut self, word: Word, change: impl FnOnce(&mut Outgoing)) {
        if let Some(stream) = self.streams.get_mut(&word) {
            change(&mut stream.outgoing);
            self.failure = std::mem::replace(&mut self.failure, Ok(())).and_then(|()| self.flush(word));
        }
    }

    fn info(&self, word: Word) -> Option<TcpInfo> {
        self.streams.get(&word).and_then(|stream| TcpInfo::of(&stream.socket).ok())
    }

    /// Closes the sockets of a flow.
    fn close(&mut self, flow: u32) {
        let sender = word(flow, End::Sender);
        let sent = self.sent(sender).unwrap_or_default();
        self.events.push_back(Event::Closed(flow, sender, Box::new(sent)));
        for end in End::ALL {
            self.streams.remove(&word(flow, end));
        }
    }
}

impl Sockets for Kernel<'_> {
    fn wait(&mut self, until: Time) -> io::Result<()> {
        std::mem::replace(&mut self.failure, Ok(()))?;
        let mut events = [EpollEvent::empty(); 64];
        sleep([self.epoll.0.as_fd()], until.since(self.run.clock.now()))?;
        let ready = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Err(nix::Error::EINTR) => 0,
            ready => ready?,
        };
        events[..ready].iter().try_for_each(|event| self.on_ready(event.data(), event.events()))
    }
}

impl Host for Kernel<'_> {
    type Id = Word;
    type Address = ();

    fn open(&mut self, _now: Time, opening: &Opening<()>) -> Option<Word> {
        match self.connect(opening.flow) {
            Ok(word) => Some(word),
            Err(error) => {
                self.failure = Err(error);
                None
            }
        }
    }

    fn write(&mut self, _now: Time, word: Word, bytes: u64) {
        self.output(word, |outgoing| outgoing.unsent += bytes);
    }

    fn finish(&mut self, _now: Time, word: Word) {
        self.output(word, |outgoing| outgoing.finish = true);
    }

    fn stop(&mut self, _now: Time, word: Word) {
        if let Some(stream) = self.streams.get_mut(&word) {
            stream.outgoing = Outgoing::default();
            let _ = stream.socket.shutdown(Shutdown::Write);
        }
    }

    fn read(&mut self, _now: Time, word: Word, mut read: Bytes) -> Option<(Bytes, bool)> {
        let mut socket = &self.streams.get(&word)?.socket;
        let ended = loop {
            match socket.read(&mut self.scratch) {
                Ok(0) => break true,
                Ok(bytes) => read += Bytes::new(bytes as u64),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        if ended {
            self.close(flow_end(word).0);
        }
        Some((read, ended))
    }

    fn poll_event(&mut self) -> Option<Event<Word>> {
        self.events.pop_front()
    }

    fn state(&self, word: Word) -> Option<SenderState> {
        let info = self.info(word)?;
        let packets = |packets: u32| Some(self.run.plan.packet * u64::from(packets));
        let rate = Rate::from_bps(info.pacing_rate.saturating_mul(8));
        Some(SenderState {
            window: packets(info.window),
            rate: Some(rate).filter(|&rate| rate < Rate::MAX),
            in_flight: packets(info.in_flight()),
            smoothed_rtt: Some(Duration::from_micros(info.rtt_us.into())).filter(|rtt| *rtt > Duration::ZERO),
            lost: info.retransmitted.into(),
            timeouts: None,
        })
    }

    fn sent(&self, word: Word) -> Option<Sent> {
        let info = self.info(word)?;
        let limits = Limits {
            busy: Duration::from_micros(info.busy_us),
            receive_window: Duration::from_micros(info.receive_window_us),
            ..Limits::default()
        };
        Some(Sent { packets: info.data_packets.into(), retransmitted: info.retransmitted.into(), limits })
    }
}

fn listen(address: Ipv4Addr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.bind(&SocketAddrV4::new(address, PORT).into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}
