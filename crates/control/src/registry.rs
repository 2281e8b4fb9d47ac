//! The controllers by name, and one type that holds any of them.
//!
//! [`AnyController`] is an enum, so the packet path calls a built-in controller without dynamic dispatch. Its
//! `External` variant holds a controller of another crate; [`Registry::add`] gives it a name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rampmeter_units::{Bytes, Duration, Ecn, Rate, RegistryError, Stream, Time, settings};

use crate::{Ack, Algorithm, Controller, Departure, History, Loss, Path, Sent};

/// The kind of object, in messages.
const KIND: &str = "controller";

/// Creates a controller with the given random stream.
pub type Factory = Arc<dyn Fn(Stream) -> AnyController + Send + Sync>;

type Builder = Arc<dyn Fn(&toml::Table) -> Result<Factory, String> + Send + Sync>;

/// The controllers that a scenario file or the command line can name.
#[derive(Clone)]
pub struct Registry {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone)]
struct Entry {
    about: String,
    reacts_to_congestion: bool,
    needs: Option<&'static str>,
    builder: Builder,
}

impl Registry {
    /// Adds a controller of another crate under `name`. `about` is its description of one line.
    #[must_use]
    pub fn add<A: Algorithm>(self, name: &str, about: &str) -> Self {
        self.insert::<A>(name, about, |controller| AnyController::External(Box::new(controller)))
    }

    fn insert<A: Algorithm>(mut self, name: &str, about: &str, wrap: fn(A) -> AnyController) -> Self {
        let builder: Builder = Arc::new(move |table| {
            let config: A::Config = settings::checked(table)?;
            Ok(Arc::new(move |random| wrap(A::new(&config, random))))
        });
        let entry =
            Entry { about: about.to_owned(), reacts_to_congestion: A::REACTS_TO_CONGESTION, needs: A::NEEDS, builder };
        self.entries.insert(name.to_owned(), entry);
        self
    }

    /// A factory for the controller `name` with `settings`.
    pub fn factory(&self, name: &str, settings: &toml::Table) -> Result<Factory, RegistryError> {
        let Some(entry) = self.entries.get(name) else {
            return Err(RegistryError::unknown(KIND, name, self.entries.keys().map(String::as_str)));
        };
        (entry.builder)(settings).map_err(|reason| RegistryError::settings(KIND, name, reason))
    }

    /// Whether the controller `name` reduces its rate during congestion ([`Algorithm::REACTS_TO_CONGESTION`]). `None`
    /// if there is none.
    pub fn reacts_to_congestion(&self, name: &str) -> Option<bool> {
        self.entries.get(name).map(|entry| entry.reacts_to_congestion)
    }

    /// The information that the controller `name` needs and programs do not report ([`Algorithm::NEEDS`]).
    pub fn needs(&self, name: &str) -> Option<&'static str> {
        self.entries.get(name).and_then(|entry| entry.needs)
    }

    /// Every name with its description, in alphabetical order.
    pub fn list(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.about.as_str()))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
    }
}

