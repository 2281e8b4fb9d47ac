//! pcapng: a file for a link, with nanosecond times. An interface is an end of the link; what was dropped is on a
//! third one, what the router marked on a fourth one, with comments.
//!
//! Three kinds of block (draft-ietf-opsawg-pcapng), in the machine's byte order, which the first one shows:
//!
//! ```text
//! block    type, length, body, length                             each a multiple of four bytes
//! section  0x0a0d0d0a: magic, version 1.0, length unknown
//! interface         1: link type, snap length, options
//! packet            6: interface, time (high, low), captured and original length, bytes, options
//! option   code, length, value
//! ```

use std::io::{self, Write};

use rampmeter_units::Time;

use crate::event::{Capture, LinkEvent};

/// Bytes of a packet that are written: its headers.
const SNAP_LENGTH: usize = 256;

const SECTION: u32 = 0x0a0d_0d0a;
const MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;

/// Packets that begin with an IP header (`LINKTYPE_RAW`).
const RAW: u16 = 101;

// Options.
const COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;

/// Writes the packets of a link.
#[derive(Debug)]
pub struct Pcapng<W> {
    out: W,
    block: Vec<u8>,
    bytes: Vec<u8>,
}

impl<W: Write> Pcapng<W> {
    /// Starts the file of the link with this name.
    pub fn new(out: W, link: &str) -> io::Result<Self> {
        let mut this = Self { out, block: Vec::new(), bytes: Vec::new() };
        this.start(SECTION);
        this.block.extend(MAGIC.to_ne_bytes());
        this.block.extend([1_u16, 0].map(u16::to_ne_bytes).concat());
        this.block.extend(u64::MAX.to_ne_bytes());
        this.end()?;
        for end in ["near end", "far end", "dropped", "marked"] {
            this.start(INTERFACE);
            this.block.extend([RAW, 0].map(u16::to_ne_bytes).concat());
            this.block.extend((SNAP_LENGTH as u32).to_ne_bytes());
            this.option(IF_NAME, format!("{link}, {end}").as_bytes());
            this.option(IF_TSRESOL, &[9]);
            this.end_options();
            this.end()?;
        }
        Ok(this)
    }

    /// Writes a packet. Returns the size of its block in bytes.
    pub fn write(&mut self, at: Time, event: LinkEvent, packet: &dyn Capture) -> io::Result<u64> {
        self.bytes.clear();
        let length = packet.write(&mut self.bytes);
        self.bytes.truncate(SNAP_LENGTH);
        let (interface, comment) = match event {
            LinkEvent::Offered { queued: 0 } => (0, None),
            LinkEvent::Offered { queued } => (0, Some(format!("behind {queued} packets"))),
            LinkEvent::Arrived => (1, None),
            LinkEvent::Dropped => (2, Some("dropped".to_owned())),
            LinkEvent::Marked { from, to, queued } => {
                let (from, to) = (from.name(), to.name());
                (3, Some(format!("with {queued} packets in the queue: {to} instead of {from}")))
            }
        };
        self.start(PACKET);
        let time = at.as_nanos();
        for word in [interface, (time >> 32) as u32, time as u32, self.bytes.len() as u32, length as u32] {
            self.block.extend(word.to_ne_bytes());
        }
        self.block.extend(&self.bytes);
        self.pad();
        if let Some(comment) = comment {
            self.option(COMMENT, comment.as_bytes());
            self.end_options();
        }
        self.end()
    }

    /// Writes what is in memory.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Starts a block, whose length is not known.
    fn start(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend([kind, 0].map(u32::to_ne_bytes).concat());
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.block.extend([code, value.len() as u16].map(u16::to_ne_bytes).concat());
        self.block.extend(value);
        self.pad();
    }

    fn end_options(&mut self) {
        self.block.extend([0; 4]);
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Ends the block and writes it. Returns its length.
    fn end(&mut self) -> io::Result<u64> {
        let length = self.block.len() as u32 + 4;
        self.block[4..8].copy_from_slice(&length.to_ne_bytes());
        self.block.extend(length.to_ne_bytes());
        self.out.write_all(&self.block)?;
        Ok(length.into())
    }
}
