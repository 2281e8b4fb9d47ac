//! The file of schemes that several scenarios share: `schemes = "schemes.toml"`.
//!
//! It has `[scheme.NAME]` tables and nothing else. Its text is appended to that of the scenario, so that it is read, and
//! its placeholders are filled, as if the scenario had it; errors name its own lines.

use crate::beside::Beside;
use crate::document::{Item, Section, Source, texts};
use crate::error::Result;
use crate::errors::Errors;
use crate::file::SchemeSpec;

/// The maximum size of the file in bytes.
const MAX_BYTES: u64 = 1_000_000;

/// The schemes of another file.
#[derive(Debug, Clone)]
pub(crate) struct SharedSchemes {
    /// Its name in the scenario.
    pub(crate) name: String,
    pub(crate) text: String,
    /// Its path.
    file: String,
    /// The number of the scenario's own lines.
    lines: usize,
}

impl SharedSchemes {
    /// The file of schemes that `scenario` names, if it names one.
    pub(crate) fn named_in(scenario: Source<'_>, beside: &Beside) -> Result<Option<Self>> {
        let document = scenario.parse()?;
        let Some(item) = Section::root(scenario, document.get_ref()).get("schemes") else { return Ok(None) };
        let name = item.text()?;
        let file = beside.path(name);
        let bytes = beside.read(name, MAX_BYTES).map_err(|problem| {
            let advice = "name a file with [scheme.NAME] tables, relative to the scenario";
            item.error(format!("schemes {file} cannot be read: {problem}; {advice}"))
        })?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines = scenario.text.matches('\n').count() + 1;
        let schemes = Self { name: name.to_owned(), text, file, lines };
        schemes.check()?;
        Ok(Some(schemes))
    }

    /// Whether `text` has schemes and nothing else.
    pub(crate) fn is_alone(text: &str) -> bool {
        let document = Source::new("", text).parse();
        document.is_ok_and(|document| document.get_ref().keys().map(|key| key.get_ref().as_ref()).eq(["scheme"]))
    }

    /// Reads the schemes of a file that has nothing else. The axes of their placeholders are not known.
    pub(crate) fn read(source: Source<'_>, errors: &mut Errors) -> Result<()> {
        let document = source.parse()?;
        let file = Section::root(source, document.get_ref());
        let mut found = Vec::new();
        file.items().for_each(|item| texts(item.value, &mut found));
        for (_, range) in found.iter().filter(|(text, _)| text.starts_with('$')) {
            errors.unfilled(source.at(range.start).error("").to_string());
        }
        SchemeSpec::read_all(&file, errors);
        Ok(())
    }

    /// The text of a scenario, followed by the schemes.
    pub(crate) fn append_to(&self, scenario: &str) -> String {
        format!("{scenario}\n{}", self.text)
    }

    /// The text of the scenario without the schemes.
    pub(crate) fn remove_from<'a>(&self, text: &'a str) -> &'a str {
        &text[..text.len() - self.text.len() - 1]
    }

    /// The file, and the line of the whole text that precedes its first one.
    pub(crate) fn place(&self) -> (&str, usize) {
        (&self.file, self.lines)
    }

    fn check(&self) -> Result<()> {
        let source = Source::new(&self.file, &self.text);
        let document = source.parse()?;
        let is_other = |item: &Item<'_>| item.key != "scheme";
        match Section::root(source, document.get_ref()).items().find(is_other) {
            Some(other) => {
                let wrong = format!("a file of schemes has `{}`; it has [scheme.NAME] tables only", other.key);
                Err(other.error(format!("{wrong}: move the rest into the scenario")))
            }
            None => Ok(()),
        }
    }
}
