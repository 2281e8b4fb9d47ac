//! A forked child has its parent's handles but not its place: the rings have one reader and one writer, and that is the
//! parent. Every process that talks to a daemon has a mark that children lose, so they are told (`Error::Forked`)
//! instead of spoiling their parent's conversation.

use std::io;
use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};

static MARK: OnceLock<&'static AtomicU64> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The mark of this process, made if it has none yet.
pub(crate) fn mark() -> io::Result<u64> {
    let word = if let Some(word) = MARK.get() {
        word
    } else {
        let made = word_wiped_by_fork()?;
        MARK.get_or_init(|| made)
    };
    // A child gets a number that none of its ancestors had: the counter is copied, not wiped.
    let fresh = NEXT.fetch_add(1, Relaxed);
    Ok(word.compare_exchange(0, fresh, AcqRel, Acquire).map_or_else(|mark| mark, |_| fresh))
}

/// Whether this process is the one that got `mark`.
pub(crate) fn is_still(mark: u64) -> bool {
    MARK.get().is_some_and(|word| word.load(Acquire) == mark)
}

/// A word of private memory that is zero again in every child that this process forks.
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
