use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Loom;
use crate::failure::Failure;

/// Prints completions for a shell.
///
/// bash: `loom completions bash > ~/.local/share/bash-completion/completions/loom`;
/// zsh: `loom completions zsh > "${fpath[1]}/_loom"`;
/// fish: `loom completions fish > ~/.config/fish/completions/loom.fish`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell
    shell: Shell,
}

/// Writes the manual pages, one for each command, into a folder.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Where to; it is made if it is not there: ~/.local/share/man/man1
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(crate) fn completions(arguments: &Completions) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Loom::command(), "loom", &mut text);
    Ok(io::stdout().lock().write_all(&text)?)
}

pub(crate) fn man(arguments: &Man) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::Unavailable(format!("cannot write manual pages into {}: {error}", arguments.folder.display()))
    };
    fs::create_dir_all(&arguments.folder).map_err(failed)?;
    clap_mangen::generate_to(Loom::command(), &arguments.folder).map_err(failed)
}
