//! A directory of traces: which flows and links are written, how much at most, and what becomes of errors.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rampmeter_units::{Bytes, Time};

use crate::event::{Capture, End, FlowEvent, LinkEvent, Sink};
use crate::pcapng::Pcapng;
use crate::qlog::{About, Qlog};

/// A file is written in pieces of about this size, so that thousands of flows need no open files.
const PIECE: usize = 1 << 16;

/// What is written.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// For each flow of the plan, the name of its files and what they are about; `None`: it is not traced.
    pub flows: Vec<Option<(String, About)>>,
    /// For each link of the plan, the name of its file; `None`: it is not traced.
    pub links: Vec<Option<String>>,
}

/// A file that is open only while a piece of it is written.
#[derive(Debug)]
struct Pieces {
    path: PathBuf,
    buffer: Vec<u8>,
}

impl Pieces {
    fn new(path: PathBuf) -> io::Result<Self> {
        File::create(&path)?;
        Ok(Self { path, buffer: Vec::new() })
    }

    fn append(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            OpenOptions::new().append(true).open(&self.path)?.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.append()?;
        }
        Ok(bytes.len())
    }

    /// Also gives back its memory: hosts have many connections that have ended.
    fn flush(&mut self) -> io::Result<()> {
        self.append()?;
        self.buffer = Vec::new();
        Ok(())
    }
}

/// A sink that writes a directory: `FLOW.client.qlog`, `FLOW.server.qlog` and `LINK.pcapng`.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    selection: Selection,
    /// The size of all files together, after which they end.
    limit: Bytes,
    flows: BTreeMap<(u32, End), Qlog<Pieces>>,
    links: BTreeMap<u32, Pcapng<Pieces>>,
    /// Bytes written, about: each event counts when it is written to memory.
    bytes: u64,
    cut_at: Option<Time>,
    failure: Option<io::Error>,
    /// Whether each flow is a connection, of which nothing is kept after its end. Else late packets of it count, too.
    pub(crate) is_of_host: bool,
}

impl Directory {
    /// A directory at `path`, which is created; its files have about `limit` at most, together.
    pub fn new(path: &Path, selection: Selection, limit: Bytes) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Ok(Self {
            path: path.to_owned(),
            selection,
            limit,
            flows: BTreeMap::new(),
            links: BTreeMap::new(),
            bytes: 0,
            cut_at: None,
            failure: None,
            is_of_host: false,
        })
    }

    /// The number of flows, traced or not.
    pub(crate) fn flows(&self) -> usize {
        self.selection.flows.len()
    }

    /// Traces another flow, whose files begin with `name`. Returns its index.
    pub(crate) fn add_flow(&mut self, name: String, about: About) -> u32 {
        self.selection.flows.push(Some((name, about)));
        self.selection.flows.len() as u32 - 1
    }

    /// Ends all files. Returns when they were cut because the limit was reached.
    pub fn finish(&mut self) -> io::Result<Option<Time>> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.flows.values_mut().try_for_each(Qlog::flush)?;
        self.links.values_mut().try_for_each(Pcapng::flush)?;
        Ok(self.cut_at)
    }

    /// Whether events are still written: there was no error, and the limit was not reached.
    pub fn is_open(&self) -> bool {
        self.failure.is_none() && self.cut_at.is_none()
    }

    /// Keeps the first error, after which nothing more is written: the run goes on without its trace.
    fn keep(&mut self, at: Time, result: io::Result<u64>) {
        match result {
            Ok(bytes) => self.bytes += bytes,
            Err(error) => self.failure = Some(error),
        }
        if self.bytes > self.limit.as_u64() && self.is_open() {
            let why = format!("the trace ends here: it has reached its limit of {}", self.limit);
            self.cut_at = Some(at);
            let result = self.flows.values_mut().try_for_each(|flow| flow.cut(at, &why).map(drop));
            self.failure = result.err();
        }
    }

    fn write_flow(&mut self, at: Time, flow: u32, end: End, event: &FlowEvent<'_>) -> io::Result<u64> {
        let Some(Some((name, about))) = self.selection.flows.get(flow as usize) else { return Ok(0) };
        if !self.flows.contains_key(&(flow, end)) {
            let file = Pieces::new(self.path.join(format!("{name}.{}.qlog", end.name())))?;
            self.flows.insert((flow, end), Qlog::new(file, about, end)?);
        }
        let Some(file) = self.flows.get_mut(&(flow, end)) else { return Ok(0) };
        file.write(at, event)
    }

    fn write_link(&mut self, at: Time, link: u32, event: LinkEvent, packet: &dyn Capture) -> io::Result<u64> {
        let Some(Some(name)) = self.selection.links.get(link as usize) else { return Ok(0) };
        if !self.links.contains_key(&link) {
            let file = Pieces::new(self.path.join(format!("{name}.pcapng")))?;
            self.links.insert(link, Pcapng::new(file, name)?);
        }
        let Some(file) = self.links.get_mut(&link) else { return Ok(0) };
        file.write(at, event, packet)
    }
}

impl Sink for Directory {
    fn on_flow(&mut self, at: Time, flow: u32, end: End, event: &FlowEvent<'_>) {
        if self.is_open() {
            let result = self.write_flow(at, flow, end, event);
            self.keep(at, result);
        }
    }

    fn on_flow_end(&mut self, at: Time, flow: u32, end: End) {
        let Some(file) = self.flows.get_mut(&(flow, end)) else { return };
        let result = file.flush().map(|()| 0);
        self.keep(at, result);
        if self.is_of_host {
            self.flows.remove(&(flow, end));
            self.selection.flows[flow as usize] = None;
        }
    }

    fn on_link(&mut self, at: Time, link: u32, event: LinkEvent, packet: &dyn Capture) {
        if self.is_open() {
            let result = self.write_link(at, link, event, packet);
            self.keep(at, result);
        }
    }
}
