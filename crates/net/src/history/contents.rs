//! The contents of a history file: JSON with a row for each destination. Reading checks every value, because another
//! program may have written the file.

use std::collections::BTreeMap;

use rampmeter_control::History;
use rampmeter_manager::Destination;
use rampmeter_units::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// The version of the format.
const VERSION: u32 = 2;

/// A history, and when it was learnt, in seconds since 1970.
pub(crate) type Learnt = (History, u64);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    histories: Vec<Row>,
}

/// The history of a destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// 32 hexadecimal digits.
    pub(crate) destination: String,
    pub(crate) base_rate_bps: u64,
    pub(crate) capacity_bps: u64,
    pub(crate) trust: f64,
    pub(crate) competing_traffic: f64,
    pub(crate) variation_ns: u64,
    /// More than zero.
    pub(crate) min_rtt_ns: u64,
    /// Seconds since 1970.
    pub(crate) learnt_s: u64,
}

impl Row {
    pub(crate) fn encode(destination: Destination, (history, learnt): &Learnt) -> Self {
        Self {
            destination: format!("{:032x}", destination.0),
            base_rate_bps: history.base_rate.as_bps(),
            capacity_bps: history.capacity.as_bps(),
            trust: history.trust,
            competing_traffic: history.competing_traffic,
            variation_ns: history.variation.as_nanos(),
            min_rtt_ns: history.min_rtt.as_nanos(),
            learnt_s: *learnt,
        }
    }

    /// `None` if a value is invalid.
    pub(crate) fn decode(&self) -> Option<(Destination, Learnt)> {
        let digits = Some(self.destination.as_str()).filter(|digits| digits.len() == 32 && !digits.starts_with('+'));
        let destination = u128::from_str_radix(digits?, 16).ok()?;
        let share = |number| Some(number).filter(|number| (0.0..=1.0).contains(number));
        let history = History {
            base_rate: Rate::from_bps(self.base_rate_bps),
            capacity: Rate::from_bps(self.capacity_bps),
            trust: share(self.trust)?,
            competing_traffic: share(self.competing_traffic)?,
            competitive_rate: Rate::ZERO, // valid for seconds only
            variation: Duration::from_nanos(self.variation_ns),
            min_rtt: Some(Duration::from_nanos(self.min_rtt_ns)).filter(|rtt| *rtt > Duration::ZERO)?,
        };
        Some((Destination(destination), (history, self.learnt_s)))
    }
}

/// Reads the contents of a file, or says what is wrong with them.
pub(crate) fn parse(bytes: &[u8]) -> Result<BTreeMap<Destination, Learnt>, String> {
    let contents: Contents = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if contents.version != VERSION {
        return Err(format!("its version is {}, not {VERSION}", contents.version));
    }
    let invalid = |row: &Row| format!("the values of the destination {:?} are invalid", row.destination);
    contents.histories.iter().map(|row| row.decode().ok_or_else(|| invalid(row))).collect()
}

/// The contents of a file with these histories.
pub(crate) fn encode(histories: &BTreeMap<Destination, Learnt>) -> serde_json::Result<Vec<u8>> {
    let histories = histories.iter().map(|(&destination, learnt)| Row::encode(destination, learnt)).collect();
    serde_json::to_vec(&Contents { version: VERSION, histories })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            destination: "0a".repeat(16),
            base_rate_bps: 10,
            capacity_bps: u64::MAX,
            trust: 0.5,
            competing_traffic: 1.0,
            variation_ns: 0,
            min_rtt_ns: 1,
            learnt_s: 7,
        }
    }

    #[test]
    fn a_valid_row_is_encoded_as_it_was() {
        let (destination, learnt) = row().decode().unwrap();
        assert_eq!(Row::encode(destination, &learnt), row());
        let all = BTreeMap::from([(destination, learnt)]);
        assert_eq!(parse(&encode(&all).unwrap()), Ok(all));
    }

    #[test]
    fn a_row_with_any_invalid_value_is_not_decoded() {
        for row in [
            Row { destination: "0a".repeat(15), ..row() },
            Row { destination: format!("+{}", "1".repeat(31)), ..row() },
            Row { destination: "ä".repeat(16), ..row() },
            Row { trust: 1.5, ..row() },
            Row { trust: f64::NAN, ..row() },
            Row { competing_traffic: -0.1, ..row() },
            Row { min_rtt_ns: 0, ..row() },
        ] {
            assert_eq!(row.decode(), None, "{row:?}");
        }
    }

    #[test]
    fn contents_of_another_version_or_program_are_refused() {
        for (text, problem) in [
            (&b"Dear reader,"[..], "expected value"),
            (b"{\"version\":1,\"histories\":[]}", "its version is 1"),
            (b"{\"version\":2,\"histories\":[],\"x\":1}", "unknown field"),
            (b"{\"version\":2,\"histories\":[{}]}", "missing field"),
            (b"{\"version\":2,\"histories\":[", "EOF"),
        ] {
            assert!(parse(text).unwrap_err().contains(problem), "{problem}");
        }
    }
}
