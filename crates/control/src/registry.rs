//! The controllers by name, and one type that holds any of them.
//!
//! [`AnyController`] is an enum, so the packet path calls a built-in controller without dynamic dispatch. Controllers are
//! in boxes: some have seventy times as much state as others, and hosts with thousands of flows should fit into caches.
//! The `External` variant holds a controller of another crate; [`Registry::add`] gives it a name.

use std::collections::BTreeSet;
use std::sync::Arc;

use delegate::delegate;
use rampmeter_units::{self as units, Bytes, Duration, Ecn, Random, Rate, RegistryError, Time};

use crate::{Ack, Algorithm, Controller, Departure, History, Loss, Notice, Path, Record, Sent};

/// Creates a controller with the given random stream.
pub type Factory = Arc<dyn Fn(Random) -> AnyController + Send + Sync>;

/// The controllers that a scenario file or the command line can name.
#[derive(Debug, Clone)]
pub struct Registry(units::Registry<Factory, Facts>);

#[derive(Debug, Clone)]
struct Facts {
    needs: Option<&'static str>,
    needs_receipts: Option<&'static str>,
}

impl Registry {
    /// Adds a controller of another crate under `name`. `about` is its description of one line.
    #[must_use]
    pub fn add<A: Algorithm>(self, name: &str, about: &str) -> Self {
        self.insert::<A>(name, about, |controller| AnyController::External(Box::new(controller)))
    }

    fn insert<A: Algorithm>(self, name: &str, about: &str, wrap: fn(A) -> AnyController) -> Self {
        let facts = Facts { needs: A::NEEDS, needs_receipts: A::NEEDS_RECEIPTS };
        let factory = move |config| -> Factory { Arc::new(move |random| wrap(A::new(&config, random))) };
        Self(self.0.insert(name, about, facts, factory))
    }

    /// A factory for the controller `name` with `settings`.
    pub fn factory(&self, name: &str, settings: &toml::Table) -> Result<Factory, RegistryError> {
        self.0.make(name, settings)
    }

    /// Whether there is a controller of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.facts(name).is_some()
    }

    /// The information that the controller `name` needs and programs do not report ([`Algorithm::NEEDS`]).
    pub fn needs(&self, name: &str) -> Option<&'static str> {
        self.0.facts(name).and_then(|facts| facts.needs)
    }

    /// What the controller `name` does without receipts, if it needs them ([`Algorithm::NEEDS_RECEIPTS`]).
    pub fn needs_receipts(&self, name: &str) -> Option<&'static str> {
        self.0.facts(name).and_then(|facts| facts.needs_receipts)
    }

    /// All settings of the controller `name`: those in `settings`, and the defaults of the others.
    pub fn complete(&self, name: &str, settings: &toml::Table) -> Result<toml::Table, RegistryError> {
        self.0.complete(name, settings)
    }

    /// Every name with its description, in alphabetical order.
    pub fn list(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.list()
    }

    /// The names of the settings of all controllers.
    pub fn settings(&self) -> BTreeSet<&'static str> {
        self.0.settings()
    }
}

/// Generates the enum, the default registry and the dispatch from one list, with one line for each controller.
macro_rules! controllers {
    ($($variant:ident: $type:ty, $name:literal, $about:literal;)*) => {
        /// Any controller.
        #[derive(Debug)]
        pub enum AnyController {
            $(#[doc = $about] $variant(Box<$type>),)*
            /// A controller of another crate.
            External(Box<dyn Controller + Send>),
        }

        impl AnyController {
            /// The name of a built-in controller; `external` for those of other crates.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                    Self::External(_) => "external",
                }
            }
        }

        impl Default for Registry {
            /// The built-in controllers.
            fn default() -> Self {
                Self(units::Registry::new("controller"))
                    $(.insert::<$type>($name, $about, |controller| AnyController::$variant(Box::new(controller))))*
            }
        }

        impl Controller for AnyController {
            delegate! {
                to match self { $(Self::$variant(inner) => inner,)* Self::External(inner) => inner } {
                    fn on_path(&mut self, now: Time, path: &Path);
                    fn on_packet_size(&mut self, now: Time, packet: Bytes);
                    fn on_sent(&mut self, now: Time, sent: &Sent);
                    fn on_ack(&mut self, now: Time, ack: &Ack<'_>);
                    fn on_loss(&mut self, now: Time, loss: &Loss);
                    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration);
                    fn on_notice(&mut self, now: Time, notice: Notice);
                    fn on_deadline(&mut self, now: Time);
                    fn deadline(&self) -> Time;
                    fn window(&self) -> Bytes;
                    fn departure(&self) -> Departure;
                    fn rate(&self) -> Option<Rate>;
                    fn ecn(&self) -> Option<Ecn>;
                    fn has_own_codes(&self) -> bool;
                    fn degraded_reason(&self) -> Option<&'static str>;
                    fn state(&self) -> &'static str;
                    fn record(&self, out: &mut Record);
                    fn requests_feedback(&self) -> bool;
                    fn keeps_history(&self) -> bool;
                    fn remember(&self, now: Time, history: &mut Option<History>);
                }
            }
        }
    };
}

