//! Values that are set for keys of a scenario from outside: `--set link.bottleneck.rate="20 Mb/s"`.
//!
//! ```text
//!   duration                      a key of the file
//!   link.bottleneck.rate          a key of the [[link]] whose name is `bottleneck`
//!   scheme.pcp.settings.gain      a key of [scheme.pcp], in its table `settings`, which may be missing
//!   link.bottleneck.changes.0.at  a table without a name: its number, from 0
//! ```
//!
//! The value replaces that of the key in the text, or is added to the table where the key belongs, before the text is
//! read. So everything that is checked in a file is checked in a value that is set.

use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeArray, DeTable, DeValue};
use toml::{Spanned, Table, Value};

use crate::document::{Source, is_name};
use crate::error::unknown;
use crate::keys::{self, Kind};

/// The key of the name of a table in an array.
const NAME: &str = "name";

/// A key with the value that is set for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Set {
    pub(crate) key: String,
    pub(crate) value: Value,
}

/// A text with values that are set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Edited {
    pub(crate) text: String,
    pub(crate) places: Vec<SetPlace>,
}

/// The place of a key and its value in an edited text.
#[derive(Debug, Clone)]
pub(crate) struct SetPlace {
    pub(crate) range: Range<usize>,
    pub(crate) key: Arc<str>,
    /// The number of lines by which the text has become longer.
    pub(crate) lines: isize,
}

/// Why a value cannot be set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Refused {
    /// The text has no table of this name. The text of a condition may have it.
    NoTable { kind: String, name: String, known: Vec<String> },
    /// Another problem, and its remedy.
    Wrong(String),
}

impl Refused {
    /// The problem and its remedy, if there are tables with the names `others` elsewhere.
    pub(crate) fn problem(&self, others: &[String]) -> String {
        match self {
            Self::Wrong(problem) => problem.clone(),
            Self::NoTable { kind, name, known } => {
                let kind = match kind.as_str() {
                    "hosts" => "group of hosts",
                    "traffic" => "kind of traffic",
                    kind => kind,
                };
                unknown(kind, name, known.iter().chain(others).map(String::as_str))
            }
        }
    }

    pub(crate) fn is_no_table(&self) -> bool {
        matches!(self, Self::NoTable { .. })
    }

    /// The names of the tables that exist.
    pub(crate) fn known(&self) -> &[String] {
        match self {
            Self::NoTable { known, .. } => known,
            Self::Wrong(_) => &[],
        }
    }
}

/// The parts of a key: `link`, `bottleneck` and `rate` of `link.bottleneck.rate`. A part with a dot is in quotes.
pub(crate) fn parts(key: &str) -> Option<Vec<String>> {
    let mut table: Table = format!("{key} = 0").parse().ok()?;
    let mut parts = Vec::new();
    loop {
        let (part, value) = table.into_iter().next()?;
        parts.push(part);
        match value {
            Value::Table(inner) => table = inner,
            _ => return Some(parts),
        }
    }
}

impl Edited {
    pub(crate) fn new(text: String) -> Self {
        Self { text, places: Vec::new() }
    }

    /// Puts the value of `set` in its place.
    pub(crate) fn set(&mut self, set: &Set) -> Result<(), Refused> {
        let wrong = |problem: &str| Refused::Wrong(problem.to_owned());
        let parts = parts(&set.key).ok_or_else(|| wrong("not a key; write for example link.bottleneck.rate"))?;
        let source = Source::new("", &self.text);
        let document = source.parse().map_err(|_| wrong("the file is not TOML"))?;
        let edit = Edit::find(&self.text, document.get_ref(), &parts, &set.value)?;
        self.apply(edit, set.key.as_str().into());
        Ok(())
    }

    fn apply(&mut self, edit: Edit, key: Arc<str>) {
        let Edit { replaced, by, key_at } = edit;
        let newlines = |text: &str| text.matches('\n').count() as isize;
        let lines = newlines(&by) - newlines(&self.text[replaced.clone()]);
        let shifted = |at: usize| if at >= replaced.end { at - replaced.len() + by.len() } else { at };
        for place in &mut self.places {
            place.range = shifted(place.range.start)..shifted(place.range.end);
        }
        self.places.push(SetPlace { range: key_at..replaced.start + by.len(), key, lines });
        self.text.replace_range(replaced, &by);
    }
}

/// A change of a text.
#[derive(Debug)]
struct Edit {
    replaced: Range<usize>,
    by: String,
    /// The start of the key, whose value is part of `by`.
    key_at: usize,
}

/// A table that a missing key can be added to, by its place in the text.
#[derive(Debug, Clone)]
enum Holder {
    Root,
    /// A table with a header, which is here.
    Header(Range<usize>),
    /// A table in braces.
    Inline {
        start: usize,
        is_empty: bool,
    },
}

