//! `rampmeter manual`: man pages and shell completions, written from the command's own definition. `make install` calls it.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::failure::Failure;

/// Where each shell looks for completions, below a prefix's `share`.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/rampmeter"),
    (Shell::Zsh, "zsh/site-functions/_rampmeter"),
    (Shell::Fish, "fish/vendor_completions.d/rampmeter.fish"),
];

/// What `rampmeter manual` takes.
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
    for (shell, place) in COMPLETIONS {
        let mut script = Vec::new();
        generate(shell, &mut command, "rampmeter", &mut script);
        let path = args.share.join(place);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed(path.clone()))?;
        fs::write(&path, script).map_err(failed(path))?;
    }
    Ok(ExitCode::SUCCESS)
}
