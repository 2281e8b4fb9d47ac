//! What a server sends.

use super::reader::{Reader, complete};
use super::refusal::Refusal;
use super::{Hash, InvalidMessage, Modified, Piece, check_name};

const BUSY: u8 = 0;
const WELCOME: u8 = 1;
const START: u8 = 2;
const ENTRY: u8 = 3;
const LISTED: u8 = 4;
const PARTIAL: u8 = 5;
const HASHED: u8 = 6;
const DONE: u8 = 7;
const REFUSED: u8 = 8;

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rights {
    /// Put new files.
    pub(crate) write: bool,
    /// Replace and delete files.
    pub(crate) overwrite: bool,
}

/// A server's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Busy,
    Welcome { controller: String, rights: Rights },
    Start { size: u64, modified: Modified, offset: u64 },
    Entry { name: String, size: u64, modified: Modified },
    Listed { files: u64, skipped: u64 },
    Partial { offset: u64, prefix: Hash },
    Hashed(Hash),
    Done,
    Refused(Refusal),
    Piece(Piece),
}

impl Answer {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Busy => out.push(BUSY),
            Self::Welcome { controller, rights } => {
                out.push(WELCOME);
                let name = &controller.as_bytes()[..controller.len().min(usize::from(u8::MAX))];
                out.push(name.len() as u8);
                out.extend(name);
                out.push(u8::from(rights.write) | u8::from(rights.overwrite) << 1);
            }
            Self::Start { size, modified, offset } => {
                out.push(START);
                out.extend(size.to_be_bytes());
                modified.encode(out);
                out.extend(offset.to_be_bytes());
            }
            Self::Entry { name, size, modified } => {
                out.push(ENTRY);
                out.extend((name.len() as u16).to_be_bytes());
                out.extend(name.as_bytes());
                out.extend(size.to_be_bytes());
                modified.encode(out);
            }
            Self::Listed { files, skipped } => {
                out.push(LISTED);
                out.extend(files.to_be_bytes());
                out.extend(skipped.to_be_bytes());
            }
            Self::Partial { offset, prefix } => {
                out.push(PARTIAL);
                out.extend(offset.to_be_bytes());
                out.extend(prefix);
            }
            Self::Hashed(hash) => {
                out.push(HASHED);
                out.extend(hash);
            }
            Self::Done => out.push(DONE),
            Self::Refused(refusal) => out.extend([REFUSED, *refusal as u8]),
            Self::Piece(piece) => piece.encode(out),
        }
    }

    /// Parses the answer at the start of `bytes`, and returns its length; `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, InvalidMessage> {
        let mut reader = Reader(bytes);
        let [kind] = complete!(reader.take());
        let answer = match kind {
            BUSY => Self::Busy,
            WELCOME => {
                let (controller, [rights]) = (complete!(reader.controller(255)?), complete!(reader.take()));
                if rights > 3 {
                    return Err(InvalidMessage);
                }
                Self::Welcome { controller, rights: Rights { write: rights & 1 > 0, overwrite: rights & 2 > 0 } }
            }
            START => {
                let (size, modified) = (complete!(reader.number()), complete!(reader.modified()?));
                let offset = complete!(reader.number());
                if offset > size {
                    return Err(InvalidMessage);
                }
                Self::Start { size, modified, offset }
            }
            ENTRY => {
                let name = complete!(reader.name()?);
                // A name out of the client's directory is refused here, before anything is done with it.
                check_name(&name).map_err(|_| InvalidMessage)?;
                Self::Entry { name, size: complete!(reader.number()), modified: complete!(reader.modified()?) }
            }
            LISTED => Self::Listed { files: complete!(reader.number()), skipped: complete!(reader.number()) },
            PARTIAL => Self::Partial { offset: complete!(reader.number()), prefix: complete!(reader.take()) },
            HASHED => Self::Hashed(complete!(reader.take())),
            DONE => Self::Done,
            REFUSED => {
                let [code] = complete!(reader.take());
                Self::Refused(Refusal::from_code(code).ok_or(InvalidMessage)?)
            }
            _ => Self::Piece(complete!(Piece::parse(kind, &mut reader).unwrap_or(Err(InvalidMessage))?)),
        };
        Ok(Some((answer, bytes.len() - reader.0.len())))
    }
}
