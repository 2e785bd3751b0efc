//! A bar on stderr that counts input bytes, so that compressed input has an honest estimate too.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::When;

/// Shows how far an ingest is; does nothing if no bar is wanted.
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

    /// Input bytes read so far, of all files.
    pub(crate) fn set(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
