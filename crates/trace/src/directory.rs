//! A directory of traces: which flows and links are written, how much at most, and what becomes of errors.
//!
//! At its limit the trace of a run ends. That of a host keeps its newest part: when its files have half of the limit, they
//! become `NAME.1.client.qlog`, the files of that name are removed, and new ones begin.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rampmeter_transport::EcnState;
use rampmeter_units::{Bytes, Time};

use crate::event::{Capture, End, FlowEvent, LinkEvent, Metrics, Sink};
use crate::pcapng::Pcapng;
use crate::qlog::{About, Qlog};

/// A file is written in pieces of about this size, so that thousands of flows need no open files.
const PIECE: usize = 1 << 16;

/// Bytes that the header of a qlog has, about.
const HEADER: u64 = 600;

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

/// The file of an end of a flow.
#[derive(Debug, Default)]
struct Log {
    /// `None`: the next event begins a new file.
    qlog: Option<Qlog<Pieces>>,
    /// The latest values and states, with which a file begins that continues another one.
    metrics: Metrics,
    state: Option<&'static str>,
    ecn: Option<EcnState>,
}

impl Log {
    fn flush(&mut self) -> io::Result<()> {
        self.qlog.as_mut().map_or(Ok(()), Qlog::flush)
    }

    fn warn(&mut self, at: Time, why: &str) -> io::Result<u64> {
        self.qlog.as_mut().map_or(Ok(0), |qlog| qlog.warn(at, why))
    }

    /// The values and the states are those of `event`, if it has some.
    fn note(&mut self, event: &FlowEvent<'_>) {
        match event {
            // The event has the changes: of this call only the values that it keeps are wanted.
            FlowEvent::Metrics(changed) => drop((*changed).clone().changed(&mut self.metrics, &changed.own)),
            FlowEvent::State(_, new) => self.state = Some(new),
            FlowEvent::EcnState(_, new) => self.ecn = Some(*new),
            _ => {}
        }
    }
}

/// What the trace of a host has, which may run for months. Each of its flows is a connection, of which nothing is kept
/// after its end. (Of a flow of a run late packets count, too.)
#[derive(Debug, Default)]
struct Host {
    /// The number of connections so far.
    connections: u32,
    /// The files that are written, by name and end.
    files: BTreeSet<(String, End)>,
    /// When the first of them began.
    since: Time,
    /// The files before them.
    earlier: BTreeSet<(String, End)>,
}

/// A sink that writes a directory: `FLOW.client.qlog`, `FLOW.server.qlog` and `LINK.pcapng`.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The names of the files of flows, and what they are about.
    names: BTreeMap<u32, (String, About)>,
    /// The names of the files of links.
    link_names: Vec<Option<String>>,
    /// The size of all files together, after which they end.
    limit: Bytes,
    flows: BTreeMap<(u32, End), Log>,
    links: BTreeMap<u32, Pcapng<Pieces>>,
    /// Bytes written, about: each event counts when it is written to memory. Of a host those of its newer files.
    bytes: u64,
    cut_at: Option<Time>,
    failure: Option<io::Error>,
    host: Option<Host>,
}

