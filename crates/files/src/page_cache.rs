//! Reading the bytes of a file that the kernel has in memory: so fast that it needs no other thread.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Appends the next bytes of the file to `buffer`, `len` at most, as far as they are in memory. Returns their number:
/// zero also at the end of the file, after an error, and on file systems that cannot tell.
pub(super) fn read_cached(file: &File, len: usize, buffer: &mut Vec<u8>) -> usize {
    buffer.reserve_exact(len);
    let free = libc::iovec { iov_base: buffer.spare_capacity_mut().as_mut_ptr().cast(), iov_len: len };
    // SAFETY: `free` is one buffer of `len` bytes, which nothing else uses. An offset of -1 is the file's position.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const free, 1, -1, libc::RWF_NOWAIT) };
    let read = usize::try_from(read).unwrap_or(0);
    // SAFETY: there is room for `len` bytes, and the kernel has written the first `read`.
    unsafe { buffer.set_len(buffer.len() + read) };
    read
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn bytes_that_were_just_written_are_read_in_pieces() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..100_000u32).map(|n| (n / 7) as u8).collect();
        file.write_all(&bytes).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut read = Vec::new();
        while read_cached(&file, 30_000, &mut read) > 0 {}
        if read.is_empty() {
            eprintln!("skipped: this file system cannot tell which bytes are in memory");
        }
        file.read_to_end(&mut read).unwrap();
        assert!(read == bytes, "{} bytes", read.len());
    }

    #[test]
    fn a_file_that_cannot_be_read_has_no_bytes() {
        let directory = File::open("/").unwrap();
        let mut read = vec![7];
        assert_eq!((read_cached(&directory, 10, &mut read), read), (0, vec![7]));
    }
}
