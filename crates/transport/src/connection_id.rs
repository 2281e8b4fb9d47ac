//! Names of connections: a place in the endpoint's table, and what tells it from others that had the place.

/// A connection's name at its endpoint. Never used twice in a row for the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u32);

/// The rest, 12 bits, tells a connection from others that had its index. They are drawn but few, and no secret to rely
/// on: strangers are kept out by the first sequence numbers, see [`Connection`](crate::Connection). More would not fit
/// into the header.
const INDEX_BITS: u32 = 20;

const SALTS: u32 = 1 << (32 - INDEX_BITS);

impl ConnectionId {
    /// Connections that can have different indices.
    pub(crate) const MOST: usize = 1 << INDEX_BITS;

    /// A small number for tables; that of a closed connection is used again.
    pub fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    /// The id as it travels.
    pub fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Of the first connection at `index`; `draw` is a random number.
    pub(crate) fn first(index: usize, draw: u32) -> Self {
        Self((draw % SALTS) << INDEX_BITS | index as u32)
    }

    /// Of the next connection at this one's place: any other salt.
    pub(crate) fn next(self, draw: u32) -> Self {
        let salt = (self.0 >> INDEX_BITS) + 1 + draw % (SALTS - 1);
        Self((salt % SALTS) << INDEX_BITS | self.index() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_keeps_its_index_and_never_its_name() {
        let mut id = ConnectionId::first(7, u32::MAX);
        for draw in [0, 1, SALTS - 2, SALTS - 1, u32::MAX] {
            let next = id.next(draw);
            assert_eq!(next.index(), 7);
            assert_ne!(next, id);
            id = next;
        }
    }
}
