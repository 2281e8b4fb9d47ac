//! Streams over loopback. One program for all files: each further program would compile the generic code of the
//! transport again.

mod streams;
mod threads;
