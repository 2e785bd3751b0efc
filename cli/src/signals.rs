//! Ctrl-C, SIGTERM, and SIGHUP where it is not ignored. The first sets a flag that long work checks
//! once per block; the second ends the process at once. A timeout that has passed sets the same
//! flag.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::errors::Failure;
use crate::exit::Exit;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// What Ctrl-C sets where it does not end the process.
static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on, Ctrl-C only sets a flag, which [`take_interrupt`] reads: it ends a statement of a
/// shell, and not the shell. Other signals still end the process.
pub(crate) fn keep_session_on_interrupt() {
    let flag = Arc::new(AtomicBool::new(false));
    if signal_hook::flag::register(SIGINT, Arc::clone(&flag)).is_ok() {
        let _ = INTERRUPTED.set(flag);
    }
}

/// Whether Ctrl-C was pressed since the last call, where it does not end the process.
pub(crate) fn take_interrupt() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.swap(false, Ordering::Relaxed))
}

/// The flag that the signal handlers set, which are installed on first use. Commands hand it to the
/// library.
pub(crate) fn cancellation() -> Arc<AtomicBool> {
    let install = || {
        let flag = Arc::new(AtomicBool::new(false));
        let ending = match INTERRUPTED.get() {
            Some(_) => &[SIGTERM, SIGHUP][..],
            None => &[SIGINT, SIGTERM, SIGHUP],
        };
        // `nohup` has the end of the terminal ignored.
        let is_wanted = |signal: &i32| *signal != SIGHUP || !is_ignored(SIGHUP);
        for signal in ending.iter().copied().filter(is_wanted) {
            // In this order, the first signal finds the flag unset and goes on to set it. If a
            // handler cannot be installed, the signal's default ends the process, as a second
            // Ctrl-C does anyway.
            let status = i32::from(Exit::Interrupted as u8);
            let _ =
                signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&flag));
            let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
        }
        flag
    };
    Arc::clone(FLAG.get_or_init(install))
}

/// Whether the process was started with a signal ignored, by the line `SigIgn: 0000000000000001`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Fails once Ctrl-C was pressed or the timeout has passed. Commands call it between batches.
pub(crate) fn check() -> Result<(), Failure> {
    match FLAG.get() {
        Some(flag) if flag.load(Ordering::Relaxed) => Err(Failure::stopped()),
        _ => Ok(()),
    }
}
