//! A forked child has its parent's handles but not its place: the rings have one reader and one writer, and that is the
//! parent. Every process that talks to a daemon has a mark that children lose, so they are told (`Error::Forked`)
//! instead of spoiling their parent's conversation.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::memory::word_wiped_by_fork;

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
