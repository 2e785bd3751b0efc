//! Lines as the terminal gives them: for terminals that understand no escape sequences, for output
//! that goes elsewhere, and for programs without the editor.

use std::io::{self, BufRead as _, Write as _};

use super::pieces::is_whole;
use crate::signals;

/// What came from the keyboard.
#[derive(Debug)]
pub(super) enum Input {
    /// Statements or a command.
    Text(String),
    /// What was typed is given up.
    Cleared,
    /// The end.
    End,
}

/// Reads a text, over several lines if need be.
pub(super) fn read(prompt: &str) -> io::Result<Input> {
    let (mut text, mut line) = (String::new(), String::new());
    let continued = format!("{:>width$}> ", "", width = prompt.chars().count());
    loop {
        let shown = if text.is_empty() { format!("{prompt}> ") } else { continued.clone() };
        let mut stderr = io::stderr().lock();
        write!(stderr, "{shown}")?;
        stderr.flush()?;
        line.clear();
        let read = io::stdin().lock().read_line(&mut line)?;
        if signals::take_interrupt() {
            // Ctrl-C was pressed before this line, which begins anew.
            text.clear();
        }
        text.push_str(&line);
        if read == 0 {
            writeln!(stderr)?;
            return Ok(if text.trim().is_empty() { Input::End } else { Input::Text(text) });
        }
        // Only such lines end a text, and each look takes time for the whole text.
        let may_end = line.contains(';') || text.len() == line.len();
        if may_end && is_whole(&text) {
            return Ok(if text.trim().is_empty() { Input::Cleared } else { Input::Text(text) });
        }
    }
}
