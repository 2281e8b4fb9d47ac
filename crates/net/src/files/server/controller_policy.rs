//! The controllers that clients may choose for their files.
//!
//! A client sends only the name of a controller, no settings. The server's own controller has the server's settings;
//! any other has its paper's, and is allowed only if it reduces its rate under congestion, so that no client can make a
//! server flood a path.

use std::sync::Arc;

use rampmeter_control::{AnyController, Registry};
use rampmeter_units::Stream;

use super::Refusal;

/// Makes controllers.
pub(super) type Make = Arc<dyn Fn(Stream) -> AnyController + Send + Sync>;

pub(crate) struct ControllerPolicy {
    /// The server's own controller.
    own: String,
    make_own: Make,
    registry: Registry,
    random: Stream,
}

impl std::fmt::Debug for ControllerPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerPolicy").field("own", &self.own).finish_non_exhaustive()
    }
}

impl ControllerPolicy {
    pub(crate) fn new(own: &str, make_own: Make, registry: &Registry, random: Stream) -> Self {
        Self { own: own.to_owned(), make_own, registry: registry.clone(), random }
    }

    /// The controller of clients that name none.
    pub(crate) fn own(&self) -> &str {
        &self.own
    }

    /// A controller called `name`.
    pub(crate) fn select(&mut self, name: &str) -> Result<AnyController, Refusal> {
        let seed = Stream::from_seed(self.random.below(u64::MAX));
        if name == self.own {
            return Ok((self.make_own)(seed));
        }
        if !self.registry.reacts_to_congestion(name).ok_or(Refusal::NoSuchController)? {
            return Err(Refusal::ControllerNotAllowed);
        }
        let make = self.registry.factory(name, &toml::Table::new()).map_err(|_| Refusal::ControllerNotAllowed)?;
        Ok(make(seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_responsive_controllers_and_the_servers_own() {
        let registry = Registry::default();
        let policy = |own: &str, settings: &str| {
            let make_own = registry.factory(own, &settings.parse().unwrap()).unwrap();
            ControllerPolicy::new(own, make_own, &registry, Stream::from_seed(1))
        };
        let mut newreno = policy("newreno", "");
        assert!(matches!(newreno.select("newreno"), Ok(AnyController::NewReno(_))));
        assert!(matches!(newreno.select("pcp"), Ok(AnyController::Pcp(_))));
        assert!(matches!(newreno.select("reno"), Ok(AnyController::Reno(_))));
        for (name, refusal) in [
            ("fixed-rate", Refusal::ControllerNotAllowed),
            ("fair-share", Refusal::ControllerNotAllowed),
            ("bbr1", Refusal::ControllerNotAllowed),
            ("compound", Refusal::NoSuchController),
            ("", Refusal::NoSuchController),
        ] {
            assert_eq!(newreno.select(name).err(), Some(refusal), "{name}");
        }
        let mut fixed = policy("fixed-rate", "rate = '1 Mb/s'");
        assert!(
            matches!(fixed.select("fixed-rate"), Ok(AnyController::FixedRate(_))),
            "the server's operator chose it"
        );
    }
}
