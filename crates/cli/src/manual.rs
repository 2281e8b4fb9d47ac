//! `rampmeter manual`: writes man pages and shell completions, generated from the definition of the command. `make
//! install` calls it.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::failure::Failure;

/// The path of each shell's completions below the directory `share` of a prefix.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/rampmeter"),
    (Shell::Zsh, "zsh/site-functions/_rampmeter"),
    (Shell::Fish, "fish/vendor_completions.d/rampmeter.fish"),
];

/// The arguments of `rampmeter manual`.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// The directory to write to, for example /usr/local/share
    #[arg(value_name = "DIR")]
    share: PathBuf,
}

pub(crate) fn manual(args: &ManualArgs, mut command: Command) -> Result<ExitCode, Failure> {
    let failed = |path: PathBuf| move |error| Failure::failed(format!("{}: {error}", path.display()));
    let pages = args.share.join("man/man1");
    fs::create_dir_all(&pages).map_err(failed(pages.clone()))?;
    clap_mangen::generate_to(command.clone(), &pages).map_err(failed(pages))?;
    for (shell, file) in COMPLETIONS {
        let mut script = Vec::new();
        generate(shell, &mut command, "rampmeter", &mut script);
        let path = args.share.join(file);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed(path.clone()))?;
        fs::write(&path, script).map_err(failed(path))?;
    }
    Ok(ExitCode::SUCCESS)
}
