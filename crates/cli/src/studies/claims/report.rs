//! The results of claims as text: a table, then the sentences and notes of those that need attention.

use rampmeter_scenario::World;
use rampmeter_sim::Simulated;
use rampmeter_study::claims::{ClaimResult, Standing, Status, rounded};

use super::super::wrap::wrap;
use crate::table::table;

/// A table of all claims, followed by the details of those that fail, are open or were skipped, or of all if
/// `all_texts`.
pub(super) fn report(verdicts: &[ClaimResult<'_>], is_partial: bool, all_texts: bool) -> String {
    let status = if is_partial { "status (all seeds)" } else { "status" };
    let head = ["claim", "where", "paper", "expected", "measured", "unit", "holds", status].map(String::from);
    let rows: Vec<Vec<String>> = verdicts
        .iter()
        .map(|verdict| {
            let claim = verdict.claim;
            vec![
                claim.id.clone(),
                claim.place.clone(),
                claim.paper.clone().unwrap_or_default(),
                claim.bound.to_string(),
                verdict.measured.map_or("none".into(), digits),
                claim.unit().to_owned(),
                verdict.holds.map_or("skipped", |holds| if holds { "yes" } else { "no" }).into(),
                status_of(verdict).into(),
            ]
        })
        .collect();
    let all_details: String = verdicts.iter().filter_map(|verdict| details(verdict, is_partial, all_texts)).collect();
    let holding = count(verdicts, |verdict| verdict.holds == Some(true));
    let open = count(verdicts, |verdict| verdict.holds == Some(false) && verdict.claim.status == Status::Open);
    let failing = count(verdicts, |verdict| verdict.holds == Some(false) && verdict.claim.status == Status::Holds);
    let skipped = count(verdicts, |verdict| verdict.holds.is_none());
    let recorded = |verdict: &&ClaimResult<'_>| matches!(verdict.claim.recorded, Standing::Current { .. });
    let unrecorded = verdicts.len() - verdicts.iter().filter(recorded).count();
    let counts = format!("claims: {holding} hold, {open} open, {failing} fail, {skipped} skipped");
    let table = table(&head, &rows);
    format!("{table}\n{all_details}\n{counts}; {unrecorded} without a recorded result of all seeds\n")
}

/// The status of a claim. A claim that was not judged, and has no current recorded result either, has none.
fn status_of(verdict: &ClaimResult<'_>) -> &'static str {
    match (verdict.claim.recorded, verdict.claim.status) {
        (Standing::Missing, _) if verdict.holds.is_none() => "not recorded",
        (Standing::Stale, _) if verdict.holds.is_none() => "out of date",
        (_, Status::Holds) => "holds",
        (_, Status::Open) => "open",
    }
}

/// The details of a claim below the table; none for a claim whose result is as expected, unless `all_texts`.
fn details(verdict: &ClaimResult<'_>, is_partial: bool, all_texts: bool) -> Option<String> {
    let claim = verdict.claim;
    // A status refers to complete runs, so fewer or shorter runs cannot contradict it.
    let label = match claim.status {
        _ if claim.contradicts_record() => "record",
        _ if verdict.holds.is_none() => "skipped",
        _ if verdict.is_broken() && is_partial => "fails",
        _ if verdict.is_broken() => "regression",
        _ if has_drifted(verdict) && !is_partial => "drift",
        _ if verdict.is_unexpected() && !is_partial => "now holds",
        Status::Open => "open",
        Status::Holds if all_texts => "holds",
        Status::Holds => return None,
    };
    let first = wrap(&format!("{label:<11}"), &format!("{}: {}", claim.id, claim.text));
    let of_all_seeds = match claim.recorded {
        Standing::Current { holds, measured: Some(measured) } if is_partial && verdict.holds != Some(holds) => {
            let verdict = if holds { "it holds" } else { "it does not hold" };
            Some(format!("in all runs with all seeds {verdict}: {}", format_value(measured, claim.unit())))
        }
        _ => None,
    };
    let advice = match label {
        "now holds" => Some("its status is open but it holds: write status = \"holds\""),
        "record" => Some("its status contradicts its recorded result of all seeds: correct the status"),
        "drift" => {
            Some("measured.json has another value: the simulator has changed; run the command with --record --fresh")
        }
        _ => of_all_seeds.as_deref(),
    };
    let more = advice.into_iter().chain(verdict.reason.as_deref()).chain(claim.note.as_deref());
    Some(std::iter::once(first).chain(more.map(|more| wrap(&" ".repeat(11), more))).collect())
}

/// Whether a simulated result differs from the recorded one.
pub(super) fn has_drifted(verdict: &ClaimResult<'_>) -> bool {
    let Standing::Current { measured, .. } = verdict.claim.recorded else { return false };
    verdict.claim.world == Simulated.name() && verdict.measured.map(rounded) != measured
}

/// Formats a value with its unit, where it has one that is not a kind of ratio.
pub(super) fn format_value(value: f64, unit: &str) -> String {
    match unit {
        "" | "fraction" | "ratio" | "Jain's index" => digits(value),
        unit => format!("{} {unit}", digits(value)),
    }
}

/// Formats a value with four significant digits.
pub(super) fn digits(value: f64) -> String {
    let places = if value == 0.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    format!("{value:.*}", usize::try_from(places).unwrap_or(0))
}

fn count(verdicts: &[ClaimResult<'_>], is_one: impl Fn(&ClaimResult<'_>) -> bool) -> usize {
    verdicts.iter().filter(|verdict| is_one(verdict)).count()
}

#[cfg(test)]
mod tests {
    use super::format_value;

    #[test]
    fn values_have_four_digits_and_their_unit() {
        assert_eq!(format_value(3.008_83, "RTT"), "3.009 RTT");
        assert_eq!(format_value(0.000_702_9, "fraction"), "0.0007029");
        assert_eq!(format_value(-1234.5, ""), "-1234");
        assert_eq!(format_value(0.0, "b/s"), "0 b/s");
    }
}
