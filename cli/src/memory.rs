//! The anonymous memory of this process, and its peak over a period; and an allocator that keeps
//! little where memory is short.
//!
//! The system keeps a peak of resident memory (VmHWM), but that includes the pages of mapped files,
//! which belong to the page cache. Of anonymous memory it reports the current size only, so a
//! thread samples it, and can miss a peak that is shorter than [`INTERVAL`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time between two samples. A sample costs about 20 µs.
const INTERVAL: Duration = Duration::from_micros(500);

/// The bytes of anonymous memory, or `None` where the system does not report them.
pub(crate) fn anonymous_bytes() -> Option<u64> {
    parse_status(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Reads the line `RssAnon:     123 kB`.
fn parse_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Below this limit of memory, what the allocator keeps of freed memory is returned at once.
const SHORT: u64 = 512 << 20;
/// The same of a server, where much more is kept.
const SHORT_OF_SERVER: u64 = 4 << 30;

/// What the allocator reads at the start of a process: the time, in milliseconds, after which it
/// returns freed memory to the system. It is a second unless this is set.
const DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Starts this program once more with an allocator that returns freed memory after 10 ms, if the
/// limit of memory, or the usual one if that is `None`, is small, and nobody chose a time.
///
/// A group-by of texts holds up to 110 MB less then, and takes up to 8 % longer. Statements of a
/// server free on many threads what others take anew on theirs: with a second, a mixed load held
/// twice as much memory, and a group-by of two million keys took a third less processor time. Where
/// the program cannot be started, this process goes on.
pub(crate) fn return_freed_at_once(limit: Option<u64>, is_server: bool) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt as _;
        let chosen = std::env::var_os(DELAY).is_some();
        let limit = limit.unwrap_or_else(stylobate::internal::disk::default_limit);
        let Ok(program) = std::env::current_exe() else { return };
        if chosen || limit >= if is_server { SHORT_OF_SERVER } else { SHORT } {
            return;
        }
        let mut args = std::env::args_os();
        let name = args.next().unwrap_or_else(|| "sty".into());
        let _cannot_start =
            std::process::Command::new(program).arg0(name).args(args).env(DELAY, "10").exec();
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (limit, is_server);
}

/// Samples the memory until it is finished or dropped.
#[derive(Debug)]
pub(crate) struct PeakSampler {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<u64>>>,
}

impl PeakSampler {
    /// Starts sampling.
    pub(crate) fn start() -> PeakSampler {
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        let sample = move || {
            let mut peak = anonymous_bytes()?;
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(INTERVAL);
                peak = peak.max(anonymous_bytes()?);
            }
            Some(peak)
        };
        let thread = std::thread::Builder::new().name("memory".to_owned()).spawn(sample).ok();
        PeakSampler { done, thread }
    }

    /// Stops, and returns the largest sample.
    pub(crate) fn finish(mut self) -> Option<u64> {
        self.done.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok().flatten()
    }
}

impl Drop for PeakSampler {
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
            parse_status("VmHWM:\t 9 kB\nRssAnon:\t    2048 kB\nRssFile:\t 1 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(parse_status("VmHWM:\t 9 kB\n"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_peak_is_seen_though_it_is_over() {
        let before = anonymous_bytes().unwrap();
        let peak = PeakSampler::start();
        // Other tests of the process give memory back meanwhile.
        let block = std::hint::black_box(vec![1_u8; 256 << 20]);
        std::thread::sleep(INTERVAL * 20);
        drop(block);
        assert!(peak.finish().unwrap() >= before + (128 << 20));
    }
}
