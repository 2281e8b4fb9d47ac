//! The routers by name, and one type that holds any of them.
//!
//! [`AnyRouter`] is an enum, so that links call built-in routers without dynamic dispatch.

use delegate::delegate;
use rampmeter_units::{self as units, Duration, Random, Rate, RegistryError, Time};

use crate::external::{External, ExternalConfig};
use crate::{Backlog, ClassDelays, Discipline, Environment, Parcel, Router, Tally, Verdict};

/// The routers that scenario files can name.
#[derive(Debug, Clone)]
pub struct Registry(units::Registry<AnyConfig>);

impl Registry {
    /// Adds a router of another crate under `name`; `about` is one line for listings.
    #[must_use]
    pub fn add<R: Discipline + 'static>(self, name: &str, about: &str) -> Self {
        Self(self.0.insert(name, about, (), |config| AnyConfig::External(ExternalConfig::new::<R>(config))))
    }

    /// The settings of the router called `name`, read and checked.
    pub fn config(&self, name: &str, settings: &toml::Table) -> Result<AnyConfig, RegistryError> {
        self.0.make(name, settings)
    }

    /// All settings of the router `name`: those in `settings`, and the defaults of the others.
    pub fn complete(&self, name: &str, settings: &toml::Table) -> Result<toml::Table, RegistryError> {
        self.0.complete(name, settings)
    }

    /// Every name with its description, in alphabetical order.
    pub fn list(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.list()
    }

    /// The names of the settings of all routers.
    pub fn settings(&self) -> std::collections::BTreeSet<&'static str> {
        self.0.settings()
    }
}

/// Generates the enums, the built-in content of the registry and the dispatch from one list with a line per router.
macro_rules! routers {
    ($($variant:ident($place:ty): $module:ident, $name:literal, $about:literal;)*) => {
        /// Any router. Large routers are in a box, so that the routers of thousands of access links are small and close
        /// together.
        #[derive(Debug)]
        pub enum AnyRouter<P> {
            $(#[doc = $about] $variant($place),)*
            /// A router of another crate.
            External(External<P>),
            /// One of these within another that watches it.
            Watched(Box<dyn Router<P> + Send>),
        }

        /// The checked settings of any router, from which each link makes its own router.
        #[derive(Debug, Clone)]
        pub enum AnyConfig {
            $(#[doc = $about] $variant(crate::$module::Config),)*
            /// The settings of a router of another crate.
            External(ExternalConfig),
        }

        impl Default for Registry {
            /// The built-in routers.
            fn default() -> Self {
                Self(units::Registry::new("router")$(.insert($name, $about, (), AnyConfig::$variant))*)
            }
        }

        impl AnyConfig {
            /// The router's name; empty for one of another crate.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                    Self::External(_) => "",
                }
            }

            /// Makes a router for a link with `environment`.
            pub fn make<P: Parcel + Send>(&self, environment: Environment, random: Random) -> AnyRouter<P> {
                match self {
                    $(Self::$variant(config) => {
                        let router: crate::$module::$variant<P> = Discipline::new(config, environment, random);
                        AnyRouter::$variant(router.into())
                    })*
                    Self::External(config) => AnyRouter::External(config.make(environment, random)),
                }
            }
        }

        impl<P: Parcel + Send> Router<P> for AnyRouter<P> {
            delegate! {
                to match self {
                    $(Self::$variant(router) => router,)*
                    Self::External(router) => router,
                    Self::Watched(router) => router,
                } {
                    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P>;
                    fn pass(&mut self, now: Time, packet: P) -> (Option<P>, Verdict<P>);
                    fn dequeue(&mut self, now: Time) -> Option<P>;
                    fn tick(&mut self, now: Time);
                    fn next_tick(&self) -> Time;
                    fn backlog(&self) -> Backlog;
                    fn tally(&self) -> Tally;
                    fn on_rate(&mut self, now: Time, rate: Rate);
                    fn last_wait(&self) -> Option<Duration>;
                    fn measure_delays(&mut self);
                    fn delays(&self) -> Option<ClassDelays>;
                }
            }
        }
    };
}

