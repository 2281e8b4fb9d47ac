//! Reads the fields of a message; `None` where the bytes end.

use super::name::{MAX_NAME, safe_name};
use super::{InvalidMessage, Modified};

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn name(&mut self) -> Result<Option<String>, InvalidMessage> {
        let Some(len) = self.take().map(u16::from_be_bytes).map(usize::from) else { return Ok(None) };
        if len > MAX_NAME {
            return Err(InvalidMessage);
        }
        let Some(name) = self.slice(len) else { return Ok(None) };
        std::str::from_utf8(name).map(|name| Some(name.to_owned())).map_err(|_| InvalidMessage)
    }

    pub(super) fn modified(&mut self) -> Result<Option<Modified>, InvalidMessage> {
        let (Some(seconds), Some(nanos)) = (self.take().map(i64::from_be_bytes), self.take().map(u32::from_be_bytes))
        else {
            return Ok(None);
        };
        if nanos < 1_000_000_000 { Ok(Some(Modified { seconds, nanos })) } else { Err(InvalidMessage) }
    }

    /// A controller's name of up to `max` bytes.
    pub(super) fn controller(&mut self, max: usize) -> Result<Option<String>, InvalidMessage> {
        let Some([len]) = self.take() else { return Ok(None) };
        if usize::from(len) > max {
            return Err(InvalidMessage);
        }
        let Some(name) = self.slice(usize::from(len)) else { return Ok(None) };
        safe_name(name).map(Some).ok_or(InvalidMessage)
    }
}

/// Reads fields one after the other, and returns `Ok(None)` from the function where one is incomplete.
macro_rules! complete {
    ($field:expr) => {
        match $field {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}
pub(super) use complete;
