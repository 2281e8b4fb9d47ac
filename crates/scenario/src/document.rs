//! TOML with the line of every key and value. The readers of the parts of a scenario file use it.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use rampmeter_units::{BadQuantity, Known};
use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Value};

use crate::error::{Result, ScenarioError};
use crate::errors::Errors;
use crate::keys::{self, Key};
use crate::sets::SetPlace;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// The file of schemes at the end of the text, and the line that precedes it.
    pub(crate) appended: Option<(&'a str, usize)>,
    /// Whether the text is part of the program, so that its lines mean nothing to users.
    pub(crate) built_in: bool,
    /// The parts of the text that are not of the file, but were set from outside.
    pub(crate) sets: &'a [SetPlace],
}

impl<'a> Source<'a> {
    /// The text of a file.
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, appended: None, built_in: false, sets: &[] }
    }

    pub(crate) fn parse(self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            let mut message = error.message().replace('\n', "; ");
            if message == "duplicate key" {
                let key = self.text.get(span.clone()).unwrap_or_default();
                let line = self.line(span.start);
                if self.appended.is_some_and(|(_, before)| line > before) {
                    return self.error(line, format!("{} has `{key}`, too: remove or rename one of them", self.file));
                }
                message = format!("{message} `{key}`");
            }
            self.error(self.line(span.start), format!("not TOML: {message}"))
        })
    }

    /// The line of the file that has this `offset` in the text.
    pub(crate) fn line(self, offset: usize) -> usize {
        let lines = 1 + memchr::memchr_iter(b'\n', &self.text.as_bytes()[..offset.min(self.text.len())]).count();
        let before = self.sets.iter().filter(|set| set.range.end <= offset);
        lines.saturating_add_signed(-before.map(|set| set.lines).sum::<isize>())
    }

    pub(crate) fn error(self, line: usize, problem: impl Display) -> ScenarioError {
        self.place(line).error(problem)
    }

    /// The place of this `offset` in the text.
    pub(crate) fn at(self, offset: usize) -> Place {
        match self.sets.iter().find(|set| set.range.contains(&offset)) {
            Some(set) => Place { set: Some(set.key.clone()), ..Place::default() },
            None => self.place(self.line(offset)),
        }
    }

    fn place(self, line: usize) -> Place {
        let (file, line) = match self.appended {
            Some((schemes, before)) if line > before => (schemes, line - before),
            _ => (self.file, if self.built_in { 0 } else { line }),
        };
        Place { file: file.into(), line, set: None }
    }
}

/// A place in a file, for errors that are found after reading.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    file: Arc<str>,
    /// The line, from 1; 0 if the text is part of the program.
    line: usize,
    /// The key, if its value was set from outside.
    set: Option<Arc<str>>,
}

impl Place {
    pub(crate) fn error(&self, problem: impl Display) -> ScenarioError {
        let (file, problem) = (self.file.to_string(), problem.to_string());
        if let Some(key) = &self.set {
            return ScenarioError::Key { key: key.to_string(), problem };
        }
        match self.line {
            0 => ScenarioError::Set { file, problem },
            line => ScenarioError::Wrong { file, line, problem },
        }
    }

    /// The error that a sender that is not Rampmeter's cannot send what is asked for.
    pub(crate) fn cannot_send(&self, why: String, remedy: &str) -> ScenarioError {
        let error = Box::new(self.error(format!("{why}; {remedy}")));
        ScenarioError::CannotSend { why, error }
    }
}

