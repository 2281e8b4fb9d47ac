//! Names of connections: an index into the endpoint's table, and a salt that distinguishes connections with the same
//! index.

/// A connection's name at its endpoint. Successive connections with the same index have different names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u32);

/// The remaining 12 bits are the salt. They are random but few, and not a secret to rely on: the first sequence numbers
/// protect against untrusted peers, see [`Connection`](crate::Connection). More bits would not fit into the header.
const INDEX_BITS: u32 = 20;

const SALTS: u32 = 1 << (32 - INDEX_BITS);

impl ConnectionId {
    pub(crate) const MAX_CONNECTIONS: usize = 1 << INDEX_BITS;

    /// An index for tables. The index of a closed connection is reused.
    pub fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    /// The id on the wire.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The connection whose id on the wire is `number`; there may be none.
    pub fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// The id of the first connection at `index`; `draw` is a random number.
    pub(crate) fn first(index: usize, draw: u32) -> Self {
        Self((draw % SALTS) << INDEX_BITS | index as u32)
    }

    /// The id of the next connection with this index: any other salt.
    pub(crate) fn next(self, draw: u32) -> Self {
        let salt = (self.0 >> INDEX_BITS) + 1 + draw % (SALTS - 1);
        Self((salt % SALTS) << INDEX_BITS | self.index() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_connection_has_the_same_index_and_another_name() {
        let mut id = ConnectionId::first(7, u32::MAX);
        for draw in [0, 1, SALTS - 2, SALTS - 1, u32::MAX] {
            let next = id.next(draw);
            assert_eq!(next.index(), 7);
            assert_ne!(next, id);
            id = next;
        }
    }
}
