//! One client as the daemon holds it: its rings, its bell, and its socket, which says when it is gone.
//!
//! The client may be anything, also hostile: what it writes is copied out, then looked at. Whatever no client of ours
//! would write ends the session.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rampmeter_units::Time;

use super::host::{Host, Misuse};
use super::output;
use crate::bell::Bell;
use crate::data::Reader;
use crate::layout::{CLIENT_SLEEPS, COMMANDS, DAEMON_SLEEPS, EVENTS, WORDS};
use crate::limits::place;
use crate::meeting::{Files, Peer};
use crate::memory::Memory;
use crate::message::{Command, Notice};
use crate::ring::{Broken, Consumer, Producer};

/// Commands taken from one client before others have their turn.
const TURN: usize = 64;

/// Notices that wait for a client that does not read; more, and it is given up.
const MAX_UNREAD: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) number: u32,
    pub(super) peer: Peer,
    socket: UnixStream,
    /// Readable when the process has ended.
    process: Option<OwnedFd>,
    commands: Consumer,
    notices: Producer,
    /// What did not fit into the ring, oldest first.
    unread: VecDeque<(u32, Notice)>,
    data: Reader,
    ours: Bell,
    theirs: Bell,
    /// Something was written since the client's bell was last rung.
    news: bool,
}

impl Session {
    /// A session, and the files that the client needs for it.
    pub(super) fn new(number: u32, peer: Peer, socket: UnixStream) -> io::Result<(Self, Files)> {
        let (file, memory) = Memory::create(WORDS)?;
        let memory = Arc::new(memory);
        let (daemon_bell, client_bell) = (Bell::file()?, Bell::file()?);
        let files =
            Files { memory: file, daemon_bell: daemon_bell.try_clone()?, client_bell: client_bell.try_clone()? };
        let session = Self {
            number,
            peer,
            socket,
            process: peer.watch(),
            commands: Consumer::new(Arc::clone(&memory), COMMANDS),
            notices: Producer::new(Arc::clone(&memory), EVENTS),
            unread: VecDeque::new(),
            data: Reader::new(Arc::clone(&memory)),
            ours: Bell::new(Arc::clone(&memory), DAEMON_SLEEPS, daemon_bell),
            theirs: Bell::new(memory, CLIENT_SLEEPS, client_bell),
            news: false,
        };
        Ok((session, files))
    }

    /// The files to watch: they are readable when there is a reason to look.
    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.socket.as_fd(), self.ours.as_fd()].into_iter().chain(self.process.as_ref().map(AsFd::as_fd))
    }

    pub(super) fn has_more(&self) -> bool {
        self.commands.has_more()
    }

    pub(super) fn about_to_sleep(&self) {
        self.ours.about_to_sleep();
    }

    pub(super) fn awake(&self) {
        self.ours.awake();
    }

    /// Its bell was heard.
    pub(super) fn silence(&self) {
        self.ours.silence();
    }

    /// Carries out what the client asks for; true if there was something.
    pub(super) fn take_commands(&mut self, host: &mut Host, now: Time) -> Result<bool, Misuse> {
        for taken in 0..TURN {
            let Some(record) = self.commands.pop()? else { return Ok(taken > 0) };
            let (id, command) = Command::decode(&record).ok_or(Misuse)?;
            if id > i32::MAX as u32 {
                return Err(Misuse);
            }
            match command {
                Command::Open { to, share } => {
                    debug_assert!(place(id) < crate::limits::MAX_FLOWS);
                    host.open(now, self.number, id, to, share, output::mtu(to.ip()))?;
                }
                Command::Send { length } => {
                    let data = self.data.read(length as usize)?;
                    host.command(now, self.number, id, command, data);
                }
                Command::Listen { token, port, on } => {
                    let result = host.listen(self.number, port, on);
                    self.tell(id, Notice::Done { token, result })?;
                }
                Command::Hint { token, peer, port, weight } => {
                    let result = host.hint(self.number, peer, port, weight);
                    self.tell(id, Notice::Done { token, result })?;
                }
                _ => host.command(now, self.number, id, command, Vec::new()),
            }
        }
        Ok(true)
    }

    /// Tells the client something, as soon as there is room.
    pub(super) fn tell(&mut self, id: u32, notice: Notice) -> Result<(), Misuse> {
        self.news = true;
        if self.unread.is_empty() && self.notices.push(&notice.encode(id))? {
            return Ok(());
        }
        self.unread.push_back((id, notice));
        if self.unread.len() > MAX_UNREAD { Err(Misuse) } else { self.catch_up() }
    }

    /// Moves what waited into the ring.
    pub(super) fn catch_up(&mut self) -> Result<(), Misuse> {
        while let Some((id, notice)) = self.unread.front() {
            if !self.notices.push(&notice.encode(*id))? {
                break;
            }
            self.unread.pop_front();
            self.news = true;
        }
        Ok(())
    }

    /// Wakes the client if there is something new for it and it sleeps.
    pub(super) fn ring(&mut self) {
        if std::mem::take(&mut self.news) {
            self.theirs.ring();
        }
    }

    /// Whether notices wait for room.
    pub(super) fn is_behind(&self) -> bool {
        !self.unread.is_empty()
    }
}