routers! {
    DropTail(crate::drop_tail::DropTail<P>): drop_tail, "drop-tail", "First in, first out; drops packets that arrive at a full queue";
    FairQueueing(Box<crate::fair_queueing::FairQueueing<P>>): fair_queueing, "fair-queueing", "Bit-by-bit round robin over flows (Demers, Keshav, Shenker 1989)";
    FairShare(Box<crate::fair_share::FairShare<P>>): fair_share, "fair-share", "Fair queueing that reports their share to flows (PCP section 4.2)";
    Policer(Box<crate::policer::Policer<P>>): policer, "policer", "Drop-tail with a rate limit on packets from a minimum size";
    Vcp(Box<crate::vcp::Vcp<P>>): vcp, "vcp", "Writes the load of the link into the two ECN bits (VCP 2008)";
    VcpPlus(Box<crate::vcp_plus::VcpPlus<P>>): vcp_plus, "vcp-plus", "Reports the degree of the load in the shares of VCP's codes (VCP+)";
    Red(Box<crate::red::Red<P>>): red, "red", "Marks or drops at random, with a probability from the average queue (Floyd, Jacobson 1993)";
    Codel(Box<crate::codel::Codel<P>>): codel, "codel", "Drops or marks while the queueing delay stays above a target (RFC 8289)";
    FqCodel(Box<crate::fq_codel::FqCodel<P>>): fq_codel, "fq-codel", "Round robin over flows, with CoDel for each (RFC 8290)";
    StepMarking(Box<crate::step_marking::StepMarking<P>>): step_marking, "step-marking", "Marks packets that find a queue above a threshold (DCTCP, RFC 8257)";
    DualPi2(Box<crate::dualpi2::DualPi2<P>>): dualpi2, "dualpi2", "Two coupled queues, for L4S and for classic senders (RFC 9332)";
    Pie(Box<crate::pie::Pie<P>>): pie, "pie", "Drops or marks at random to keep the queueing delay at a target (RFC 8033)";
    DocsisPie(Box<crate::docsis_pie::DocsisPie<P>>): docsis_pie, "docsis-pie", "PIE as cable modems have it: drops by size, protects bursts (RFC 8034)";
    Xcp(Box<crate::xcp::Xcp<P>>): xcp, "xcp", "Reports window changes to flows (XCP, SIGCOMM 2002)";
    VirtualQueue(Box<crate::virtual_queue::VirtualQueue<P>>): virtual_queue, "virtual-queue", "Marks by the queue of a slightly slower virtual link (Kelly 2002)";
    Avq(Box<crate::avq::Avq<P>>): avq, "avq", "Marks by a virtual queue whose rate adapts to a target utilization (Kunniyur, Srikant 2004)";
}

impl AnyConfig {
    /// Whether the router is a plain queue that never drops a packet.
    pub fn is_endless(&self) -> bool {
        matches!(self, Self::DropTail(config) if *config == crate::drop_tail::Config::default())
    }

    /// Whether the router computes with the link's rate, so that it is wrong where the capacity varies.
    pub fn needs_constant_rate(&self) -> bool {
        matches!(
            self,
            Self::FairShare(_) | Self::Vcp(_) | Self::VcpPlus(_) | Self::Xcp(_) | Self::VirtualQueue(_) | Self::Avq(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    #[test]
    fn configurations_state_what_worlds_need_to_know() {
        let registry = Registry::default();
        let config = |name: &str, settings: &str| registry.config(name, &settings.parse().unwrap()).unwrap();
        assert!(config("drop-tail", "").is_endless());
        assert!(!config("drop-tail", "packets = 9").is_endless() && !config("codel", "").is_endless());
        let mut names: Vec<&str> = registry.list().map(|(name, _)| name).filter(|name| *name != "policer").collect();
        names.retain(|name| config(name, "").needs_constant_rate());
        names.sort_unstable();
        assert_eq!(names, ["avq", "fair-share", "vcp", "vcp-plus", "virtual-queue", "xcp"]);
        assert!(!config("policer", "rate = '1 Mb/s'").needs_constant_rate());
    }

    #[test]
    fn only_dualpi2_measures_delays_of_two_classes() {
        let registry = Registry::default();
        for (name, _) in registry.list() {
            let settings = if name == "policer" { "rate = '1 Mb/s'" } else { "" };
            let config = registry.config(name, &settings.parse().unwrap()).unwrap();
            let mut router: AnyRouter<TestParcel> = config.make(ENVIRONMENT, Random::from_seed(1));
            router.measure_delays();
            assert_eq!(router.delays().is_some(), name == "dualpi2", "{name}");
        }
    }

    #[test]
    fn errors_on_names_and_settings_have_a_remedy() {
        let registry = Registry::default();
        let error = registry.config("droptail", &toml::Table::new()).unwrap_err().to_string();
        assert!(error.contains("drop-tail"), "{error}");
        let error = registry.config("drop-tail", &"packets = 0".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("packets = 1 or more"), "{error}");
    }

    #[test]
    fn an_added_router_is_listed_and_its_settings_are_checked() {
        let registry = Registry::default().add::<crate::red::Red<_>>("mine", "Mine");
        assert!(registry.list().any(|entry| entry == ("mine", "Mine")));
        let error = registry.config("min", &toml::Table::new()).unwrap_err().to_string();
        assert!(error.contains("did you mean `mine`?"), "{error}");
        let error = registry.config("mine", &"pakets = 3".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("router `mine`: there is no `pakets`"), "{error}");
        assert!(matches!(registry.config("mine", &"packets = 3".parse().unwrap()), Ok(AnyConfig::External(_))));
    }
}
