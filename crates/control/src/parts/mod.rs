//! What several controllers are made of.

pub(crate) mod check;
pub mod delivery_rate;
pub(crate) mod episode;
pub(crate) mod events;
pub(crate) mod hystart;
pub(crate) mod line;
pub(crate) mod marked_share;
pub(crate) mod pacer;
pub(crate) mod rules;
pub(crate) mod search;
pub(crate) mod slow_start;
pub(crate) mod window;
pub(crate) mod windowed;
