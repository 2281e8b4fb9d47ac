//! `docs/verification.md` lists what today's controllers and routers are compared with, and the recorded results.
//! `make verification` rewrites its tables. README.md and docs/limits.md say how many claims are open.

use std::fmt::Write;
use std::path::Path;

use rampmeter_scenario::{Registries, Schema};
use rampmeter_study::claims::{self, Claim, Records, Standing, Status};

/// The studies that have tables, each after a comment that names it and before the one that ends it.
const STUDIES: [&str; 2] = ["rivals", "l4s"];
const END: &str = "\n<!-- end of claims -->";

#[test]
fn the_documented_results_are_the_recorded_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("docs/verification.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let mut right = text.clone();
    for study in STUDIES {
        let start = format!("<!-- claims of {study} -->\n");
        let (before, rest) = right.split_once(&start).expect("the page has the start of the tables");
        let (_, after) = rest.split_once(END).expect("the page has the end of the tables");
        let file = root.join("studies").join(study).join("claims.toml");
        let claims = claims::read(&file, false, &Registries::default(), &Schema::default()).unwrap();
        let records = Records::read(&Records::path(&file)).unwrap();
        right = format!("{before}{start}{}{END}{after}", tables(study, &claims, &records));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page, right).unwrap();
    } else {
        assert!(text == right, "docs/verification.md differs from the recorded results: run `make verification`");
    }
}

/// README.md has `8 of its 28 claims are open<!-- open: cm -->`, and so has docs/limits.md; subjects behind the paper
/// select claims, and those behind `!` leave claims out.
#[test]
fn counts_of_open_claims_are_those_of_the_claims() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in ["README.md", "docs/limits.md"] {
        check_counts(&root, page);
    }
}

fn check_counts(root: &Path, page: &str) {
    let text = std::fs::read_to_string(root.join(page)).unwrap();
    let parts: Vec<&str> = text.split("<!-- open: ").collect();
    assert!(parts.len() > 1, "{page} has counts");
    for (before, after) in parts.iter().zip(&parts[1..]) {
        let (selection, _) = after.split_once("-->").expect("a comment ends");
        let mut words = selection.split_whitespace();
        let file = root.join("studies").join(words.next().unwrap()).join("claims.toml");
        let (left_out, subjects): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('!'));
        let mut claims = statuses(&std::fs::read_to_string(file).unwrap());
        claims.retain(|(subject, _)| subjects.is_empty() || subjects.contains(&subject.as_str()));
        claims.retain(|(subject, _)| !left_out.iter().any(|word| word[1..] == *subject));
        let open = claims.iter().filter(|(_, status)| status == "open").count();
        let numbers = before.split(|character: char| !character.is_ascii_digit()).filter_map(|word| word.parse().ok());
        let last: Vec<usize> = numbers.collect();
        assert!(
            last.ends_with(&[open, claims.len()]),
            "{page}, {selection}: {open} of {} claims are open",
            claims.len()
        );
    }
}

/// The subject and the status of each claim, without the scenarios, which take long to read.
fn statuses(claims: &str) -> Vec<(String, String)> {
    let file: toml::Table = claims.parse().unwrap();
    let word = |claim: &toml::Value, key: &str| claim[key].as_str().unwrap().split('.').next().unwrap().to_owned();
    file["claim"].as_array().unwrap().iter().map(|claim| (word(claim, "id"), word(claim, "status"))).collect()
}

/// A table for each subject, which is the first part of a claim's id, in the order of the claims.
fn tables(study: &str, claims: &[Claim], records: &Records) -> String {
    let mut text = String::new();
    let mut subjects: Vec<&str> = Vec::new();
    for claim in claims {
        let subject = subject(claim);
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    for subject in subjects {
        let (holds, own): (Vec<bool>, Vec<&Claim>) = claims
            .iter()
            .filter(|claim| self::subject(claim) == subject)
            .map(|claim| (claim.status == Status::Holds, claim))
            .unzip();
        let count = holds.iter().filter(|holds| **holds).count();
        writeln!(
            text,
            "\n### {subject}\n\n{count} of {} hold: `rampmeter claims {study} {subject} --text`\n",
            own.len()
        )
        .unwrap();
        text += "| claim | oracle | what it says | its figure | expected | ours | status |\n|---|---|---|---|---|---|---|\n";
        for claim in own {
            writeln!(text, "{}", row(claim, records)).unwrap();
        }
    }
    text
}

fn subject(claim: &Claim) -> &str {
    claim.id.split('.').next().unwrap_or_default()
}

fn row(claim: &Claim, records: &Records) -> String {
    let measured = match claim.recorded {
        Standing::Current { measured: Some(measured), .. } => {
            let seeds = records.claims.get(&claim.id).map_or(0, |record| record.seeds);
            let world = if claim.world == "simulated" { "" } else { ", real packets" };
            format!("{measured} ({seeds} seeds{world})")
        }
        _ => "not recorded".into(),
    };
    let status = if claim.status == Status::Holds { "holds" } else { "open" };
    let paper = claim.paper.as_deref().unwrap_or("");
    let cells = [&claim.id, &claim.place, &claim.text, paper, &claim.expect(), &measured, status];
    format!("| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}
