//! What the terminal can show, and what the user wants of it: colours, box characters, progress.

use std::io::{self, IsTerminal};

use clap::ValueEnum;

/// `auto` asks the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// If a terminal is there.
    #[default]
    Auto,
    /// Yes.
    Always,
    /// No.
    Never,
}

impl When {
    /// Whether colours are wanted on a stream that `is_terminal`; `NO_COLOR` and `TERM=dumb` say
    /// no.
    pub(crate) fn color(self, is_terminal: bool) -> bool {
        let refused =
            || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || is_dumb();
        match self {
            When::Always => true,
            When::Never => false,
            When::Auto => is_terminal && !refused(),
        }
    }

    /// Whether a bar is drawn on stderr.
    pub(crate) fn progress(self) -> bool {
        match self {
            When::Always => true,
            When::Never => false,
            When::Auto => io::stderr().is_terminal() && !is_dumb(),
        }
    }
}

/// What a table for people may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Escape sequences: bold header, dim null.
    pub(crate) color: bool,
    /// Only `+`, `-` and `|` for the box.
    pub(crate) ascii: bool,
    /// Columns of the terminal; without one, a table is as wide as it is.
    pub(crate) width: Option<usize>,
}

impl Look {
    /// The look of an output that `is_terminal`.
    pub(crate) fn new(color: When, is_terminal: bool) -> Self {
        let width = if is_terminal {
            terminal_size::terminal_size()
                .map(|(terminal_size::Width(width), _)| usize::from(width))
        } else {
            None
        };
        Look { color: color.color(is_terminal), ascii: is_dumb(), width }
    }
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
