//! Recorded results of claims: runs the claims that have none, and lists them.

use std::path::PathBuf;
use std::process::ExitCode;

use rampmeter_study::StudyError;
use rampmeter_study::claims::{Claim, ClaimResult, Records, Standing, Status};

use super::report::format_value;
use crate::failure::Failure;

/// Judges the claims of `list`, one scenario after the other, and records the results of each.
pub(super) fn record<'c>(
    papers: &[(PathBuf, Vec<Claim>)],
    list: &'c [Claim],
    mut judge: impl FnMut(&'c [Claim]) -> Result<Vec<ClaimResult<'c>>, StudyError>,
) -> Result<ExitCode, StudyError> {
    for (file, all) in papers {
        let path = Records::path(file);
        let mut records = Records::update(&path, all, &[])?;
        let chunks = list.chunk_by(|a, b| a.source == b.source && a.file == b.file && a.world == b.world);
        for claims in chunks.filter(|claims| claims[0].source == *file) {
            let results = judge(claims)?;
            records = Records::update(&path, all, &results)?;
            for result in &results {
                println!("{}", line(result));
            }
        }
        println!("{}: {} of {} claims have no current result", path.display(), records.missing.len(), all.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// A line about a result that was recorded, or the reason if it was not.
fn line(result: &ClaimResult<'_>) -> String {
    let claim = result.claim;
    let Some(holds) = result.holds else {
        return format!("{}: not recorded: {}", claim.id, result.reason.as_deref().unwrap_or("it was not judged"));
    };
    let measured = result.measured.map_or("no value".into(), |measured| format_value(measured, claim.unit()));
    let advice = match (claim.status, holds) {
        (Status::Holds, false) => ", but its status is `holds`: mend the cause, or write status = \"open\" and a note",
        (Status::Open, true) => ", but its status is `open`: write status = \"holds\"",
        _ => "",
    };
    let verdict = if holds { "holds" } else { "fails" };
    format!("{}: {measured}, expected {}: {verdict}{advice}", claim.id, claim.expect())
}

/// Lists the claims of `list` without a current result.
pub(super) fn missing(papers: &[(PathBuf, Vec<Claim>)], list: &[Claim]) -> Result<ExitCode, Failure> {
    for (file, all) in papers {
        let path = Records::path(file);
        let records = Records::update(&path, all, &[])?;
        let (mut claims, mut missing) = (0, 0);
        for claim in list.iter().filter(|claim| claim.source == *file) {
            claims += 1;
            if records.missing.contains(&claim.id) {
                missing += 1;
                let reason = if claim.recorded == Standing::Stale { " (its runs have changed)" } else { "" };
                println!("{}{reason}", claim.id);
            }
        }
        println!("{}: {missing} of {claims} claims have no current result", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The recorded results of `list`.
pub(super) fn recorded(list: &[Claim]) -> Result<Vec<ClaimResult<'_>>, StudyError> {
    let mut results = Vec::new();
    for claims in list.chunk_by(|a, b| a.source == b.source) {
        let records = Records::read(&Records::path(&claims[0].source))?;
        results.extend(claims.iter().map(|claim| records.result(claim)));
    }
    Ok(results)
}
