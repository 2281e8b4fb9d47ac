//! Memory that will be read soon.

/// So many packets ahead a queue has its next ones fetched.
pub(crate) const AHEAD: usize = 4;

/// Has the caches fetch `thing`, without waiting for it. Does nothing on processors where we don't know how.
#[inline]
pub fn prefetch<T>(thing: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64;
        let first: *const i8 = std::ptr::from_ref(thing).cast();
        let last = size_of::<T>().saturating_sub(1);
        for byte in (0..last).step_by(LINE).chain([last]) {
            // SAFETY: the byte is one of `thing`; the instruction changes nothing that can be seen.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.add(byte)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = thing;
}