impl Edit {
    fn find(text: &str, root: &DeTable<'_>, parts: &[String], value: &Value) -> Result<Self, Refused> {
        let (mut table, mut holder, mut of_holder, mut next) = (root, Holder::Root, 0, 0);
        while let Some(part) = parts.get(next) {
            let more = &parts[next + 1..];
            let Some((key, found)) = table.get_key_value(part.as_str()) else {
                // A table of an array, and a scheme, must be there: keys alone do not make one.
                if next == 0 && has_named_tables(part) && !more.is_empty() {
                    return Err(Refused::NoTable { kind: part.clone(), name: more[0].clone(), known: Vec::new() });
                }
                if next == 1 && parts[0] == "scheme" {
                    return Err(Refused::NoTable { kind: "scheme".into(), name: part.clone(), known: keys(table) });
                }
                return Ok(Self::insert(text, &holder, &parts[of_holder..], value));
            };
            let named = match found.get_ref() {
                DeValue::Array(array) if array.iter().any(|element| element.get_ref().is_table()) => {
                    more.first().map(|name| element(array, part, name)).transpose()?
                }
                _ => None,
            };
            next += 1 + usize::from(named.is_some());
            let found = named.unwrap_or(found);
            let start = text.get(found.span()).unwrap_or_default();
            match found.get_ref() {
                DeValue::Table(inner) if next < parts.len() => {
                    if start.starts_with(['[', '{']) {
                        (holder, of_holder) = (Holder::of(found, start, inner), next);
                    }
                    table = inner;
                }
                _ if next < parts.len() => {
                    let path = parts[..next].join(".");
                    return Err(Refused::Wrong(format!("`{path}` is {start}, which has no keys; set it as a whole")));
                }
                DeValue::Table(inner) if named.is_some() || !start.starts_with('{') => {
                    return Err(several(&parts.join("."), keys(inner)));
                }
                DeValue::Array(array) if start.starts_with("[[") => {
                    return Err(several(&parts.join("."), names(array)));
                }
                _ => return Ok(Self { replaced: found.span(), by: value.to_string(), key_at: key.span().start }),
            }
        }
        Err(Refused::Wrong("not a key; write for example link.bottleneck.rate".into()))
    }

    /// Adds the key `parts` with its value to a table.
    fn insert(text: &str, holder: &Holder, parts: &[String], value: &Value) -> Self {
        let quoted = |part: &String| if is_name(part) { part.clone() } else { Value::String(part.clone()).to_string() };
        let entry = format!("{} = {value}", parts.iter().map(quoted).collect::<Vec<_>>().join("."));
        let (at, by) = match holder {
            Holder::Root => (0, format!("{entry}\n")),
            Holder::Header(header) => match text[header.end..].find('\n') {
                Some(end) => (header.end + end + 1, format!("{entry}\n")),
                None => (text.len(), format!("\n{entry}")),
            },
            Holder::Inline { start, is_empty } => (start + 1, format!("{entry}{}", if *is_empty { "" } else { "," })),
        };
        Self { replaced: at..at, by, key_at: at }
    }
}

impl Holder {
    fn of(found: &Spanned<DeValue<'_>>, text: &str, table: &DeTable<'_>) -> Self {
        if text.starts_with('{') {
            Self::Inline { start: found.span().start, is_empty: table.is_empty() }
        } else {
            Self::Header(found.span())
        }
    }
}

/// Whether a key of the file has several tables, each with a name.
fn has_named_tables(key: &str) -> bool {
    let is_table = |kind: &Kind| matches!(kind, Kind::Table(_) | Kind::Traffic);
    keys::SCENARIO.iter().any(|(name, kind)| match kind {
        Kind::List(element) | Kind::Named(element) => *name == key && is_table(element),
        _ => false,
    })
}

/// The table called `name` of the array `kind`.
fn element<'a, 'b>(array: &'a DeArray<'b>, kind: &str, name: &str) -> Result<&'a Spanned<DeValue<'b>>, Refused> {
    let found = array.iter().zip(names(array)).find(|(_, known)| known == name);
    let unknown = || Refused::NoTable { kind: kind.to_owned(), name: name.to_owned(), known: names(array) };
    found.map(|(element, _)| element).ok_or_else(unknown)
}

/// The names of the tables of an array, or their numbers.
fn names(array: &DeArray<'_>) -> Vec<String> {
    let name = |(n, element): (usize, &Spanned<DeValue<'_>>)| {
        let name = element.get_ref().as_table().and_then(|table| table.get(NAME)?.get_ref().as_str());
        name.map_or_else(|| n.to_string(), str::to_owned)
    };
    array.iter().enumerate().map(name).collect()
}

fn keys(table: &DeTable<'_>) -> Vec<String> {
    table.keys().map(|key| key.get_ref().to_string()).collect()
}