controllers! {
    Reno: crate::reno::Reno, "reno", "TCP Reno: a window, halved by every fast retransmit (RFC 5681)";
    NewReno: crate::newreno::NewReno, "newreno", "TCP NewReno: a window, halved once per window of data (RFC 6582)";
    Bic: crate::bic::Bic, "bic", "BIC: a binary search for the window (INFOCOM 2004)";
    Cubic: crate::cubic::Cubic, "cubic", "CUBIC: a cubic curve of the time since the last loss (RFC 9438)";
    Bbr: crate::bbr::Bbr, "bbr", "BBRv3: a model of the path's bandwidth and round-trip time (draft-ietf-ccwg-bbr)";
    Copa: crate::copa::Copa, "copa", "Copa: a rate that is inverse to the queueing delay (NSDI 2018)";
    Bbr1: crate::bbr1::Bbr1, "bbr1", "BBRv1: the same without a reaction to losses (ACM Queue 2016)";
    Cubic2005: crate::cubic_2005::Cubic2005, "cubic-2005", "CUBIC as it was proposed (PFLDnet 2005)";
    Fast: crate::fast::Fast, "fast", "FAST TCP: keeps a fixed number of its packets in the queue (INFOCOM 2004)";
    Vegas: crate::vegas::Vegas, "vegas", "TCP Vegas: keeps two to four of its packets in the queue (SIGCOMM 1994)";
    Ledbat: crate::ledbat::Ledbat, "ledbat", "LEDBAT++: background transfers that keep a queue of 60 ms and leave the link to others";
    HighSpeed: crate::hstcp::HighSpeed, "hstcp", "HSTCP: larger windows grow faster and lose a smaller share at a loss (RFC 3649)";
    HTcp: crate::htcp::HTcp, "htcp", "H-TCP: growth increases with the time since the last loss (PFLDnet 2004)";
    Scalable: crate::scalable::Scalable, "scalable", "Scalable TCP: the window grows and shrinks in proportion to itself (CCR 2003)";
    Stable: crate::stable::Stable, "stable", "Stable TCP: a paced window that every mark reduces, equal rates at any round trip (TR.435, 2002)";
    Pcp: crate::pcp::Pcp, "pcp", "PCP: a paced window that follows a short queue, which shows each flow's share (after NSDI 2006)";
    PcpPaper: crate::pcp_paper::PcpPaper, "pcp-paper", "PCP exactly as in its paper, for comparison (NSDI 2006)";
    Dctcp: crate::dctcp::Dctcp, "dctcp", "DCTCP: reduces its window by the share of marked packets (RFC 8257)";
    Scream: crate::scream::Scream, "scream", "a window and a rate for real-time media, by delay, marks and losses (draft-ietf-ccwg, SCREAM version 2)";
    Prague: crate::prague::Prague, "prague", "Prague: DCTCP for the Internet, paced, for L4S networks (draft-briscoe-iccrg)";
    Vcp: crate::vcp::Vcp, "vcp", "VCP: MI, AI or MD by the load of the path, which two ECN bits encode (2008)";
    Vivace: crate::vivace::Vivace, "vivace", "PCC Vivace: follows the gradient of a utility of rate, delay and loss (NSDI 2018)";
    VcpPlus: crate::vcp_plus::VcpPlus, "vcp-plus", "VCP+: follows the degree of the load, which the shares of VCP's codes report";
    VcpEndToEnd: crate::vcp_end_to_end::VcpEndToEnd, "vcp-end-to-end", "VCP end to end: estimates the load by the queueing delay of each packet, without routers";
    Cm: crate::cm::Cm, "cm", "The Congestion Manager's controller: TCP's window, paced at a rate (SIGCOMM 1999)";
    FixedRate: crate::fixed_rate::FixedRate, "fixed-rate", "A constant rate, independent of the path";
    FairShare: crate::fair_share::FairShare, "fair-share", "The fair share that routers compute (PCP section 4.2)";
    Xcp: crate::xcp::Xcp, "xcp", "XCP: changes its window as routers request (SIGCOMM 2002)";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_suggests_the_nearest_or_all() {
        for (name, known) in
            [("renno", "did you mean `reno`?"), ("compound", "there are bbr, bbr1, bic, cm, copa, cubic, ")]
        {
            let error = Registry::default().factory(name, &toml::Table::new()).err().unwrap().to_string();
            assert!(error.contains(name) && error.contains(known), "{error}");
        }
    }

    #[test]
    fn an_added_controller_is_found_by_its_name() {
        let registry = Registry::default().add::<crate::fixed_rate::FixedRate>("mine", "Mine");
        assert_eq!(["mine", "reno", "renno"].map(|name| registry.has(name)), [true, true, false]);
        let factory = registry.factory("mine", &"rate = '1 Mb/s'".parse().unwrap()).unwrap();
        assert!(matches!(factory(Random::from_seed(1)), AnyController::External(_)));
    }

    #[test]
    fn controllers_state_the_information_that_hosts_lack() {
        let registry = Registry::default();
        let needy: Vec<&str> =
            registry.list().map(|(name, _)| name).filter(|name| registry.needs(name).is_some()).collect();
        let expected = "dctcp fair-share fixed-rate pcp pcp-paper prague scream stable vcp vcp-plus vivace xcp";
        assert_eq!(needy.join(" "), expected);
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
