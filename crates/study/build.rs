//! Hashes the sources that decide the outcome of a simulated run, and the versions of dependencies in this repository's
//! lock file: a cluster refuses workers of another build, and an evaluation says if its baseline is of another one. A
//! command of another repository, with its own lock file, has the same hash. And lists the files of the questionnaires
//! that the program has with it.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const CRATES: [&str; 16] = [
    "units",
    "wire",
    "router",
    "control",
    "manager",
    "transport",
    "island",
    "workload",
    "scenario",
    "run",
    "sim",
    "quic",
    "noq",
    "quinn",
    "stacks",
    "study",
];

/// Directories of `studies`: the questions of RFC 9743, then conformance suites.
const SUITES: [&str; 4] = ["rfc9743", "cubic", "bbr", "l4s"];

fn main() -> io::Result<()> {
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    let lock = crates.join("../Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    let mut files = BTreeSet::from([lock]);
    for name in CRATES {
        let sources = crates.join(name).join("src");
        println!("cargo:rerun-if-changed={}", sources.display());
        collect(&sources, &mut files);
    }
    let mut hash = DefaultHasher::new();
    for file in &files {
        file.strip_prefix(&crates).unwrap_or(file).hash(&mut hash);
        fs::read(file).unwrap_or_default().hash(&mut hash);
    }
    // What `make checkout` builds.
    for variable in ["RAMPMETER_NOQ", "RAMPMETER_QUINN"] {
        println!("cargo:rerun-if-env-changed={variable}");
        env::var(variable).unwrap_or_default().hash(&mut hash);
    }
    println!("cargo:rustc-env=RAMPMETER_SOURCES={:016x}", hash.finish());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("suites.rs"), suites(&crates.join("../studies")))
}

/// The array of suites, as Rust reads it: of each the questions, the schemes, and the scenarios that the questions name.
/// Claims are no part of a suite, nor are their scenarios.
fn suites(studies: &Path) -> String {
    let suite = |name: &str| {
        let directory = studies.join(name);
        println!("cargo:rerun-if-changed={}", directory.display());
        let mut files = BTreeSet::new();
        collect(&directory, &mut files);
        let names = files.iter().filter_map(|file| Some((file.file_name()?.to_str()?, file.to_str()?)));
        let questions = fs::read_to_string(directory.join("questions.toml")).unwrap_or_default();
        let is_asked =
            |name| ["questions.toml", "schemes.toml"].contains(&name) || questions.contains(&format!("{name:?}"));
        let asked = names.filter(|(name, _)| is_asked(name));
        let files: Vec<String> = asked.map(|(name, file)| format!("({name:?}, include_str!({file:?})),")).collect();
        format!("Suite {{ name: {name:?}, files: &[{}] }},", files.concat())
    };
    format!("[{}]", SUITES.map(suite).concat())
}

fn collect(directory: &Path, files: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.insert(path);
        }
    }
}
