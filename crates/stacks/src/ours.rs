//! Rampmeter's controllers as controllers of a stack: `rampmeter-NAME`.

use std::collections::BTreeMap;
use std::fmt;

use rampmeter_control::Registry;
use rampmeter_control::registry::Factory;
use toml::Table;

/// What their names begin with in a stack.
const PREFIX: &str = "rampmeter-";

/// Those that need no settings, by their names in a stack.
#[derive(Clone)]
pub(crate) struct Ours(BTreeMap<String, Factory>);

impl Ours {
    pub(crate) fn of(controllers: &Registry) -> Self {
        let made =
            controllers.list().filter_map(|(name, _)| Some((name, controllers.factory(name, &Table::new()).ok()?)));
        Self(made.map(|(name, make)| (format!("{PREFIX}{name}"), make)).collect())
    }

    /// The names, in alphabetical order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What makes the controller of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Factory> {
        self.0.get(name).cloned()
    }
}

impl fmt::Debug for Ours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