/// A table with its line.
#[derive(Debug, Clone)]
pub(crate) struct Section<'a> {
    pub(crate) source: Source<'a>,
    /// Its description in messages: "link `bottleneck`".
    pub(crate) what: String,
    at: usize,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    pub(crate) fn root(source: Source<'a>, table: &'a DeTable<'a>) -> Self {
        // Keys that were set from outside may precede the text of the file.
        let mut at = 0;
        while let Some(set) = source.sets.iter().find(|set| set.range.contains(&at)) {
            at = set.range.end;
        }
        Self { source, what: "a scenario".into(), at, table }
    }

    /// The same section with another description.
    pub(crate) fn called(&self, what: String) -> Self {
        Self { what, ..self.clone() }
    }

    /// Refuses every key that is not in these lists.
    pub(crate) fn keys(&self, known: &[&'static [Key]]) -> Result<()> {
        self.only(&keys::names(known))
    }

    /// Refuses every key that is not among `known`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<()> {
        match self.items().find(|item| !known.contains(&item.key)) {
            None => Ok(()),
            Some(item) => {
                let known = Known::near(item.key, known.iter().copied());
                Err(item.error(format!("{} has no key `{}`; {known}", self.what, item.key)))
            }
        }
    }

    /// Its entries in the order of the file.
    pub(crate) fn items(&self) -> impl Iterator<Item = Item<'a>> + use<'a> {
        let source = self.source;
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().map(move |(key, value)| Item { source, key: key.get_ref(), at: key.span().start, value })
    }

    pub(crate) fn get(&self, key: &str) -> Option<Item<'a>> {
        let (key, value) = self.table.get_key_value(key)?;
        Some(Item { source: self.source, key: key.get_ref(), at: key.span().start, value })
    }

    /// The value of `key`, read by `read`; `default` if it is missing.
    pub(crate) fn or<T>(&self, key: &str, default: T, read: impl FnOnce(&Item<'a>) -> Result<T>) -> Result<T> {
        self.get(key).map_or(Ok(default), |item| read(&item))
    }

    /// The value of `key`, read by `read`, if it is there.
    pub(crate) fn optional<T>(&self, key: &str, read: impl FnOnce(&Item<'a>) -> Result<T>) -> Result<Option<T>> {
        self.get(key).map(|item| read(&item)).transpose()
    }

    pub(crate) fn need(&self, key: &str, example: &str) -> Result<Item<'a>> {
        self.get(key).ok_or_else(|| self.missing(key, example))
    }

    pub(crate) fn missing(&self, key: &str, example: &str) -> ScenarioError {
        self.error(format!("{} needs `{key}`, for example {example}", self.what))
    }

    /// The elements of the array of tables called `key`, each read by `read`.
    pub(crate) fn tables<T>(&self, key: &str, errors: &mut Errors, read: impl Fn(Section<'a>) -> Result<T>) -> Vec<T> {
        let Some(array) = self.get(key) else { return Vec::new() };
        let list = if array.is_table() {
            Err(array.error(format!("`[{key}]` is a single table; write [[{key}]], also for a single one")))
        } else {
            array.list()
        };
        let Some(list) = errors.keep(list) else {
            errors.lose(None);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in list {
            let read = item.section(&format!("[[{key}]]")).and_then(&read);
            if read.is_err() {
                let name = item.section("").ok().and_then(|section| section.get("name")?.as_text());
                errors.lose(name.filter(|name| is_name(name)));
            }
            tables.extend(errors.keep(read));
        }
        tables
    }

    /// The places of the section and of its keys, for errors that are found after reading.
    pub(crate) fn lines(&self) -> Lines {
        let keys = self.items().map(|item| (item.key.to_owned(), item.place())).collect();
        Lines { head: self.source.at(self.at), keys }
    }

    pub(crate) fn line(&self) -> usize {
        self.source.line(self.at)
    }

    pub(crate) fn error(&self, problem: impl Display) -> ScenarioError {
        self.source.at(self.at).error(problem)
    }
}

/// The places of a table and of its keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lines {
    head: Place,
    keys: Vec<(String, Place)>,
}

impl Lines {
    /// The place of `key`; that of the table if the key is missing.
    pub(crate) fn of(&self, key: &str) -> &Place {
        self.keys.iter().find(|(known, _)| known == key).map_or(&self.head, |(_, place)| place)
    }

    /// The place of the table.
    pub(crate) fn head(&self) -> &Place {
        &self.head
    }
}

/// A value with its key and its line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'a> {
    source: Source<'a>,
    pub(crate) key: &'a str,
    at: usize,
    pub(crate) value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Item<'a> {
    pub(crate) fn line(&self) -> usize {
        self.source.line(self.at)
    }

    pub(crate) fn place(&self) -> Place {
        self.source.at(self.at)
    }

    pub(crate) fn error(&self, problem: impl Display) -> ScenarioError {
        self.place().error(problem)
    }

    fn wrong(&self, expected: impl Display) -> ScenarioError {
        let found = match self.value.get_ref() {
            DeValue::String(text) => format!("the text \"{}\"", text.escape_debug()),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Datetime(_) => "a date".into(),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
        };
        self.error(format!("`{}` is {found}; it should be {expected}", self.key))
    }

    pub(crate) fn as_text(&self) -> Option<&'a str> {
        self.value.get_ref().as_str()
    }

    pub(crate) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    pub(crate) fn text(&self) -> Result<&'a str> {
        self.as_text().ok_or_else(|| self.wrong("a text in quotes"))
    }

    /// A name: letters, digits, `-` and `_`.
    pub(crate) fn name(&self) -> Result<&'a str> {
        let name = self.text()?;
        if is_name(name) { Ok(name) } else { Err(self.wrong(NAME)) }
    }

    /// A quantity with its unit: "40 Mb/s".
    pub(crate) fn quantity<T: FromStr<Err = BadQuantity>>(&self) -> Result<T> {
        // The error for a number without a unit is the same as for an invalid text.
        let text = self.as_text().unwrap_or_else(|| self.source.text.get(self.value.span()).unwrap_or_default());
        text.parse().map_err(|error| self.error(format!("`{}`: {error}", self.key)))
    }

    /// The meaning of the text, which must be one of `words`; `advice` describes them.
    pub(crate) fn one_of<T: Copy>(&self, words: &[(&str, T)], advice: &str) -> Result<T> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        let wrong = || self.error(format!("`{}` is \"{text}\"; {advice}", self.key));
        found.map(|(_, meaning)| *meaning).ok_or_else(wrong)
    }

    /// A quantity that is not zero.
    pub(crate) fn positive<T: FromStr<Err = BadQuantity> + Default + PartialEq>(&self) -> Result<T> {
        let quantity: T = self.quantity()?;
        if quantity == T::default() { Err(self.wrong("more than zero")) } else { Ok(quantity) }
    }

    /// A number from `min` to below `max`; `expected` describes the range.
    pub(crate) fn number(&self, min: f64, max: f64, expected: &str) -> Result<f64> {
        let number = match self.value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n as f64),
            _ => None,
        };
        number.filter(|number| (min..max).contains(number)).ok_or_else(|| self.wrong(expected))
    }

    /// A whole number within `range`.
    pub(crate) fn count(&self, range: RangeInclusive<u64>) -> Result<u64> {
        let number = self.value.get_ref().as_integer();
        let number = number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        let expected = || self.wrong(format!("a whole number from {} to {}", range.start(), range.end()));
        number.filter(|number| range.contains(number)).ok_or_else(expected)
    }

    pub(crate) fn boolean(&self) -> Result<bool> {
        self.value.get_ref().as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    pub(crate) fn list(&self) -> Result<Vec<Item<'a>>> {
        let array = self.value.get_ref().as_array().ok_or_else(|| self.wrong("a list in brackets"))?;
        let item = |value: &'a Spanned<DeValue<'a>>| Item { at: value.span().start, value, ..*self };
        Ok(array.iter().map(item).collect())
    }

    pub(crate) fn section(&self, what: &str) -> Result<Section<'a>> {
        let table = self.value.get_ref().as_table().ok_or_else(|| self.wrong("a table in braces"))?;
        Ok(Section { source: self.source, what: what.to_owned(), at: self.at, table })
    }

    /// The value without line numbers.
    pub(crate) fn value(&self) -> Result<Value> {
        Value::deserialize(ValueDeserializer::from(self.value.clone()))
            .map_err(|error| self.error(format!("not TOML: {}", error.message().replace('\n', "; "))))
    }
}

