//! Files of entries, claims or questions, of which several may be wrong: each is read for itself.

use rampmeter_scenario::ScenarioError;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, ValueDeserializer};

/// The text of a file, for errors in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl Text<'_> {
    /// The line of an offset in the text.
    pub(crate) fn line(self, at: usize) -> usize {
        1 + self.text[..at.min(self.text.len())].matches('\n').count()
    }

    /// An error at an offset in the text.
    pub(crate) fn wrong(self, at: usize, problem: String) -> ScenarioError {
        ScenarioError::Wrong { file: self.file.to_owned(), line: self.line(at), problem }
    }

    /// The error of a reader.
    pub(crate) fn unread(self, error: &toml::de::Error) -> ScenarioError {
        self.wrong(error.span().map_or(0, |span| span.start), error.message().replace('\n', " "))
    }

    /// The elements of the array of tables `key`; the errors of those that cannot be read go to `errors`.
    pub(crate) fn entries<T: DeserializeOwned>(self, key: &str, errors: &mut Vec<ScenarioError>) -> Vec<Spanned<T>> {
        let Ok(document) = DeTable::parse(self.text) else { return Vec::new() };
        let array = document.get_ref().get(key).and_then(|value| value.get_ref().as_array());
        let read = |entry: &Spanned<toml::de::DeValue<'_>>| {
            let read = T::deserialize(ValueDeserializer::from(entry.clone()));
            read.map(|read| Spanned::new(entry.span(), read)).map_err(|error| errors.push(self.unread(&error))).ok()
        };
        array.into_iter().flatten().filter_map(read).collect()
    }
}
