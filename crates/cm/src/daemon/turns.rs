//! The order of clients, and how much of a turn of the daemon's loop the clients of one owner may take: an owner with a
//! thousand busy clients must not delay the only client of another.

use rampmeter_manager::Owner;

/// The maximum number of commands of all clients of one owner in a turn, a fraction of a millisecond.
const MAX_PER_OWNER: usize = 512;

/// The state of the turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The number of turns so far.
    turn: usize,
    /// The number of commands of each owner in this turn.
    taken: Vec<(Owner, usize)>,
}

impl Turns {
    /// A turn begins. Returns the order of `clients` clients, which begins with another one in each turn.
    pub(super) fn order(&mut self, clients: usize) -> impl Iterator<Item = usize> + use<> {
        self.taken.clear();
        self.turn = self.turn.wrapping_add(1);
        let first = self.turn.checked_rem(clients).unwrap_or_default();
        (first..clients).chain(0..first)
    }

    /// The number of commands that clients of `owner` may have executed in this turn.
    pub(super) fn left(&self, owner: Owner) -> usize {
        let taken = self.taken.iter().find(|(other, _)| *other == owner).map_or(0, |(_, taken)| *taken);
        MAX_PER_OWNER.saturating_sub(taken)
    }

    /// `commands` of them were executed.
    pub(super) fn took(&mut self, owner: Owner, commands: usize) {
        match self.taken.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, taken)) => *taken += commands,
            None => self.taken.push((owner, commands)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_with_many_clients_gets_no_more_than_one_with_few() {
        let (mut turns, mut executed) = (Turns::default(), [0; 40]);
        let owner = |client| Owner(u32::from(client > 0));
        for _ in 0..400 {
            for client in turns.order(40) {
                let commands = turns.left(owner(client)).min(64);
                executed[client] += commands;
                turns.took(owner(client), commands);
            }
        }
        assert_eq!(executed[0], 400 * 64, "the only client of its owner has something to do in each turn");
        assert_eq!(executed[1..].iter().sum::<usize>(), 400 * MAX_PER_OWNER);
        assert!(executed[1..].iter().all(|commands| (3000..8000).contains(commands)), "{executed:?}");
    }

    #[test]
    fn a_turn_without_clients_does_nothing() {
        assert_eq!(Turns::default().order(0).count(), 0);
    }
}
