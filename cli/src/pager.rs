//! Shows an answer that is longer or wider than the screen in the user's pager. A shorter one is
//! printed as it is.
//!
//! The pager starts as soon as the answer is known not to fit, and what is written later goes to it
//! at once. When it is left early, writing fails as into a closed pipe, which ends the query.
//! Without a pager, the first lines are printed, and a note says that there are more.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use unicode_width::UnicodeWidthStr;

/// Lines that are printed of a longer answer where there is no pager.
const LINES_WITHOUT_PAGER: usize = 500;

/// Rows of the screen that an answer leaves to what is written below it.
const ROWS_BELOW: usize = 2;

/// Whether an answer waits for the reader of a pager.
static IS_READ: AtomicBool = AtomicBool::new(false);

/// Whether an answer waits for the reader of a pager: what is pressed is meant for that, and the
/// time is the reader's.
pub(crate) fn is_read() -> bool {
    IS_READ.load(Ordering::Relaxed)
}

/// Where an answer goes that may be too large for the screen.
#[derive(Debug)]
pub(crate) struct Pager {
    /// Columns and rows of the screen.
    screen: (usize, usize),
    /// The command line of the pager; `None` if there is none.
    command: Option<OsString>,
    /// What is held back until it is known whether it fits.
    held: Vec<u8>,
    /// Lines that are complete, and the bytes of the last one.
    lines: usize,
    line: Vec<u8>,
    state: State,
    /// How long the reader has kept the answer waiting.
    waited: Duration,
}

#[derive(Debug)]
enum State {
    /// It fits so far.
    Holding,
    /// The pager shows it.
    Paging(Child),
    /// It does not fit, there is no pager, and so many lines may still be printed.
    Printing(usize),
    /// What is written no longer arrives: the pager was left, or enough was printed.
    Ended,
}

impl Pager {
    /// For a screen of so many columns and rows.
    pub(crate) fn new(screen: (usize, usize)) -> Pager {
        Pager {
            screen,
            command: command(|name| env::var_os(name)),
            held: Vec::new(),
            lines: 0,
            line: Vec::new(),
            state: State::Holding,
            waited: Duration::ZERO,
        }
    }

    /// How long the reader has kept the answer waiting.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Shows what is held back, and waits until the pager is left.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let started = Instant::now();
        let state = std::mem::replace(&mut self.state, State::Ended);
        let done = match state {
            State::Holding => print(&std::mem::take(&mut self.held)),
            State::Paging(mut child) => {
                drop(child.stdin.take());
                IS_READ.store(true, Ordering::Relaxed);
                let left = child.wait().map(|_| ());
                IS_READ.store(false, Ordering::Relaxed);
                left
            }
            State::Printing(_) | State::Ended => Ok(()),
        };
        self.waited += started.elapsed();
        done
    }

    /// Whether what was written so far fits on the screen. Counts the new bytes.
    fn fits(&mut self, bytes: &[u8]) -> bool {
        let (columns, rows) = self.screen;
        let mut fits = true;
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            // A line that has no end yet is measured when it may be too wide.
            if part.ends_with(b"\n") || self.line.len() > columns.saturating_mul(8) {
                fits &= width(&self.line) <= columns;
                self.lines += usize::from(part.ends_with(b"\n"));
                self.line.clear();
            }
        }
        fits && self.lines + ROWS_BELOW < rows
    }

    /// Starts the pager, or prints the first lines if there is none.
    fn start(&mut self) -> io::Result<()> {
        let spawned = self.command.as_ref().and_then(|command| {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(command).stdin(Stdio::piped());
            if env::var_os("LESS").is_none() {
                // Colours as they are, lines not folded, and what was on the screen stays there.
                shell.env("LESS", "RSX");
            }
            if env::var_os("LESSCHARSET").is_none() {
                // Also where no locale says so: `less` would show the bytes of frames and texts.
                shell.env("LESSCHARSET", "utf-8");
            }
            shell.spawn().ok()
        });
        self.state = match spawned {
            Some(child) => State::Paging(child),
            None => State::Printing(LINES_WITHOUT_PAGER),
        };
        let held = std::mem::take(&mut self.held);
        self.pass_on(&held)
    }

    /// Hands bytes to the pager, or to the screen as long as lines are left.
    fn pass_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        match &mut self.state {
            State::Paging(child) => {
                let started = Instant::now();
                IS_READ.store(true, Ordering::Relaxed);
                let written = child.stdin.as_mut().map(|pipe| pipe.write_all(bytes));
                IS_READ.store(false, Ordering::Relaxed);
                self.waited += started.elapsed();
                written.unwrap_or_else(|| Err(closed()))
            }
            State::Printing(left) => {
                let mut ends = (1..).zip(bytes).filter(|(_, byte)| **byte == b'\n');
                let end = ends.nth(left.saturating_sub(1)).map(|(end, _)| end);
                let shown = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
                print(shown)?;
                if end.is_none() {
                    *left -= shown.iter().filter(|byte| **byte == b'\n').count().min(*left);
                    return Ok(());
                }
                self.state = State::Ended;
                eprintln!(
                    "… cut after {LINES_WITHOUT_PAGER} lines, as there is no pager: install less, \
                     set STY_PAGER, or write to a file with .output"
                );
                Err(closed())
            }
            State::Holding | State::Ended => Err(closed()),
        }
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if matches!(self.state, State::Holding) {
            let fits = self.fits(bytes);
            self.held.extend_from_slice(bytes);
            if !fits {
                self.start()?;
            }
        } else {
            self.pass_on(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        // An answer that is not complete does not appear, unless the pager shows it already.
        if matches!(self.state, State::Paging(_)) {
            let _ = self.finish();
        }
    }
}

fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Whether answers go to a pager at all: not if `STY_PAGER` is set and empty.
pub(crate) fn is_wanted() -> bool {
    env::var_os("STY_PAGER").is_none_or(|value| !value.is_empty())
}

/// The pager's command line: `$STY_PAGER`, `$PAGER` or less, if its program is there.
fn command(variable: impl Fn(&str) -> Option<OsString>) -> Option<OsString> {
    if variable("TERM").is_some_and(|term| term == "dumb") {
        return None;
    }
    let chosen = variable("STY_PAGER").or_else(|| variable("PAGER").filter(|v| !v.is_empty()));
    let chosen = chosen.unwrap_or_else(|| OsString::from("less"));
    let text = chosen.to_string_lossy();
    let program = text.split_whitespace().next()?;
    // The shell will find out about anything but a plain name.
    let plain = program.chars().all(|c| c.is_alphanumeric() || "-_./+".contains(c));
    let is_there = |directory: &Path| directory.join(program).is_file();
    let path = variable("PATH").unwrap_or_default();
    let found = match program.contains('/') {
        true => Path::new(program).is_file(),
        false => env::split_paths(&path).any(|directory| is_there(&directory)),
    };
    (!plain || found).then_some(chosen)
}

/// The columns that a line takes, without its colours.
fn width(line: &[u8]) -> usize {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    let mut columns = 0;
    for (number, part) in text.split('\x1b').enumerate() {
        let shown = match number {
            0 => part,
            _ => part.split_once('m').map_or("", |(_, after)| after),
        };
        columns += shown.width();
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_columns() {
        assert_eq!(width("\x1b[1mab\x1b[0m é│\n".as_bytes()), 5);
        assert_eq!(width("漢字".as_bytes()), 4);
    }

    #[test]
    fn what_is_long_or_wide_does_not_fit() {
        let fits = |text: &str| Pager::new((10, 6)).fits(text.as_bytes());
        assert!(fits("a\nb\nc\n"));
        assert!(!fits("a\nb\nc\nd\n"));
        assert!(fits("0123456789\n"));
        assert!(!fits("0123456789a\n"));
        let mut pager = Pager::new((10, 6));
        assert!(pager.fits(b"01234"));
        assert!(!pager.fits(b"56789a\n"));
    }

    #[test]
    fn the_pager_is_the_one_that_is_chosen_and_there() {
        let find = |set: &'static [(&str, &str)]| {
            let found = command(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            });
            found.map(|found| found.to_string_lossy().into_owned())
        };
        let shell = Some("sh -c cat".to_owned());
        assert_eq!(find(&[("STY_PAGER", "sh -c cat"), ("PATH", "/usr/bin:/bin")]), shell);
        assert_eq!(find(&[("PAGER", "sh -c cat"), ("PATH", "/usr/bin:/bin")]), shell);
        assert_eq!(find(&[("PAGER", "no-such-pager -x"), ("PATH", "/usr/bin:/bin")]), None);
        assert_eq!(find(&[("PAGER", "sh"), ("PATH", "/bin"), ("TERM", "dumb")]), None);
        assert_eq!(find(&[("PATH", "")]), None);
        assert_eq!(find(&[("PAGER", "\"$HOME/p\" x")]).as_deref(), Some("\"$HOME/p\" x"));
    }
}
