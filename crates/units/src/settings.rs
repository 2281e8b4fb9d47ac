//! Settings as people write them, a table of keys and values, and what is wrong with them in their words.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::{Known, Settings};

/// Reads and checks `table`, or says which of its keys is wrong and what would be right.
pub fn checked<T: Settings>(table: &Table) -> Result<T, String> {
    let settings: T = read(table)?;
    settings.check()?;
    Ok(settings)
}

/// Reads `table`, or says which of its keys is wrong and what would be right.
pub fn read<T: DeserializeOwned>(table: &Table) -> Result<T, String> {
    // What is said of a wrong value does not name its key. A table of that one alone is wrong for the same reason, unless
    // there are others that must not be left out.
    let wrong_with = |key: &str, value: &Value| {
        let error = Table::from_iter([(key.to_owned(), value.clone())]).try_into::<T>().err()?;
        Some(error.message().to_owned()).filter(|message| !message.starts_with("missing field"))
    };
    table.clone().try_into().map_err(|whole: toml::de::Error| {
        let complaint = |(key, value): (&String, &Value)| {
            let message = wrong_with(key, value)?;
            Some(in_words(key, value, &message, || wrong_with(key, &Value::String("?".into()))))
        };
        table.iter().find_map(complaint).unwrap_or_else(|| whole.message().to_owned())
    })
}

/// What the reader says of one key, which is about types of Rust. What it would say of a text there tells which texts
/// there may be.
fn in_words(key: &str, value: &Value, message: &str, of_a_text: impl FnOnce() -> Option<String>) -> String {
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
    let whole = |most: &str| format!("must be a whole number, 0 {most}");
    let right = match expected {
        "a boolean" => "must be true or false".into(),
        "f32" | "f64" => "must be a number".into(),
        "u64" | "usize" => whole("or more"),
        "u32" => whole(&format!("to {}", u32::MAX)),
        "u16" => whole(&format!("to {}", u16::MAX)),
        "u8" => whole(&format!("to {}", u8::MAX)),
        "a string" | "string only" => match of_a_text() {
            Some(told) => text_wanted(&told),
            None => "must be a text in quotes".into(),
        },
        other => format!("must be {other}"),
    };
    format!("`{key}` = {value}: {right}")
}

/// Which texts there may be, by what was said of one that isn't: `unknown variant .., expected ..`, or as a
/// [`BadQuantity`](crate::BadQuantity) does, `.. is not a ..: write ..`.
fn text_wanted(told: &str) -> String {
    match (told.split_once(", expected "), told.split_once(": ")) {
        (Some((_, variants)), _) => format!("must be {variants}"),
        (None, Some((_, remedy))) => remedy.to_owned(),
        (None, None) => told.to_owned(),
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

    fn complaint<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        read::<T>(&text.parse().unwrap()).unwrap_err()
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
    fn the_wrong_one_is_named_with_what_would_be_right() {
        for (text, said) in [
            ("packets = 'x'", "`packets` = \"x\": must be a whole number, 0 or more"),
            ("share = 0.5\npackets = -1", "`packets` = -1: must be a whole number, 0 or more"),
            ("ports = 70000", "`ports` = 70000: must be a whole number, 0 to 65535"),
            ("share = 'x'", "`share` = \"x\": must be a number"),
            ("adaptive = 1", "`adaptive` = 1: must be true or false"),
            ("name = 1", "`name` = 1: must be a text in quotes"),
            ("delay = 3", "`delay` = 3: write a number and one of "),
            ("delay = '3 mm'", "`delay`: `3 mm` is not a length of time: write a number and one of "),
            ("delay = '-3 ms'", "write a number, which can't be negative, and one of "),
            ("kind = false", "`kind` = false: must be `plain` or `fancy`"),
            ("kind = 'fance'", "`kind` = \"fance\": did you mean `fancy`?"),
            ("kind = 'red'", "`kind` = \"red\": there are plain, fancy"),
            ("pakets = 3", "there is no `pakets` among its settings; did you mean `packets`?"),
            ("size = 3", "there are packets, ports, share, adaptive, delay, name, kind, inner"),
            ("inner = { a = { outer = 1 } }", "`inner`: unknown field `outer`, expected `needed`"),
        ] {
            let complaint = complaint::<Example>(text);
            assert!(complaint.contains(said), "{text}: {complaint}");
        }
    }

    #[test]
    fn a_right_key_is_not_blamed_for_one_that_is_missing() {
        assert_eq!(complaint::<Inner>(""), "missing field `needed`");
        assert_eq!(complaint::<Two>("gain = 0.5"), "missing field `limit`");
        assert!(complaint::<Two>("gain = 0.5\nlimit = 'x'").starts_with("`limit` = \"x\": must be a whole number"));
    }
}
