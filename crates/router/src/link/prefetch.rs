//! Prefetching of memory that is read soon.

/// A queue prefetches the packet this many places behind its head.
pub(crate) const AHEAD: usize = 4;

/// Prefetches `thing` into the CPU caches without waiting for it. Has no effect on processors other than x86-64.
#[inline]
pub fn prefetch<T>(thing: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64;
        let first: *const i8 = std::ptr::from_ref(thing).cast();
        let last = size_of::<T>().saturating_sub(1);
        for line in 0..=last / LINE {
            // SAFETY: the byte is one of `thing`; a prefetch has no observable effect.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.add(line * LINE)) };
        }
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.add(last)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = thing;
}
