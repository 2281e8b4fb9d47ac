//! pcapng: a file for a link, with nanosecond times. An interface is an end of the link, and what was dropped is on a
//! third one, with a comment.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use rampmeter_units::Time;

use crate::event::{Capture, LinkEvent};

/// Bytes of a packet that are written: its headers.
const SNAP_LENGTH: usize = 256;

/// Writes the packets of a link.
pub struct Pcapng<W: Write> {
    out: PcapNgWriter<W>,
    bytes: Vec<u8>,
}

impl<W: Write> fmt::Debug for Pcapng<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pcapng").finish_non_exhaustive()
    }
}

fn error(error: pcap_file::PcapError) -> io::Error {
    match error {
        pcap_file::PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

impl<W: Write> Pcapng<W> {
    /// Starts the file of the link with this name.
    pub fn new(out: W, link: &str) -> io::Result<Self> {
        let mut out = PcapNgWriter::new(out).map_err(error)?;
        for end in ["near end", "far end", "dropped"] {
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(format!("{link}, {end}"))),
                InterfaceDescriptionOption::IfTsResol(9),
            ];
            let interface = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: SNAP_LENGTH as u32, options };
            out.write_pcapng_block(interface).map_err(error)?;
        }
        Ok(Self { out, bytes: Vec::with_capacity(SNAP_LENGTH) })
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
        };
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: std::time::Duration::from_nanos(at.as_nanos()),
            original_len: length as u32,
            data: Cow::Borrowed(&self.bytes),
            options: comment.map(|text| EnhancedPacketOption::Comment(Cow::Owned(text))).into_iter().collect(),
        };
        self.out.write_pcapng_block(block).map(|bytes| bytes as u64).map_err(error)
    }

    /// Writes what is in memory.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.get_mut().flush()
    }
}
