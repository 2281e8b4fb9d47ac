//! The matrix of variants: a row for each sentence, and a column for each variant.

use rampmeter_study::claims::{Claim, ClaimResult, Sentence, with_variants};

use super::report::digits;
use crate::failure::Failure;
use crate::table::table;

/// The claims with the sentences of `selected`, of all variants.
pub(super) fn of_all_variants(all: &[Claim], selected: &[Claim]) -> Result<Vec<Claim>, Failure> {
    let claims = with_variants(all, selected);
    if claims.is_empty() {
        let remedy = "leave out --variants, or declare variants in a file of claims with [[variant]] (docs/claims.md)";
        return Err(Failure::input(format!("none of these claims has variants: {remedy}")));
    }
    Ok(claims)
}

/// A table for each file of claims, and with `texts` the sentences below it.
pub(super) fn matrix(results: &[ClaimResult<'_>], texts: bool) -> String {
    let sentences = Sentence::of(results);
    let tables = sentences.chunk_by(|a, b| a.claim.source == b.claim.source).map(|own| of_file(own, texts));
    tables.collect::<Vec<_>>().join("\n")
}

fn of_file(sentences: &[Sentence<'_>], texts: bool) -> String {
    let variants = &sentences[0].claim.variants;
    let names = || variants.iter().map(|variant| variant.name.clone());
    let head: Vec<String> =
        ["sentence", "where", "expected", "unit"].map(String::from).into_iter().chain(names()).collect();
    let row = |sentence: &Sentence<'_>| {
        let claim = sentence.claim;
        let first =
            [claim.sentence().to_owned(), claim.place.clone(), claim.bound.to_string(), claim.unit().to_owned()];
        let cells = sentence.cells.iter().map(|cell| {
            cell.as_ref().map_or("–".to_owned(), |cell| {
                let measured = cell.measured.map_or("none".to_owned(), digits);
                format!("{:<5} {measured}", cell.word())
            })
        });
        first.into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = sentences.iter().map(row).collect();
    let counts = names().enumerate().map(|(index, name)| {
        let own = sentences.iter().filter_map(|sentence| sentence.cells[index].as_ref());
        let holding = own.clone().filter(|cell| cell.holds == Some(true)).count();
        format!("{name} {holding} of {}", own.count())
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    let mut below = String::new();
    for cell in sentences.iter().filter(|_| texts).flat_map(|sentence| sentence.cells.iter().flatten()) {
        let line = format!("{}: {}\n", cell.claim.id, cell.claim.text);
        // A claim with separate values is in several cells.
        if !below.ends_with(&line) {
            below += &line;
        }
    }
    format!("{}\n{below}sentences that hold: {counts}\n", table(&head, &rows))
}
