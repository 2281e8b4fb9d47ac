//! The rules in which window schemes differ: how many packets an acknowledgement adds to the window, and the window after
//! a loss. Most high-speed TCPs are described by them; [`Windowed`](crate::rules::Windowed) has the parts that all of them
//! share.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration, Ecn, Time};

use crate::parts::events::{AckEvent, Congestion};
use crate::parts::slow_start::SlowStart;
use crate::parts::window::Amount;
use crate::{Ack, Settings};

/// The rules in which window schemes differ.
pub trait Rules: Debug + Clone + Send + 'static {
    /// Its settings.
    type Config: Settings + Default;

    /// Whether all losses of one window of data cause one reaction (RFC 6582). Marks always do (RFC 3168 section
    /// 6.1.2).
    const ONCE_A_WINDOW: bool = true;

    /// Whether the window does not grow in the round trip after a reaction to marks. Acknowledgements with an ECN-Echo do
    /// not increase it (RFC 3168 section 6.1.2), and receivers echo a mark until a packet reports the reaction.
    const STOPS_AFTER_MARKS: bool = true;

    /// The ECN code of its packets, if it needs one ([`crate::Controller::ecn`]).
    const ECN: Option<Ecn> = None;

    /// See [`crate::Algorithm::NEEDS`].
    const NEEDS: Option<&'static str> = None;

    /// The rules at the start of a path.
    fn new(config: &Self::Config) -> Self;

    /// The window was replaced, or is counted in packets of another size, on the same path. What the rules know of the
    /// path may stay.
    fn restart(&mut self, config: &Self::Config)
    where
        Self: Sized,
    {
        *self = Self::new(config);
    }

    /// The first window, in packets.
    fn first_window(config: &Self::Config) -> u64;

    /// How the first slow start ends.
    fn first_slow_start(_config: &Self::Config) -> SlowStart {
        SlowStart::Standard
    }

    /// Called first for every acknowledgement, before its marks reduce the window: rules may count them themselves.
    fn count_marks(&mut self, _now: Time, _ack: &Ack<'_>, _packet: Bytes) {}

    /// Called for every acknowledgement before it increases the window, also for those that do not increase the window.
    fn observe(&mut self, _seen: &AckEvent<'_>) {}

    /// Slow start: how much the acknowledgement adds, or `None` if slow start ends here.
    fn slow_start(&mut self, event: &AckEvent<'_>) -> Option<Amount> {
        Some(Amount::Packets(event.delivered.min(1.0))) // RFC 5681 eq. (2)
    }

    /// Congestion avoidance: how much the acknowledgement adds.
    fn increase(&mut self, event: &AckEvent<'_>) -> Amount;

    /// The window after a loss or a mark.
    fn decrease(&mut self, congestion: &Congestion) -> Amount;

    /// The timer expired, and [`Rules::decrease`] has returned the slow-start threshold.
    fn on_timeout(&mut self) {}

    /// The name of their state ([`crate::Controller::state`]). `None`: that of the window, which is in slow start up to
    /// its threshold and then in congestion avoidance.
    fn state(&self) -> Option<&'static str> {
        None
    }

    /// The flow was idle or application-limited for `span`. Schemes that depend on elapsed time exclude that time.
    fn pause(&mut self, _span: Duration) {}
}
