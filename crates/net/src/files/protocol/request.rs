//! What a client sends.

use super::name::MAX_CONTROLLER;
use super::reader::{Reader, complete};
use super::{Hash, InvalidMessage, Modified, Piece};

const MAGIC: &[u8; 4] = b"RMF3";

const HEARTBEAT: u8 = 0;
const GET: u8 = 1;
const LIST: u8 = 2;
const PUT: u8 = 3;
const HASH: u8 = 4;
const DELETE: u8 = 5;
const SET_MODIFIED: u8 = 6;
const SYNC: u8 = 7;

/// The beginning of a client's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The controller that should send the files; `None` leaves the choice to the server. Only its name is sent, no
    /// settings.
    pub(crate) controller: Option<String>,
}

impl Greeting {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let controller = self.controller.as_deref().unwrap_or_default().as_bytes();
        out.push(controller.len() as u8);
        out.extend(controller);
        out
    }

    /// Parses the greeting at the start of `bytes`, and returns its length; `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, InvalidMessage> {
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
            return Err(InvalidMessage);
        }
        let mut reader = Reader(&bytes[seen..]);
        let controller = complete!(reader.controller(MAX_CONTROLLER)?);
        let controller = Some(controller).filter(|name| !name.is_empty());
        Ok(Some((Self { controller }, bytes.len() - reader.0.len())))
    }
}

/// How to put a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PutFlags {
    /// An existing file of that name is replaced.
    pub(crate) replace: bool,
    /// The bytes follow at once; otherwise after the server's answer.
    pub(crate) at_once: bool,
}

/// A client's request, or a piece of a file to put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Heartbeat,
    Get { name: String, offset: u64, prefix: Hash },
    List { name: String },
    Put { name: String, flags: PutFlags, size: u64, modified: Modified },
    Hash { name: String, size: u64 },
    Delete { name: String },
    SetModified { name: String, modified: Modified },
    Sync,
    Piece(Piece),
}

impl Request {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let begin = |kind, name: &str, out: &mut Vec<u8>| {
            out.push(kind);
            out.extend((name.len() as u16).to_be_bytes());
            out.extend(name.as_bytes());
        };
        match self {
            Self::Heartbeat => out.push(HEARTBEAT),
            Self::Get { name, offset, prefix } => {
                begin(GET, name, out);
                out.extend(offset.to_be_bytes());
                if *offset > 0 {
                    out.extend(prefix);
                }
            }
            Self::List { name } => begin(LIST, name, out),
            Self::Put { name, flags, size, modified } => {
                begin(PUT, name, out);
                out.push(u8::from(flags.replace) | u8::from(flags.at_once) << 1);
                out.extend(size.to_be_bytes());
                modified.encode(out);
            }
            Self::Hash { name, size } => {
                begin(HASH, name, out);
                out.extend(size.to_be_bytes());
            }
            Self::Delete { name } => begin(DELETE, name, out),
            Self::SetModified { name, modified } => {
                begin(SET_MODIFIED, name, out);
                modified.encode(out);
            }
            Self::Sync => out.push(SYNC),
            Self::Piece(piece) => piece.encode(out),
        }
    }

    /// Parses the request at the start of `bytes`, and returns its length; `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, InvalidMessage> {
        let mut reader = Reader(bytes);
        let [kind] = complete!(reader.take());
        let request = match kind {
            HEARTBEAT => Self::Heartbeat,
            GET => {
                let (name, offset) = (complete!(reader.name()?), complete!(reader.number()));
                let prefix = if offset > 0 { complete!(reader.take()) } else { Hash::default() };
                Self::Get { name, offset, prefix }
            }
            LIST => Self::List { name: complete!(reader.name()?) },
            PUT => {
                let (name, [flags]) = (complete!(reader.name()?), complete!(reader.take()));
                if flags > 3 {
                    return Err(InvalidMessage);
                }
                let flags = PutFlags { replace: flags & 1 > 0, at_once: flags & 2 > 0 };
                Self::Put { name, flags, size: complete!(reader.number()), modified: complete!(reader.modified()?) }
            }
            HASH => Self::Hash { name: complete!(reader.name()?), size: complete!(reader.number()) },
            DELETE => Self::Delete { name: complete!(reader.name()?) },
            SET_MODIFIED => {
                Self::SetModified { name: complete!(reader.name()?), modified: complete!(reader.modified()?) }
            }
            SYNC => Self::Sync,
            _ => Self::Piece(complete!(Piece::parse(kind, &mut reader).unwrap_or(Err(InvalidMessage))?)),
        };
        Ok(Some((request, bytes.len() - reader.0.len())))
    }
}
