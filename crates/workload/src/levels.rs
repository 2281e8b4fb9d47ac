//! Lists of qualities, from the lowest to the highest: encodings, representations, the rungs of a ladder.

use crate::ensure;

/// The maximum number of levels.
const MAX_LEVELS: usize = 32;

/// Refuses a list that is empty, too long or out of order; `valid` describes a valid one.
pub(crate) fn check<T: PartialOrd + Default>(name: &str, levels: &[T], valid: &str) -> Result<(), String> {
    let in_order = levels.first().is_some_and(|lowest| *lowest > T::default()) && levels.is_sorted_by(|a, b| a < b);
    ensure(
        in_order && levels.len() <= MAX_LEVELS,
        format!("`{name}` is empty, too long or out of order; give 1 to {MAX_LEVELS} {valid}"),
    )
}
