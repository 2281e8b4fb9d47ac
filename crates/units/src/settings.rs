//! Settings as people write them, a table of keys and values, and what is wrong with them in their words.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::Known;

/// Reads `table`, or says which of its keys is wrong and what would be right. A `T` has a default for every key.
pub fn read<T: DeserializeOwned>(table: &Table) -> Result<T, String> {
    table.clone().try_into().map_err(|whole: toml::de::Error| {
        // What is said of a wrong value does not name its key. A table of that one alone is wrong for the same reason.
        let alone = |(key, value): (&String, &Value)| {
            let error = Table::from_iter([(key.clone(), value.clone())]).try_into::<T>().err()?;
            Some(in_words(key, value, error.message()))
        };
        table.iter().find_map(alone).unwrap_or_else(|| whole.message().to_owned())
    })
}

/// What the reader says of one key, which is about types of Rust.
fn in_words(key: &str, value: &Value, message: &str) -> String {
    if let Some(known) = message.strip_prefix("unknown field ") {
        let names = known.split('`').skip(1).step_by(2).skip(1);
        return format!("there is no `{key}` among its settings; {}", Known::near(key, names));
    }
    let expected = message.split_once(", expected ").map(|(_, expected)| match expected {
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "f32" | "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        other => other,
    });
    match expected {
        Some(expected) if message.starts_with("invalid ") => format!("`{key}` = {value}: must be {expected}"),
        _ => format!("`{key}`: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::Duration;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        packets: u64,
        share: f64,
        adaptive: bool,
        delay: Option<Duration>,
        kind: Kind,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        #[default]
        Plain,
        Fancy,
    }

    fn complaint(text: &str) -> String {
        read::<Example>(&text.parse().unwrap()).unwrap_err()
    }

    #[test]
    fn good_settings_are_read() {
        let text = "packets = 3\nshare = 0.5\nadaptive = true\ndelay = '3 ms'\nkind = 'fancy'";
        let read: Example = read(&text.parse().unwrap()).unwrap();
        assert_eq!((read.packets, read.share, read.adaptive), (3, 0.5, true));
        assert_eq!(read.delay, Some(Duration::from_millis(3)));
        assert!(matches!(read.kind, Kind::Fancy));
    }

    #[test]
    fn the_wrong_one_is_named_with_what_would_be_right() {
        for (text, said) in [
            ("packets = 'x'", "`packets` = \"x\": must be a whole number, 0 or more"),
            ("share = 0.5\npackets = -1", "`packets` = -1: must be a whole number, 0 or more"),
            ("share = 'x'", "`share` = \"x\": must be a number"),
            ("adaptive = 1", "`adaptive` = 1: must be true or false"),
            ("delay = 3", "`delay` = 3: must be a text in quotes"),
            ("pakets = 3", "there is no `pakets` among its settings; did you mean `packets`?"),
            ("size = 3", "there are packets, share, adaptive, delay, kind"),
        ] {
            assert!(complaint(text).contains(said), "{}", complaint(text));
        }
        let (delay, kind) = (complaint("delay = '3 mm'"), complaint("kind = 'fance'"));
        assert!(delay.starts_with("`delay`: ") && delay.contains("\"12.5 ms\""), "{delay}");
        assert!(kind.starts_with("`kind`: ") && kind.contains("fancy"), "{kind}");
    }
}
