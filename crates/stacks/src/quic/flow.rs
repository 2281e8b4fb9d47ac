//! A flow: a connection of its own, and on it one stream in each direction, because an end may use only streams that it
//! has opened, or whose first bytes have arrived.

use std::time::Instant;

use rampmeter_scenario::port::{Event, Sent};
use rampmeter_workload::End;

use super::api;
use super::proto::{Connection, Dir, Side, StreamId, VarInt};

/// The bytes of one write.
const CHUNK: [u8; 16 * 1024] = [0; 16 * 1024];

/// Statistics of a connection.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Progress {
    /// In bytes.
    pub(super) window: u64,
    /// The smoothed round-trip time.
    pub(super) rtt: std::time::Duration,
    /// Packets declared lost.
    pub(super) lost: u64,
    /// STREAM frames sent.
    pub(super) stream_frames: u64,
}

/// A flow's connection.
pub(super) struct Flow {
    pub(super) index: u32,
    pub(super) connection: Connection,
    /// At the opener `Sender`.
    pub(super) end: End,
    /// What this end writes to, once it is connected.
    pub(super) stream: Option<StreamId>,
    /// Bytes that the application has written, and that the stack has not taken.
    pub(super) unwritten: u64,
    pub(super) is_finishing: bool,
    /// Bytes of the peer's stream that have been read, and whether that is all.
    pub(super) read: u64,
    pub(super) has_ended: bool,
    pub(super) packets: u64,
    /// As of the last packet or acknowledgement.
    pub(super) progress: Progress,
    /// [`Event::Closed`] was reported.
    pub(super) is_closed: bool,
    /// It is in the list of those that may have something to send.
    pub(super) is_ready: bool,
    pub(super) deadline: Option<Instant>,
}

impl Flow {
    pub(super) fn new(connection: Connection, index: u32, end: End) -> Self {
        Self {
            index,
            connection,
            end,
            stream: None,
            unwritten: 0,
            is_finishing: false,
            read: 0,
            has_ended: false,
            packets: 0,
            progress: Progress::default(),
            is_closed: false,
            is_ready: false,
            deadline: None,
        }
    }

    /// Gives the stack as much as it takes.
    pub(super) fn write(&mut self) {
        let Some(stream) = self.stream else { return };
        let mut stream = self.connection.send_stream(stream);
        while self.unwritten > 0 {
            let chunk = &CHUNK[..CHUNK.len().min(self.unwritten as usize)];
            let Ok(taken) = stream.write(chunk) else { return };
            self.unwritten -= taken as u64;
        }
        if self.is_finishing {
            self.is_finishing = stream.finish().is_err();
        }
    }

    pub(super) fn read(&mut self) {
        if self.has_ended {
            return;
        }
        let peer = match self.end {
            End::Sender => Side::Server,
            End::Receiver => Side::Client,
        };
        let mut stream = self.connection.recv_stream(StreamId::new(peer, Dir::Uni, 0));
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.read += chunk.bytes.len() as u64,
                Ok(None) => {
                    self.has_ended = true;
                    break;
                }
                Err(_) => break,
            }
        }
        let _ = chunks.finalize(); // what it has to send is asked for afterwards
    }

    pub(super) fn sent(&self) -> Sent {
        Sent { packets: self.packets, retransmitted: self.progress.lost, ..Sent::default() }
    }

    /// Ends the connection, whatever has not been acknowledged.
    pub(super) fn close(&mut self, at: Instant) -> Option<Event<u32>> {
        self.connection.close(at, VarInt::from_u32(0), bytes::Bytes::new());
        self.closed()
    }

    /// The event that the connection has ended, once.
    pub(super) fn closed(&mut self) -> Option<Event<u32>> {
        self.progress = api::progress(&mut self.connection);
        let is_first = !std::mem::replace(&mut self.is_closed, true);
        is_first.then(|| Event::Closed(self.index, self.index, Box::new(self.sent())))
    }
}
