//! The daemon's side of one client: its rings and its socket, which wakes either side and signals its end.
//!
//! The client may be hostile: its records are copied, then checked. Anything that the client library would not write
//! ends the session.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rampmeter_manager::Owner;
use rampmeter_units::Time;

use super::host::{Host, Misuse};
use super::output;
use super::unread::Unread;
use crate::data::Reader;
use crate::handshake::Peer;
use crate::layout::{COMMANDS, EVENTS, WORDS};
use crate::memory::Memory;
use crate::message::{Command, Notice};
use crate::ring::{Broken, Consumer, Producer};
use crate::wakeup::Wakeup;

/// The maximum number of commands of one client in a turn.
pub(super) const MAX_PER_TURN: usize = 64;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) number: u32,
    pub(super) peer: Peer,
    /// Readable when the process has ended.
    process: Option<OwnedFd>,
    pub(super) commands: Consumer,
    notices: Producer,
    /// Notices that did not fit into the ring.
    pub(super) unread: Unread,
    data: Reader,
    pub(super) wakeup: Wakeup,
    /// A notice was written since the client was last woken.
    has_new_notices: bool,
}

impl Session {
    /// Creates a session and the file of the shared memory, for the client.
    pub(super) fn new(number: u32, peer: Peer, socket: UnixStream) -> io::Result<(Self, OwnedFd)> {
        let (file, memory) = Memory::create(WORDS)?;
        let memory = Arc::new(memory);
        let session = Self {
            number,
            peer,
            process: peer.pidfd(),
            commands: Consumer::new(Arc::clone(&memory), COMMANDS),
            notices: Producer::new(Arc::clone(&memory), EVENTS),
            unread: Unread::default(),
            data: Reader::new(Arc::clone(&memory)),
            wakeup: Wakeup::of_daemon(memory, socket),
            has_new_notices: false,
        };
        Ok((session, file))
    }

    pub(super) fn owner(&self) -> Owner {
        self.peer.owner()
    }

    /// The files to poll: they are readable when there is a reason to check the session.
    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.wakeup.as_fd()).chain(self.process.as_ref().map(AsFd::as_fd))
    }

    /// Executes up to `max` of the client's commands, and returns how many.
    pub(super) fn take_commands(&mut self, host: &mut Host, now: Time, max: usize) -> Result<usize, Misuse> {
        for taken in 0..max {
            let Some(record) = self.commands.pop()? else { return Ok(taken) };
            let (id, command) = Command::decode(&record).ok_or(Misuse)?;
            if id > i32::MAX as u32 {
                return Err(Misuse);
            }
            match command {
                Command::Open { to, share } => {
                    host.open(now, self.number, id, to, share, output::mtu(to.ip()))?;
                }
                Command::Send { length } => {
                    let data = self.data.read(length as usize)?;
                    host.command(now, self.number, id, command, data);
                }
                Command::Listen { token, port, on } => {
                    let result = host.listen(self.number, port, on);
                    self.send_notice(id, Notice::Done { token, result })?;
                }
                Command::Hint { token, peer, port, weight } => {
                    let result = host.hint(self.number, peer, port, weight);
                    self.send_notice(id, Notice::Done { token, result })?;
                }
                _ => host.command(now, self.number, id, command, Vec::new()),
            }
        }
        Ok(max)
    }

    /// Sends a notice to the client, as soon as there is room.
    pub(super) fn send_notice(&mut self, id: u32, notice: Notice) -> Result<(), Misuse> {
        self.has_new_notices = true;
        if self.unread.is_empty() && self.notices.push(&notice.encode(id))? {
            return Ok(());
        }
        if self.unread.push(id, notice) { self.flush_unread() } else { Err(Misuse) }
    }

    /// Moves waiting notices into the ring.
    pub(super) fn flush_unread(&mut self) -> Result<(), Misuse> {
        while let Some((id, notice)) = self.unread.first() {
            if !self.notices.push(&notice.encode(*id))? {
                break;
            }
            self.unread.remove_first();
            self.has_new_notices = true;
        }
        Ok(())
    }

    /// Wakes the client if there are new notices and it sleeps.
    pub(super) fn wake(&mut self) {
        if std::mem::take(&mut self.has_new_notices) {
            self.wakeup.notify();
        }
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
    use crate::daemon::protocol::{Carriage, Protocol};
    use crate::daemon::unread::MAX_UNREAD;
    use crate::layout::{DATA_TAIL, SLOT};

    fn hosted(carriage: Carriage) -> (Host, Session, Memory) {
        let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
        let random = Box::new(rampmeter_units::Random::from_seed(1));
        let protocol = Protocol { carriage, ..Protocol::default() };
        let host = Host::new(factory, Sharing::default(), Limits::default(), &protocol, random);
        let (socket, _) = UnixStream::pair().unwrap();
        let (session, file) = Session::new(3, Peer { pid: 1, uid: 0 }, socket).unwrap();
        (host, session, Memory::open(&file, WORDS).unwrap())
    }

    /// Valid or invalid records: the first word decides how far the decoding gets.
    fn record() -> impl Strategy<Value = [u64; SLOT]> {
        let word =
            prop_oneof![0..4_u64, 1000..2000_u64, 8192..8196_u64, any::<u64>(), any::<f64>().prop_map(f64::to_bits)];
        (0..15_u64, 0..4_u64, any::<[u64; 3]>(), prop::array::uniform7(word)).prop_map(|(kind, id, wild, words)| {
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

        /// A hostile client may write any value anywhere. At worst its session ends.
        #[test]
        fn hostile_memory_never_panics_the_daemon(
            records in prop::collection::vec(record(), 0..100),
            positions in any::<Option<[u64; 3]>>(),
            scribbles in prop::collection::vec((0..WORDS, any::<u64>()), 0..50),
            carriage in prop_oneof![Just(Carriage::None), Just(Carriage::Udp(2961))],
        ) {
            let (mut host, mut session, memory) = hosted(carriage);
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
                if session.take_commands(&mut host, now, MAX_PER_TURN).is_err() {
                    break;
                }
                host.advance(now);
                while let Some(action) = host.poll_action() {
                    if let Action::Notify { id, notice, .. } = action {
                        let _ = session.send_notice(id, notice);
                    }
                }
                session.wake();
            }
            host.remove_client(now, 3);
            prop_assert_eq!(host.flows().count(), 0);
        }
    }

    #[test]
    fn a_client_that_never_reads_is_disconnected() {
        let (_, mut session, _memory) = hosted(Carriage::None);
        let results =
            (0..=MAX_UNREAD + crate::layout::SLOTS + 1).map(|_| session.send_notice(1, Notice::Grant { bytes: 1 }));
        assert!(results.last().unwrap().is_err());
    }

    #[test]
    fn notices_that_did_not_fit_follow_in_order() {
        let (_, mut session, memory) = hosted(Carriage::None);
        let mut reader = Consumer::new(Arc::new(memory), EVENTS);
        (0..3000).for_each(|bytes| session.send_notice(1, Notice::Grant { bytes }).unwrap());
        assert!(!session.unread.is_empty());
        for expected in 0..3000 {
            if !reader.has_more() {
                session.flush_unread().unwrap();
            }
            let record = reader.pop().unwrap().unwrap();
            assert_eq!(Notice::decode(&record), Some((1, Notice::Grant { bytes: expected })));
        }
        assert!(session.unread.is_empty());
    }
}
