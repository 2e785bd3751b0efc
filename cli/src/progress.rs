//! A bar on stderr that counts input bytes, so that compressed input has an honest estimate too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::When;

/// Shows how far an ingest or a compaction is; does nothing if no bar is wanted.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar of `total` bytes; a counter if the total is not known.
    pub(crate) fn new(when: When, quiet: bool, total: Option<u64>) -> Self {
        if quiet || !when.progress() {
            return Progress { bar: None };
        }
        let target = ProgressDrawTarget::stderr_with_hz(8);
        let bar = ProgressBar::with_draw_target(total, target);
        let template = match total {
            Some(_) => "{bar:32} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left",
            None => "{spinner} {bytes}  {bytes_per_sec}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar: Some(bar) }
    }

    /// Shows how far `work` is, by how many bytes it has `read`, and takes the bar away at its end.
    pub(crate) fn watch<T>(self, read: impl Fn() -> u64 + Sync, work: impl FnOnce() -> T) -> T {
        let Some(bar) = self.bar else { return work() };
        let done = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let ticker = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    bar.set_position(read());
                    std::thread::park_timeout(Duration::from_millis(100));
                }
            });
            let _end = End { done: &done, ticker: ticker.thread() };
            work()
        });
        bar.finish_and_clear();
        result
    }
}

/// Ends the ticker, also if the work panics.
struct End<'a> {
    done: &'a AtomicBool,
    ticker: &'a Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.ticker.unpark();
    }
}