impl Directory {
    /// A directory at `path`, which is created; its files have about `limit` at most, together, and then end.
    pub fn new(path: &Path, selection: Selection, limit: Bytes) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let flows = (0..).zip(selection.flows);
        Ok(Self {
            path: path.to_owned(),
            names: flows.filter_map(|(flow, named)| Some((flow, named?))).collect(),
            link_names: selection.links,
            limit,
            flows: BTreeMap::new(),
            links: BTreeMap::new(),
            bytes: 0,
            cut_at: None,
            failure: None,
            host: None,
        })
    }

    /// The same for a host, which keeps the newest part.
    pub(crate) fn of_host(path: &Path, limit: Bytes) -> io::Result<Self> {
        Ok(Self { host: Some(Host::default()), ..Self::new(path, Selection::default(), limit)? })
    }

    /// Traces another connection of a host, with this peer. Returns its number, with which its files begin.
    pub(crate) fn add_connection(&mut self, peer: &str, description: String) -> Option<u32> {
        let host = self.host.as_mut().filter(|_| self.failure.is_none())?;
        let number = host.connections;
        host.connections += 1;
        let name: String = peer.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '_' }).collect();
        let about = About { title: format!("{number}: {peer}"), description };
        self.names.insert(number, (format!("{number}-{name}"), about));
        Some(number)
    }

    /// Ends all files. Returns when they were cut because the limit was reached; of a host, when the oldest file begins,
    /// if earlier ones were removed.
    pub fn finish(&mut self) -> io::Result<Option<Time>> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.flows.values_mut().try_for_each(Log::flush)?;
        self.links.values_mut().try_for_each(Pcapng::flush)?;
        Ok(self.cut_at)
    }

    /// Whether events are still written: there was no error, and the limit did not end the trace.
    pub fn is_open(&self) -> bool {
        self.failure.is_none() && (self.cut_at.is_none() || self.host.is_some())
    }

    /// Keeps the first error, after which nothing more is written: the run goes on without its trace.
    fn keep(&mut self, at: Time, result: io::Result<u64>) {
        match result {
            Ok(bytes) => self.bytes += bytes,
            Err(error) => self.failure = Some(error),
        }
        let is_of_host = self.host.is_some();
        let limit = if is_of_host { self.limit.as_u64() / 2 } else { self.limit.as_u64() };
        if self.bytes > limit && self.is_open() {
            let result = if is_of_host { self.begin_anew(at) } else { self.cut(at) };
            self.failure = result.err();
        }
    }

    fn cut(&mut self, at: Time) -> io::Result<()> {
        let why = format!("the trace ends here: it has reached its limit of {}", self.limit);
        self.cut_at = Some(at);
        self.flows.values_mut().try_for_each(|log| log.warn(at, &why).map(drop))
    }

    /// The files of a host become its earlier ones, which are removed, and new files begin with their next events.
    fn begin_anew(&mut self, at: Time) -> io::Result<()> {
        for log in self.flows.values_mut() {
            log.flush()?;
            log.qlog = None;
        }
        let Some(host) = &mut self.host else { return Ok(()) };
        for (name, end) in &host.earlier {
            match fs::remove_file(self.path.join(earlier(name, *end))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.cut_at = Some(host.since),
            }
        }
        host.earlier = std::mem::take(&mut host.files);
        for (name, end) in &host.earlier {
            fs::rename(self.path.join(newest(name, *end)), self.path.join(earlier(name, *end)))?;
        }
        (host.since, self.bytes) = (at, 0);
        Ok(())
    }

    fn write_flow(&mut self, at: Time, flow: u32, end: End, event: &FlowEvent<'_>) -> io::Result<u64> {
        let Some((name, about)) = self.names.get(&flow) else { return Ok(0) };
        let log = self.flows.entry((flow, end)).or_default();
        let mut bytes = 0;
        let qlog = if let Some(qlog) = &mut log.qlog {
            qlog
        } else {
            let qlog = log.qlog.insert(Qlog::new(Pieces::new(self.path.join(newest(name, end)))?, about, end)?);
            if let Some(host) = &mut self.host {
                host.files.insert((name.clone(), end));
                bytes += HEADER;
                if host.earlier.contains(&(name.clone(), end)) {
                    let before = earlier(name, end);
                    let where_it_is = format!("what was before is in {before}; if this is that file, it was removed");
                    bytes += qlog.warn(at, &where_it_is)?;
                    bytes += qlog.write(at, &FlowEvent::Metrics(&log.metrics))?;
                    bytes += log.state.map_or(Ok(0), |state| qlog.write(at, &FlowEvent::State(None, state)))?;
                    bytes += log.ecn.map_or(Ok(0), |state| qlog.write(at, &FlowEvent::EcnState(None, state)))?;
                }
            }
            qlog
        };
        bytes += qlog.write(at, event)?;
        if self.host.is_some() {
            log.note(event);
        }
        Ok(bytes)
    }

    fn write_link(&mut self, at: Time, link: u32, event: LinkEvent, packet: &dyn Capture) -> io::Result<u64> {
        let Some(Some(name)) = self.link_names.get(link as usize) else { return Ok(0) };
        if !self.links.contains_key(&link) {
            let file = Pieces::new(self.path.join(format!("{name}.pcapng")))?;
            self.links.insert(link, Pcapng::new(file, name)?);
        }
        let Some(file) = self.links.get_mut(&link) else { return Ok(0) };
        file.write(at, event, packet)
    }
}

/// The name of the newest file of an end of a flow.
fn newest(name: &str, end: End) -> String {
    format!("{name}.{}.qlog", end.name())
}

/// The name of the file before that.
fn earlier(name: &str, end: End) -> String {
    format!("{name}.1.{}.qlog", end.name())
}

impl Sink for Directory {
    fn on_flow(&mut self, at: Time, flow: u32, end: End, event: &FlowEvent<'_>) {
        if self.is_open() {
            let result = self.write_flow(at, flow, end, event);
            self.keep(at, result);
        }
    }

    fn on_flow_end(&mut self, at: Time, flow: u32, end: End) {
        let Some(log) = self.flows.get_mut(&(flow, end)) else { return };
        let result = log.flush().map(|()| 0);
        self.keep(at, result);
        if self.host.is_some() {
            self.flows.remove(&(flow, end));
            self.names.remove(&flow);
        }
    }

    fn on_link(&mut self, at: Time, link: u32, event: LinkEvent, packet: &dyn Capture) {
        if self.is_open() {
            let result = self.write_link(at, link, event, packet);
            self.keep(at, result);
        }
    }
}