/// Every text within `value` with its range in the file, quotes included.
pub(crate) fn texts<'a>(value: &'a Spanned<DeValue<'a>>, found: &mut Vec<(&'a str, std::ops::Range<usize>)>) {
    match value.get_ref() {
        DeValue::String(text) => found.push((text, value.span())),
        DeValue::Array(array) => array.iter().for_each(|value| texts(value, found)),
        DeValue::Table(table) => table.iter().for_each(|(_, value)| texts(value, found)),
        _ => {}
    }
}

pub(crate) const NAME: &str = "a name of letters, digits, - and _";

pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// A table that another crate reads, with the line of each of its keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) table: toml::Table,
    lines: Lines,
}

impl Settings {
    pub(crate) fn read(item: &Item<'_>) -> Result<Self> {
        Self::of(&item.section("")?, |_| true)
    }

    /// The keys of a section for which `wanted` is true.
    pub(crate) fn of(section: &Section<'_>, wanted: impl Fn(&str) -> bool) -> Result<Self> {
        let entry = |entry: Item<'_>| Ok((entry.key.to_owned(), entry.value()?));
        let table = section.items().filter(|item| wanted(item.key)).map(entry).collect::<Result<_, _>>()?;
        Ok(Self { table, lines: section.lines() })
    }

    /// Settings that `section` omits, which is where errors about them point.
    pub(crate) fn omitted(section: &Section<'_>) -> Self {
        Self { lines: Lines { keys: Vec::new(), ..section.lines() }, ..Self::default() }
    }

    /// The place of the key that `message` names first, in backquotes or at its start; that of the table if it names
    /// none.
    pub(crate) fn place_of(&self, message: &impl ToString) -> &Place {
        let message = message.to_string();
        let named = |key: &str| {
            let places = [format!("`{key}`"), format!(": {key} ")].map(|name| message.find(&name));
            places.into_iter().flatten().min()
        };
        let keys = self.lines.keys.iter().filter_map(|(key, place)| Some((named(key)?, place)));
        keys.min_by_key(|(at, _)| *at).map_or(&self.lines.head, |(_, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_points_to_the_key_that_it_names_first() {
        let place = |line| Place { line, ..Place::default() };
        let keys = vec![("packets".to_owned(), place(2)), ("pakets".to_owned(), place(5))];
        let settings = Settings { table: toml::Table::new(), lines: Lines { head: place(1), keys } };
        let line_of = |message| settings.place_of(&message).line;
        assert_eq!(line_of("router `red`: there is no `pakets`; did you mean `packets`?"), 5);
        assert_eq!(line_of("router `red`: packets = 0"), 2);
        assert_eq!(line_of("router `red`: min is above max"), 1);
    }
}
