//! The commands of crates: building that of `--crate`, and how a page says which command repeats its runs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::failure::Failure;

/// Builds the command of a crate and runs it with the same arguments, without `--crate`.
pub(super) fn run_crate(package: &Path) -> Result<ExitCode, Failure> {
    let manifest = package.join("Cargo.toml");
    if !manifest.is_file() {
        let what = format!("{}: there is no such file; name the directory of a crate", manifest.display());
        return Err(Failure::input(what));
    }
    let mut arguments = std::env::args_os().skip(1).peekable();
    let mut passed = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--crate" {
            arguments.next();
        } else if !argument.to_string_lossy().starts_with("--crate=") {
            passed.push(argument);
        }
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--release", "--quiet", "--manifest-path"]).arg(&manifest).arg("--").args(passed);
    let status = cargo.status().map_err(|error| Failure::failed(format!("cargo: {error}")))?;
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(u8::try_from(code).unwrap_or(1))))
}

/// The command that runs this program again, from any directory.
pub(super) fn this_command() -> Vec<String> {
    let program = std::env::current_exe().unwrap_or_default();
    command(&program, std::env::var_os("CARGO_MANIFEST_DIR").as_deref())
}

/// The command that runs `program`; `crate_of_cargo` is the directory of the crate that `cargo run` started. Only
/// `rampmeter` is installed: the program of a crate may be gone tomorrow, and `cargo run` builds it.
fn command(program: &Path, crate_of_cargo: Option<&OsStr>) -> Vec<String> {
    let name = program.file_stem().unwrap_or_default();
    match crate_of_cargo.map(|directory| Path::new(directory).join("Cargo.toml")) {
        _ if name == "rampmeter" => vec!["rampmeter".to_owned()],
        Some(manifest) => {
            let manifest = manifest.display().to_string();
            ["cargo", "run", "--release", "--quiet", "--manifest-path", &manifest, "--"].map(str::to_owned).to_vec()
        }
        None => vec![program.display().to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_crate_has_the_command_of_the_crate() {
        for (program, directory, expected) in [
            ("/usr/bin/rampmeter", None, "rampmeter"),
            ("/usr/bin/rampmeter", Some("/home/me/mine"), "rampmeter"),
            ("/home/me/mine/target/release/mine", None, "/home/me/mine/target/release/mine"),
            (
                "/home/me/mine/target/release/mine",
                Some("/home/me/mine"),
                "cargo run --release --quiet --manifest-path /home/me/mine/Cargo.toml --",
            ),
        ] {
            assert_eq!(command(Path::new(program), directory.map(OsStr::new)).join(" "), expected);
        }
    }
}