impl From<Broken> for Misuse {
    fn from(_: Broken) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use proptest::prelude::*;
    use rampmeter_control::Registry;
    use rampmeter_manager::Sharing;

    use super::*;
    use crate::daemon::host::Action;
    use crate::daemon::options::Limits;
    use crate::daemon::protocol::Protocol;
    use crate::layout::{DATA_TAIL, SLOT};

    fn hosted() -> (Host, Session, Memory) {
        let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
        let random = Box::new(rampmeter_units::Stream::from_seed(1));
        let host = Host::new(factory, Sharing::default(), Limits::default(), &Protocol::default(), random);
        let (socket, _) = UnixStream::pair().unwrap();
        let (session, files) = Session::new(3, Peer { pid: 1, uid: 0 }, socket).unwrap();
        (host, session, Memory::open(&files.memory, WORDS).unwrap())
    }

    /// Plausible or not: the first word of a record decides how far it gets.
    fn record() -> impl Strategy<Value = [u64; SLOT]> {
        let word = prop_oneof![0..4_u64, 1000..2000_u64, any::<u64>(), any::<f64>().prop_map(f64::to_bits)];
        (0..13_u64, 0..4_u64, any::<[u64; 3]>(), prop::array::uniform7(word)).prop_map(|(kind, id, wild, words)| {
            let mut record = [0; SLOT];
            record[1..].copy_from_slice(&words);
            record[0] = if wild[0] % 16 == 0 { wild[1] } else { (8192 + id) << 32 | kind };
            if kind == 1 && wild[0] % 3 > 0 {
                record[1] = 4 << 16; // an address of version 4
                record[3] = 0x7f00_0001;
                (record[4], record[5]) = (1.0_f64.to_bits(), 0);
            }
            record
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// A hostile client writes what it likes where it likes. The worst that happens is that it is given up.
        #[test]
        fn hostile_memory_never_panics_the_daemon(
            records in prop::collection::vec(record(), 0..100),
            positions in any::<Option<[u64; 3]>>(),
            scribbles in prop::collection::vec((0..WORDS, any::<u64>()), 0..50),
        ) {
            let (mut host, mut session, memory) = hosted();
            let words = memory.words();
            for (place, value) in scribbles {
                words[place].store(value, Relaxed);
            }
            for (number, record) in records.iter().enumerate() {
                for (word, value) in words[COMMANDS.slots + number * SLOT..].iter().zip(record) {
                    word.store(*value, Relaxed);
                }
            }
            words[COMMANDS.head].store(records.len() as u64, Relaxed);
            if let Some([head, tail, data]) = positions {
                words[COMMANDS.head].store(head, Relaxed);
                words[EVENTS.tail].store(tail, Relaxed);
                words[DATA_TAIL].store(data, Relaxed);
            }
            let now = Time::from_nanos(1);
            for _ in 0..40 {
                if session.take_commands(&mut host, now).is_err() {
                    break;
                }
                host.advance(now);
                while let Some(action) = host.poll_action() {
                    if let Action::Tell { id, notice, .. } = action {
                        let _ = session.tell(id, notice);
                    }
                }
                session.ring();
            }
            host.forget(now, 3);
            prop_assert_eq!(host.flows().count(), 0);
        }
    }

    #[test]
    fn who_never_reads_is_given_up() {
        let (_, mut session, _memory) = hosted();
        let told = (0..=MAX_UNREAD + crate::layout::SLOTS + 1).map(|_| session.tell(1, Notice::Grant { bytes: 1 }));
        assert!(told.last().unwrap().is_err());
    }

    #[test]
    fn what_did_not_fit_comes_later_in_order() {
        let (_, mut session, memory) = hosted();
        let mut reader = Consumer::new(Arc::new(memory), EVENTS);
        (0..3000).for_each(|bytes| session.tell(1, Notice::Grant { bytes }).unwrap());
        assert!(session.is_behind());
        for expected in 0..3000 {
            if !reader.has_more() {
                session.catch_up().unwrap();
            }
            let record = reader.pop().unwrap().unwrap();
            assert_eq!(Notice::decode(&record), Some((1, Notice::Grant { bytes: expected })));
        }
        assert!(!session.is_behind());
    }
}
