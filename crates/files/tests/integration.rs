//! File transfer from end to end.

mod common;
mod disks;
mod files;
mod hostile;
mod parts;
mod sessions;
