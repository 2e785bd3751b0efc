//! The anonymous memory of this process, and its peak over a while.
//!
//! The system keeps a peak of resident memory (VmHWM), but that counts the pages of mapped files
//! too, which are the page cache's and not this process's need. Of anonymous memory it tells the
//! present size only, so a thread looks often: a peak shorter than [`INTERVAL`] can be missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks. One costs about 20 µs.
const INTERVAL: Duration = Duration::from_micros(500);

/// Bytes of anonymous memory now; `None` where the system does not tell.
pub(super) fn held() -> Option<u64> {
    in_status(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The line `RssAnon:     123 kB`.
fn in_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A watch over the memory, until it is finished or dropped.
#[derive(Debug)]
pub(super) struct Peak {
    done: Arc<AtomicBool>,
    watching: Option<JoinHandle<Option<u64>>>,
}

impl Peak {
    /// Starts watching.
    pub(super) fn watch() -> Peak {
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        let watch = move || {
            let mut peak = held()?;
            while !seen.load(Ordering::Relaxed) {
                std::thread::sleep(INTERVAL);
                peak = peak.max(held()?);
            }
            Some(peak)
        };
        let watching = std::thread::Builder::new().name("memory".to_owned()).spawn(watch).ok();
        Peak { done, watching }
    }

    /// Stops, and gives the most that was seen.
    pub(super) fn finish(mut self) -> Option<u64> {
        self.done.store(true, Ordering::Relaxed);
        self.watching.take()?.join().ok().flatten()
    }
}

impl Drop for Peak {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found() {
        assert_eq!(
            in_status("VmHWM:\t 9 kB\nRssAnon:\t    2048 kB\nRssFile:\t 1 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(in_status("VmHWM:\t 9 kB\n"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_peak_is_seen_though_it_is_over() {
        let before = held().unwrap();
        let peak = Peak::watch();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        std::thread::sleep(INTERVAL * 20);
        drop(block);
        assert!(peak.finish().unwrap() >= before + (60 << 20));
    }
}
