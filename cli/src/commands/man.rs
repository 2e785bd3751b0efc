//! `sty man`: the manual pages, for packages.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::errors::{Failure, IoResult as _};
use crate::output::Output;

/// Write the manual pages of all commands to a directory
///
/// Examples:
///   sty man man1 && man -l man1/sty-query.1
///   sty man ~/.local/share/man/man1
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, hide = true)]
pub(crate) struct ManArgs {
    /// The directory, which is made if it does not exist; pages that are there are replaced
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Runs `sty man`, for the command line that `definition` describes.
pub(crate) fn run(args: &ManArgs, definition: Command) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.directory).with_path(&args.directory)?;
    let mut definition = definition.disable_help_subcommand(true);
    definition.build();
    write_all(&definition, &args.directory)
}

fn write_all(command: &Command, directory: &Path) -> Result<(), Failure> {
    let man = Man::new(command.clone()).manual("Stylobate");
    let path = directory.join(man.get_filename());
    let mut output = Output::open(Some(&path), true)?;
    write(&man, command, &mut output).map_err(|error| output.failure(&error))?;
    output.commit()?;
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    visible.into_iter().try_for_each(|command| write_all(command, directory))
}

/// Writes a page. What comes after the options in the help has a section for each heading.
fn write(man: &Man, command: &Command, output: &mut Output) -> io::Result<()> {
    man.render_title(output)?;
    man.render_name_section(output)?;
    man.render_synopsis_section(output)?;
    man.render_description_section(output)?;
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        man.render_subcommands_section(output)?;
    }
    man.render_options_section(output)?;
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    let mut roff = Roff::new();
    for line in after.map(ToString::to_string).unwrap_or_default().lines() {
        match line.strip_suffix(':').filter(|title| !title.starts_with(' ')) {
            Some(title) => {
                roff.control("SH", [title.to_uppercase().as_str()]).control("nf", []);
            }
            None => {
                roff.text([roman(line)]);
            }
        }
    }
    roff.to_writer(output)
}
