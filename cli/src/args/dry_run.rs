//! `--dry-run`.

use clap::Args;

use crate::printers::Format;

/// `--dry-run`, alone or with the format of its list.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DryRunArg {
    /// Do nothing; print what would be done as a list [possible: table, csv, json, …]
    ///
    /// A row for each thing: action, table, name, segments, blocks, rows, bytes, whether these are
    /// exact or the most that it can be, and a note.
    #[arg(long = "dry-run", global = true, value_name = "FORMAT", value_enum, num_args = 0..=1,
        require_equals = true, hide_possible_values = true)]
    asked: Option<Option<Format>>,
}

impl DryRunArg {
    /// Whether it is asked for, and in which format.
    pub(crate) fn asked(self) -> Option<Option<Format>> {
        self.asked
    }
}
