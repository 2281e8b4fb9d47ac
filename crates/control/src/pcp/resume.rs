//! Resuming: what a macroflow begins with whose destination rested for a short while only.
//!
//! The paper asks for a third of the remembered rate first, "to avoid the chance that multiple hosts will simultaneously
//! probe for, and seemingly acquire, the full link bandwidth" (section 3.4), and nothing but probes leaves until the
//! answer is there. Where all flows of a host to a destination share one macroflow, none of them can be in each other's
//! way, and what the last one learnt is fresh, more is known before the first packet leaves:
//!
//! ```text
//! the last transfer      the handshake                  this one
//! competed               -                              competes, with the rate that the last one had
//! suspected rivals       waited longer than PCP lets be competes from its first packet, in slow start
//! -                      did not wait                   has the third at once, and asks for all the rest
//! -                      waited                         asks for a third, as ever
//! ```
//!
//! The third is what newcomers that probe at once are all granted too, a round trip later. Taken at once it is data for
//! that round trip, and one train instead of two finds the rest. Where it is wrong, compensation answers within a round
//! trip, and the first train fails, which halves the trust and with it the next third.

use rampmeter_units::{Duration, Rate};

use super::{Pcp, rivals};
use crate::{History, Path};

impl Pcp {
    /// The base rate to begin with, if the path's history is fresh and nobody else seems to be there; whether to compete,
    /// if somebody is. `first` is what would be asked for otherwise.
    pub(super) fn resume(&mut self, path: &Path, first: Rate) -> Option<Rate> {
        let is_fresh = path.rested.zip(self.config.resume).is_some_and(|(rested, longest)| rested <= longest);
        let past = self.memory.past().filter(|_| is_fresh)?;
        if self.rivals.is_competing() {
            self.rivals.resume(past.competed.bytes_in(path.rtt), self.packet);
        } else if self.config.compete && rivals::were_suspected(past.rivals) && self.waited(&past, path) > self.tolerated(past.base_rate) {
            self.rivals.meet(self.packet);
        } else if self.past_rtt().is_some_and(|longest| path.rtt <= longest) {
            return Some(first.clamp(self.least(), self.config.fastest));
        }
        None
    }

    /// How long the handshake waited.
    fn waited(&self, past: &History, path: &Path) -> Duration {
        path.rtt.saturating_sub(past.min_rtt)
    }
}
