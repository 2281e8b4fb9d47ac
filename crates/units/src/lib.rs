//! The quantities everything else is written in: time, rate, bytes, ECN codes and random streams.
//!
//! Every number that has a unit has a type here, so that a delay can't be added to a rate and nobody has to ask
//! whether a field is in bits or bytes. All are plain integers inside: the same inputs give the same outputs on every
//! machine.

mod bytes;
mod ecn;
mod load;
mod quantity;
mod random;
mod rate;
mod time;

pub use bytes::Bytes;
pub use ecn::Ecn;
pub use load::{LoadCodes, LoadRegion};
pub use quantity::BadQuantity;
pub use random::{Stream, Streams};
pub use rate::Rate;
pub use time::{Duration, Time};
