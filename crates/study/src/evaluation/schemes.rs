//! `schemes.toml`: what the names of schemes mean in an evaluation.
//!
//! The file has a `[scheme.NAME]` table for each scheme that is more than a controller with its defaults: VCP needs its
//! router. Any other controller is the scheme `{ controller = "NAME" }`, and `quinn:cubic` a stack with its controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rampmeter_scenario::{Registries, ScenarioError, stack};
use rampmeter_units::Known;
use toml::{Table, Value};

use crate::StudyError;

/// Definitions of schemes: `[scheme.NAME]` tables.
#[derive(Debug, Clone, Default)]
pub struct Schemes {
    table: Table,
    /// The file and the line where each definition begins.
    origins: BTreeMap<String, (PathBuf, usize)>,
}

impl Schemes {
    /// Adds the schemes of `file`, which replace those of the same name.
    pub fn read(&mut self, file: &Path) -> Result<(), StudyError> {
        let name = || file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| ScenarioError::Unreadable { file: name(), error })?;
        let wrong = |at: usize, problem: String| {
            let line = 1 + text[..at.min(text.len())].matches('\n').count();
            ScenarioError::Wrong { file: name(), line, problem }
        };
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
            wrong(error.span().map_or(0, |span| span.start), error.message().replace('\n', " "))
        })?;
        match (table.remove("scheme"), table.is_empty()) {
            (Some(Value::Table(schemes)), true) => {
                for (name, definition) in schemes {
                    let line = 1 + text.lines().position(|line| scheme_of(line) == Some(&name)).unwrap_or(0);
                    self.origins.insert(name.clone(), (file.to_owned(), line));
                    self.table.insert(name, definition);
                }
            }
            _ => return Err(wrong(0, "a file of schemes has [scheme.NAME] tables, and nothing else".into()).into()),
        }
        Ok(())
    }

    /// Adds the scheme called `name` if it is not there: the controller of that name with its defaults, or the stack with
    /// its controller. An error says what there is.
    pub fn need(&mut self, name: &str, registries: &Registries) -> Result<(), String> {
        if let Some(of_stack) = stack::split(name) {
            registries.stacks.check(of_stack)?;
            self.add("controller", name, name);
            return Ok(());
        }
        let controllers: Vec<&str> = registries.controllers.list().map(|(name, _)| name).collect();
        if !self.table.contains_key(name) && !controllers.contains(&name) {
            let schemes = self.table.keys().map(String::as_str).filter(|name| !controllers.contains(name));
            let known = Known::near(name, schemes.chain(controllers.iter().copied()));
            return Err(format!("no controller and no scheme is called `{name}`; {known}"));
        }
        self.add("controller", name, name);
        Ok(())
    }

    /// Adds Linux's TCP with the congestion control `algorithm`, and returns the scheme's name.
    pub fn need_kernel(&mut self, algorithm: &str) -> String {
        let name = format!("linux-{algorithm}");
        self.add("kernel", algorithm, &name);
        name
    }

    /// Adds the scheme called `name` with this key if there is none.
    fn add(&mut self, key: &str, value: &str, name: &str) {
        self.table.entry(name).or_insert_with(|| Table::from_iter([(key.to_owned(), value.into())]).into());
    }

    /// The text of a file of schemes. A stack with its controller needs no definition there.
    pub fn text(&self) -> String {
        let table: Table = self.table.clone().into_iter().filter(|(name, _)| stack::split(name).is_none()).collect();
        Table::from_iter([("scheme".to_owned(), Value::Table(table))]).to_string()
    }

    /// The definition of the scheme called `name`.
    pub fn definition(&self, name: &str) -> Option<&Table> {
        self.table.get(name)?.as_table()
    }

    /// The file and the line that define what stands at `line` of [`Self::text`].
    pub fn origin(&self, line: usize) -> Option<&(PathBuf, usize)> {
        self.origins.get(self.text().lines().take(line).filter_map(scheme_of).last()?)
    }

    /// The stack that sends for the scheme called `name`, and its controller.
    pub(super) fn stack(&self, name: &str) -> Option<(&str, &str)> {
        stack::split(self.definition(name)?.get("controller")?.as_str()?)
    }

    /// Whether another transport than ours sends for the scheme called `name`.
    pub(super) fn is_foreign(&self, name: &str) -> bool {
        self.stack(name).is_some() || self.definition(name).is_some_and(|scheme| scheme.contains_key("kernel"))
    }

    /// Whether the scheme called `name` needs routers of its own.
    pub fn brings_routers(&self, name: &str) -> bool {
        self.definition(name).is_some_and(|scheme| scheme.contains_key("routers"))
    }
}

/// The scheme whose table, or part of it, begins with this line.
fn scheme_of(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix("[scheme.")?;
    name.split([']', '.']).next()
}
