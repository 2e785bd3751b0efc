//! A progress bar on stderr. It counts input bytes, so that the estimate is right for compressed
//! input too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::When;

/// The progress of an ingest or a compaction, if it is to be shown.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar of `total` bytes, or a counter if the total is unknown.
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

    /// Runs `work` and shows how many bytes it has `read`. The bar is gone when this returns.
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
            let _stop = StopTicker { done: &done, ticker: ticker.thread() };
            work()
        });
        bar.finish_and_clear();
        result
    }
}

/// Stops the ticker when it is dropped, also if the work panics.
struct StopTicker<'a> {
    done: &'a AtomicBool,
    ticker: &'a Thread,
}

impl Drop for StopTicker<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.ticker.unpark();
    }
}
