//! Reads settings from a table of keys and values, with errors in the words of the file instead of Rust types.

use std::ops::RangeInclusive;

use serde::de::{DeserializeOwned, Deserializer, Error, Visitor, value};
use serde::forward_to_deserialize_any;
use toml::{Table, Value};

use crate::{Known, Settings};

/// Reads and checks `table`; an error names the wrong key and the remedy.
pub fn checked<T: Settings>(table: &Table) -> Result<T, String> {
    let settings: T = read(table)?;
    settings.check()?;
    Ok(settings)
}

/// Refuses settings for which a condition does not hold, with `message`: what is wrong, and what to write instead.
pub fn ensure(holds: bool, message: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message.into()) }
}

/// Refuses a setting `name` outside of `range`, with a message that ends with `more`: the unit, or what is usual.
pub fn check_range(name: &str, value: f64, range: RangeInclusive<f64>, more: &str) -> Result<(), String> {
    // `{:?}` writes 1e300 with five characters instead of 301.
    ensure(range.contains(&value), format!("{name} is {value:?}: write {} to {} {more}", range.start(), range.end()))
}

/// Reads `table`; an error names the wrong key and the remedy.
pub fn read<T: DeserializeOwned>(table: &Table) -> Result<T, String> {
    // Serde's message about a wrong value does not name its key. A table of only that key fails with the same message,
    // unless other keys are required.
    let error_of = |key: &str, value: &Value| {
        let error = Table::from_iter([(key.to_owned(), value.clone())]).try_into::<T>().err()?;
        Some(error.message().to_owned()).filter(|message| !message.starts_with("missing field"))
    };
    table.clone().try_into().map_err(|error: toml::de::Error| {
        let error_of_entry = |(key, value): (&String, &Value)| {
            let message = error_of(key, value)?;
            Some(translate(key, value, &message, || error_of(key, &Value::String("?".into()))))
        };
        table.iter().find_map(error_of_entry).unwrap_or_else(|| error.message().to_owned())
    })
}

/// The names of the settings of `T`, in the order of its fields; `None` if it is no struct.
pub fn names<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let mut names = None;
    let _ = T::deserialize(Names(&mut names)); // fails, after it has asked for its fields
    names
}

/// Keeps the names of the fields that a type asks for.
struct Names<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = Some(fields);
        Err(Self::Error::custom(""))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom(""))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Translates serde's message about one key. `about_text` is its message about a text in that place.
fn translate(key: &str, value: &Value, message: &str, about_text: impl FnOnce() -> Option<String>) -> String {
    if message.starts_with(&format!("unknown field `{key}`")) {
        let names = message.split('`').skip(3).step_by(2);
        return format!("there is no `{key}` among its settings; {}", Known::near(key, names));
    }
    if message.starts_with("unknown variant ") {
        let names = message.split('`').skip(3).step_by(2);
        return format!("`{key}` = {value}: {}", Known::near(value.as_str().unwrap_or_default(), names));
    }
    let Some((_, expected)) = message.split_once(", expected ").filter(|_| message.starts_with("invalid ")) else {
        return format!("`{key}`: {message}");
    };
    let whole = |range: &str| format!("must be a whole number, 0 {range}");
    let right = match expected {
        "a boolean" => "must be true or false".into(),
        "f32" | "f64" => "must be a number".into(),
        "u64" | "usize" => whole("or more"),
        "u32" => whole(&format!("to {}", u32::MAX)),
        "u16" => whole(&format!("to {}", u16::MAX)),
        "u8" => whole(&format!("to {}", u8::MAX)),
        "a string" | "string only" => match about_text() {
            Some(message_about_text) => expected_text(&message_about_text),
            None => "must be a text in quotes".into(),
        },
        other => format!("must be {other}"),
    };
    format!("`{key}` = {value}: {right}")
}

/// The valid texts, from serde's message about an invalid one: `unknown variant .., expected ..`, or that of a
/// [`BadQuantity`](crate::BadQuantity), `.. is not a ..: write ..`.
fn expected_text(message_about_text: &str) -> String {
    match (message_about_text.split_once(", expected "), message_about_text.split_once(": ")) {
        (Some((_, variants)), _) => format!("must be {variants}"),
        (None, Some((_, remedy))) => remedy.to_owned(),
        (None, None) => message_about_text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::Duration;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        packets: u64,
        ports: u16,
        share: f64,
        adaptive: bool,
        delay: Option<Duration>,
        name: String,
        kind: Kind,
        inner: BTreeMap<String, Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code)]
        needed: u64,
    }

    #[derive(Debug, Deserialize)]
    struct Two {
        #[allow(dead_code)]
        gain: f64,
        #[allow(dead_code)]
        limit: u64,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        #[default]
        Plain,
        Fancy,
    }

    fn error<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        read::<T>(&text.parse().unwrap()).unwrap_err()
    }

    #[test]
    fn settings_name_their_keys() {
        assert_eq!(names::<Inner>(), Some(&["needed"][..]));
        assert_eq!(names::<Two>(), Some(&["gain", "limit"][..]));
        assert_eq!(names::<Kind>(), None);
    }

    #[test]
    fn good_settings_are_read() {
        let text = "packets = 3\nshare = 0.5\nadaptive = true\ndelay = '3 ms'\nkind = 'fancy'";
        let read: Example = read(&text.parse().unwrap()).unwrap();
        assert_eq!((read.packets, read.share, read.adaptive), (3, 0.5, true));
        assert_eq!(read.delay, Some(Duration::from_millis(3)));
        assert!(matches!(read.kind, Kind::Fancy) && read.name.is_empty() && read.inner.is_empty() && read.ports == 0);
    }

    #[test]
    fn the_wrong_setting_is_named_with_the_remedy() {
        for (text, expected) in [
            ("packets = 'x'", "`packets` = \"x\": must be a whole number, 0 or more"),
            ("share = 0.5\npackets = -1", "`packets` = -1: must be a whole number, 0 or more"),
            ("ports = 70000", "`ports` = 70000: must be a whole number, 0 to 65535"),
            ("share = 'x'", "`share` = \"x\": must be a number"),
            ("adaptive = 1", "`adaptive` = 1: must be true or false"),
            ("name = 1", "`name` = 1: must be a text in quotes"),
            ("delay = 3", "`delay` = 3: write a number and one of "),
            ("delay = '3 mm'", "`delay`: `3 mm` is not a length of time: write a number and one of "),
            ("delay = '-3 ms'", "write a number, which cannot be negative, and one of "),
            ("kind = false", "`kind` = false: must be `plain` or `fancy`"),
            ("kind = 'fance'", "`kind` = \"fance\": did you mean `fancy`?"),
            ("kind = 'red'", "`kind` = \"red\": there are plain, fancy"),
            ("pakets = 3", "there is no `pakets` among its settings; did you mean `packets`?"),
            ("size = 3", "there are packets, ports, share, adaptive, delay, name, kind, inner"),
            ("inner = { a = { outer = 1 } }", "`inner`: unknown field `outer`, expected `needed`"),
        ] {
            let error = error::<Example>(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_missing_key_is_not_blamed_on_another() {
        assert_eq!(error::<Inner>(""), "missing field `needed`");
        assert_eq!(error::<Two>("gain = 0.5"), "missing field `limit`");
        assert!(error::<Two>("gain = 0.5\nlimit = 'x'").starts_with("`limit` = \"x\": must be a whole number"));
    }
}
