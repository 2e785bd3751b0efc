//! What the terminal can show, and what the user wants to see there: colours, box characters,
//! progress.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;

/// Whether something is shown; `auto` depends on the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    // If a terminal is there.
    #[default]
    Auto,
    // Yes.
    Always,
    // No.
    Never,
}

impl When {
    /// Whether a stream gets colours. `auto` refuses them if `NO_COLOR` is set or `TERM` is `dumb`.
    pub(crate) fn color(self, is_terminal: bool) -> bool {
        let refused =
            || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || is_dumb();
        match self {
            When::Always => true,
            When::Never => false,
            When::Auto => is_terminal && !refused(),
        }
    }
}

/// What a table for people may use on its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Escape sequences, for a bold header and dim nulls.
    pub(crate) color: bool,
    /// Draw the box with `+`, `-` and `|` only.
    pub(crate) ascii: bool,
    /// The width of the terminal. Without a terminal, the width of a table is not limited.
    pub(crate) width: Option<usize>,
    /// The lines of the terminal.
    pub(crate) height: Option<usize>,
    /// Whether there are blocks and braille. The console of Linux has neither.
    pub(crate) braille: bool,
}

impl Default for Look {
    fn default() -> Self {
        Look { color: false, ascii: false, width: None, height: None, braille: true }
    }
}

impl Look {
    /// The look of an output that `is_terminal`.
    pub(crate) fn new(color: When, is_terminal: bool) -> Self {
        let size = if is_terminal { terminal_size::terminal_size() } else { None };
        let (width, height) =
            size.map(|(width, height)| (usize::from(width.0), usize::from(height.0))).unzip();
        let braille = std::env::var_os("TERM").is_none_or(|term| term != "linux");
        Look { color: color.color(is_terminal), ascii: is_dumb(), width, height, braille }
    }
}

/// Columns and rows of the terminal on stdout.
pub(crate) fn screen() -> Option<(usize, usize)> {
    let (terminal_size::Width(width), terminal_size::Height(height)) =
        terminal_size::terminal_size()?;
    Some((usize::from(width), usize::from(height)))
}

/// How the terminal on stdin was set when the shell began.
static SETTINGS: Mutex<Option<rustix::termios::Termios>> = Mutex::new(None);

/// Remembers how the terminal is set, before an editor of lines changes it.
pub(crate) fn remember_settings() {
    let settings = rustix::termios::tcgetattr(io::stdin()).ok();
    *SETTINGS.lock().unwrap_or_else(PoisonError::into_inner) = settings;
}

/// Sets the terminal as it was, for a process that ends in the middle of a line.
pub(crate) fn restore_settings() {
    let settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(settings) = settings {
        let when = rustix::termios::OptionalActions::Now;
        // If it fails, `stty sane` is left to the user.
        let _ = rustix::termios::tcsetattr(io::stdin(), when, &settings);
        if !is_dumb() && io::stderr().is_terminal() {
            // The editor has asked for pasted text in brackets, and may have hidden the cursor.
            let _ = io::stderr().write_all(b"\x1b[?2004l\x1b[?25h");
        }
    }
}

/// Whether the terminal understands no escape sequences.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