/// Generates the enum, the default registry and the dispatch from one list, with one line for each controller.
macro_rules! controllers {
    ($($variant:ident: $type:ty, $name:literal, $about:literal;)*) => {
        /// Any controller.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant)] // one a macroflow, not one a packet: its size costs nothing
        pub enum AnyController {
            $(#[doc = $about] $variant($type),)*
            /// A controller of another crate.
            External(Box<dyn Controller + Send>),
        }

        impl Default for Registry {
            /// The built-in controllers.
            fn default() -> Self {
                Self { entries: BTreeMap::new() }
                    $(.insert::<$type>($name, $about, AnyController::$variant))*
            }
        }

        macro_rules! each {
            ($any:expr, $controller:ident => $call:expr) => {
                match $any {
                    $(AnyController::$variant($controller) => $call,)*
                    AnyController::External($controller) => $call,
                }
            };
        }
    };
}

controllers! {
    Reno: crate::reno::Reno, "reno", "TCP Reno: a window, halved by every fast retransmit (RFC 5681)";
    NewReno: crate::newreno::NewReno, "newreno", "TCP NewReno: a window, halved once per window of data (RFC 6582)";
    Bic: crate::bic::Bic, "bic", "BIC: a binary search for the window (INFOCOM 2004)";
    Cubic: crate::cubic::Cubic, "cubic", "CUBIC: a cubic curve of the time since the last loss (RFC 9438)";
    Cubic2005: crate::cubic_2005::Cubic2005, "cubic-2005", "CUBIC as it was proposed (PFLDnet 2005)";
    Fast: crate::fast::Fast, "fast", "FAST TCP: keeps a fixed number of its packets in the queue (INFOCOM 2004)";
    HighSpeed: crate::hstcp::HighSpeed, "hstcp", "HSTCP: larger windows grow faster and lose a smaller share at a loss (RFC 3649)";
    HTcp: crate::htcp::HTcp, "htcp", "H-TCP: growth increases with the time since the last loss (PFLDnet 2004)";
    Scalable: crate::scalable::Scalable, "scalable", "Scalable TCP: the window grows and shrinks in proportion to itself (CCR 2003)";
    Stable: crate::stable::Stable, "stable", "Stable TCP: a paced window that every mark reduces, equal rates at any round trip (TR.435, 2002)";
    Pcp: crate::pcp::Pcp, "pcp", "PCP: tests a rate with short trains, then uses all of it at once (NSDI 2006)";
    PcpPaper: crate::pcp_paper::PcpPaper, "pcp-paper", "PCP exactly as in its paper, for comparison (NSDI 2006)";
    Vcp: crate::vcp::Vcp, "vcp", "VCP: MI, AI or MD by the load of the path, which two ECN bits encode (2008)";
    Cm: crate::cm::Cm, "cm", "The Congestion Manager's controller: TCP's window, paced at a rate (SIGCOMM 1999)";
    FixedRate: crate::fixed_rate::FixedRate, "fixed-rate", "A constant rate, independent of the path";
    FairShare: crate::fair_share::FairShare, "fair-share", "The fair share that routers compute (PCP section 4.2)";
    Xcp: crate::xcp::Xcp, "xcp", "XCP: changes its window as routers request (SIGCOMM 2002)";
}

/// Passes events on to the controller.
macro_rules! events {
    ($($event:ident($($value:ident: $type:ty),*);)*) => {
        $(fn $event(&mut self, $($value: $type),*) {
            each!(self, controller => controller.$event($($value),*));
        })*
    };
}

/// Passes questions on to the controller.
macro_rules! questions {
    ($($question:ident($($value:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $question(&self, $($value: $type),*) -> $answer {
            each!(self, controller => controller.$question($($value),*))
        })*
    };
}

impl Controller for AnyController {
    events! {
        on_path(now: Time, path: &Path);
        on_flows(flows: usize);
        on_sent(now: Time, sent: &Sent);
        on_unsent(now: Time, bytes: Bytes);
        on_discarded(now: Time);
        on_ack(now: Time, ack: &Ack<'_>);
        on_loss(now: Time, loss: &Loss);
        on_idle(now: Time, idle: Duration, timeout: Duration);
        on_app_limited(now: Time);
        on_spurious_loss(now: Time);
        on_stall(now: Time, since: Time);
        on_deadline(now: Time);
    }

    questions! {
        deadline() -> Time;
        window() -> Bytes;
        departure() -> Departure;
        rate() -> Option<Rate>;
        ecn() -> Option<Ecn>;
        degraded_reason() -> Option<&'static str>;
        requests_feedback() -> bool;
        remember(now: Time, history: &mut Option<History>) -> ();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_suggests_the_nearest_or_all() {
        for (name, known) in [("renno", "did you mean `reno`?"), ("compound", "there are bic, cm, cubic, ")] {
            let error = Registry::default().factory(name, &toml::Table::new()).err().unwrap().to_string();
            assert!(error.contains(name) && error.contains(known), "{error}");
        }
    }

    #[test]
    fn controllers_state_the_information_that_hosts_lack() {
        let registry = Registry::default();
        let needy: Vec<&str> =
            registry.list().map(|(name, _)| name).filter(|name| registry.needs(name).is_some()).collect();
        assert_eq!(needy, ["fair-share", "fixed-rate", "pcp", "pcp-paper", "stable", "vcp", "xcp"]);
    }

    #[test]
    fn a_bad_setting_is_named() {
        let table = |text: &str| text.parse::<toml::Table>().unwrap();
        let registry = Registry::default();
        for (text, word) in [
            ("initial_windw = 3", "initial_windw"),
            ("initial_window = 0", "1 or more"),
            ("initial_window = 'x'", "a whole number"),
        ] {
            let error = registry.factory("newreno", &table(text)).err().unwrap().to_string();
            assert!(error.contains(word) && error.contains("newreno"), "{error}");
        }
        assert!(registry.factory("newreno", &table("initial_window = 1")).is_ok());
        let vcp = |text: &str| registry.factory("vcp", &table(text)).err().map(|error| error.to_string());
        assert!(vcp("initial_window = 1000000000").unwrap().contains("1 to 1000000"));
        assert!(vcp("tcp_friendly = true\nai = 2").unwrap().contains("ai does nothing with tcp_friendly"));
        assert_eq!(vcp("tcp_friendly = true\nmd = 0.75"), None);
    }
}
