//! Detects forked children. A child has its parent's handles, but each ring has one reader and one writer, and these
//! are in the parent. Every process that is connected to a daemon has a tag that its children lose, so a child gets
//! `Error::Forked` and cannot corrupt the connection of its parent.

use std::io;
use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};

static TAG: OnceLock<&'static AtomicU64> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The tag of this process, created at the first call.
pub(crate) fn tag() -> io::Result<u64> {
    let word = if let Some(word) = TAG.get() {
        word
    } else {
        let new = word_wiped_by_fork()?;
        TAG.get_or_init(|| new)
    };
    // A child gets a number that none of its ancestors had: the counter is copied, not wiped.
    let fresh = NEXT.fetch_add(1, Relaxed);
    Ok(word.compare_exchange(0, fresh, AcqRel, Acquire).map_or_else(|tag| tag, |_| fresh))
}

/// Whether this process is the one that got `tag`.
pub(crate) fn is_current(tag: u64) -> bool {
    TAG.get().is_some_and(|word| word.load(Acquire) == tag)
}

/// A word of private memory that is zero again in every forked child.
fn word_wiped_by_fork() -> io::Result<&'static AtomicU64> {
    let length = NonZero::new(4096).ok_or(io::ErrorKind::InvalidInput)?;
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new private mapping touches no memory of ours; it is page-aligned, all zeros and never unmapped.
    unsafe {
        let base = mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE)?;
        madvise(base, length.get(), MmapAdvise::MADV_WIPEONFORK)?;
        Ok(base.cast::<AtomicU64>().as_ref())
    }
}