/// The error that `key` has several values.
fn several(key: &str, known: Vec<String>) -> Refused {
    let known: Vec<String> = known.into_iter().map(|name| format!("{key}.{name}")).collect();
    Refused::Wrong(format!("`{key}` is a table; set one of its keys: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "duration = \"1 s\"
[[link]] # the first
name = \"x\"
loss = { every = 3 }
changes = [{ at = \"1 s\" }, { at = \"2 s\" }]
[[link]]
name = \"y\"
rate = \"1 Mb/s\"
jitter = {}
ecn.more = 1
[scheme.tcp]
controller = \"cubic\"";

    /// The text after `key` has been set to `value`, and its line; nothing else changes.
    fn set(key: &str, value: &str) -> Result<(String, usize), String> {
        let mut edited = Edited::new(TEXT.to_owned());
        let value = value.parse().unwrap_or_else(|_| Value::String(value.to_owned()));
        edited.set(&Set { key: key.to_owned(), value }).map_err(|refused| refused.problem(&[]))?;
        edited.text.parse::<Table>().map_err(|error| format!("{error}: {}", edited.text))?;
        let line = edited.text[..edited.places[0].range.start].matches('\n').count();
        Ok((edited.text.lines().nth(line).unwrap().to_owned(), line + 1))
    }

    #[test]
    fn a_value_replaces_that_of_its_key() {
        for (key, value, line, expected) in [
            ("duration", "9 s", 1, "duration = \"9 s\""),
            ("link.y.rate", "2 Mb/s", 8, "rate = \"2 Mb/s\""),
            ("link.x.loss.every", "7", 4, "loss = { every = 7 }"),
            ("link.x.loss", "7", 4, "loss = 7"),
            ("link.x.changes.1.at", "3 s", 5, "changes = [{ at = \"1 s\" }, { at = \"3 s\" }]"),
            ("scheme.tcp.controller", "bbr", 12, "controller = \"bbr\""),
        ] {
            assert_eq!(set(key, value), Ok((expected.to_owned(), line)), "{key}");
        }
    }

    #[test]
    fn a_missing_key_is_added_to_its_table() {
        for (key, line, expected) in [
            ("drain", 1, "drain = 5"),
            ("meters.series", 1, "meters.series = 5"),
            ("link.x.delay", 3, "delay = 5"),
            ("link.x.reverse.delay", 3, "reverse.delay = 5"),
            ("link.x.loss.per_packet", 4, "loss = {per_packet = 5, every = 3 }"),
            ("link.y.jitter.max", 9, "jitter = {max = 5}"),
            ("link.y.ecn.other", 7, "ecn.other = 5"),
            ("scheme.tcp.settings.beta", 12, "settings.beta = 5"),
            ("scheme.tcp.routers.\"x.reverse\".kind", 12, "routers.\"x.reverse\".kind = 5"),
        ] {
            assert_eq!(set(key, "5"), Ok((expected.to_owned(), line)), "{key}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_with_those_that_exist() {
        for (key, expected) in [
            ("link.zeta.rate", "no link is called `zeta`; there are x, y"),
            ("hosts.a.count", "no group of hosts is called `a`; there is none"),
            ("scheme.tpc.controller", "no scheme is called `tpc`; did you mean `tcp`?"),
            ("link.x", "`link.x` is a table; set one of its keys: link.x.changes, link.x.loss, link.x.name"),
            ("link", "`link` is a table; set one of its keys: link.x, link.y"),
            ("scheme.tcp", "`scheme.tcp` is a table; set one of its keys: scheme.tcp.controller"),
            ("link.y.rate.model", "`link.y.rate` is \"1 Mb/s\", which has no keys; set it as a whole"),
            ("link.x.changes.2.at", "no changes is called `2`; did you mean `0` or `1`?"),
            ("link..x", "not a key"),
        ] {
            let message = set(key, "5").unwrap_err();
            assert!(message.starts_with(expected), "{key}: {message}");
        }
    }

    #[test]
    fn places_and_lines_follow_later_changes() {
        let mut edited = Edited::new(TEXT.to_owned());
        for (key, value) in
            [("link.y.rate", "20 Mb/s"), ("drain", "5 s"), ("link.x.delay", "1 ms"), ("duration", "7 s")]
        {
            edited.set(&Set { key: key.to_owned(), value: Value::String(value.to_owned()) }).unwrap();
        }
        let texts: Vec<&str> = edited.places.iter().map(|place| &edited.text[place.range.clone()]).collect();
        assert_eq!(texts, ["rate = \"20 Mb/s\"", "drain = \"5 s\"\n", "delay = \"1 ms\"\n", "duration = \"7 s\""]);
        let source = Source { sets: &edited.places, ..Source::new("x.toml", &edited.text) };
        let message = |text: &str| source.at(edited.text.find(text).unwrap()).error("!").to_string();
        assert_eq!(message("controller"), "x.toml:12: !");
        assert_eq!(message("name = \"x\""), "x.toml:3: !");
        assert_eq!(message("\"20 Mb/s\""), "--set link.y.rate: !");
    }
}
