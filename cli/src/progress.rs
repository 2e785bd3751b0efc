//! How far a command is, on stderr: a bar that comes after half a second and goes before anything
//! else is written, or a line now and then where stderr is no terminal.
//!
//! What a command counts anyway is looked at from a thread of its own. Everything that goes to
//! stderr goes through [`write_stderr`], and stdout makes room by [`make_room`], so that no bar
//! stands in the middle of a text.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::{When, is_dumb};
use crate::units::{show_count, show_duration, show_size};

/// A command that ends before shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often a bar is drawn.
const INTERVAL: Duration = Duration::from_millis(100);
/// The time between two lines where there is no bar grows to this.
const LONGEST_INTERVAL: Duration = Duration::from_secs(10);
/// If nothing has changed for this long, a line shows no rate and no time left.
const STILL: Duration = Duration::from_secs(2);

/// How far a command is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What is done, in the unit of the total.
    pub(crate) done: u64,
    /// How much there is to do, if that is known.
    pub(crate) total: Option<u64>,
    /// What is counted.
    pub(crate) unit: Unit,
    /// Rows so far, where the total counts bytes.
    pub(crate) rows: Option<u64>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    #[default]
    Bytes,
    Rows,
}

/// What is on the screen now.
static SHOWN: Mutex<Shown> = Mutex::new(Shown { bar: Bar::Gone, yields_to_pipes: false });

struct Shown {
    bar: Bar,
    /// Whether it goes for a result that goes to a pipe, too.
    yields_to_pipes: bool,
}

enum Bar {
    /// It has yet to be seen whether the command takes long.
    Waiting,
    Drawn(ProgressBar),
    /// There is none, or a result has its place.
    Gone,
}

impl Shown {
    fn go(&mut self) {
        if let Bar::Drawn(bar) = std::mem::replace(&mut self.bar, Bar::Gone) {
            bar.finish_and_clear();
        }
    }
}

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to stderr, above the bar if there is one.
pub(crate) fn write_stderr(text: &str) {
    // If stderr is closed, nobody is left to tell.
    let write = || drop(io::stderr().lock().write_all(text.as_bytes()));
    match &shown().bar {
        Bar::Drawn(bar) => bar.suspend(write),
        Bar::Waiting | Bar::Gone => write(),
    }
}

/// Takes the bar off the screen for good.
pub(crate) fn erase() {
    shown().go();
}

/// Takes the bar off the screen before a result is written to a stream, unless that is a file.
pub(crate) fn make_room(stream: &std::fs::File) {
    let mut shown = shown();
    let is_file = || stream.metadata().is_ok_and(|stream| stream.is_file());
    if stream.is_terminal() || (shown.yields_to_pipes && !is_file()) {
        shown.go();
    }
}

/// Shows how far a command is, until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    ticker: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Progress {
    /// Asks `look` from time to time, if the user wants to see it. `None` is shown as no more than
    /// the time.
    pub(crate) fn start(
        when: When,
        quiet: bool,
        look: impl Fn() -> Option<Seen> + Send + 'static,
    ) -> Progress {
        let on_terminal = io::stderr().is_terminal() && !is_dumb();
        let wanted = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => on_terminal,
        };
        if quiet || !wanted {
            return Progress { ticker: None };
        }
        let ended = Arc::new(AtomicBool::new(false));
        let ticker = Ticker {
            ended: Arc::clone(&ended),
            look: Box::new(look),
            started: Instant::now(),
            moved: Cell::new((0, Instant::now())),
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
        };
        if on_terminal {
            *shown() = Shown { bar: Bar::Waiting, yields_to_pipes: when == When::Auto };
        }
        let run = move || match on_terminal {
            true => ticker.draw(),
            false => ticker.print(),
        };
        let thread = std::thread::Builder::new().name("sty-progress".to_owned()).spawn(run);
        Progress { ticker: thread.ok().map(|thread| (ended, thread)) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((ended, thread)) = self.ticker.take() {
            ended.store(true, Ordering::Relaxed);
            thread.thread().unpark();
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}

/// Looks on.
struct Ticker {
    ended: Arc<AtomicBool>,
    look: Box<dyn Fn() -> Option<Seen> + Send>,
    started: Instant,
    /// How much was done when that last changed, and since when.
    moved: Cell<(u64, Instant)>,
    /// Estimates the rate and the time that is left, also where it is not drawn.
    bar: ProgressBar,
}

impl Ticker {
    /// Waits, and says whether to go on.
    fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.ended.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::park_timeout(left);
        }
        false
    }

    /// Tells the bar how far the command is.
    fn look(&self) -> Option<Seen> {
        let seen = (self.look)();
        let Seen { done, total, .. } = seen.unwrap_or_default();
        if self.moved.get().0 != done {
            self.moved.set((done, Instant::now()));
        }
        match total {
            Some(total) => self.bar.set_length(total),
            None => self.bar.unset_length(),
        }
        self.bar.set_position(total.map_or(done, |total| done.min(total)));
        seen
    }

    /// What stands beside the bar, or on a line of its own.
    fn text(&self, seen: Option<Seen>) -> String {
        // What stands still, at a join of few rows with few rows, say, has no rate.
        let (rate, left) = match self.moved.get().1.elapsed() > STILL {
            true => (0.0, Duration::ZERO),
            false => (self.bar.per_sec(), self.bar.eta()),
        };
        text(seen, rate, left, self.started.elapsed())
    }

    fn draw(&self) {
        self.look();
        if !self.wait(PATIENCE) {
            return;
        }
        {
            let mut shown = shown();
            if !matches!(shown.bar, Bar::Waiting) {
                return;
            }
            shown.bar = Bar::Drawn(self.bar.clone());
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let mut measured = None;
        loop {
            let seen = self.look();
            let is_measured = seen.is_some_and(|seen| seen.total.is_some());
            if measured.replace(is_measured) != Some(is_measured) {
                self.bar.set_style(style(is_measured));
            }
            {
                // Whoever takes it off the screen holds the lock.
                let shown = shown();
                if !matches!(shown.bar, Bar::Drawn(_)) {
                    return;
                }
                self.bar.set_message(self.text(seen));
                self.bar.tick();
            }
            if !self.wait(INTERVAL) {
                return erase();
            }
        }
    }

    fn print(&self) {
        self.look();
        let mut interval = PATIENCE;
        while self.wait(interval) {
            // Before it is known what is read there is nothing to say.
            let Some(seen) = self.look() else { continue };
            let share = seen.total.map(|total| percent(seen.done, total));
            let share = share.map(|share| format!("{share} %  ")).unwrap_or_default();
            write_stderr(&format!("{share}{}\n", self.text(Some(seen))));
            interval = (interval * 2).min(LONGEST_INTERVAL);
        }
    }
}

