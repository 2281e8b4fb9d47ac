//! The controllers that clients may choose for what a server sends.
//!
//! A client sends only the name of a controller, no settings. The server's own controller has the server's settings;
//! any other has its paper's, and is lent only if it is in [`LENT`].

use std::sync::{Arc, Mutex, PoisonError};

use rampmeter_control::{AnyController, Registry};
use rampmeter_units::Random;

/// Why a client does not get a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLent {
    /// There is none of that name.
    NoSuchController,
    /// Clients may not choose it.
    NotAllowed,
}

/// The controllers that are lent to clients: those that are safe beside other traffic on paths that nobody manages, and
/// that a receiver does not drive with what it reports. PCP is an exception: false arrival times hide a queue from it,
/// and only losses limit it then (`docs/security.md`).
///
/// Each is specified for the Internet (`reno` and `newreno` RFC 5681 and 6582, `cubic` RFC 9438, `hstcp` RFC 3649), or
/// has been in use there for years (`bbr`, `ledbat`, `vegas`), or reduces its rate at least as much as these do by its
/// measurements beside them: `cm`, and `pcp`, whose packets in flight are limited by the measured capacity, and which has
/// CUBIC's window beside them (`docs/controllers.md`). Not lent are
///
/// - `fixed-rate` and `bbr1`, which keep their rate whatever is lost;
/// - `dctcp`, which is for networks under one administration only (RFC 8257 section 6), and `prague`: behind a queue that
///   marks as RFC 3168 says, both reduce their windows too little, and a server does not know the queues of a path;
/// - `vcp`, `vcp-plus`, `xcp`, `fair-share` and `stable`, which follow marks or feedback of their own routers;
/// - `vcp-end-to-end`, which takes jitter of some milliseconds for an overload: it has 2% of its goodput with it, and
///   0.2% of that of TCP beside it;
/// - `vivace`, which keeps its rate at losses of several per cent, `bic`, `copa`, `fast`, `htcp`, `scalable`,
///   `cubic-2005` and `pcp-paper`, which no document specifies for the Internet, and controllers of other
///   crates.
const LENT: [&str; 9] = ["bbr", "cm", "cubic", "hstcp", "ledbat", "newreno", "pcp", "reno", "vegas"];

/// Makes controllers.
pub type MakeController = Arc<dyn Fn(Random) -> AnyController + Send + Sync>;

/// Makes the controllers for what a server sends.
pub struct ControllerPolicy {
    /// The server's own controller.
    own: String,
    make_own: MakeController,
    registry: Registry,
    random: Mutex<Random>,
}

impl std::fmt::Debug for ControllerPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerPolicy").field("own", &self.own).finish_non_exhaustive()
    }
}

impl ControllerPolicy {
    /// Of a server with its `own` controller.
    pub fn new(own: &str, make_own: MakeController, registry: &Registry, random: Random) -> Self {
        Self { own: own.to_owned(), make_own, registry: registry.clone(), random: Mutex::new(random) }
    }

    /// The controller of clients that name none.
    pub fn own(&self) -> &str {
        &self.own
    }

    /// A controller called `name`.
    pub fn select(&self, name: &str) -> Result<AnyController, NotLent> {
        let seed = Random::from_seed(self.random.lock().unwrap_or_else(PoisonError::into_inner).below(u64::MAX));
        if name == self.own {
            return Ok((self.make_own)(seed));
        }
        if !self.registry.has(name) {
            return Err(NotLent::NoSuchController);
        }
        if !LENT.contains(&name) {
            return Err(NotLent::NotAllowed);
        }
        let make = self.registry.factory(name, &toml::Table::new()).map_err(|_| NotLent::NotAllowed)?;
        Ok(make(seed))
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_control::Controller;
    use rampmeter_units::Ecn;

    use super::*;

    fn policy(registry: &Registry, own: &str, settings: &str) -> ControllerPolicy {
        let make_own = registry.factory(own, &settings.parse().unwrap()).unwrap();
        ControllerPolicy::new(own, make_own, registry, Random::from_seed(1))
    }

    #[test]
    fn clients_get_what_is_safe_on_the_internet_and_the_servers_own() {
        let registry = Registry::default();
        let newreno = policy(&registry, "newreno", "");
        let lent: Vec<&str> =
            registry.list().map(|(name, _)| name).filter(|name| newreno.select(name).is_ok()).collect();
        assert_eq!(lent, LENT);
        for name in ["fixed-rate", "dctcp", "prague", "fair-share", "xcp", "bbr1", "scalable", "vcp-end-to-end"] {
            assert_eq!(newreno.select(name).err(), Some(NotLent::NotAllowed), "{name}");
        }
        for name in ["compound", ""] {
            assert_eq!(newreno.select(name).err(), Some(NotLent::NoSuchController), "{name}");
        }
        for (own, settings) in [("fixed-rate", "rate = '1 Mb/s'"), ("prague", "")] {
            let chosen = policy(&registry, own, settings).select(own).unwrap();
            assert_eq!(chosen.name(), own, "the server's operator chose it");
        }
    }

    #[test]
    fn lent_controllers_send_without_ecn_codes() {
        let policy = policy(&Registry::default(), "newreno", "");
        for name in LENT {
            let code = policy.select(name).unwrap().ecn();
            let code = code.unwrap_or(crate::default_transport().ecn);
            assert_eq!(code, Ecn::NotEct, "{name}: a client could hide marks");
        }
    }

    #[test]
    fn the_page_on_files_lists_what_is_lent() {
        let page = include_str!("../../../docs/files.md");
        let names = LENT.map(|name| format!("`{name}`"));
        let (last, others) = names.split_last().unwrap();
        let listed = format!("{} and {last}", others.join(", "));
        let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&listed), "docs/files.md does not have: {listed}");
    }
}
