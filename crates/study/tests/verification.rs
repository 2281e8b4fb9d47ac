//! `docs/verification.md` lists what today's controllers and routers are compared with, and the recorded results.
//! `make verification` rewrites its tables.

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