fn style(is_measured: bool) -> ProgressStyle {
    let template =
        if is_measured { "{bar:16} {percent:>3} %  {wide_msg}" } else { "{spinner}  {wide_msg}" };
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("━╸─").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ")
}

fn percent(done: u64, total: u64) -> u64 {
    let hundredths = u128::from(done) * 100 / u128::from(total.max(1));
    if total == 0 { 100 } else { u64::try_from(hundredths).unwrap_or(100).min(100) }
}

/// Amounts, rate and time: as much as is known.
fn text(seen: Option<Seen>, per_second: f64, left: Duration, elapsed: Duration) -> String {
    let mut text = String::new();
    let Seen { done, total, unit, rows } = seen.unwrap_or_default();
    let is_read = total.is_some_and(|total| done >= total);
    if seen.is_some() {
        let _ = match unit {
            Unit::Bytes => write!(text, "{}", amount(show_size, done, total)),
            Unit::Rows => write!(text, "{} rows", amount(show_count, done, total)),
        };
        let rate = if per_second.is_finite() { per_second.max(0.0) as u64 } else { 0 };
        let _ = match unit {
            _ if is_read || rate == 0 => Ok(()),
            Unit::Bytes => write!(text, ", {}/s", show_size(rate)),
            Unit::Rows => write!(text, ", {}/s", show_count(rate)),
        };
        if let Some(rows) = rows.filter(|rows| *rows > 0) {
            let _ = write!(text, ", {} rows", show_count(rows));
        }
        text.push_str(", ");
    }
    // Whole seconds: more is not known.
    let show = |time: Duration| match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        _ => show_duration(time),
    };
    text += &match total {
        Some(_) if is_read => format!("{}, finishing", show(elapsed)),
        Some(_) if done > 0 && left > Duration::ZERO => {
            format!("{} left", show(left.max(Duration::from_secs(1))))
        }
        _ => show(elapsed),
    };
    text
}

fn amount(show: impl Fn(u64) -> String, done: u64, total: Option<u64>) -> String {
    match total {
        Some(total) if done < total => format!("{} of {}", show(done), show(total)),
        _ => show(total.unwrap_or(done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(done: u64, total: Option<u64>, unit: Unit, rows: Option<u64>) -> String {
        let (left, elapsed) = (Duration::from_millis(4900), Duration::from_secs(61));
        text(Some(Seen { done, total, unit, rows }), 3.5e6, left, elapsed)
    }

    #[test]
    fn what_is_known_is_said() {
        let bytes = said(10 << 20, Some(30 << 20), Unit::Bytes, Some(12_345));
        assert_eq!(bytes, "10.0 MiB of 30.0 MiB, 3.34 MiB/s, 12,345 rows, 4 s left");
        let rows = said(1_000_000, Some(4_000_000), Unit::Rows, None);
        assert_eq!(rows, "1,000,000 of 4,000,000 rows, 3,500,000/s, 4 s left");
        assert_eq!(said(9, None, Unit::Rows, None), "9 rows, 3,500,000/s, 1m 01s");
        assert_eq!(said(9, Some(9), Unit::Rows, None), "9 rows, 1m 01s, finishing");
        // A total that pruning has made less.
        assert!(said(12, Some(9), Unit::Rows, None).starts_with("9 rows, 1m"));
        let seen = Some(Seen { done: 3, total: Some(6), unit: Unit::Rows, rows: None });
        let still = text(seen, 0.0, Duration::ZERO, Duration::from_secs(7));
        assert_eq!(still, "3 of 6 rows, 7 s");
        assert_eq!(text(None, f64::NAN, Duration::ZERO, Duration::from_secs(2)), "2 s");
        assert!(rows.len() + "━━━━━━━━━━━━━━━━ 100 %  ".chars().count() < 80);
    }

    #[test]
    fn shares_are_whole() {
        assert_eq!([percent(0, 0), percent(1, 3), percent(9, 3)], [100, 33, 100]);
        assert_eq!(percent(u64::MAX, u64::MAX), 100);
    }

    #[test]
    fn what_ends_early_is_not_shown() {
        let looks = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&looks);
        let look = move || {
            seen.store(true, Ordering::Relaxed);
            None
        };
        drop(Progress::start(When::Never, false, look.clone()));
        drop(Progress::start(When::Always, true, look.clone()));
        assert!(!looks.load(Ordering::Relaxed));
        drop(Progress::start(When::Always, false, look));
        assert!(looks.load(Ordering::Relaxed) && matches!(shown().bar, Bar::Gone));
    }
}
