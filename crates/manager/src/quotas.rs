//! What the owners of flows share and none may take alone: places in a table, memory.
//!
//! An owner may have as much as makes no more than [`SHARE`] times what is then left. So one owner has at most four
//! fifths of all, a second one four fifths of the rest, and no number of owners leaves nothing for the next (dynamic
//! thresholds: Choudhury and Hahne, 1998, for the buffers of switches).

use std::collections::BTreeMap;

use crate::destinations::Owner;

/// What an owner may have for each unit that is left.
const SHARE: u64 = 4;

/// A limited amount, and how much of it each owner uses.
#[derive(Debug)]
pub struct Quotas {
    left: u64,
    used: BTreeMap<Owner, u64>,
}

impl Quotas {
    /// All of `amount` is left.
    pub fn new(amount: u64) -> Self {
        Self { left: amount, used: BTreeMap::new() }
    }

    /// Of `amount`, one each is used by the owners in `users`.
    pub fn with_users(amount: u64, users: impl Iterator<Item = Owner>) -> Self {
        let mut quotas = Self::new(amount);
        users.for_each(|owner| quotas.charge(owner, 1));
        quotas
    }

    /// What `owner` uses.
    pub fn used(&self, owner: Owner) -> u64 {
        self.used.get(&owner).copied().unwrap_or_default()
    }

    /// Whether `owner` may use `amount` more.
    pub fn permits(&self, owner: Owner, amount: u64) -> bool {
        let left = self.left.checked_sub(amount);
        left.is_some_and(|left| self.used(owner).saturating_add(amount) <= left.saturating_mul(SHARE))
    }

    /// `owner` uses `amount` more, if that is permitted. Returns whether it is.
    pub fn take(&mut self, owner: Owner, amount: u64) -> bool {
        let is_permitted = self.permits(owner, amount);
        if is_permitted {
            self.charge(owner, amount);
        }
        is_permitted
    }

    /// `owner` uses `amount` more, whatever is left.
    pub fn charge(&mut self, owner: Owner, amount: u64) {
        self.left = self.left.saturating_sub(amount);
        *self.used.entry(owner).or_default() += amount;
    }

    /// `owner` uses `amount` less.
    pub fn give_back(&mut self, owner: Owner, amount: u64) {
        let Some(used) = self.used.get_mut(&owner) else { return };
        let amount = amount.min(*used);
        *used -= amount;
        self.left += amount;
        if *used == 0 {
            self.used.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(quotas: &mut Quotas, owner: u32) -> usize {
        (0..1000).take_while(|_| quotas.take(Owner(owner), 1)).count()
    }

    #[test]
    fn no_owner_takes_all_and_the_next_one_gets_some() {
        let mut quotas = Quotas::new(250);
        assert_eq!([1, 2, 3, 1].map(|owner| taken(&mut quotas, owner)), [200, 40, 8, 0]);
        quotas.give_back(Owner(1), 200);
        assert_eq!(taken(&mut quotas, 2), 153, "193 of its own, four times the 49 that are left");
    }

    #[test]
    fn an_owner_that_has_more_than_it_may_have_now_keeps_it() {
        let users = || std::iter::repeat_n(Owner(1), 200).chain(std::iter::repeat_n(Owner(2), 45));
        let quotas = Quotas::with_users(250, users());
        assert_eq!([1, 2, 3].map(|owner| quotas.permits(Owner(owner), 1)), [false, false, true]);
        assert!(!Quotas::with_users(245, users()).permits(Owner(3), 1));
    }

    /// It has 6, and 4 are left: it may have n more if 6 + n <= 4 (4 - n).
    #[test]
    fn an_owner_keeps_what_it_does_not_give_back() {
        let mut quotas = Quotas::new(10);
        assert!(quotas.take(Owner(1), 8));
        quotas.give_back(Owner(1), 2);
        assert!(quotas.permits(Owner(1), 2) && !quotas.permits(Owner(1), 3));
    }

    #[test]
    fn what_was_not_taken_is_not_given_back() {
        let mut quotas = Quotas::new(10);
        assert!(!quotas.take(Owner(1), 9) && quotas.take(Owner(1), 8));
        quotas.give_back(Owner(2), 5);
        quotas.give_back(Owner(1), 50);
        assert!(!quotas.permits(Owner(1), 9) && quotas.permits(Owner(1), 8));
        assert!(!quotas.permits(Owner(1), u64::MAX));
    }
}
