//! The complete settings of schemes: those of the file, and the defaults of all others.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::error::Result;
use crate::{Registries, Scenario};

/// The key of the values that a setting has at the points of a sweep.
pub const VARIES: &str = "varies";

/// The settings of a scheme, as in a scenario file.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemeSettings {
    /// Its name.
    pub name: String,
    /// All of them. One that depends on an axis is a table with the list of its values, [`VARIES`].
    pub all: Table,
    /// Those of a scheme with only its controller; none if the controller needs some.
    pub defaults: Table,
}

impl Scenario {
    /// The settings of the schemes that its points use, in the order of their first use.
    pub fn scheme_settings(&self, registries: &Registries) -> Result<Vec<SchemeSettings>> {
        let mut schemes: Vec<SchemeSettings> = Vec::new();
        for point in self.each_value() {
            let file = self.file_at(&point)?;
            let is_used = |name: &str| file.traffic.iter().any(|traffic| traffic.scheme == name);
            for spec in file.schemes.iter().filter(|spec| is_used(&spec.name)) {
                let settings = crate::planner::settings(spec, &file, registries, &self.traces)?;
                match schemes.iter_mut().find(|known| known.name == spec.name) {
                    Some(known) => add(&mut known.all, settings.all),
                    None => schemes.push(settings),
                }
            }
        }
        Ok(schemes)
    }

    /// The names of the schemes that its points use.
    pub fn scheme_names(&self) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for point in self.each_value() {
            names.extend(self.file_at(&point)?.traffic.into_iter().map(|traffic| traffic.scheme));
        }
        Ok(names)
    }
}

/// Adds the values of another point.
fn add(known: &mut Table, other: Table) {
    for (key, value) in other {
        match (known.get_mut(&key), value) {
            (None, value) => {
                known.insert(key, value);
            }
            (Some(known), value) if *known == value => {}
            (Some(Value::Table(known)), value) if known.contains_key(VARIES) => {
                if let Some(values) =
                    known.get_mut(VARIES).and_then(Value::as_array_mut).filter(|it| !it.contains(&value))
                {
                    values.push(value);
                }
            }
            (Some(Value::Table(known)), Value::Table(other)) => add(known, other),
            (Some(known), value) => {
                let values = vec![known.clone(), value];
                *known = Value::Table([(VARIES.to_owned(), Value::Array(values))].into_iter().collect());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = r#"
duration = "1 s"
packet = "1000 B"
hosts = [{ name = "a", at = "left", rate = "1 Gb/s", delay = "1 ms" }, { name = "b", at = "right", rate = "1 Gb/s", delay = "1 ms" }]
[axes]
first = [10, 4]
[[link]]
name = "wire"
between = ["left", "right"]
rate = "8 Mb/s"
delay = "1 ms"
router = { kind = "drop-tail" }
[[traffic]]
name = "bulk"
scheme = "mine"
from = "a"
to = "b"
arrivals = { count = 1 }
[scheme.unused]
controller = "cubic"
"#;

    fn settings(scheme: &str) -> SchemeSettings {
        let scenario = Scenario::parse("x.toml", &format!("{NETWORK}[scheme.mine]\n{scheme}")).unwrap();
        let mut all = scenario.scheme_settings(&Registries::default()).unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn settings_are_those_given_and_all_defaults() {
        let SchemeSettings { name, all, defaults } = settings(
            "controller = \"newreno\"\nsettings = { initial_window = \"$first\" }\ntransport = { min_rto = \"1 s\" }\n\
             macroflow = \"destination\"\nrouters = { wire = { kind = \"drop-tail\", packets = { time = \"10 ms\" } } }",
        );
        assert_eq!(name, "mine");
        assert_eq!(all["settings"]["initial_window"][VARIES], Value::from(vec![10, 4]));
        assert_eq!((&all["settings"]["slow_start"], &all["transport"]["packet"]), (&"standard".into(), &"1 kB".into()));
        assert_eq!(all["transport"]["min_rto"].as_str(), Some("1 s"));
        assert_eq!((&all["macroflow"], &all["scheduler"]), (&"destination".into(), &"round-robin".into()));
        assert_eq!(all["routers"]["wire"]["packets"].as_integer(), Some(10));
        assert_eq!(defaults["transport"]["min_rto"].as_str(), Some("200 ms"));
    }

    #[test]
    fn a_scheme_without_settings_has_the_defaults() {
        let network = "controller = \"newreno\"\nsettings = { initial_window = \"$first\" }";
        let SchemeSettings { mut all, defaults, .. } = settings(network);
        all["settings"]["initial_window"] = defaults["settings"]["initial_window"].clone();
        assert_eq!(all, defaults);
    }
}
