//! How much a server takes: the largest file, and the bytes of all files.

use std::sync::Arc;

use super::super::directory::Directory;
use super::super::protocol::Refusal;
use super::super::walk::Walk;

/// The limits of uploads. Bytes are charged when an upload is accepted, and given back if it does not complete.
#[derive(Debug)]
pub(crate) struct Quota {
    max_size: u64,
    max_total: Option<u64>,
    used: u64,
}

impl Quota {
    /// The quota of the files at `path`, whose sizes are added up if there is a limit.
    pub(crate) fn new(path: &std::path::Path, max_size: Option<u64>, max_total: Option<u64>) -> std::io::Result<Self> {
        let mut used = 0;
        if max_total.is_some() {
            let mut walk = Walk::new(Arc::new(Directory::open(path, true)?), "")?;
            walk.with_parts = true;
            while let Some(entry) = walk.next()? {
                used += entry.state.size;
            }
        }
        Ok(Self { max_size: max_size.unwrap_or(u64::MAX), max_total, used })
    }

    /// Charges an upload of `size` bytes, of which `more` are not in the directory yet.
    pub(crate) fn charge(&mut self, size: u64, more: u64) -> Result<(), Refusal> {
        if size > self.max_size {
            return Err(Refusal::TooLarge);
        }
        let Some(max) = self.max_total else { return Ok(()) };
        self.used = self.used.checked_add(more).filter(|&used| used <= max).ok_or(Refusal::QuotaExceeded)?;
        Ok(())
    }

    /// Gives back bytes that are not, or no longer, in the directory.
    pub(crate) fn give_back(&mut self, size: u64) {
        self.used = self.used.saturating_sub(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_counts_the_files_that_are_there() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("sub")).unwrap();
        for name in ["a", ".hidden", "sub/b"] {
            std::fs::write(place.path().join(name), [0; 100]).unwrap();
        }
        let mut quota = Quota::new(place.path(), Some(400), Some(1000)).unwrap();
        assert_eq!(quota.charge(401, 401), Err(Refusal::TooLarge));
        assert_eq!(quota.charge(400, 400), Ok(()));
        assert_eq!(quota.charge(301, 301), Err(Refusal::QuotaExceeded));
        assert_eq!(quota.charge(300, 300), Ok(()));
        quota.give_back(400);
        assert_eq!(quota.charge(400, 400), Ok(()));
        assert_eq!(quota.charge(1, 1), Err(Refusal::QuotaExceeded));
        let mut none = Quota::new(place.path(), None, None).unwrap();
        for _ in 0..2 {
            assert_eq!(none.charge(u64::MAX, u64::MAX), Ok(()), "what one client announces takes nothing from others");
        }
    }
}
