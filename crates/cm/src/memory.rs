//! Memory that two processes share: a sealed memfd, accessed only as a slice of atomic words.
//!
//! The other process may write anything at any time. With atomic words this is defined behavior: a read returns some
//! value, and the reader has to check it. The seals prevent that the memory becomes smaller, which would kill a process
//! that reads beyond its new end (`SIGBUS`). All `unsafe` code of sharing is here and in `fork`.

use std::ffi::c_void;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};
use nix::sys::stat::fstat;
use nix::unistd::ftruncate;

use crate::fork;

const SEALS: SealFlag = SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_SEAL);

/// Memory of whole words that another process has mapped too.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<c_void>,
    words: usize,
    /// The tag of the process that has the mapping: a child of that process has something else at this address, or
    /// nothing.
    tag: u64,
}

// SAFETY: the mapping belongs to this value alone within the process, and is only ever seen as atomics.
unsafe impl Send for Memory {}
// SAFETY: as above; atomics may be used from many threads.
unsafe impl Sync for Memory {}

impl Memory {
    /// New memory, all zeros, and the file for the other process.
    pub(crate) fn create(words: usize) -> io::Result<(OwnedFd, Self)> {
        let file = memfd_create(c"rampmeter-cm", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        ftruncate(&file, (words * size_of::<u64>()) as i64)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS))?;
        let memory = Self::map(&file, words)?;
        Ok((file, memory))
    }

    /// The memory of a file from another process; refused unless it is sealed and large enough.
    pub(crate) fn open(file: &OwnedFd, words: usize) -> io::Result<Self> {
        let sealed = SealFlag::from_bits_retain(fcntl(file, FcntlArg::F_GET_SEALS)?).contains(SEALS);
        let large_enough = fstat(file)?.st_size >= (words * size_of::<u64>()) as i64;
        if !(sealed && large_enough) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the shared memory is not sealed or too small"));
        }
        Self::map(file, words)
    }

    fn map(file: &impl AsFd, words: usize) -> io::Result<Self> {
        let tag = fork::tag()?;
        let length = NonZero::new(words * size_of::<u64>()).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, file, 0)? };
        // A forked child does not get the mapping: it must not write into its parent's rings.
        unsafe { madvise(base, length.get(), MmapAdvise::MADV_DONTFORK)? };
        Ok(Self { base, words, tag })
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `words` long (its file is sealed against shrinking) and lives as long as
        // this value, which is used only in the process that made it (`Client` checks that); both processes treat it as
        // atomics, for which every bit pattern is a value.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast::<AtomicU64>(), self.words) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if fork::is_current(self.tag) {
            // SAFETY: the mapping was made by `map`, in this process and with this length, and no slice of it outlives
            // this value.
            let _ = unsafe { munmap(self.base, self.words * size_of::<u64>()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_sealed() {
        let (file, _memory) = Memory::create(1024).unwrap();
        assert!(ftruncate(&file, 8).is_err());
        assert!(ftruncate(&file, 1 << 20).is_err());
        assert!(Memory::open(&file, 2048).is_err(), "smaller than it should be");
    }

    #[test]
    fn an_unsealed_file_is_refused() {
        let file = memfd_create(c"open", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert!(Memory::open(&file, 512).is_err());
    }
}
